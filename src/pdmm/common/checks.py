"""Checks of what the user gives: which argument, what it was, what it must be."""

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.floating]
PerClient: TypeAlias = list[Floats] | Floats  # one array a client, or all of them stacked


class ClientError(ValueError):
    """A client's own function raised, or returned what it must not.

    ``history`` has what :func:`pdmm.solve` had recorded by then.
    """

    history: Any = None


def number(name: str, value: Any) -> float:
    """A finite real number, as a Python float (a NumPy scalar would widen float32 arrays)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    result = number(name, value)
    if result <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}")
    return result


def not_negative(name: str, value: Any) -> float:
    """A finite number of zero or more."""
    result = number(name, value)
    if result < 0:
        raise ValueError(f"{name} must not be negative, got {value!r}")
    return result


def whole(name: str, value: Any, at_least: int) -> int:
    """A whole number that is not too small."""
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
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries: fill them or leave them out")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from error
    if array.dtype.kind in "iub":
        array = array.astype(whole_as)
    if array.dtype.kind == "f" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} must hold float32 or float64 numbers, got {array.dtype}")
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    finite(name, array)
    return array


def vector(name: str, value: Any, length: int) -> npt.NDArray[np.float64]:
    """A finite vector of a given length, in float64."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers have no order")
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from None
    if vector.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got shape {vector.shape}")
    finite(name, vector)
    return vector


def client_weights(weights: Any, clients: int) -> npt.NDArray[np.float64]:
    """Positive weights, one a client; ones if not given."""
    if weights is None:
        return np.ones(clients)
    w = vector("weights", weights, clients)
    if (w <= 0).any():
        i = int((w <= 0).argmax())
        raise ValueError(f"weights must be positive, but weights[{i}] (client {i}) is {w[i]}")
    return w


def finite(name: str, array: Floats) -> None:
    """No NaN and no infinity, and if there is one, where."""
    # A sum is finite unless an entry is not (or the sum overflows): one pass, no copy.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(array.sum(dtype=np.float64))
    if suspicious and not (good := np.isfinite(array)).all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        raise ValueError(f"{name} has {array[where]} at position {where}; all must be finite")


def per_client(name: str, values: Any, ndim: int, whole_as: Any = np.float64) -> PerClient:
    """The clients' float arrays, checked: a list of arrays, or one stacked array of them."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.ndim != ndim + 1:
            raise ValueError(
                f"{name} as one array must have {ndim + 1} dimensions (clients first), "
                f"got shape {values.shape}"
            )
        if 0 in values.shape:
            raise ValueError(f"{name} has shape {values.shape}: every client needs a sample")
        try:
            return floats(name, values, ndim + 1, whole_as)
        except ValueError:  # find the client, for a message that names it
            return [
                floats(f"{name}[{i}] (client {i})", v, ndim, whole_as) for i, v in enumerate(values)
            ]
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, str):
        raise ValueError(
            f"{name} must be a list of arrays, one a client, got {type(values).__name__}"
        )
    if len(values) == 0:
        raise ValueError(f"{name} is empty: at least one client is needed")
    arrays = [floats(f"{name}[{i}] (client {i})", v, ndim, whole_as) for i, v in enumerate(values)]
    for i, array in enumerate(arrays):
        if 0 in array.shape:
            raise ValueError(f"{name}[{i}] (client {i}) is empty: every client needs a sample")
    return arrays


def same_dtype(*named: tuple[str, PerClient]) -> np.dtype[Any]:
    """The one dtype that all the arrays share."""
    first_name, first = named[0]
    for name, arrays in named:
        for i, array in enumerate(arrays[:1] if isinstance(arrays, np.ndarray) else arrays):
            if array.dtype != first[0].dtype:
                raise ValueError(
                    f"{name}[{i}] (client {i}) is {array.dtype}, but {first_name}[0] is "
                    f"{first[0].dtype}: give all data in one dtype"
                )
    return np.dtype(first[0].dtype)
