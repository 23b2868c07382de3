"""Generalised linear models in a few lines of NumPy: an oracle for methods that use curvature."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from pdmm.common import trees
from pdmm.methods import Method
from pdmm.methods.base import Evidence
from pdmm.problems.curvature import Curvature

Vector = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


class Row(NamedTuple):
    """A row's loss, and its two derivatives, for each row."""

    loss: Vector
    slope: Vector
    curvature: Vector


def gaussian(eta: Vector, y: Vector) -> Row:
    return Row((y - eta) ** 2 / 2, eta - y, np.ones_like(eta))


def binomial(eta: Vector, y: Vector) -> Row:
    p = expit(eta)
    return Row(np.logaddexp(0, eta) - y * eta, p - y, p * expit(-eta))


def poisson(eta: Vector, y: Vector) -> Row:
    mean = np.exp(eta)
    return Row(mean - y * eta, mean - y, mean)


def gamma(eta: Vector, y: Vector) -> Row:
    ratio = y * np.exp(-eta)
    return Row(ratio + eta, 1 - ratio, ratio)


FAMILIES: dict[str, Callable[[Vector, Vector], Row]] = {
    "gaussian": gaussian,
    "binomial": binomial,
    "poisson": poisson,
    "gamma": gamma,
}


@dataclass(frozen=True)
class Client:
    """One client's rows."""

    X: Vector
    y: Vector
    family: str

    def rows(self, x: Vector) -> Row:
        return FAMILIES[self.family](self.X @ x, self.y)

    def value(self, x: Vector) -> float:
        return float(self.rows(x).loss.sum())

    def gradient(self, x: Vector) -> Vector:
        return self.X.T @ self.rows(x).slope

    def hessian(self, x: Vector) -> Vector:
        return (self.X.T * self.rows(x).curvature) @ self.X

    def curvature(self, x: Vector, T: Vector) -> list[Any]:
        row = self.rows(x)
        Z = self.X @ T
        squares = (Z**2).sum(axis=1)
        reach = 0.0 if self.family == "gaussian" else squares.max()
        unsettled = float(len(self.y))
        if self.family == "binomial":
            unsettled = float((np.where(self.y > 0.5, 1, -1) * (self.X @ x) <= 0).sum())
        sizes = np.linalg.norm(np.abs(self.X) @ np.abs(T), axis=1)
        doubt = 4 * EPS * float(sizes @ np.abs(row.slope))
        return [row.loss.sum(), Z.T @ row.slope, doubt, (Z.T * row.curvature) @ Z, reach, unsettled]

    def working(self, T: Vector) -> list[Any]:
        eta = self.y
        if self.family in ("poisson", "gamma"):
            eta = np.log(self.y + 0.1)
        if self.family == "binomial":
            mean = (self.y + 0.5) / 2
            eta = np.log(mean / (1 - mean))
        row = FAMILIES[self.family](eta, self.y)
        Z = self.X @ T
        pull = row.curvature * eta - row.slope
        return [0.0, -Z.T @ pull, 0.0, (Z.T * row.curvature) @ Z, 0.0, float(len(self.y))]


class SmallGLM:
    """All clients, as a method's oracle."""

    def __init__(
        self, X: Sequence[Any], y: Sequence[Any], family: str, intercept: bool = True
    ) -> None:
        self.clients = []
        for A, b in zip(X, y, strict=True):
            rows = np.asarray(A, dtype=np.float64)
            if intercept:
                rows = np.column_stack([rows, np.ones(len(rows))])
            self.clients.append(Client(rows, np.asarray(b, dtype=np.float64), family))
        self.dimension = self.clients[0].X.shape[1]

    def _each(self, answers: list[list[Any]]) -> Curvature:
        return Curvature(*(np.array(same) for same in zip(*answers, strict=True)))

    def curvature(self, x: Vector, T: Vector) -> Curvature:
        return self._each([client.curvature(x, T) for client in self.clients])

    def working(self, T: Vector) -> Curvature:
        return self._each([client.working(T) for client in self.clients])

    def hessian(self, x: Vector) -> Vector:
        points = np.broadcast_to(x, (len(self.clients), self.dimension))
        return np.array([c.hessian(p) for c, p in zip(self.clients, points, strict=True)])

    def gradient(self, x: Vector) -> Vector:
        points = np.broadcast_to(x, (len(self.clients), self.dimension))
        return np.array([c.gradient(p) for c, p in zip(self.clients, points, strict=True)])

    def along(self, x: Vector, direction: Vector, t: Vector) -> Vector:
        return np.array([[c.value(x + s * direction) for s in t] for c in self.clients])

    def prox(self, anchor: Vector, P: Any, start: Vector, slack: Any = None) -> Vector:
        starts = np.broadcast_to(start, anchor.shape)
        return np.array(
            [_prox(c, a, m, s) for c, a, m, s in zip(self.clients, anchor, P, starts, strict=True)]
        )

    def predictors(self, x: Vector) -> Vector:
        return np.concatenate([client.X @ x for client in self.clients])


def _prox(f: Client, anchor: Vector, P: Vector, start: Vector) -> Vector:
    """argmin f(x) + (x - anchor)'P(x - anchor)/2, by Newton's method with halved steps."""

    def value(at: Vector) -> float:
        return f.value(at) + float((at - anchor) @ P @ (at - anchor)) / 2

    x = start
    for _ in range(60):
        g = f.gradient(x) + P @ (x - anchor)
        step = -np.linalg.solve(f.hessian(x) + P, g)
        t = 1.0
        while t > 1e-12 and not value(x + t * step) <= value(x) + 1e-4 * t * float(g @ step):
            t /= 2
        if t <= 1e-12:
            return x + step
        x = x + t * step
        if -float(g @ step) < 1e-24:
            return x
    return x


class Ridge:
    """A penalty of squares, as a run's prox: what Newton's method sees of a regulariser."""

    kinked = False

    def __init__(self, q: Any, weight: float) -> None:
        self.q = np.asarray(q, dtype=np.float64)
        self.weight = weight

    @property
    def h(self) -> "Ridge":
        return self

    def quadratic(self, dimension: int) -> Vector:
        return self.q * np.ones(dimension)

    def value(self, x: Vector) -> float:
        return float((self.q * x**2).sum() / 2)

    def prox_in(self, v: Vector, P: Vector) -> Vector:
        return np.asarray(np.linalg.solve(P + np.diag(self.quadratic(len(v))), P @ v))

    def __call__(self, v: Vector, t: float) -> Vector:
        return np.asarray(v / (1 + t * self.q / self.weight))


class Plain:
    """No penalty, and the sum of the weights."""

    h = None

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def __call__(self, v: Vector, t: float) -> Vector:
        return v


class Run(NamedTuple):
    """How a run by hand ended."""

    x: Vector
    rounds: int
    server: Any
    lam: float


def decrement(evidence: Evidence, prox: Any) -> tuple[float, float]:
    """lam and q of a point, from what the clients said of it."""
    T = evidence.T
    weight = prox.weight
    g = weight * evidence.gradient
    M = weight * evidence.hessian
    if prox.h is not None:
        q = prox.h.quadratic(len(T))
        g = g + T.T @ (q * evidence.x)
        M = M + T.T @ (q[:, None] * T)
    lam = float(np.sqrt(g @ np.linalg.solve(M, g)))
    least = max(float(np.linalg.eigvalsh(M)[0]), 1e-300)
    return lam, float(np.sqrt(weight * evidence.reach / least)) * lam


def run_newton(
    method: Method,
    f: SmallGLM,
    *,
    prox: Any = None,
    weights: Any = None,
    x0: Any = None,
    rounds: int = 60,
    enough: float = 1e-8,
) -> Run:
    """Run a method with evidence until lam is small or it says why not."""
    w = np.ones(len(f.clients)) if weights is None else np.asarray(weights, dtype=np.float64)
    prox = prox or Plain(float(w.sum()))
    server = method.server_start(np.zeros(f.dimension) if x0 is None else x0, prox)
    lam = np.inf
    done = 0
    while done < rounds:
        done += 1
        message = trees.cast(method.broadcast(server), np.float64)
        with np.errstate(all="ignore"):
            upload, _ = method.client(message, (), f, 0)  # type: ignore[arg-type]
        assert trees.finite_rows(upload).all()
        mean = trees.scaled(trees.weighted_sum(w, upload), float(w.sum()))
        server = method.server(server, mean, 1.0, prox)
        evidence = method.evidence(server)
        if evidence is not None:
            lam, q = decrement(evidence, prox)
            doubt = prox.weight * evidence.doubt
            if lam <= max(enough, doubt) and q <= 0.5:
                break
        if method.verdict(server):
            break
    return Run(method.solution(server), done, server, lam)
