"""What the gradients of a run show of the clients' L and mu: secants between successive ones."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import Floats
from pdmm.common.rounding import length

Vector = npt.NDArray[np.float64]

NOISE = 1e-6  # of the terms of a gradient, relative: it may have been computed in float32


class Secant(NamedTuple):
    """What two points and their gradients say of a function, dx and dg being the differences."""

    steep: float
    """‖dg‖/‖dx‖, which L is at least."""
    bend: float
    """dg·dx/‖dx‖², which mu is at most."""
    doubt: float
    """How far rounding may have moved the bend."""


def secant(x: Vector, g: Vector, y: Vector, h: Vector, terms: float = 0.0) -> Secant | None:
    """The secant between the points x and y, of which g and h are the gradients.

    None if the secant tells nothing: the points or the gradients are too close for their
    precision, or a number is not finite.

    Args:
        x: a point.
        g: the gradient there.
        y: another point.
        h: the gradient there.
        terms: the size of what cancels in a gradient, as far as it is known.
    """
    dx = x - y
    dg = g - h
    apart = length(dx)
    change = length(dg)
    noise = NOISE * (length(g) + length(h) + terms)
    enough = 1e-9 * length(x) < apart < np.inf
    if not (enough and noise < change < np.inf):
        return None
    return Secant(
        steep=change / apart,
        bend=float((dg / change) @ (dx / apart)) * (change / apart),
        doubt=noise / apart,
    )


class Shown:
    """What gradients have shown of the L_i and mu_i of some clients.

    A client of which nothing has been shown has NaN.
    """

    def __init__(self, steepest: Vector, least: Vector, bent: Vector) -> None:
        self.steepest = steepest
        self.least = least
        self.bent = bent  # the least beyond doubt: below 0, the function is not convex

    @classmethod
    def nothing(cls, clients: int) -> "Shown":
        """Of clients whose gradients have not been seen yet."""
        return cls(*(np.full(clients, np.nan) for _ in range(3)))

    @property
    def arrays(self) -> list[Vector]:
        """All of it: arrays with one number for each client."""
        return [self.steepest, self.least, self.bent]

    def join(self, clients: slice, others: Sequence[Vector]) -> None:
        """Add what has been shown elsewhere of some of the clients."""
        worse = (np.fmax, np.fmin, np.fmin)
        for mine, theirs, worst in zip(self.arrays, others, worse, strict=True):
            mine[clients] = worst(mine[clients], theirs)

    def ends(self) -> tuple[Vector, Vector] | None:
        """Each client's L and mu, as far as they have been shown; None if for no client."""
        if np.isnan(self.steepest).all():
            return None
        mu = np.minimum(self.least.clip(min=0), self.steepest)
        return self.steepest.copy(), mu

    def not_convex(self) -> tuple[int, float] | None:
        """The client that bends down most, and how far, beyond rounding (be it in float32)."""
        down = self.bent < -1e-6 * self.steepest
        if not down.any():
            return None
        i = int(np.where(down, self.bent, 0.0).argmin())
        return i, float(self.bent[i])


Point: TypeAlias = tuple[Vector, Vector]  # x and the gradient there


class Secants(Shown):
    """What the secants between a client's gradients say of its L_i and mu_i.

    Each gradient is compared with the one before, and with the first. Different clients may be
    added by different threads.
    """

    def __init__(self, clients: int) -> None:
        super().__init__(*Shown.nothing(clients).arrays)
        self._first: list[Point | None] = [None] * clients
        self._last: list[Point | None] = [None] * clients
        self._largest = np.zeros(clients)  # the length of a gradient

    def add(self, i: int, x: Floats, g: Vector) -> None:
        """Take note of client i's gradient g at x; g must not be changed afterwards."""
        here = x.astype(np.float64)
        with np.errstate(all="ignore"):  # a diverging run is seen by its x_s
            self._largest[i] = np.fmax(self._largest[i], length(g))
            self._compare(i, here, g, self._last[i])
            if self._first[i] is not self._last[i]:
                self._compare(i, here, g, self._first[i])
        self._last[i] = (here, g)
        if self._first[i] is None:
            self._first[i] = self._last[i]

    def _compare(self, i: int, x: Vector, g: Vector, other: Point | None) -> None:
        if other is None:
            return
        # A gradient that is small by now may be what is left of terms as large as at the start.
        terms = self._largest[i] + np.nan_to_num(self.steepest[i]) * length(x)
        found = secant(x, g, *other, terms)
        if found is None:
            return
        self.steepest[i] = np.fmax(self.steepest[i], found.steep)
        self.least[i] = np.fmin(self.least[i], found.bend)
        self.bent[i] = np.fmin(self.bent[i], found.bend + found.doubt)

    def state(self, dimension: int) -> list[Vector]:
        """All that was learnt, as arrays with one row per client."""
        points = np.full((4, len(self._last), dimension), np.nan)
        for i, (first, last) in enumerate(zip(self._first, self._last, strict=True)):
            if first is not None and last is not None:
                points[:, i] = (*first, *last)
        return [*self.arrays, self._largest, *points]

    def load(self, state: list[Vector]) -> None:
        """Take over a state."""
        steepest, least, bent, largest, *points = state
        super().__init__(steepest, least, bent)
        self._largest = largest
        for i, (x, g, y, h) in enumerate(zip(*points, strict=True)):
            if not np.isnan(x).all():
                self._first[i] = (x, g)
                self._last[i] = (y, h)
