"""Coordinates y of x = centre + T y in which a Hessian is nearly the identity.

Forming X'WX squares the condition of X and loses half of the digits. So clients form their Hessian
from the rows times T, and T is improved in each round by the Hessian that it led to: T <- T L^-T
with L the Cholesky factor of T'HT, shifted where that is singular to rounding. Each pass takes up
to seven digits of the condition away, and T stays upper triangular.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve_triangular

Vector = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)
LOST = 1e-11  # of what is added up in a direction: what is left is no more than its rounding
DOUBTFUL = 1e-6  # a pivot, of 1, that is looked at closely
LEAST_SCALE = 1e-9  # of what is added up in a column
NEARLY_NOTHING = 1e-4  # the root of the curvature, of 1, that stands for one that is lost


class Factor(NamedTuple):
    """T'HT, factored on the columns that say something beyond those before them."""

    scale: Vector
    """(d,): the roots of the diagonal."""
    L: Vector
    """(d, d): the Cholesky factor of what is left when these are divided out, the identity in the
    columns that are lost."""
    whole: Vector
    """(d, d): the same, with the columns that are lost as those before them make them, and next to
    nothing of their own."""
    kept: Flags
    """(d,): which columns are not lost."""
    undetermined: Vector
    """(d, k): a direction of y for each column that is lost, along which H is 0 to rounding."""
    least: float
    """The smallest eigenvalue of T'HT on the columns that are kept, no less than its rounding."""
    vague: bool
    """Whether some eigenvalue may be there or not: only the next pass will tell."""

    @property
    def lost(self) -> int:
        """How many directions the data do not determine."""
        return int(self.undetermined.shape[1])

    def solve(self, g: Vector) -> Vector:
        """(T'HT)^-1 g, and 0 in the columns that are lost."""
        scaled = np.where(self.kept, g / self.scale, 0.0)
        return np.asarray(cho_solve((self.L, True), scaled, check_finite=False) / self.scale)

    def whiten(self, T: Vector) -> Vector:
        """The T in which the same Hessian is the identity; columns that are lost stay."""
        whitened = solve_triangular(self.L, (T / self.scale).T, lower=True, check_finite=False).T
        return np.where(self.kept, np.triu(whitened), T)

    def shortest(self, x: Vector, T: Vector) -> Vector:
        """The shortest vector that differs from x only in directions that are not determined."""
        if not self.lost:
            return x
        directions = T @ self.undetermined
        basis, _ = np.linalg.qr(directions / np.linalg.norm(directions, axis=0))
        return np.asarray(x - basis @ (basis.T @ x))

    def in_x(self, T: Vector) -> Vector:
        """The factored matrix in the coordinates of x, nearly 0 in directions that are lost.

        A penalty with kinks determines these. A curvature that H does not have would hold its
        steps back there, in round after round.
        """
        root = solve_triangular(T, np.diag(self.scale), trans="T", check_finite=False) @ self.whole
        return np.asarray(root @ root.T)


def factor(M: Vector, T: Vector) -> Factor:
    """Factor M = T'HT.

    Args:
        M: symmetric, (d, d).
        T: upper triangular; with it, a small pivot is told from one that is rounding alone.
    """
    d = len(M)
    terms = _columns(M, T)[:, None] * np.abs(T)
    # A column in which nothing is left but rounding must not be made as long as the others.
    least_scale = LEAST_SCALE * np.linalg.norm(terms, axis=0)
    scale = np.sqrt(np.maximum(np.diag(M), least_scale**2))
    scale[scale == 0] = 1.0
    E = M / scale / scale[:, None]
    noise = (10 * d + 100) * EPS
    L, whole, kept, raised = _cholesky(E, terms / scale, noise)
    own = E[np.ix_(kept, kept)]
    least = 1.0
    if own.size:
        least = float(np.linalg.eigvalsh(own)[0])
    smallest = float(scale[kept].min(initial=np.inf)) ** 2 if kept.any() else 1.0
    return Factor(
        scale=scale,
        L=L,
        whole=whole,
        kept=kept,
        undetermined=_undetermined(E, L, kept) / scale[:, None],
        least=max(least, noise) * smallest,
        vague=raised or least < noise,
    )


def _cholesky(E: Vector, terms: Vector, noise: float) -> tuple[Vector, Vector, Flags, bool]:
    """The factor, the same with lost columns, which it has, and whether a pivot had to be raised.

    Args:
        E: a matrix whose diagonal is 1, or 0 in columns that are nearly nothing.
        terms: what is added up in each column of y, in the columns of x.
        noise: the rounding of a pivot.
    """
    d = len(E)
    L = np.eye(d)
    whole = np.eye(d)
    kept = np.zeros(d, dtype=bool)
    raised = False
    for j in range(d):
        row = np.zeros(j)
        if kept[:j].any():
            row = np.where(kept[:j], _solved(L[:j, :j], np.where(kept[:j], E[:j, j], 0.0)), 0.0)
        pivot = float(E[j, j] - row @ row)
        if pivot < DOUBTFUL:
            back = _solved(L[:j, :j], row, transposed=True) if j else row
            size = float(np.linalg.norm(terms[:, j] + terms[:, :j] @ np.abs(back)))
            if np.sqrt(max(pivot, 0.0)) <= LOST * size:
                whole[j, :j] = row
                whole[j, j] = NEARLY_NOTHING
                continue
        if pivot < 10 * noise:
            pivot = max(pivot, 0.0) + noise
            raised = True
        L[j, :j] = row
        L[j, j] = np.sqrt(pivot)
        whole[j] = L[j]
        kept[j] = True
    return L, whole, kept, raised


def _solved(L: Vector, v: Vector, transposed: bool = False) -> Vector:
    return np.asarray(
        solve_triangular(L, v, lower=True, trans="T" if transposed else "N", check_finite=False)
    )


def _undetermined(E: Vector, L: Vector, kept: Flags) -> Vector:
    """For each column that is lost, itself less what those that are kept make of it."""
    others = np.where(kept[:, None], E[:, ~kept], 0.0)
    made = np.asarray(cho_solve((L, True), others, check_finite=False), dtype=np.float64)
    return np.asarray(np.eye(len(E))[:, ~kept] - made)


def _columns(M: Vector, T: Vector) -> Vector:
    """The norms of x's own columns, which are the roots of the diagonal of H."""
    inverse = solve_triangular(T, np.eye(len(T)), check_finite=False)
    return np.asarray(np.sqrt(np.maximum((inverse * (M @ inverse)).sum(axis=0), 0.0)))


def packed(matrix: Vector) -> Vector:
    """The upper triangle of matrices (..., d, d), row by row."""
    rows, columns = np.triu_indices(matrix.shape[-1])
    return np.asarray(matrix[..., rows, columns])


def triangle(numbers: Vector) -> Vector:
    """The upper triangular matrix of which these are the entries."""
    d = int((np.sqrt(8 * numbers.shape[-1] + 1) - 1) / 2)
    rows, columns = np.triu_indices(d)
    matrix = np.zeros((*numbers.shape[:-1], d, d))
    matrix[..., rows, columns] = numbers
    return matrix


def symmetric(numbers: Vector) -> Vector:
    """The symmetric matrix of which these are the entries on and above the diagonal."""
    upper = triangle(numbers)
    diagonal = np.diagonal(upper, axis1=-2, axis2=-1)
    return upper + np.swapaxes(upper, -1, -2) - diagonal[..., None] * np.eye(upper.shape[-1])
