"""What users give for each client: a list, a dict of sites or one stacked array, made arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.arrays import Names, as_array, column_names, in_order, only_column, row_labels
from pdmm.common.changes import Watched
from pdmm.common.checks import Floats, PerClient, floats
from pdmm.common.matrices import largest_entry, sparse_rows

PIECES = 16  # of one array for all clients, which are read by different threads


@dataclass(frozen=True)
class Label:
    """The name of an argument that has an entry for each client, for messages."""

    name: str
    sites: list[Any] | None = None
    """The keys of a dict, by which clients were named."""

    def __call__(self, i: int) -> str:
        """The argument, and the i-th client."""
        key = i if self.sites is None else self.sites[i]
        return f"{self.name}[{key!r}] (client {i})"


@dataclass(frozen=True)
class RowLabel:
    """The name of an argument with a row for each client, for messages."""

    name: str
    count: int = 1

    def __call__(self, i: int) -> str:
        return self.name if self.count == 1 else f"{self.name}[{i}] (client {i})"


@dataclass(frozen=True)
class Given:
    """What the user gave for each client."""

    label: Label
    values: Any
    """A list of what was given for each client, or one array with clients first."""

    @property
    def name(self) -> str:
        """Of the argument."""
        return self.label.name

    @property
    def stacked(self) -> bool:
        """Whether it is one array of numbers."""
        return isinstance(self.values, np.ndarray) and self.values.dtype != object


def given(name: str, values: Any) -> Given:
    """What the user gave for each client, if it has that form."""
    sites = None
    if isinstance(values, Mapping):
        sites = list(values)
        values = list(values.values())
    single = isinstance(values, str) or (isinstance(values, np.ndarray) and values.ndim == 0)
    if single or not isinstance(values, (Sequence, np.ndarray)):
        raise ValueError(
            f"{name} must be a list of arrays, one a client, got {type(values).__name__}"
        )
    found = Given(Label(name, sites), values)
    if not found.stacked and len(values) == 0:
        raise ValueError(f"{name} is empty: at least one client is needed")
    return found


def alongside(first: Given, second: Given) -> Given:
    """The second argument with its clients in the order of the first one's, if both have names."""
    order = first.label.sites
    sites = second.label.sites
    if order is None and sites is None:
        return second
    if order is None or sites is None:
        by_name, by_number = (second, first) if order is None else (first, second)
        raise ValueError(
            f"{by_name.name} is a dict and {by_number.name} is not: give both as dicts with the "
            "same keys, or both as lists"
        )
    _check_sites(first.name, order, second.name, sites)
    _check_sites(second.name, sites, first.name, order)
    of_site = dict(zip(sites, second.values, strict=True))
    return Given(Label(second.name, order), [of_site[site] for site in order])


def _check_sites(name: str, sites: list[Any], other: str, others: list[Any]) -> None:
    known = set(others)
    for site in sites:
        if site not in known:
            raise ValueError(f"{name} has the key {site!r}, which {other} has not")


def check_same_count(first: Given, arrays: Any, second: Given, others: Any) -> None:
    """Refuse two arguments of which one has more clients."""
    if len(arrays) != len(others):
        raise ValueError(
            f"{first.name} has {len(arrays)} clients and {second.name} has {len(others)}: they "
            "must be the same"
        )


def check_same_rows(first: Given, second: Given) -> None:
    """Refuse tables and columns whose rows are labelled, and not alike."""
    if first.stacked or second.stacked:
        return
    for i, (one, other) in enumerate(zip(first.values, second.values, strict=True)):
        refuse_other_rows(first.label(i), one, second.label(i), other)


def refuse_other_rows(name: str, value: Any, other_name: str, other: Any) -> None:
    """Refuse two that have row labels, equally many and not the same: they may not go together."""
    index = row_labels(value)
    other_index = row_labels(other)
    if index is None or other_index is None or len(index) != len(other_index):
        return
    if not index.equals(other_index):
        raise ValueError(
            f"{name} and {other_name} have different row labels (index), so that their rows may "
            "not belong together: bring them into one order, or give to_numpy() of both if they do"
        )


def aligned(tables: Given) -> tuple[Given, Names | None]:
    """The clients' tables with columns in one order, and their names; None if none has names.

    The order is that of the first client that names its columns. Arrays have no names: they are
    taken to be in the order that all tables have, and refused where tables differ.
    """
    if tables.stacked:
        return tables, None
    names = [column_names(tables.label(i), table) for i, table in enumerate(tables.values)]
    named = [i for i, own in enumerate(names) if own is not None]
    if not named:
        return tables, None
    first = named[0]
    order = names[first]
    assert order is not None
    whose = tables.label(first)
    ordered = [
        in_order(tables.label(i), table, order, whose) for i, table in enumerate(tables.values)
    ]
    moved = [i for i in named if names[i] != order]
    if moved and len(named) < len(names):
        nameless = next(i for i, own in enumerate(names) if own is None)
        raise ValueError(
            f"{tables.label(moved[0])} has its columns in another order than {whose}, and "
            f"{tables.label(nameless)} does not name its columns, so that nobody knows in which "
            "order they are: give tables with names, or arrays, for all clients"
        )
    return Given(tables.label, ordered), order


# --- as arrays ------------------------------------------------------------------------------


def read_matrices(tables: Given) -> PerClient:
    """The clients' matrices (n, d), dense or sparse, checked one by one."""
    if tables.stacked:
        return _stack(tables, tables.values, 2, np.float64)
    return [_matrix(tables.label(i), value) for i, value in enumerate(tables.values)]


def _matrix(label: str, value: Any) -> Floats:
    if sparse.issparse(value):
        matrix: Floats = sparse_rows(label, value)
    else:
        matrix = floats(label, value, 2)
    _check_not_empty(label, matrix)
    return matrix


def read_targets(columns: Given, whole_as: np.dtype[Any]) -> PerClient:
    """The clients' vectors (n,), checked one by one; (n, 1) is taken for (n,)."""
    if columns.stacked:
        values = columns.values
        flat = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values
        return _stack(columns, flat, 1, whole_as)
    return [_target(columns.label(i), v, whole_as) for i, v in enumerate(columns.values)]


def _target(label: str, value: Any, whole_as: np.dtype[Any]) -> Floats:
    vector = floats(label, as_vector(label, value), 1, whole_as)
    _check_not_empty(label, vector)
    return vector


def as_vector(label: str, value: Any) -> npt.NDArray[Any]:
    """What was given, as an array; (n, 1) is taken for (n,)."""
    array = as_array(label, only_column(value))
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    return array


def _stack(argument: Given, values: Any, ndim: int, whole_as: Any) -> PerClient:
    """One array of all clients."""
    name = argument.name
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
        return [floats(argument.label(i), v, ndim, whole_as) for i, v in enumerate(values)]


def _check_not_empty(label: str, array: Any) -> None:
    if 0 in array.shape:
        raise ValueError(f"{label} is empty: every client needs a sample")


def same_dtype(*arguments: tuple[Label, PerClient]) -> np.dtype[Any]:
    """The one dtype that all the arrays share."""
    first_label, first_arrays = arguments[0]
    first = first_arrays[0].dtype
    for label, arrays in arguments:
        for i, array in enumerate(arrays[:1] if isinstance(arrays, np.ndarray) else arrays):
            if array.dtype != first:
                raise ValueError(
                    f"{label(i)} is {array.dtype}, but {first_label(0)} is {first}: give all data "
                    "in one dtype"
                )
    return np.dtype(first)


def same_columns(label: Label, arrays: PerClient) -> int:
    """The number of columns that all matrices share."""
    first = int(arrays[0].shape[1])
    for i, matrix in enumerate(arrays):
        if matrix.shape[1] != first:
            raise ValueError(
                f"{label(i)} has {matrix.shape[1]} columns, but {label(0)} has {first}"
            )
    return first


def sizes(arrays: PerClient) -> npt.NDArray[np.float64]:
    """Each client's largest absolute entry."""
    if not isinstance(arrays, np.ndarray):
        return np.array([largest_entry(array) for array in arrays])
    others = tuple(range(1, arrays.ndim))
    largest = np.maximum(arrays.max(others), -arrays.min(others))
    return np.asarray(largest, dtype=np.float64)


def watch(label: Label, arrays: PerClient) -> Watched:
    """Notice if the arrays are changed; of one array for all clients, only that it was."""
    if not isinstance(arrays, np.ndarray):
        return Watched(arrays, label)
    pieces = np.array_split(arrays, min(len(arrays), PIECES))
    return Watched(pieces, RowLabel(label.name))
