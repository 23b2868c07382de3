"""The scales of a sum: a power of two for each number, which follows the largest part.

From the largest part, not from the sum: parts of 4 may add up to 4e-15. A part that does not fit
has the sum asked for again at another scale, and so has one that is far too small for its scale,
where the sum must be precise. All else changes the scales of the next sum.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length
from pdmm.engines.secure.layout import Layout, Vector
from pdmm.engines.secure.words import (
    FINE,
    FURTHEST,
    LONG,
    Read,
    Whole,
    capacity,
    decoded,
)

Powers: TypeAlias = npt.NDArray[np.int16]
Flags: TypeAlias = npt.NDArray[np.bool_]

SPARE = 8  # bits that the first scale leaves for parts that grow
MOST_TRIES = 10  # exchanges for one sum
PRECISE = 16  # bits to spare beyond which a sum that must be precise is asked for again
LOOSE = 24  # the same of a change: more bits to spare leave less than 1e-10


def doubted(arrays: Mapping[str, Any], layout: Layout, k: Powers) -> dict[str, Any]:
    """Parts of a sum whose doubt about a gradient has what rounding adds to it.

    Args:
        arrays: those of one site, or of a client.
        layout: what the sum is of.
        k: the scales.
    """
    found = dict(arrays)
    if "gradient" in found and "doubt" in found:
        grain = layout.arrays(np.ldexp(0.5, -k.astype(np.int64)))["gradient"]
        found["doubt"] = found["doubt"] + length(grain)
    return found


class Moves(NamedTuple):
    """What each level of a list says of its number's scale; the first level is NOTHING."""

    failed: Flags
    """A part does not fit."""
    vague: Flags
    """Too few digits are left, where each sum must be precise."""
    too_vague: Flags
    """Too few digits are left even of a change."""
    again: Powers
    """By how much a scale moves before the same question is asked again: the part then fits."""
    drift: Powers
    """By how much it moves before the next one: parts may then grow and shrink by four bits."""
    ends: Flags
    """Where the list ends, and the right scale may be far away."""


def _moves(edges: Sequence[int]) -> Moves:
    above = np.array([0, *edges, edges[-1] + 16, 0])  # bits over, at most
    below = np.array([0, -FURTHEST, *edges, 0])  # bits over, at least
    known = np.array([False, *(True for _ in edges), True, False])  # neither nothing nor no number
    drift = np.select([below >= -SPARE, below >= -12, above <= -12], [-4, 0, -above - 8], 0)
    narrow = np.asarray(above - below <= 8)
    return Moves(
        failed=known & (above > 0),
        vague=known & (below < -PRECISE),
        too_vague=known & (below < -LOOSE),
        again=np.where(known, -above, 0).astype(np.int16),
        drift=np.where(known & narrow, drift, 0).astype(np.int16),
        ends=known & ((below == -FURTHEST) | (above > edges[-1])),
    )


MOVES = {False: _moves(FINE), True: _moves(LONG)}


class AllScales:
    """The scales of every kind of sum in a run.

    Args:
        addends: how many parts a sum has at most.
    """

    def __init__(self, addends: int) -> None:
        self.addends = addends
        self._known: dict[Any, Scales] = {}

    def of(self, kind: str, layout: Layout) -> "Scales":
        """Those of a kind of sum, as they are by now."""
        key = kind, tuple((part.name, part.shape) for part in layout.parts)
        if key not in self._known:
            self._known[key] = Scales(layout, self.addends)
        return self._known[key]


class Scales:
    """The scales of one kind of sum.

    Args:
        layout: what the sum is of.
        addends: how many parts there are at most.
    """

    def __init__(self, layout: Layout, addends: int) -> None:
        self.layout = layout
        self.room = capacity(addends)
        self.k: Powers = np.full(layout.size, self.room - SPARE, dtype=np.int16)
        self.long = True
        """Whether the next sum has the long list of levels."""

    def take(self, read: Read) -> Vector | None:
        """The sums, or None where they must be asked for again at the new scales."""
        moves = MOVES[self.long]
        levels = read.levels + np.int8(1)
        wrong = moves.failed[levels]
        vague = np.where(self.layout.precise, moves.vague[levels], moves.too_vague[levels])
        closer = self._moved(moves.again[levels])
        wrong |= vague & (closer != self.k)
        if wrong.any():
            self.k = np.where(wrong, closer, self.k)
            self.long = bool(moves.ends[levels][wrong].any())
            return None
        old = self.k
        self.k = self._moved(moves.drift[levels])
        self.long = False
        return self._numbers(read.whole, old, levels == len(moves.ends) - 1)

    def _moved(self, shift: Powers) -> Powers:
        return np.asarray(np.clip(self.k + shift, -FURTHEST, FURTHEST), dtype=np.int16)

    def _numbers(self, whole: Whole, k: Powers, beyond: npt.NDArray[np.bool_]) -> Vector:
        found = decoded(whole, k)
        return np.where(beyond, self.layout.beyond, found) if beyond.any() else found
