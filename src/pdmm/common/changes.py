"""Noticing that data were changed after something was made from them."""

import zlib
from collections.abc import Callable, Iterable
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

    def __init__(self, arrays: Iterable[Matrix], label: Callable[[int], str]) -> None:
        self.arrays = arrays
        self.label = label
        self.before = _checksums(arrays)

    def __getstate__(self) -> dict[str, Any]:
        self.check()
        return {"arrays": self.arrays, "label": self.label}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A copy may lie in memory in another order, which is none of its contents.
        self.__dict__.update(state)
        self.before = _checksums(self.arrays)

    def check(self) -> None:
        """Refuse arrays that are not what they were."""
        now = _checksums(self.arrays)
        for i, (then, found) in enumerate(zip(self.before, now, strict=True)):
            if then != found:
                raise ValueError(
                    f"{self.label(i)} was changed after the problem was made, from which L, mu "
                    "and more may be known already: make a new problem from the new data"
                )


def _checksums(arrays: Iterable[Matrix]) -> list[int]:
    listed = list(arrays)
    if sum(map(nbytes, listed)) < LARGE:
        return [checksum(array) for array in listed]
    with Threads() as threads:
        return list(threads.map(checksum, listed))


def checksum(matrix: Matrix) -> int:
    """A number that changes with every byte; it does not depend on where in memory they are."""
    found = 0
    for array in parts(matrix):
        found = _added(array, found)
    return found


def _added(array: npt.NDArray[Any], found: int) -> int:
    if array.flags.f_contiguous:
        array = array.T
    if array.flags.c_contiguous:
        return zlib.crc32(array.data, found)
    rows = max(1, CHUNK // max(1, array[:1].nbytes))
    for i in range(0, len(array), rows):
        found = zlib.crc32(np.ascontiguousarray(array[i : i + rows]).data, found)
    return found
