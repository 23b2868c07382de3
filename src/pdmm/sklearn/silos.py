"""The rows of one table, each with its client, taken apart into what every client holds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float64]
Whole: TypeAlias = npt.NDArray[np.int64]

SHOWN = 3  # rows that a message names


@dataclass(frozen=True)
class Split:
    """Which rows each client holds."""

    names: tuple[Any, ...] | None
    """The labels of the clients; None where nobody named any, and one client has all rows."""
    order: Whole | None
    """The rows, client by client; None where they stand in that order already."""
    starts: Whole
    """Where each client's rows begin in that order, and the end."""

    @property
    def count(self) -> int:
        """How many clients there are."""
        return len(self.starts) - 1

    def parts(self, rows: Any) -> list[Any]:
        """What each client holds of something that has one entry for each row."""
        if self.order is not None:
            rows = rows[self.order]
        if self.count == 1:
            return [rows]
        bounds = self.starts.tolist()
        return [rows[a:b] for a, b in pairwise(bounds)]

    def named(self, parts: Sequence[Any]) -> Any:
        """Parts as a problem takes them: by the names of the clients, so that errors have these."""
        if self.names is None:
            return list(parts)
        return dict(zip(self.names, parts, strict=True))

    def without(self, absent: Sequence[bool]) -> "Split":
        """The same for the clients that are left, which must be some."""
        left = [i for i in range(self.count) if not absent[i]]
        rows = np.arange(self.starts[-1]) if self.order is None else self.order
        own = [rows[self.starts[i] : self.starts[i + 1]] for i in left]
        names = None if self.names is None else tuple(self.names[i] for i in left)
        return Split(names, np.concatenate(own), np.append(0, np.cumsum([len(r) for r in own])))


def split_by(clients: Any, rows: int) -> Split:
    """Who holds which rows, from one label for each row; None is one client that holds all.

    Example:
        >>> split = split_by(["b", "a", "b"], rows=3)
        >>> split.names, [part.tolist() for part in split.parts(np.array([10, 20, 30]))]
        (('a', 'b'), [[20], [10, 30]])
    """
    if clients is None:
        return Split(None, None, np.array([0, rows]))
    labels = _labels(clients, rows)
    names, codes = _coded(labels)
    starts = np.append(0, np.cumsum(np.bincount(codes, minlength=len(names))))
    order = None
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
    return Split(names, order, starts)


def _labels(clients: Any, rows: int) -> npt.NDArray[Any]:
    """The labels, one for each row and none missing."""
    what = "clients must have one label for each row of X, for example the hospital it comes from"
    if isinstance(clients, str) or np.ndim(clients) == 0:
        raise ValueError(f"{what}; got {clients!r}. clients=None has one client hold all rows")
    if np.ndim(clients) != 1:
        raise ValueError(f"{what}; got an array of shape {np.shape(clients)}")
    labels = np.asarray(clients)
    if isinstance(clients, list | tuple) and labels.dtype.kind in "US":
        labels = np.array(clients, dtype=object)  # [1, "a"] are not two strings
    if len(labels) != rows:
        raise ValueError(f"{what}; X has {rows} rows and clients has {len(labels)} labels")
    missing = np.flatnonzero(_is_missing(labels))
    if len(missing):
        shown = ", ".join(str(row) for row in missing[:SHOWN].tolist())
        more = ", ..." if len(missing) > SHOWN else ""
        raise ValueError(
            f"clients has no label in {len(missing)} of {rows} rows (row {shown}{more}): leave "
            "these rows out, or give them a client of their own, for example 'unknown'"
        )
    return labels


def _is_missing(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "mM":
        return np.asarray(np.isnat(labels))
    if labels.dtype.kind != "O":
        return np.zeros(len(labels), dtype=bool)
    return np.array([_is_none(label) for label in labels], dtype=bool)


def _is_none(label: Any) -> bool:
    """Whether an object stands for nothing: None, NaN, NaT, and NA of pandas."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(np.isnan(label))


def _coded(labels: npt.NDArray[Any]) -> tuple[tuple[Any, ...], Whole]:
    """The clients' names, sorted where they can be, and the place of each row's client in them."""
    if labels.dtype.kind in "biufmM":
        values, codes = np.unique(labels, return_inverse=True)
        return tuple(values.tolist()), codes
    listed = labels.tolist()
    try:
        found = dict.fromkeys(listed)
    except TypeError:
        raise ValueError(
            "clients has labels that cannot be told apart, such as lists: give strings or numbers"
        ) from None
    names = tuple(_sorted(found))
    place = {name: i for i, name in enumerate(names)}
    return names, np.array([place[label] for label in listed], dtype=np.int64)


def _sorted(names: Iterable[Any]) -> list[Any]:
    """In order, or as they came where there is none: of strings and numbers, for example."""
    as_they_came = list(names)
    try:
        return sorted(as_they_came)
    except TypeError:
        return as_they_came
