"""A client's matrix, dense or sparse: what both can tell of themselves."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.arrays import not_finite
from pdmm.common.checks import float_entries

Matrix = Any  # a dense array, or one of SciPy's sparse ones


def sparse_rows(name: str, value: Any) -> Any:
    """A sparse matrix as rows, of whatever format it was; its entries are checked."""
    if value.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions, got shape {value.shape}")
    rows = sparse.csr_array(value)
    if not rows.has_canonical_format:  # entries of one place are added, in a copy
        rows = rows.copy()
        rows.sum_duplicates()
    values = float_entries(name, rows.data, np.float64)
    if values is not rows.data:
        rows = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    bad = not_finite(rows.data)
    if bad is not None:
        (k,) = bad
        row = int(np.searchsorted(rows.indptr, k, side="right")) - 1
        where = (row, int(rows.indices[k]))
        raise ValueError(f"{name} has {rows.data[k]} at position {where}; all must be finite")
    return rows


def is_sparse(matrix: Matrix) -> bool:
    """Whether only entries that are not 0 are stored."""
    return bool(sparse.issparse(matrix))


def dense(matrix: Matrix) -> npt.NDArray[Any]:
    """The matrix with all of its entries."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def product(matrix: Matrix, other: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """The product of the two, into ``out``."""
    if is_sparse(matrix):
        out[...] = matrix @ other
    else:
        np.matmul(matrix, other, out=out)


def stored(matrix: Matrix) -> int:
    """How many entries are stored."""
    return int(matrix.nnz if is_sparse(matrix) else matrix.size)


def entries(matrix: Matrix) -> npt.NDArray[Any]:
    """The entries that are stored, as one vector; all others are 0."""
    return np.asarray(matrix.data if is_sparse(matrix) else matrix.ravel())


def row_squares(matrix: Matrix) -> npt.NDArray[np.float64]:
    """The sum of the squares of each row, in float64."""
    if is_sparse(matrix):
        wide = matrix.astype(np.float64, copy=False)
        return np.asarray(wide.multiply(wide).sum(axis=1))
    return np.asarray(np.einsum("np,np->n", matrix, matrix, dtype=np.float64))


def nbytes(matrix: Matrix) -> int:
    """The memory that it takes."""
    return sum(part.nbytes for part in parts(matrix))


def parts(matrix: Matrix) -> list[npt.NDArray[Any]]:
    """The arrays that it is stored in."""
    return [matrix.data, matrix.indices, matrix.indptr] if is_sparse(matrix) else [matrix]


def largest_entry(array: Matrix) -> float:
    """The largest absolute value."""
    values = array.data if is_sparse(array) else array
    return max(float(values.max()), -float(values.min())) if values.size else 0.0
