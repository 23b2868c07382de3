"""Checks that several kinds of links share."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import number

Indices: TypeAlias = npt.NDArray[np.intp]
Flags: TypeAlias = npt.NDArray[np.bool_]


def probability(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value!r}")
    return result


def is_list(value: Any) -> bool:
    """Whether a value has an entry for each of something."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str)
