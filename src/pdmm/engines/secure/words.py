"""Sums in 64-bit words: what each adds, and what is read of all of them together.

A number v is sent as the whole number nearest to v 2^k. Whole numbers add up modulo 2^64, where
masks cancel. Beside the numbers travel counts: of how many parts each number fits its scale, how
well, or not at all. They are added up in the same way, so that nobody learns whose part it was.
Where a part does not fit, the word is a random one: the sum of the parts that do fit would tell
that part, by subtraction, once all fit.

The words of a sum are: the count of those who added; one word for each number; the counts, eight to
a lane of 16, 32 or 64 bits.
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float64]
Words: TypeAlias = npt.NDArray[np.uint64]
Whole: TypeAlias = npt.NDArray[np.int64]
Levels: TypeAlias = npt.NDArray[np.int8]

FURTHEST = 1000  # the largest power of two of a scale, either way
LARGEST = 1e150  # a part that is larger cannot be squared
TOP = 62  # bits of a sum, without its sign and one to spare
NOTHING = -1  # the level of a part that is 0 and so fits every scale
GROUP = 8  # levels of one lane
MOST_SITES = 255
LANES = ((3, 2, np.uint16), (15, 4, np.uint32), (MOST_SITES, 8, np.uint64))

FINE = (-24, -16, -12, -8, 0, 16)
"""Level i is of parts that have up to so many bits more than there is room for. Negative: room is
left. The last level is of parts that have more, and one beyond it of what is no number. Steps are
small where a scale is about right, so that it can be moved before it is wrong."""

LONG = tuple(range(-512, 513, 16))
"""The same, where nothing is known of a number yet."""


def capacity(addends: int) -> int:
    """Bits of one part, if so many of them must fit into a word together."""
    return TOP - int(addends).bit_length()


class Read(NamedTuple):
    """A sum, or a part of one, and how well it fits its scales."""

    whole: Whole
    """(size,): whole numbers; nothing where a part does not fit."""
    levels: Levels
    """(size,): of the largest part; NOTHING where all are 0."""

    @classmethod
    def joined(cls, parts: "Sequence[Read]") -> "Read":
        """Some numbers after the others."""
        return cls(
            np.concatenate([part.whole for part in parts]),
            np.concatenate([part.levels for part in parts]),
        )

    def plus(self, other: "Read") -> "Read":
        """The sum of two parts of the same numbers."""
        return Read(self.whole + other.whole, np.maximum(self.levels, other.levels))


class Encoded(NamedTuple):
    """Numbers of some clients as whole ones."""

    rows: Whole
    """(rows, size): those of each client; 0 where one does not fit."""
    levels: Levels
    """(size,): of the largest of them."""

    @property
    def part(self) -> "Read":
        """What they add to a sum."""
        return Read(np.asarray(self.rows.sum(axis=0)), self.levels)


def encoded(values: Vector, k: npt.NDArray[np.int16], room: int, long: bool) -> Encoded:
    """Numbers as whole ones.

    Args:
        values: (rows, size): those of each client.
        k: (size,): the scales, as powers of two.
        room: bits that there are.
        long: whether to tell levels from the long list.
    """
    edges = np.asarray(LONG if long else FINE)
    top = np.abs(values).max(axis=0, initial=0.0)
    good = top <= LARGEST  # which no NaN is
    finite = values
    if not good.all():
        finite = np.where(np.abs(values) <= LARGEST, values, 0.0)
        top = np.abs(finite).max(axis=0, initial=0.0)
    over = np.frexp(top)[1] + k - room
    levels = np.searchsorted(edges, over).astype(np.int8)
    levels[top == 0] = NOTHING
    levels[~good] = len(edges) + 1
    scale = _powers(k)
    fits = levels <= last_that_fits(long)
    if not fits.all():
        scale = np.where(fits, scale, 0.0)
    whole = finite * scale
    return Encoded(np.rint(whole, out=whole).astype(np.int64), levels)


_POWERS = np.ldexp(1.0, np.arange(-FURTHEST, FURTHEST + 1))


def _powers(k: npt.NDArray[np.int16]) -> Vector:
    """2^k, from a table: many times as fast as to work it out."""
    return np.asarray(_POWERS.take(k + np.int16(FURTHEST)))


def decoded(rows: Whole, k: npt.NDArray[np.int16]) -> Vector:
    """The numbers that whole ones stand for."""
    return np.asarray(rows * _powers(-k))


def last_that_fits(long: bool) -> int:
    """The highest level of parts that fit their scale."""
    return (LONG if long else FINE).index(0)


def _lane(sites: int) -> tuple[int, type[np.unsignedinteger]]:
    for most, bits, kind in LANES:
        if sites <= most:
            return bits, kind
    raise ValueError(f"secure sums are for up to {MOST_SITES} sites, got {sites}")


def _groups(long: bool) -> int:
    levels = len(LONG if long else FINE) + 2
    return -(-levels // GROUP)


def words_of(size: int, sites: int, long: bool) -> int:
    """How many words the sum of so many numbers has."""
    _, kind = _lane(sites)
    lanes = np.dtype(kind).itemsize * size * _groups(long)
    return 1 + size + -(-lanes // 8)


def packed(part: Read, sites: int, long: bool) -> Words:
    """What one site adds to a sum of so many sites, as words."""
    size = len(part.levels)
    bits, kind = _lane(sites)
    groups = _groups(long)
    ones = np.left_shift(np.ones(GROUP, dtype=kind), np.arange(0, bits * GROUP, bits, dtype=kind))
    of_level = np.zeros((1 + GROUP * groups, groups), dtype=kind)
    each = np.arange(GROUP * groups)
    of_level[1 + each, each // GROUP] = ones[each % GROUP]  # the first is that of NOTHING
    lanes = of_level.take(part.levels + np.int8(1), axis=0)
    found = np.zeros(words_of(size, sites, long), dtype=np.uint64)
    found[0] = 1
    found[1 : 1 + size] = part.whole.view(np.uint64)
    unfit = np.flatnonzero(part.levels > last_that_fits(long))
    if len(unfit):
        found[1 + unfit] = np.frombuffer(secrets.token_bytes(8 * len(unfit)), dtype=np.uint64)
    flat = found[1 + size :].view(kind)
    flat[: lanes.size] = lanes.reshape(-1)
    return found


def unpacked(total: Words, size: int, sites: int, long: bool) -> Read:
    """Take a sum apart; a ValueError if it is not that of so many sites."""
    if total.shape != (words_of(size, sites, long),) or int(total[0]) != sites:
        raise ValueError(
            "what the sites sent does not add up: they were asked different things, or a message "
            "was changed on its way"
        )
    bits, kind = _lane(sites)
    groups = _groups(long)
    lanes = total[1 + size :].view(kind)[: size * groups].reshape(size, groups)
    levels = np.full(size, NOTHING, dtype=np.int8)
    mask = kind(2**bits - 1)
    for group in range(groups):
        lane = np.ascontiguousarray(lanes[:, group])
        some = int(np.bitwise_or.reduce(lane, initial=0))
        for place in range(GROUP):
            here = kind(int(mask) << bits * place)
            if some & int(here):
                levels[lane & here != 0] = group * GROUP + place
    return Read(total[1 : 1 + size].view(np.int64), levels)
