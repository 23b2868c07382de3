"""The scales of a sum: a power of two for each number, which follows the largest part.

From the largest part, not from the sum: parts of 4 may add up to 4e-15. A part that does not fit
has the sum asked for again at another scale, and so has one that is far too small for its scale,
where the sum must be precise. All else changes the scales of the next sum.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length
from pdmm.engines.secure.layout import Layout, Vector
from pdmm.engines.secure.words import (
    FINE,
    FURTHEST,
    LONG,
    NOTHING,
    Read,
    Whole,
    capacity,
    decoded,
    last_that_fits,
)

Powers: TypeAlias = npt.NDArray[np.int16]

SPARE = 8  # bits that a new scale leaves for parts that grow
MOST_TRIES = 10  # exchanges for one sum
LOOSE = 24  # bits to spare beyond which a change, too, is asked for again: fewer leave 1e-10


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
        edges = np.asarray(LONG if self.long else FINE)
        tight = last_that_fits(self.long)
        last = len(edges)
        levels = read.levels
        if (levels == tight).all():  # as it mostly is
            self.long = False
            return decoded(read.whole, self.k)
        usable = levels <= last
        moved = usable & (levels != NOTHING) & (levels != tight)
        bound = np.append(edges, edges[-1] + 16)[np.clip(levels, 0, last)]
        shift = np.where(moved, -bound - SPARE, 0)
        k = np.clip(self.k + shift, -FURTHEST, FURTHEST).astype(np.int16)
        changed = k != self.k
        failed = usable & (levels > tight)
        spare = np.append(-FURTHEST, edges)[np.clip(levels, 0, last)]  # less is none of the level
        least = np.where(self.layout.precise, 0, -LOOSE)
        vague = moved & changed & (spare < least) & (levels < tight)
        again = bool(failed.any() or vague.any())
        ends = (levels == 0) | (levels == last)
        old = self.k
        self.k = k
        self.long = again and bool((ends & moved & (failed | vague)).any())
        if again:
            return None
        return self._numbers(read.whole, old, ~usable)

    def _numbers(self, whole: Whole, k: Powers, beyond: npt.NDArray[np.bool_]) -> Vector:
        found = decoded(whole, k)
        return np.where(beyond, self.layout.beyond, found) if beyond.any() else found
