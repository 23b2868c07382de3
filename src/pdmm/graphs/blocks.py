"""Many small matrices on the diagonal of a sparse one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.graphs.incidence import Indices

Vector = npt.NDArray[np.float64]


def block_diagonal(parts: Sequence[tuple[Indices, Vector]], size: int) -> sparse.csr_array:
    """A matrix with blocks at given places.

    Args:
        parts: places (k, d), and blocks there: matrices (k, d, d), or diagonals (k, d).
        size: of the matrix.
    """
    entries: list[Vector] = []
    down: list[Indices] = []
    across: list[Indices] = []
    for index, blocks in parts:
        rows, columns = index, index
        if blocks.ndim == 3:
            rows, columns = np.broadcast_arrays(index[:, :, None], index[:, None, :])
        entries.append(blocks.ravel())
        down.append(rows.ravel())
        across.append(columns.ravel())
    coordinates = (np.concatenate(down), np.concatenate(across))
    return sparse.csr_array((np.concatenate(entries), coordinates), shape=(size, size))
