"""Memories of many clients, of whom only those take space that have taken part."""

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.links.checks import Indices


def _close(files: list[Any]) -> None:
    for file in files:
        file.close()


class Rows:
    """A row of a few arrays for every client; of those never written, all the same one.

    Args:
        start: the first memory, a NamedTuple of arrays (1, d).
        clients: how many there are.
        folder: where the arrays live as files; None for in memory.
    """

    def __init__(self, start: Any, clients: int, folder: str | Path | None = None) -> None:
        self.start, self.kind = start, type(start)
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
        if self.files:
            if rows == 0:
                return np.empty(shape, first.dtype)
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
        if not len(self.start):
            return self.kind()
        rows = []
        for array, first in zip(self.arrays, self.start, strict=True):
            if new.all():
                rows.append(np.repeat(first, len(clients), axis=0))
                continue
            taken = np.asarray(array[np.where(new, 0, places)])
            if new.any():
                taken[new] = first
            rows.append(taken)
        return self.kind(*rows)

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

    def all(self) -> Any:
        """The rows of all clients."""
        return self.read(np.arange(len(self.place)))

    def state(self) -> dict[str, Any]:
        """All that was written."""
        clients = np.flatnonzero(self.place >= 0)
        return {"clients": clients, "rows": list(self.read(clients))}

    def load(self, state: dict[str, Any]) -> None:
        """Take that over."""
        self.write(state["clients"], self.kind(*state["rows"]))
