"""What kinds of columns there are: each client's own, those agreed on, and how to read them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

Kind: TypeAlias = Literal["float", "int", "bool", "label"]

NUMBERS = ("float", "int", "bool")
WORDS = {
    "text": "words",
    "mixed": "entries of several kinds",
    "date": "dates",
    "bool": "true/false",
}


class Column(NamedTuple):
    """What a client says of one of its columns: nothing of any row."""

    kind: str
    """"float", "int", "bool", "label" (a category), "text", "digits" (text that says numbers),
    "date", "mixed" or "empty"."""
    missing: int
    """How many rows have no entry."""
    order: tuple[Any, ...] | None = None
    """Of a category, all its levels in their order."""


class Agreed(NamedTuple):
    """What all clients read a column as."""

    kind: Kind
    order: tuple[Any, ...] | None = None
    """Of a category, the order of its levels, where all clients have the same."""


def describe(column: "pd.Series[Any]") -> Column:
    """What a client says of a column."""
    missing = int(column.isna().sum())
    if missing == len(column):
        return Column("empty", missing)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return Column("label", missing, tuple(column.dtype.categories.tolist()))
    return Column(_kind(column), missing)


def _kind(column: "pd.Series[Any]") -> str:
    if column.dtype in (np.float64, np.int64, np.bool_):
        return {"f": "float", "i": "int", "b": "bool"}[column.dtype.kind]
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    if inferred == "string":
        numbers = pd.to_numeric(column.dropna(), errors="coerce")
        return "digits" if bool(numbers.notna().all()) else "text"
    kinds = {
        "boolean": "bool",
        "integer": "int",
        "floating": "float",
        "mixed-integer-float": "float",
        "decimal": "float",
    }
    if inferred in kinds:
        return kinds[inferred]
    return "date" if "date" in inferred or "time" in inferred else "mixed"


def agree(name: str, each: Mapping[str, Column]) -> Agreed:
    """What all clients are to read a column as, from what each says of it.

    Args:
        name: of the column.
        each: what each client says.
    """
    kinds = {client: column.kind for client, column in each.items() if column.kind != "empty"}
    if not kinds:
        raise ValueError(f"column {name!r} has no entry at any client")
    for client, kind in kinds.items():
        if kind in ("date", "mixed"):
            raise ValueError(
                f"column {name!r} of client {client!r} holds {WORDS[kind]}: make it numbers or text"
            )
    found = set(kinds.values())
    if found <= {"float", "int", "bool", "digits"} and found != {"digits"}:
        if found == {"bool"}:
            return Agreed("bool")
        return Agreed("int" if found <= {"int", "bool"} else "float")
    if found <= {"text", "digits", "label"}:
        return Agreed("label", _order(each))
    if "label" in found and found <= {"label", "int", "float"}:
        return Agreed("label", _order(each))
    raise ValueError(_mixture(name, kinds))


def _mixture(name: str, kinds: Mapping[str, str]) -> str:
    words = [client for client, kind in kinds.items() if kind in ("text", "label")]
    others = [client for client, kind in kinds.items() if kind not in ("text", "label")]
    return (
        f"column {name!r} holds words at client {words[0]!r} and numbers at client {others[0]!r}: "
        "it must be one or the other everywhere"
    )


def _order(each: Mapping[str, Column]) -> tuple[Any, ...] | None:
    orders = {column.order for column in each.values() if column.kind != "empty"}
    return orders.pop() if len(orders) == 1 else None


def read_as(column: "pd.Series[Any]", agreed: Agreed) -> "pd.Series[Any]":
    """A column in the agreed kind, with NaN or None where there is no entry.

    New rows may have 1.5 where those of the fit were all whole numbers: such a column stays float.
    """
    if agreed.kind == "float" and column.dtype == np.float64:
        return column
    if agreed.kind == "label":
        return column.astype(object).where(column.notna(), None)
    numbers = pd.to_numeric(column.astype(object) if _boxed(column) else column, errors="coerce")
    if agreed.kind == "bool" and bool(numbers.isin((0, 1)).all()):
        return numbers.astype(bool, copy=False)
    if agreed.kind == "int" and _whole(numbers):
        return numbers.astype(np.int64, copy=False)
    return numbers.astype(np.float64, copy=False)


def _whole(numbers: "pd.Series[Any]") -> bool:
    return numbers.dtype.kind in "iub" or bool((numbers % 1 == 0).all())


def refuse_other(name: str, column: "pd.Series[Any]", agreed: Agreed) -> None:
    """Raise where a column of new rows holds what no row of the fit did."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.categories.to_series()
    kind = describe(column).kind
    unlike = ("date", "mixed") if agreed.kind == "label" else ("date", "mixed", "text")
    if kind in unlike:
        fitted = "words" if agreed.kind == "label" else "numbers"
        raise ValueError(
            f"column {name!r} of the table holds {WORDS[kind]}, and the model was fitted to "
            f"{fitted}"
        )


def _boxed(column: "pd.Series[Any]") -> bool:
    """Whether its dtype is one of pandas' own, which have a missing value of their own."""
    return bool(pd.api.types.is_extension_array_dtype(column.dtype))


def sorted_levels(levels: Sequence[Any], order: Sequence[Any] | None) -> list[Any]:
    """Levels in the order of the category, or by size, or in the alphabet."""
    found = set(levels)
    if order is not None and found <= set(order):
        return [level for level in order if level in found]
    try:
        return sorted(found)
    except TypeError:
        return sorted(found, key=lambda level: (str(type(level)), str(level)))
