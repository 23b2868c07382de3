"""Operations on NamedTuples of arrays: the states and messages of a method, field by field.

A method's Memory, Upload and Draft are NamedTuples whose fields are arrays with one row per
client; its Message has no rows. Each function here takes such a tuple and gives back one of
the same type, so that a state keeps its names and its type on the way through an engine.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Fields = TypeVar("Fields", bound=tuple[Any, ...])
"""A NamedTuple of arrays."""

Rows: TypeAlias = slice | npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]
"""Some rows: a slice, their numbers, or a mask."""


def build(like: Fields, values: Sequence[Any]) -> Fields:
    """Make a tuple of the same type from other values, one for each field."""
    return type(like)(*values)


def each(function: Callable[[Any], Any], fields: Fields) -> Fields:
    """Apply a function to each field.

    Example:
        >>> from typing import NamedTuple
        >>> class Upload(NamedTuple):
        ...     dx: float
        ...     dc: float
        >>> each(lambda field: 10 * field, Upload(dx=1.0, dc=2.0))
        Upload(dx=10.0, dc=20.0)
    """
    return build(fields, [function(field) for field in fields])


def inexact(function: Callable[[Any], Any], fields: Fields) -> Fields:
    """Apply a function to each field but those that the tuple's class lists in ``EXACT``."""
    exact: tuple[str, ...] = getattr(type(fields), "EXACT", ())
    names: tuple[str, ...] = getattr(type(fields), "_fields", ())
    values = [
        field if name in exact else function(field)
        for name, field in zip(names, fields, strict=True)
    ]
    return build(fields, values)


def rows(fields: Fields, clients: Rows) -> Fields:
    """Take the rows of some clients: views for a slice, copies otherwise."""
    return build(fields, [field[clients] for field in fields])


def put(fields: Fields, clients: Rows, new: Fields) -> None:
    """Write new rows for some clients, in place."""
    for field, values in zip(fields, new, strict=True):
        field[clients] = values


def cast(fields: Fields, dtype: npt.DTypeLike) -> Fields:
    """Make every field an array of one dtype; a field that is one already is not copied."""
    return build(fields, [np.asarray(field, dtype=dtype) for field in fields])


def weighted_sum(weights: npt.NDArray[np.float64], fields: Fields) -> Fields:
    """Add up the rows of each field, weighted, in float64 whatever the field's dtype."""
    return build(fields, [weights @ field.astype(np.float64, copy=False) for field in fields])


def scaled(fields: Fields, weight: float) -> Fields:
    """Divide each field by a weight: a weighted sum becomes a weighted mean."""
    return build(fields, [field / weight for field in fields])


def added(parts: Sequence[Fields]) -> Fields:
    """Add up several tuples field by field, in their order."""
    return build(parts[0], [sum(same) for same in zip(*parts, strict=True)])


def joined(parts: Sequence[Fields]) -> Fields:
    """Put the rows of several tuples below each other."""
    return build(parts[0], [np.concatenate(same) for same in zip(*parts, strict=True)])


def finite_rows(fields: tuple[Any, ...]) -> npt.NDArray[np.bool_]:
    """Say for each row whether all its numbers, in all fields, are finite."""
    good = [np.isfinite(field).reshape(len(field), -1).all(axis=1) for field in fields]
    whole: npt.NDArray[np.bool_] = np.logical_and.reduce(good)
    return whole


def flat(fields: tuple[Any, ...]) -> list[Any]:
    """List the fields of a tuple, those of tuples inside it in their place.

    Example:
        >>> from typing import NamedTuple
        >>> class Inner(NamedTuple):
        ...     a: int
        ...     b: int
        >>> class Outer(NamedTuple):
        ...     inner: Inner
        ...     c: int
        >>> flat(Outer(Inner(1, 2), 3))
        [1, 2, 3]
        >>> rebuilt(Outer(Inner(0, 0), 0), [1, 2, 3])
        Outer(inner=Inner(a=1, b=2), c=3)
    """
    leaves = []
    for field in fields:
        if isinstance(field, tuple):
            leaves += flat(field)
        else:
            leaves.append(field)
    return leaves


def rebuilt(like: Fields, leaves: Sequence[Any]) -> Fields:
    """Make a tuple of the same nested types from the list that :func:`flat` gave."""
    if len(leaves) != len(flat(like)):
        raise ValueError(
            f"a {type(like).__name__} has {len(flat(like))} fields in all, got {len(leaves)}"
        )
    return _taken(like, iter(leaves))


def _taken(like: Fields, leaves: Iterator[Any]) -> Fields:
    """Take as many leaves as the tuple has, in their order."""
    values = []
    for field in like:
        if isinstance(field, tuple):
            values.append(_taken(field, leaves))
        else:
            values.append(next(leaves))
    return build(like, values)
