"""What clients remember between rounds: of all of them, or of those that have taken part."""

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.engines.client_tables import Table
from pdmm.links.checks import Indices


class Memories(Protocol):
    """One row of a few arrays for each client."""

    def read(self, clients: Any) -> Any:
        """The rows of some clients."""

    def write(self, clients: Any, rows: Any) -> None:
        """New rows of some clients."""

    def table(self, first: int) -> Table:
        """All that was written; clients are counted from ``first``."""

    def load(self, table: Table, first: int) -> None:
        """Take that over."""


class EveryMemory:
    """Memories of clients that all take part: a row each, from the start.

    Args:
        rows: the first memories, a NamedTuple of arrays (clients, ...).
        clients: how many there are.
    """

    def __init__(self, rows: Any, clients: int) -> None:
        self.rows = rows
        self.clients = clients

    def read(self, clients: Any) -> Any:
        """The rows of some clients; of a slice, views that must not be changed."""
        return trees.rows(self.rows, clients)

    def write(self, clients: Any, rows: Any) -> None:
        """New rows of some clients; different threads may write different rows."""
        trees.put(self.rows, clients, rows)

    def table(self, first: int) -> Table:
        return Table(first + np.arange(self.clients), list(self.rows))

    def load(self, table: Table, first: int) -> None:
        self.rows = trees.build(self.rows, table.columns)


class LateMemory:
    """Memories of many clients, of whom only those take space that have taken part.

    Args:
        start: the first memory, a NamedTuple of arrays (1, ...).
        clients: how many there are.
        folder: where the arrays live as files; None for in memory.
    """

    def __init__(self, start: Any, clients: int, folder: str | Path | None = None) -> None:
        self.start = start
        self.place: npt.NDArray[np.int32] = np.full(clients, -1, dtype=np.int32)
        self.used = 0
        self.files: list[Any] = []
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            # Files without a name: they are gone with the process, whatever ends it.
            self.files = [tempfile.TemporaryFile(dir=folder) for _ in start]  # noqa: SIM115
            weakref.finalize(self, _close, self.files)
        self.arrays = [self._room(k, 0) for k in range(len(start))]

    def _room(self, k: int, rows: int) -> npt.NDArray[Any]:
        """Space for so many rows of field k, those in use kept."""
        first = self.start[k]
        shape = (rows, *first.shape[1:])
        if self.files and rows == 0:
            return np.empty(shape, first.dtype)
        if self.files:
            size = int(np.prod(shape)) * first.dtype.itemsize
            os.ftruncate(self.files[k].fileno(), size)
            return np.memmap(self.files[k], dtype=first.dtype, mode="r+", shape=shape)
        grown = np.empty(shape, first.dtype)
        if self.used:
            grown[: self.used] = self.arrays[k][: self.used]
        return grown

    def read(self, clients: Indices) -> Any:
        """The rows of some clients."""
        places = self.place[clients]
        new = places < 0
        rows = [
            _taken(array, first, places, new)
            for array, first in zip(self.arrays, self.start, strict=True)
        ]
        return trees.build(self.start, rows)

    def write(self, clients: Indices, rows: Any) -> None:
        """New rows of some clients."""
        if not len(self.start):
            return
        new = clients[self.place[clients] < 0]
        need = self.used + len(new)
        if need > len(self.arrays[0]):
            room = max(need, min(2 * len(self.arrays[0]), len(self.place)))
            self.arrays = [self._room(k, room) for k in range(len(self.arrays))]
        self.place[new] = np.arange(self.used, need)
        self.used = need
        places = self.place[clients]
        for array, values in zip(self.arrays, rows, strict=True):
            array[places] = values

    def table(self, first: int) -> Table:
        clients = np.flatnonzero(self.place >= 0)
        return Table(first + clients, list(self.read(clients)))

    def load(self, table: Table, first: int) -> None:
        self.write(table.clients - first, table.columns)


def _taken(
    array: Any, first: Any, places: npt.NDArray[np.int32], new: npt.NDArray[np.bool_]
) -> Any:
    """Rows of an array; those that were never written are all the same one."""
    if new.all():
        return np.repeat(first, len(places), axis=0)
    taken = np.asarray(array[np.where(new, 0, places)])
    if new.any():
        taken[new] = first
    return taken


def _close(files: list[Any]) -> None:
    for file in files:
        file.close()
