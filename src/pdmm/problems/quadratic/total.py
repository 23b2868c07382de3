"""F of quadratics as one of them: its minimum by a direct solve, gaps without cancellation."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

from pdmm.common.checks import PerClient
from pdmm.common.rounding import gamma, length
from pdmm.common.team import ALONE, Team
from pdmm.problems.block import Floats
from pdmm.problems.eigenvalues import proven_ends
from pdmm.problems.sums import Total

Vector = npt.NDArray[np.float64]

LONG = 2**22  # rows of which LAPACK's lstsq may crash: seen with 1e7 numbers


class QuadraticTotal(Total):
    """F(x) = F_min + 1/2 (x - x_min)'H(x - x_min), in float64."""

    calls = 0  # nothing is asked of the clients

    x_min: Vector
    f_min: float

    def product(self, v: Floats) -> Vector:
        """H v."""
        raise NotImplementedError

    def divergence(self, x: Floats, y: Floats) -> float:
        v = np.subtract(x, y, dtype=np.float64)
        return 0.5 * float(v @ self.product(v))

    def minimiser(self, l2: float) -> Vector:
        return self._solve(l2) if l2 else self.x_min

    def _solve(self, l2: float) -> Vector:
        """A minimiser of F(x) + l2/2 ‖x‖²."""
        raise NotImplementedError

    def extremes(self) -> tuple[float, float]:
        if self._ends is None:
            self._ends = self._extremes()
        return self._ends

    _ends: tuple[float, float] | None = None

    def _extremes(self) -> tuple[float, float]:
        """Proven bounds of the eigenvalues of H, as close as rounding allows."""
        raise NotImplementedError

    def rounding(self, x: Floats) -> float:
        # H and g are rounded sums of products of a_j with a_k and with b, ‖a_j‖² being H_jj, and
        # |a_j|·|a_k| <= ‖a_j‖ ‖a_k‖: so H_jk is off by gamma ‖a_j‖ ‖a_k‖ at most, and g likewise.
        r = self._rounding
        d = len(r.columns)
        terms = float(r.columns @ (np.abs(x) + np.abs(self.x_min)))
        return r.left + gamma(r.operations + 2 * d + 8) * (length(r.columns) * terms + r.linear)

    @property
    def _rounding(self) -> "Rounding":
        """How H, g and x_min were rounded."""
        raise NotImplementedError

    def value(self, x: Floats) -> float:
        return self.f_min + self.divergence(x, self.x_min)

    def gradient(self, x: Floats) -> Vector:
        return self.product(np.subtract(x, self.x_min, dtype=np.float64))


class Rounding(NamedTuple):
    """How the numbers of a quadratic were rounded."""

    columns: Vector
    """‖a_j‖, the roots of H's diagonal."""
    linear: float
    """The length of the sum of the sizes of what adds up to g."""
    operations: float
    """How many operations stand one after the other in a number of H or g."""
    left: float
    """‖H x_min - g‖, which the gradient H (x - x_min) leaves out."""


class DenseTotal(QuadraticTotal):
    """At least as many samples as features: H is a d by d matrix.

    Args:
        H: a d by d matrix, of a form 1/2 x'H x - g·x + c.
        g: a vector.
        c: a number.
        operations: how many stand one after the other in a number of H or g, at most.
        linear: the length of the sum of the sizes of what adds up to g.
        data: A and b of each client, if there are any.
        weights: of the clients.
        least: F is no less than this, whatever rounding says.
        team: whose members have the rest of the data.
    """

    def __init__(
        self,
        H: Vector,
        g: Vector,
        c: float,
        *,
        operations: float,
        linear: float,
        data: tuple[PerClient, PerClient] | None,
        weights: Vector,
        least: float = 0.0,
        team: Team = ALONE,
    ) -> None:
        self.H = H
        self.g = g
        self.weights = weights
        self.operations = operations + team.size
        self.linear = linear
        self.data = data if team.size == 1 else None
        self.x_min = self._solve(0.0)
        if data is None:
            f_min = c - float(g @ self.x_min) + 0.5 * float(self.x_min @ H @ self.x_min)
            self.f_min = max(f_min, least)
        else:
            part = _from_residuals(*data, weights, self.x_min)
            self.f_min = float(team.sum(np.array(part)))

    def product(self, v: Floats) -> Vector:
        return self.H @ v

    def _extremes(self) -> tuple[float, float]:
        return proven_ends(self.H, wrong=gamma(self.operations + 2))

    @cached_property
    def _rounding(self) -> Rounding:
        return Rounding(
            columns=np.sqrt(np.diagonal(self.H).clip(min=0)),
            linear=self.linear,
            operations=self.operations,
            left=length(self.H @ self.x_min - self.g),
        )

    def _solve(self, l2: float) -> Vector:
        H = self.H.copy()
        H[np.diag_indices_from(H)] += l2
        x = _solve_positive(H, self.g)
        if x is not None:
            return x
        if self.data is None:
            return np.asarray(linalg.pinvh(H) @ self.g)
        A, b = self.data
        return _lstsq(stacked(A, self.weights), stacked(b, self.weights), l2)


class WideTotal(QuadraticTotal):
    """Fewer samples than features: H stays the product A'A of the stacked data."""

    def __init__(self, A: Floats, b: Floats) -> None:
        self.A = A.astype(np.float64)
        self.b = b.astype(np.float64)
        self.x_min = self._solve(0.0)
        r = self.A @ self.x_min - self.b
        self.f_min = 0.5 * float(r @ r)

    def product(self, v: Floats) -> Vector:
        return (self.A @ v) @ self.A

    def _extremes(self) -> tuple[float, float]:
        return 0.0, proven_ends(self.A @ self.A.T)[1]

    @cached_property
    def _rounding(self) -> Rounding:
        columns = np.sqrt(np.einsum("nd,nd->d", self.A, self.A))
        return Rounding(
            columns=columns,
            linear=length(columns) * length(self.b),
            operations=sum(self.A.shape),
            left=length((self.A @ self.x_min - self.b) @ self.A),
        )

    def _solve(self, l2: float) -> Vector:
        if l2 == 0 and self.A.shape[1] < LONG:
            return _lstsq(self.A, self.b, 0.0)
        y = _solve_positive(self.A @ self.A.T + l2 * np.eye(len(self.A)), self.b)
        if y is None:
            return _lstsq(self.A, self.b, l2)
        return np.asarray(y @ self.A)


def stacked(parts: PerClient, weights: Vector) -> Floats:
    """The clients' rows below each other, times the roots of their weights."""
    roots = np.sqrt(weights)
    return np.concatenate([root * part for root, part in zip(roots, parts, strict=True)])


def _from_residuals(A: PerClient, b: PerClient, weights: Vector, x: Vector) -> float:
    """F(x) from the residuals, which do not cancel."""
    values = []
    for weight, matrix, vector in zip(weights, A, b, strict=True):
        r = matrix @ x - vector
        values.append(0.5 * float(weight) * float(r @ r))
    return sum(values)


def _solve_positive(H: Vector, g: Vector) -> Vector | None:
    """Solve H x = g by Cholesky, refined once; None if H is too close to singular for that."""
    diagonal = np.diagonal(H)
    if not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)  # columns of very different size are no harder than others
    H = H * scale * scale[:, None]
    g = g * scale
    factor, info = linalg.lapack.dpotrf(H)
    if info:
        return None
    reciprocal, _ = linalg.lapack.dpocon(factor, np.abs(H).sum(0).max())
    if reciprocal < 1e-13:
        return None
    x = linalg.cho_solve((factor, False), g)
    left = linalg.cho_solve((factor, False), g - H @ x)
    return np.asarray(scale * (x + left))


def _lstsq(A: Floats, b: Floats, l2: float) -> Vector:
    """The least-squares solution of smallest norm."""
    if l2:
        d = A.shape[1]
        A = np.concatenate([A, np.sqrt(l2) * np.eye(d)])
        b = np.concatenate([b, np.zeros(d)])
    A = A.astype(np.float64)
    b = b.astype(np.float64)
    # NumPy's cut-off for singular values, max(n, d) eps, is safe for exactly dependent columns.
    return np.asarray(np.linalg.lstsq(A, b, rcond=None)[0])
