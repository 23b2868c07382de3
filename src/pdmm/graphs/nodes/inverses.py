"""Inverses of many small symmetric matrices at once."""

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
SINGULAR = 1e14  # condition number of a node's update from which on it has no solution


def inverses(M: Vector) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Inverses of a stack of symmetric matrices, and which are too close to singular."""
    with np.errstate(all="ignore"):
        # Variables of very different size are no harder than others: scaled to a diagonal of 1.
        scale = 1 / np.sqrt(np.einsum("kii->ki", M))
        scaled = M * scale[:, :, None] * scale[:, None, :]
        good = np.isfinite(scaled).all((1, 2))
        scaled[~good] = np.eye(M.shape[1])
        try:
            inverse = np.linalg.inv(scaled)
        except np.linalg.LinAlgError:  # one of them is exactly singular: it is found by its size
            inverse = np.stack([_inverse(one) for one in scaled])
        inverse = 0.5 * (inverse + inverse.swapaxes(1, 2))
        condition = np.abs(scaled).sum(1).max(1) * np.abs(inverse).sum(1).max(1)
        inverse *= scale[:, :, None] * scale[:, None, :]
    return inverse, ~(good & (condition < SINGULAR))


def _inverse(M: Vector) -> Vector:
    try:
        return np.asarray(np.linalg.inv(M))
    except np.linalg.LinAlgError:
        return np.full_like(M, np.inf)
