"""Weights of a penalty: one number for all entries of x, or a vector with one for each."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import as_array
from pdmm.common.checks import not_negative, vector

Vector = npt.NDArray[np.float64]
Weight: TypeAlias = float | Vector


def weight(name: str, value: Any) -> Weight:
    """A number of zero or more, or a vector of such numbers, which is a copy."""
    if isinstance(value, str) or np.ndim(value) == 0:
        return not_negative(name, value)
    given = as_array(name, value)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(
            f"{name} must be a number, or a vector with one entry for each entry of x, got shape "
            f"{given.shape}"
        )
    weights = vector(name, given, len(given))
    if (weights < 0).any():
        j = int((weights < 0).argmax())
        raise ValueError(f"{name} must not be negative, but its entry {j} is {weights[j]}")
    weights.flags.writeable = False
    return weights


def check_length(name: str, weight: Weight, dimension: int) -> None:
    """Refuse a vector for an x of another length."""
    if isinstance(weight, np.ndarray) and weight.shape != (dimension,):
        raise ValueError(
            f"{name} must be a number, or a vector of shape ({dimension},) with one entry for "
            f"each entry of x, got shape {weight.shape}"
        )


def sparing(weight: Weight, dimension: int, intercepts: npt.NDArray[np.int64] | None) -> Weight:
    """The weight of a problem that has intercepts: a number becomes a vector with zeros there."""
    if intercepts is None or len(intercepts) == 0 or isinstance(weight, np.ndarray):
        return weight
    weights = np.full(dimension, weight)
    weights[intercepts] = 0.0
    return weights


def same(one: Weight, other: Weight) -> bool:
    """Whether two weights are equal, a number only to a number."""
    return np.shape(one) == np.shape(other) and bool(np.all(one == other))
