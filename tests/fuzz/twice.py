"""Random problems twice: as the library holds them, and as plain functions for the twins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pdmm
from fuzz.draws import Array, Generator, chance, pick, whole
from twins import methods as twins
from twins.methods import Network, Vector


@dataclass
class Twice:
    """A problem, the twins' oracles of the same functions, an L of all f_i, and a start."""

    problem: pdmm.Problem
    gradient: twins.Gradient
    prox: twins.Prox
    L: float
    x0: Vector
    exact_tolerance: float = 1e-9
    """How near the library's exact steps come to the twins'."""
    smooth: bool = True

    def network(self, x0: Vector, **more: Any) -> Network:
        return Network(self.problem.clients, x0, self.gradient, self.prox, **more)


def some_problem(rng: Generator, dtype: Any) -> Twice:
    kinds: list[Callable[[Generator, Any], Twice]]
    kinds = [least_squares, least_squares, softmax, quadratic, functions, absolute, lazy]
    return pick(rng, kinds)(rng, dtype)


def _start(rng: Generator, d: int) -> Vector:
    far = pick(rng, [0.0, 1.0, 10.0])
    return (far * rng.standard_normal(d)).astype(np.float32).astype(np.float64)


def _rows(rng: Generator, dtype: Any) -> tuple[list[Array], list[Array]]:
    m = whole(rng, 1, 6)
    d = whole(rng, 1, 9)
    shape = pick(rng, ["tall", "wide", "ragged"])
    sizes = {
        "tall": [d + whole(rng, 1, 9)] * m,
        "wide": [whole(rng, 1, max(1, d - 1))] * m,
        "ragged": rng.integers(1, 2 * d + 2, m).tolist(),
    }[shape]
    A = [rng.standard_normal((n, d)).astype(dtype) for n in sizes]
    b = [(rows @ rng.standard_normal(d) + rng.standard_normal(len(rows))) for rows in A]
    return A, [part.astype(dtype) for part in b]


def _steepest(A: list[Array]) -> float:
    return max(float(np.linalg.norm(rows.astype(np.float64), 2)) ** 2 for rows in A)


def least_squares(rng: Generator, dtype: Any) -> Twice:
    A, b = _rows(rng, dtype)
    equal = len({len(rows) for rows in A}) == 1
    problem = pdmm.LeastSquares(A, b)
    if equal and chance(rng, 0.5):
        problem = pdmm.LeastSquares(np.stack(A), np.stack(b))
    if chance(rng, 0.2):
        problem.factorise()
    return Twice(problem, *twins.least_squares(A, b), _steepest(A), _start(rng, A[0].shape[1]))


def lazy(rng: Generator, dtype: Any) -> Twice:
    """Least squares whose clients are made when they first take part, and forgotten again."""
    A, b = _rows(rng, dtype)
    problem = pdmm.Lazy(
        len(A), lambda i: pdmm.LeastSquares([A[i]], [b[i]]), keep=whole(rng, 1, len(A))
    )
    return Twice(problem, *twins.least_squares(A, b), _steepest(A), _start(rng, A[0].shape[1]))


def softmax(rng: Generator, dtype: Any) -> Twice:
    sizes = rng.integers(3, 12, whole(rng, 1, 5)).tolist()
    features, classes = whole(rng, 1, 3), whole(rng, 2, 3)
    batch_size = whole(rng, 1, min(sizes)) if chance(rng, 0.5) else None
    X: list[Any] = [(rng.standard_normal((n, features)) + 0.3).astype(dtype) for n in sizes]
    y = [rng.integers(0, classes, n) for n in sizes]
    l2 = float(rng.uniform(0.05, 0.5))
    problem = pdmm.SoftmaxRegression(X, y, classes, l2, batch_size)
    oracles = twins.softmax(X, y, classes, l2, batch_size)
    L = max(float(((rows.astype(np.float64) ** 2).sum(1) + 1).max()) / 2 + l2 for rows in X)
    # A solver's exact steps end at a relative residual of 1e-10, and errors add up.
    return Twice(problem, *oracles, L, 0.3 * _start(rng, problem.dimension), 1e-6)


def quadratic(rng: Generator, dtype: Any) -> Twice:
    m, d = whole(rng, 1, 6), whole(rng, 2, 5)
    M = rng.standard_normal((m, d, d)) / np.sqrt(d)
    H: Any = (M @ M.swapaxes(1, 2)).astype(dtype)
    H = (H + H.swapaxes(1, 2)) / 2
    c = rng.standard_normal((m, d)).astype(dtype)
    if chance(rng, 0.3):  # diagonals
        diagonals = rng.uniform(0, 3, (m, d)).astype(dtype)
        H = np.stack([np.diag(row) for row in diagonals])
        problem = pdmm.Quadratic(diagonals, c)
    else:
        problem = pdmm.Quadratic(H, c)
    wide, right = H.astype(np.float64), c.astype(np.float64)

    def gradient(i: int, x: Vector, step: int) -> Vector:
        return np.asarray(wide[i] @ x - right[i])

    def prox(i: int, anchor: Vector, rho: float) -> Vector:
        return np.asarray(np.linalg.solve(wide[i] + rho * np.eye(d), right[i] + rho * anchor))

    L = float(np.linalg.eigvalsh(wide)[:, -1].max())
    return Twice(problem, gradient, prox, L, _start(rng, d))


def functions(rng: Generator, dtype: Any) -> Twice:
    """f_i(x) = sum_j q_ij/2 (x_j - c_ij)² + log cosh(x_j - e_ij), with and without its prox."""
    m, d = whole(rng, 1, 5), whole(rng, 1, 5)
    q = rng.uniform(0.2, 2, (m, d))
    c, e = rng.standard_normal((2, m, d))

    def value(i: int, x: Vector) -> float:
        return float((q[i] / 2 * (x - c[i]) ** 2 + np.logaddexp(x - e[i], e[i] - x)).sum())

    def slope(i: int, x: Vector) -> Vector:
        return np.asarray(q[i] * (x - c[i]) + np.tanh(x - e[i]))

    def prox(i: int, anchor: Vector, rho: float) -> Vector:
        """By bisection, and a few of Newton's steps for the last digits."""
        low, high = np.full(d, -1e3), np.full(d, 1e3)
        for _ in range(40):
            x = (low + high) / 2
            above = slope(i, x) + rho * (x - anchor) > 0
            low, high = np.where(above, low, x), np.where(above, x, high)
        for _ in range(4):
            bend = q[i] + 1 - np.tanh(x - e[i]) ** 2 + rho
            x = x - (slope(i, x) + rho * (x - anchor)) / bend
        return np.asarray(x)

    def each(function: Callable[..., Any]) -> list[Callable[..., Any]]:
        return [lambda *arguments, i=i: function(i, *arguments) for i in range(m)]

    known = chance(rng, 0.6)
    problem = pdmm.Functions(
        each(value),
        each(slope),
        d,
        prox=each(lambda i, v, t: prox(i, v, 1 / t)) if known else None,
    )
    start = _start(rng, d)
    return Twice(problem, lambda i, x, _: slope(i, x), prox, 3.0, start, 1e-9 if known else 1e-6)


def absolute(rng: Generator, dtype: Any) -> Twice:
    """Sums of absolute values: exact steps only."""
    m, d = whole(rng, 1, 6), whole(rng, 1, 4)
    a = rng.standard_normal((m, d)).astype(dtype)
    wide = a.astype(np.float64)

    def gradient(i: int, x: Vector, step: int) -> Vector:
        return np.asarray(np.sign(x - wide[i]))

    def prox(i: int, anchor: Vector, rho: float) -> Vector:
        away = anchor - wide[i]
        return np.asarray(wide[i] + np.sign(away) * np.maximum(np.abs(away) - 1 / rho, 0))

    return Twice(pdmm.Absolute(a), gradient, prox, 1.0, _start(rng, d), smooth=False)
