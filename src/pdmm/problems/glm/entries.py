"""Entries where numbers must be: what is none is named with its place."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import is_table
from pdmm.common.checks import float_entries
from pdmm.common.matrices import is_sparse
from pdmm.common.per_client import Given, as_vector

Array = npt.NDArray[Any]
Vector = npt.NDArray[np.float64]

WORDS = "OUS"  # kinds of arrays that may hold words


def entries(label: str, value: Any) -> Array:
    """What was given for the rows of a client, as an array whose entries are as they were."""
    array = as_vector(label, value)
    if array.dtype.kind == "U" and not hasattr(value, "dtype"):
        return as_vector(label, np.array(value, dtype=object))  # NumPy had made words of numbers
    return array


def numbers(label: str, array: Array) -> Vector:
    """Finite numbers as float64; what is none is named with its row."""
    if array.dtype.kind in WORDS:
        for row, entry in enumerate(array.tolist()):
            if isinstance(entry, str | bytes) or entry is None:
                raise ValueError(f"{label} has {entry!r} in row {row}, where a number must be")
        array = np.array(array.tolist())
    wide = float_entries(label, array, np.float64).astype(np.float64)
    bad = ~np.isfinite(wide)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"{label} has {wide[row]} in row {row}; all must be finite")
    return wide


def refuse_words(tables: Given) -> None:
    """Refuse matrices and tables that have a word where a number must be, and say where."""
    if tables.stacked and tables.values.dtype.kind not in WORDS:
        return
    for i, value in enumerate(tables.values):
        label = tables.label(i)
        if is_table(value):
            for name in value.columns:
                _refuse_word(f"{label}, column {name!r},", value[name], "in row {0}")
        elif not is_sparse(value):
            _refuse_word(label, value, "in row {0}, column {1}")


def _refuse_word(label: str, value: Any, where: str) -> None:
    kind = getattr(getattr(value, "dtype", None), "kind", "O")
    if kind not in WORDS:
        return
    try:
        array = np.array(value, dtype=object)
    except ValueError:  # rows of different lengths: refused in other words
        return
    for place in np.ndindex(array.shape):
        if isinstance(array[place], str | bytes):
            at = where.format(*place) if len(place) == where.count("{") else f"in row {place[0]}"
            raise ValueError(
                f"{label} has {array[place]!r} {at}, where a number must be: make numbers of such "
                "entries (0 and 1 for each category, for example), or leave the column out"
            )
