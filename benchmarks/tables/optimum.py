"""The optimum of a table's model, by plain NumPy: the truth that runs are held against.

It shares no code with pdmm. Newton's method works on an orthonormal basis of the columns (QR), so
that neither their scales nor how they are mixed matter, and its steps are halved until F falls.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from benchmarks.tables.table import Table

Vector = npt.NDArray[np.float64]
STEPS = 200
HALVINGS = 60


class Likelihood(ABC):
    """Minus the log-likelihood of all rows, as a function of the linear predictors (n, k)."""

    @abstractmethod
    def rows(self, eta: Vector) -> Vector:
        """Terms whose sum it is."""

    @abstractmethod
    def slopes(self, eta: Vector) -> Vector:
        """Its derivatives (n, k) in eta."""

    @abstractmethod
    def curved(self, eta: Vector, Z: Vector) -> Vector:
        """Its Hessian (p k, p k) in B, where eta = Z B, row by row."""


@dataclass(frozen=True, eq=False)
class Scalar(Likelihood):
    """Families with one linear predictor for each row."""

    family: str
    y: Vector
    w: Vector

    def rows(self, eta: Vector) -> Vector:
        e = eta[:, 0]
        y = self.y
        losses = {
            "gaussian": lambda: (y - e) ** 2 / 2,
            "binomial": lambda: np.logaddexp(0, e) - y * e,
            "poisson": lambda: np.exp(e) - y * e,
            "gamma": lambda: y * np.exp(-e) + e,
        }
        return np.asarray(self.w * losses[self.family]())

    def slopes(self, eta: Vector) -> Vector:
        slope, _ = self._derivatives(eta[:, 0])
        return np.asarray(self.w * slope)[:, None]

    def curved(self, eta: Vector, Z: Vector) -> Vector:
        _, curvature = self._derivatives(eta[:, 0])
        return np.asarray((Z * (self.w * curvature)[:, None]).T @ Z)

    def _derivatives(self, e: Vector) -> tuple[Vector, Vector]:
        y = self.y
        if self.family == "gaussian":
            return e - y, np.ones_like(e)
        if self.family == "binomial":
            p = 1 / (1 + np.exp(-e))
            return p - y, p * (1 - p)
        if self.family == "poisson":
            return np.exp(e) - y, np.exp(e)
        return 1 - y * np.exp(-e), y * np.exp(-e)


@dataclass(frozen=True, eq=False)
class Classes(Likelihood):
    """Multinomial: a linear predictor for each class but the first."""

    of: Vector  # (n, k) of 0 and 1: whether a row is of that class

    def rows(self, eta: Vector) -> Vector:
        first = np.zeros((len(eta), 1))
        return np.asarray(logsumexp(np.hstack([first, eta]), axis=1) - (self.of * eta).sum(axis=1))

    def slopes(self, eta: Vector) -> Vector:
        return self._probabilities(eta) - self.of

    def curved(self, eta: Vector, Z: Vector) -> Vector:
        P = self._probabilities(eta)
        p, k = Z.shape[1], P.shape[1]
        H = np.empty((p, k, p, k))
        for a in range(k):
            for b in range(k):
                weight = P[:, a] * (float(a == b) - P[:, b])
                H[:, a, :, b] = (Z * weight[:, None]).T @ Z
        return H.reshape(p * k, p * k)

    def _probabilities(self, eta: Vector) -> Vector:
        first = np.zeros((len(eta), 1))
        return np.asarray(np.exp(eta - logsumexp(np.hstack([first, eta]), axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class Efron(Likelihood):
    """Cox's partial likelihood with Efron's ties, each client a stratum."""

    time: Vector
    event: Vector
    stratum: npt.NDArray[np.int64]

    @cached_property
    def _sets(self) -> list[tuple[Any, Any]]:
        """The rows at risk and those with an event, for each time of an event."""
        found = []
        for s in np.unique(self.stratum):
            mine = self.stratum == s
            for t in np.unique(self.time[mine & (self.event == 1)]):
                at_risk = np.flatnonzero(mine & (self.time >= t))
                dead = np.flatnonzero(mine & (self.time == t) & (self.event == 1))
                found.append((at_risk, dead))
        return found

    def _weights(self, e: Vector, at_risk: Any, dead: Any) -> tuple[Any, Any]:
        """For each of the tied deaths, the rows' parts of the sum, and the log of that sum."""
        top = e[at_risk].max()
        part = np.exp(e[at_risk] - top)
        tied = np.isin(at_risk, dead)
        left = 1 - np.outer(np.arange(len(dead)) / len(dead), tied)
        parts = left * part
        sums = parts.sum(axis=1)
        return parts / sums[:, None], np.log(sums) + top

    def rows(self, eta: Vector) -> Vector:
        e = eta[:, 0]
        terms = [self._weights(e, *rows)[1].sum() - e[rows[1]].sum() for rows in self._sets]
        return np.array(terms)

    def slopes(self, eta: Vector) -> Vector:
        e = eta[:, 0]
        slope = -self.event.copy()
        for at_risk, dead in self._sets:
            slope[at_risk] += self._weights(e, at_risk, dead)[0].sum(axis=0)
        return np.asarray(slope)[:, None]

    def curved(self, eta: Vector, Z: Vector) -> Vector:
        e = eta[:, 0]
        H = np.zeros((Z.shape[1], Z.shape[1]))
        for at_risk, dead in self._sets:
            weights, _ = self._weights(e, at_risk, dead)
            rows = Z[at_risk]
            means = weights @ rows
            H += (rows * weights.sum(axis=0)[:, None]).T @ rows - means.T @ means
        return H


# --- a table's F, and its minimum -----------------------------------------------------------


class Truth:
    """A table's F with a penalty l2/2 of all coefficients but the intercepts, and its minimum."""

    def __init__(self, table: Table, l2: float) -> None:
        self.table = table
        self.l2 = l2
        X = np.concatenate([part.to_numpy() for part in table.X])
        self.X = X if table.family == "cox" else np.column_stack([X, np.ones(len(X))])
        self.offset = np.zeros(len(X))
        if table.offset is not None:
            self.offset = np.concatenate(table.offset)
        self.likelihood = _likelihood(table)
        free = 0 if table.family == "cox" else 1
        self.penalised = np.ones(self.X.shape[1])
        self.penalised[len(self.penalised) - free :] = 0
        self.outcomes = table.dimension // self.X.shape[1]
        self.x, self.left = self._newton()
        self.lowest = self.value(self.x)
        self.first = self.value(np.zeros(table.dimension)) - self.lowest

    def value(self, x: Vector) -> float:
        """F(x); the sum over rows is exact."""
        B = x.reshape(-1, self.outcomes)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.likelihood.rows(self.X @ B + self.offset[:, None])
        if not np.isfinite(terms).all():
            return np.inf
        return math.fsum(terms) + self._penalty(B)

    def gap(self, x: Vector) -> float:
        """F(x) - F*."""
        return self.value(x) - self.lowest

    def _penalty(self, B: Vector) -> float:
        return self.l2 / 2 * float((self.penalised[:, None] * B**2).sum())

    def _newton(self) -> tuple[Vector, float]:
        """The minimiser, and what is left to gain."""
        # Z = X T has orthonormal columns, so that x = T y, whatever the columns of X are.
        scale = np.linalg.norm(self.X, axis=0)
        Z, R = np.linalg.qr(self.X / scale)
        p = len(scale)
        T = solve_triangular(R, np.eye(p)) / scale[:, None]
        ridge = self.l2 * (T.T * self.penalised) @ T
        whole_ridge = np.kron(ridge, np.eye(self.outcomes))
        Y = np.zeros((p, self.outcomes))

        def objective(Y: Vector) -> float:
            with np.errstate(over="ignore", invalid="ignore"):
                terms = self.likelihood.rows(Z @ Y + self.offset[:, None])
            if not np.isfinite(terms).all():
                return np.inf
            return math.fsum(terms) + float((Y * (ridge @ Y)).sum()) / 2

        value = objective(Y)
        decrement = np.inf
        for _ in range(STEPS):
            eta = Z @ Y + self.offset[:, None]
            slope = Z.T @ self.likelihood.slopes(eta) + ridge @ Y
            H = self.likelihood.curved(eta, Z) + whole_ridge
            step = np.linalg.solve(H, slope.ravel()).reshape(Y.shape)
            decrement = float((step * slope).sum()) / 2
            t = _halved(objective, Y, step, value, decrement)
            if t == 0:
                break
            Y = Y - t * step
            value = objective(Y)
        return (T @ Y).ravel(), decrement


def _halved(objective: Any, Y: Vector, step: Vector, value: float, decrement: float) -> float:
    """The longest of 1, 1/2, 1/4, ... by which F falls; 0 where it falls no more."""
    t = 1.0
    for _ in range(HALVINGS):
        if objective(Y - t * step) < value - 1e-4 * t * decrement:
            return t
        t /= 2
    return 0.0


def _likelihood(table: Table) -> Likelihood:
    y = np.concatenate([np.asarray(part) for part in table.y])
    if table.family == "cox":
        stratum = np.repeat(np.arange(table.clients), [len(part) for part in table.y])
        return Efron(y[:, 0], y[:, 1], stratum)
    if table.family == "multinomial":
        return Classes((y[:, None] == np.unique(y)[1:]).astype(np.float64))
    w = np.ones(len(y))
    if table.sample_weight is not None:
        w = np.concatenate(table.sample_weight)
    return Scalar(table.family, y.astype(np.float64), w)
