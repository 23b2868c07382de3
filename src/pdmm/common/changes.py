"""Noticing that data were changed after something was made from them."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, nbytes, parts
from pdmm.common.threads import Threads

LARGE = 2**26  # bytes that several threads read sooner than one
CHUNK = 2**20  # bytes that are copied at a time, of arrays that are not in one piece


class Watched:
    """An argument's arrays, one a client, and what they were when it was made.

    They stay the user's own: nothing is copied. A checksum of every byte is compared.

    Args:
        arrays: dense or sparse.
        label: names the argument and the i-th client.
    """

    def __init__(self, arrays: Sequence[Matrix], label: Callable[[int], str]) -> None:
        self.arrays = arrays
        self.label = label
        self._before = self._checksums()

    def __getstate__(self) -> dict[str, Any]:
        self.check()
        return {"arrays": self.arrays, "label": self.label}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._before = self._checksums()  # a copy may lie in memory in another order

    def check(self) -> None:
        """Refuse arrays that are not what they were."""
        now = self._checksums()
        if now == self._before:
            return
        i = next(i for i, then in enumerate(self._before) if then != now[i])
        raise ValueError(
            f"{self.label(i)} was changed after the problem was made, from which L, mu and more "
            "may be known already: make a new problem from the new data"
        )

    def _checksums(self) -> list[int]:
        if nbytes(self.arrays[0]) * len(self.arrays) < LARGE:
            return [checksum(array) for array in self.arrays]
        with Threads() as threads:
            return list(threads.map(checksum, self.arrays))


def checksum(matrix: Matrix) -> int:
    """A number that changes with every byte of a dense or sparse matrix."""
    found = 0
    for array in parts(matrix):
        if array.flags.c_contiguous:
            found = zlib.crc32(array.data, found)
        elif array.flags.f_contiguous:
            found = zlib.crc32(array.T.data, found)
        else:
            found = _of_scattered(array, found)
    return found


def _of_scattered(array: npt.NDArray[Any], found: int) -> int:
    """The checksum of an array that is not in one piece, a copy of a few rows at a time."""
    rows = max(1, CHUNK // max(1, array[:1].nbytes))
    for i in range(0, len(array), rows):
        found = zlib.crc32(np.ascontiguousarray(array[i : i + rows]).data, found)
    return found
