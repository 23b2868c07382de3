"""A line search whose every trial is an exchange with the clients.

It looks along x + t p for a t that satisfies the strong Wolfe conditions, by cubic interpolation
in a bracket. Its state is a few numbers, so that a run can be interrupted within a search.

References:
    Nocedal, Wright, "Numerical Optimization", 2nd ed., Algorithms 3.5 and 3.6, eq. (3.59).
    Hager, Zhang, "A new conjugate gradient method with guaranteed descent and an efficient line
    search", SIAM J. Optim. 2005, eq. (4.1): the conditions where values are equal to rounding.
"""

import math
from typing import NamedTuple, Self

DECREASE = 1e-4  # c1: the share of the decrease that the first slope promises
CURVATURE = 0.9  # c2: of the first slope, that may be left
NOISE = 1e-12  # relative; values that differ by less are told apart by their slopes
MARGIN = 0.1  # of the bracket: a trial keeps that far from its ends
FARTHEST = 10.0  # times the last stretch: the most that a trial goes beyond the last
MOST_TRIALS = 30
NARROWEST = 1e-15  # relative width of a bracket that has no number between its ends
HUGE = 1e200  # a value that is infinite, as a number whose sum over clients is finite


class Seen(NamedTuple):
    """What is known at a point of the line: its t, F and the slope along the line."""

    t: float
    value: float
    slope: float

    @property
    def infinite(self) -> bool:
        return not self.value < HUGE**0.5


class Line(NamedTuple):
    """A search along a line: what is known, and which t is asked for next."""

    start: Seen
    low: Seen
    """The farthest point from which F still falls; the minimum is beyond it."""
    high: Seen
    """The nearest point that is known to be too far; its t is infinite where there is none."""
    t: float
    trials: int

    @classmethod
    def begun(cls, value: float, slope: float, t: float) -> Self:
        """A search from a point of this F and slope, which tries t first."""
        start = Seen(0.0, value, slope)
        return cls(start, start, Seen(math.inf, math.inf, math.inf), t, 0)

    def accepts(self, seen: Seen) -> bool:
        """Whether the point satisfies the strong Wolfe conditions."""
        flat = abs(seen.slope) <= CURVATURE * abs(self.start.slope)
        return flat and self._falls(seen)

    def _falls(self, seen: Seen) -> bool:
        first = self.start
        if seen.infinite:
            return False
        if seen.value <= first.value + DECREASE * seen.t * first.slope:
            return True
        equal = seen.value <= first.value + NOISE * abs(first.value)
        return equal and seen.slope <= (2 * DECREASE - 1) * first.slope

    def after(self, seen: Seen) -> Self:
        """The search goes on: the point was not good enough."""
        if seen.slope < 0 and self._falls(seen):
            line = self._replace(low=seen)
            t = line._beyond(self.low)
        else:
            line = self._replace(high=seen)
            t = 0.0
        if line.high.t < math.inf:
            t = line._between()
        return line._replace(t=t, trials=self.trials + 1)

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to find on this line."""
        if self.high.t == math.inf:
            return self.trials >= MOST_TRIALS
        width = self.high.t - self.low.t
        return self.trials >= MOST_TRIALS or width <= NARROWEST * self.high.t

    def _beyond(self, before: Seen) -> float:
        """A longer step, where the cubic through the last two points has its minimum."""
        stretch = self.low.t - before.t
        guess = _lowest(before, self.low, self.start.value)
        nearest = self.low.t + (1 + MARGIN) * stretch
        farthest = self.low.t + FARTHEST * stretch
        return _clipped(guess, nearest, farthest, otherwise=farthest)

    def _between(self) -> float:
        low, high = self.low, self.high
        width = high.t - low.t
        if high.infinite:
            return low.t + MARGIN * width
        # Where cubics keep missing, halves do not.
        middle = low.t + width / 2
        guess = middle if self.trials % 3 == 2 else _lowest(low, high, self.start.value)
        return _clipped(guess, low.t + MARGIN * width, high.t - MARGIN * width, otherwise=middle)


def _clipped(t: float, least: float, most: float, otherwise: float) -> float:
    if not math.isfinite(t):
        return otherwise
    return min(max(t, least), most)


def _lowest(a: Seen, b: Seen, value: float) -> float:
    """Where the cubic through two values and slopes has its minimum; NaN if it has none.

    Where the values are equal to rounding, where the line through the slopes is 0.
    """
    change = b.slope - a.slope
    if abs(b.value - a.value) <= NOISE * abs(value):
        return a.t - a.slope * (b.t - a.t) / change if change > 0 else math.nan
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return math.nan
    d2 = math.sqrt(square)
    below = change + 2 * d2
    return b.t - (b.t - a.t) * (b.slope + d2 - d1) / below if below else math.nan
