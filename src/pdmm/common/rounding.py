"""Bounds of rounding errors, and lengths that neither overflow nor underflow."""

from typing import Any

import numpy as np
import numpy.typing as npt

UNIT = float(np.finfo(np.float64).eps) / 2
"""The largest relative error of one operation in float64."""


def gamma(operations: float) -> float:
    """The relative error that so many operations in a row can add up to.

    A sum of k products, taken in any order, is within gamma(k) times the sum of their sizes.

    References:
        Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, Lemma 3.1.
    """
    return operations * UNIT / (1 - operations * UNIT)


def length(v: npt.NDArray[Any]) -> float:
    """‖v‖, also where the squares of its entries overflow or underflow."""
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(np.asarray(v, dtype=np.float64) / largest))


def lengths(rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The ‖v‖ of each row v."""
    return np.array([length(row) for row in rows])
