"""Checks of what the user gives: which argument, what it was, what it must be."""

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import as_array, not_finite, refuse_masked

LARGEST_WEIGHT = 1e30  # of a client; the smallest is one divided by it
LARGEST_PARAMETER = 1e150  # of rho, a step size, L; its square is still a float

Floats: TypeAlias = npt.NDArray[np.floating]
PerClient: TypeAlias = list[Floats] | Floats  # one array a client, or all of them stacked


class ClientError(ValueError):
    """A client's own function raised, or returned what it must not.

    ``history`` has what :func:`pdmm.solve` had recorded by then.
    """

    history: Any = None


def number(name: str, value: Any) -> float:
    """A finite real number, as a Python float (a NumPy scalar would widen float32 arrays)."""
    refuse_masked(name, value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        result = float(value)
    except OverflowError:
        raise ValueError(f"{name} is too large for a float") from None
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return result


def switch(name: str, value: Any) -> Any:
    """True, False, or "auto", which decides by what there is."""
    if not isinstance(value, bool) and value != "auto":
        raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")
    return value


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    result = number(name, value)
    if result <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}")
    return result


def moderate(name: str, value: Any) -> float:
    """A number above zero that leaves room for its square, and for one divided by that."""
    result = positive(name, value)
    if not 1 / LARGEST_PARAMETER <= result <= LARGEST_PARAMETER:
        raise ValueError(
            f"{name} must be from {1 / LARGEST_PARAMETER:g} to {LARGEST_PARAMETER:g}, got "
            f"{value!r}: choose other units"
        )
    return result


def moderate_or_zero(name: str, value: Any) -> float:
    """Zero, or a number above it that leaves room for its square."""
    result = not_negative(name, value)
    return moderate(name, value) if result else 0.0


def is_auto(value: Any) -> bool:
    """Whether it is the word "auto" (an array would compare with it entry by entry)."""
    return isinstance(value, str) and value == "auto"


def not_negative(name: str, value: Any) -> float:
    """A finite number of zero or more."""
    result = number(name, value)
    if result < 0:
        raise ValueError(f"{name} must not be negative, got {value!r}")
    return result


def whole(name: str, value: Any, at_least: int) -> int:
    """A whole number that is not too small."""
    refuse_masked(name, value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value!r}")
    return int(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> None:
    """One of a few words."""
    if value not in choices:
        words = " or ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be {words}, got {value!r}")


def floats(name: str, value: Any, ndim: int, whole_as: Any = np.float64) -> Floats:
    """A finite float32 or float64 array of ``ndim`` dimensions; whole numbers are converted."""
    array = float_entries(name, as_array(name, value), whole_as)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    finite(name, array)
    return array


def float_entries(name: str, array: npt.NDArray[Any], whole_as: Any) -> Floats:
    """The entries as float32 or float64; a copy only where they are neither."""
    if array.dtype.kind in "iub":
        return array.astype(whole_as)
    if array.dtype.kind == "f" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} must hold float32 or float64 numbers, got {array.dtype}")
    return array


def vector(name: str, value: Any, length: int) -> npt.NDArray[np.float64]:
    """A finite vector of a given length, in float64, which is a copy."""
    array = as_array(name, value)
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"{name} must be numbers, got {array.dtype}")
    try:
        vector = np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if vector.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got shape {vector.shape}")
    finite(name, vector)
    return vector


def client_weights(weights: Any, clients: int) -> npt.NDArray[np.float64]:
    """Positive weights, one a client, that leave room for products; ones if not given."""
    if weights is None:
        return np.ones(clients)
    w = vector("weights", weights, clients)
    if (w <= 0).any():
        i = int((w <= 0).argmax())
        raise ValueError(f"weights must be positive, but weights[{i}] (client {i}) is {w[i]}")
    outside = (w < 1 / LARGEST_WEIGHT) | (w > LARGEST_WEIGHT)
    if outside.any():
        i = int(outside.argmax())
        raise ValueError(
            f"weights must be from {1 / LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}, but weights[{i}] "
            f"(client {i}) is {w[i]}: only their ratios move the minimum, so multiply all of them "
            "by one number"
        )
    return w


def finite(name: str, array: Floats) -> None:
    """No NaN and no infinity, and if there is one, where."""
    where = not_finite(array)
    if where is not None:
        raise ValueError(f"{name} has {array[where]} at position {where}; all must be finite")
