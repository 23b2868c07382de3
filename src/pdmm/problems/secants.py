"""What the gradients of a run show of the clients' L and mu: secants between successive ones."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import Floats

Vector = npt.NDArray[np.float64]

NOISE = 1e-6  # of a gradient, relative: it may have been computed in float32


class Secant(NamedTuple):
    """What two points and their gradients say of a function, dx and dg being the differences."""

    steep: float
    """‖dg‖/‖dx‖, which L is at least."""
    bend: float
    """dg·dx/‖dx‖², which mu is at most."""
    doubt: float
    """How far rounding may have moved the bend."""


def secant(x: Vector, g: Vector, y: Vector, h: Vector) -> Secant | None:
    """The secant between the points x and y, of which g and h are the gradients.

    None if the secant tells nothing: the points or the gradients are too close for their
    precision, or a number is not finite.
    """
    dx = x - y
    dg = g - h
    length = float(np.sqrt(dx @ dx))
    change = float(np.sqrt(dg @ dg))
    noise = NOISE * float(np.sqrt(g @ g) + np.sqrt(h @ h))
    apart = 1e-9 * (1 + float(np.sqrt(x @ x))) < length < np.inf
    if not (apart and noise < change < np.inf):
        return None
    return Secant(
        steep=change / length,
        bend=float(dg @ dx) / length / length,
        doubt=noise / length,
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


class Secants(Shown):
    """What the secants between a client's successive gradients say of its L_i and mu_i.

    Different clients may be added by different threads.
    """

    def __init__(self, clients: int) -> None:
        super().__init__(*Shown.nothing(clients).arrays)
        self._last: list[tuple[Vector, Vector] | None] = [None] * clients

    def add(self, i: int, x: Floats, g: Vector) -> None:
        """Take note of client i's gradient g at x; g must not be changed afterwards."""
        last = self._last[i]
        here = x.astype(np.float64)
        self._last[i] = (here, g)
        if last is None:
            return
        with np.errstate(all="ignore"):  # a diverging run is seen by its x_s
            found = secant(here, g, *last)
        if found is None:
            return
        self.steepest[i] = np.fmax(self.steepest[i], found.steep)
        self.least[i] = np.fmin(self.least[i], found.bend)
        self.bent[i] = np.fmin(self.bent[i], found.bend + found.doubt)

    def state(self, dimension: int) -> list[Vector]:
        """All that was learnt, as arrays with one row per client."""
        points = np.full((2, len(self._last), dimension), np.nan)
        for i, last in enumerate(self._last):
            if last is not None:
                points[:, i] = last
        return [*self.arrays, *points]

    def load(self, state: list[Vector]) -> None:
        """Take over a state."""
        super().__init__(*state[:3])
        for i, (x, g) in enumerate(zip(*state[3:], strict=True)):
            self._last[i] = None if np.isnan(x).all() else (x, g)
