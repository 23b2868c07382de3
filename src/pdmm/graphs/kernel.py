"""The x that satisfy A x = 0, and direct minimisers over them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh, splu

from pdmm.graphs.allowed import Allowed, Basis, Quadratics
from pdmm.graphs.blocks import block_diagonal
from pdmm.graphs.incidence import Indices

Vector = npt.NDArray[np.float64]
DENSE = 2000  # unknowns up to which a basis of what the constraints allow is computed
DELTA = 1e-9  # what makes a KKT matrix regular, relative to the largest entry
REFINEMENTS = 50


class Kernel(Allowed):
    """All x with A x = 0.

    Args:
        A: a sparse matrix with B_{i|j} x_i - B_{j|i} x_j, a block row for every edge.
        offsets: where each node's entries begin in x.
    """

    def __init__(self, A: Any, offsets: Indices) -> None:
        self.A = _with_equal_rows(A)
        self.offsets = offsets

    def minimise_quadratics(self, functions: Sequence[Quadratics]) -> Vector | None:
        """Solve H x + A'y = c, A x = 0; A may have dependent rows.

        The zero block is replaced by -delta, which makes the matrix regular whatever A is; a
        few refinements take away what delta did.
        """
        A = self.A
        rows, n = A.shape
        H, c = self._stacked(functions)
        scale = _scale(H)
        plain = sparse.block_array([[H, scale * A.T], [scale * A, None]], format="csc")
        signs = np.concatenate([np.full(n, DELTA), np.full(rows, -DELTA)])
        shift = sparse.diags_array(signs * scale)
        try:
            factor = splu((plain + shift).tocsc())
        except RuntimeError:
            return None
        right = np.concatenate([c, np.zeros(rows)])
        solution = _refined(factor, plain, right, n)
        left = np.linalg.norm(right - plain @ solution)
        size = float(np.linalg.norm(right)) or 1.0
        if not left <= 1e-10 * size:
            return None
        return solution[:n] if self._unique(H) else None

    def _stacked(self, functions: Sequence[Quadratics]) -> tuple[Any, Vector]:
        """All H_i on the diagonal of one sparse matrix, and all c_i."""
        n = self.A.shape[1]
        c = np.zeros(n)
        parts = []
        for part in functions:
            index = self.offsets[part.nodes][:, None] + np.arange(part.dimension)
            c[index] = part.linear()
            parts.append((index, part.hessians()))
        return block_diagonal(parts, n), c

    def _unique(self, H: Any) -> bool:
        """Whether no direction is left free by functions and constraints."""
        M = (H / _scale(H) + self.A.T @ self.A).tocsc()
        if M.shape[0] <= DENSE:
            values = np.linalg.eigvalsh(M.toarray())
            return bool(values[0] > 1e-12 * values[-1])
        try:
            least = eigsh(M, k=1, sigma=0, return_eigenvectors=False)[0]
        except (RuntimeError, ArpackError):  # it is singular
            return False
        return bool(least > 1e-12 * abs(M).max())

    def basis(self) -> Basis | None:
        if self.A.shape[1] > DENSE:
            return None
        N = linalg.null_space(self.A.toarray())
        return Basis(lambda y: N @ y, lambda slope: N.T @ slope, N.shape[1])


def _with_equal_rows(A: Any) -> Any:
    """The same constraints, each multiplied such that none is small beside another."""
    size = np.sqrt(A.power(2).sum(axis=1))
    return (sparse.diags_array(1 / np.where(size > 0, size, 1.0)) @ A).tocsr()


def _scale(H: Any) -> float:
    """The size of the largest entry of a sparse matrix."""
    return max(float(np.abs(H.data).max(initial=0.0)), 1e-300)


def _refined(factor: Any, matrix: Any, right: Vector, n: int) -> Vector:
    """The solution of a system by the factors of a near one, until its first n entries stay."""
    solution = np.zeros(len(right))
    before: Vector | None = None
    for _ in range(REFINEMENTS):
        solution += factor.solve(right - matrix @ solution)
        x = solution[:n]
        if before is not None and np.linalg.norm(x - before) <= 1e-15 * np.linalg.norm(x):
            break
        before = x.copy()
    return solution
