"""The matrices of quadratics, as a user gives them: of the right shape, symmetric, convex."""

import numpy as np
import numpy.typing as npt

from pdmm.common.per_client import RowLabel
from pdmm.problems.block import Floats
from pdmm.problems.eigenvalues import ends

Vector = npt.NDArray[np.float64]


def check_shapes(matrix: Floats, shape: tuple[int, ...], m: int, d: int) -> None:
    """Refuse an H that does not go with c, of a shape, for m functions of d unknowns."""
    if matrix.ndim and matrix.shape not in (shape, (*shape, d)):
        raise ValueError(
            f"H must be a number, a diagonal or a matrix that goes with c: c has shape "
            f"{shape}, H has shape {matrix.shape}; of many functions, both have a row each"
        )
    square = matrix.ndim == len(shape) == 2 and m == d > 1
    if square and (matrix == matrix.T).all():
        raise ValueError(
            f"H of shape {matrix.shape} with c of the same shape may be one matrix or {m} "
            f"diagonals: give matrices, of shape {(m, d, d)}"
        )


def ends_of_matrices(H: Floats) -> tuple[Vector, Vector]:
    """The smallest and the largest eigenvalue of every matrix, if all are as they must be."""
    _check_symmetric(H)
    least, largest = ends(H.astype(np.float64, copy=False))
    flat = np.flatnonzero(least <= 0)  # ends are never negative: look again there
    low = np.linalg.eigvalsh(H[flat].astype(np.float64))[:, 0]
    rounding = 1e-10 if H.dtype == np.float64 else 1e-4
    _check_convex(low, largest[flat], rounding, flat, len(H))
    return least, largest


def ends_of_diagonals(h: Floats) -> tuple[Vector, Vector]:
    """The same of diagonals."""
    least = h.min(1).astype(np.float64)
    largest = h.max(1).astype(np.float64)
    _check_convex(least, largest, 0.0, np.arange(len(h)), len(h))
    return least, largest


def _check_symmetric(H: Floats) -> None:
    apart = np.abs(H - H.swapaxes(1, 2)).max((1, 2))
    size = np.abs(H).max((1, 2))
    i = int((apart - 1e-6 * size).argmax())
    if apart[i] > 1e-6 * size[i]:
        raise ValueError(
            f"{RowLabel('H', len(H))(i)} is not symmetric: entries differ by up to {apart[i]:.3g}; "
            "(H + H.T) / 2 gives the same function"
        )


def _check_convex(
    least: Vector, largest: Vector, rounding: float, clients: npt.NDArray[np.intp], count: int
) -> None:
    below = least + rounding * np.abs(largest)
    if (below < 0).any():
        k = int(below.argmin())
        raise ValueError(
            f"{RowLabel('H', count)(int(clients[k]))} has the eigenvalue {least[k]:.3g}: "
            "the function is not convex"
        )
