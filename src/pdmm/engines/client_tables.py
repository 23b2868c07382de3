"""What belongs to single clients, as tables with their numbers: it can be split and joined."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt


class Table(NamedTuple):
    """A few arrays with a row for each of some clients, in increasing order."""

    clients: npt.NDArray[Any]
    columns: list[npt.NDArray[Any]]


Tables: TypeAlias = dict[str, Table]


def joined(parts: Sequence[Tables], own: slice) -> Tables:
    """The rows of some clients, out of the tables of others that together have them all."""
    result = {}
    for name in parts[0]:
        tables = [_cut(part[name], own) for part in parts]
        tables = [table for table in tables if len(table.clients)] or tables[:1]
        columns = zip(*(table.columns for table in tables), strict=True)
        result[name] = Table(
            np.concatenate([table.clients for table in tables]),
            [np.concatenate(column) for column in columns],
        )
    return result


def _cut(table: Table, own: slice) -> Table:
    rows = (table.clients >= own.start) & (table.clients < own.stop)
    if rows.all():
        return table
    return Table(table.clients[rows], [column[rows] for column in table.columns])
