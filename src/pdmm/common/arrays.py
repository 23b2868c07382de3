"""What users give as arrays: masked ones are refused, tables and columns of pandas are read.

pandas is not imported: its tables and columns are known by what they offer.
"""

from collections import Counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

Names: TypeAlias = tuple[Any, ...]  # of columns


def as_array(name: str, value: Any) -> npt.NDArray[Any]:
    """What was given, as an array; refused where entries are masked or missing."""
    refuse_masked(name, value)
    if sparse.issparse(value):
        raise ValueError(
            f"{name} is a sparse matrix, which is taken only as A of LeastSquares and as X of "
            "SoftmaxRegression and GLM: give its toarray()"
        )
    if is_table(value):
        return _table_values(name, value)
    if _is_column(value):
        return _column_values(name, value)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from error


def refuse_masked(name: str, value: Any) -> None:
    """Refuse masked entries, also those of arrays in a list: NumPy would use what is below them."""
    if isinstance(value, (list, tuple)):
        for part in value:
            refuse_masked(name, part)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        where = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(value))[0])
        at = f" at position {where}" if where else ""
        raise ValueError(f"{name} has a masked entry{at}: fill it or leave it out")


def is_table(value: Any) -> bool:
    """Whether it is a table with named columns, such as a DataFrame."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def _is_column(value: Any) -> bool:
    """Whether it is a column of a table, such as a Series."""
    return hasattr(value, "isna") and hasattr(value, "to_numpy") and hasattr(value, "dtype")


def only_column(value: Any) -> Any:
    """The column of a table that has no other; anything else as it is."""
    if is_table(value) and len(value.columns) == 1:
        return value[value.columns[0]]
    return value


def row_labels(value: Any) -> Any:
    """The index of a table or a column; None for what has none."""
    index = getattr(value, "index", None)
    return index if hasattr(index, "equals") else None


def _table_values(name: str, table: Any) -> npt.NDArray[Any]:
    """The numbers of a table; a copy, unless all columns are of one of NumPy's kinds."""
    columns = column_names(name, table) or ()
    if all(isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in table.dtypes):
        values = np.asarray(table.to_numpy())
    else:
        values = np.column_stack([_numbers(name, column, table[column]) for column in columns])
    where = not_finite(values) if values.dtype.kind == "f" else None
    if where is not None:
        row, k = where
        raise ValueError(
            f"{name}, column {columns[k]!r}, has {values[where]} in row {row}: all must be finite"
        )
    return values


def _numbers(name: str, column: Any, given: Any) -> npt.NDArray[Any]:
    """The numbers of one column of a table."""
    values = _column_values(f"{name}, column {column!r},", given)
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"{name}, column {column!r}, holds {given.dtype}, not numbers: make them numbers, or "
            "leave the column out"
        )
    return values


def _column_values(name: str, column: Any) -> npt.NDArray[Any]:
    """The entries of a column, none of which may be missing."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return np.asarray(column.to_numpy())
    missing = np.asarray(column.isna())
    if missing.any():
        raise ValueError(
            f"{name} has no value (NA) in row {int(missing.argmax())}: fill it, or leave the row "
            "out"
        )
    return np.asarray(column.to_numpy(dtype=getattr(dtype, "numpy_dtype", None)))


def not_finite(array: npt.NDArray[Any]) -> tuple[int, ...] | None:
    """Where the first NaN or infinity is; None if there is none."""
    # A sum is finite unless an entry is not (or the sum overflows): one pass, no copy.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):
            return None
    bad = np.argwhere(~np.isfinite(array))
    return tuple(int(i) for i in bad[0]) if len(bad) else None


# --- names of columns -----------------------------------------------------------------------


def column_names(name: str, value: Any) -> Names | None:
    """The names of a table's columns, each of which stands once; None for what is no table."""
    if not is_table(value):
        return None
    names = tuple(value.columns)
    twice = [column for column, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{name} has more than one column {_listed(twice)}: rename them")
    return names


def in_order(name: str, value: Any, names: Names, whose: str) -> Any:
    """A table with its columns in the order of ``names``, which are those of ``whose``.

    What is no table has no names, and is taken to be in that order.
    """
    own = column_names(name, value)
    if own is None or own == names:
        return value
    mine = set(own)
    theirs = set(names)
    lacking = [column for column in names if column not in mine]
    added = [column for column in own if column not in theirs]
    differences = []
    if lacking:
        differences.append(f"lacks {_listed(lacking)}")
    if added:
        differences.append(f"has {_listed(added)} in addition")
    if differences:
        raise ValueError(
            f"{name} has other columns than {whose}: it {' and '.join(differences)}. If they are "
            "the same in the same order, give to_numpy() of both"
        )
    return value[list(names)]


def _listed(columns: list[Any]) -> str:
    """A few names, in words."""
    shown = ", ".join(repr(column) for column in columns[:5])
    return shown if len(columns) <= 5 else f"{shown} and {len(columns) - 5} more"
