"""Who is at risk at each event, and sums of exp(eta) over them that neither overflow nor vanish."""

from math import isqrt
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float64]
Ties: TypeAlias = Literal["efron", "breslow"]

WINDOW = 300.0  # exp(eta) shares a scale where eta differs by less: its square is still a float


class Level(NamedTuple):
    """Rows and event times in a row that share a scale of exp(eta)."""

    rows: slice
    groups: slice
    step: float
    """The scale of the level before, divided by this one's."""


class Hazards(NamedTuple):
    """What eta makes of the rows at risk, and of the terms of the likelihood."""

    x: Vector
    """(m,): w exp(eta) of each row, in the scale of its group."""
    before: Vector
    """(m,): the sum of x over the rows before."""
    tied: Vector
    """(G,): the sum of x over a group's events."""
    ahead: Vector
    """(G,): the sum of x over all rows at risk that are no events of the group."""
    phi: Vector
    """(J,): what each term takes the logarithm of."""
    scale: Vector
    """(G,): the logarithm of each group's scale."""
    levels: list[Level]


class RiskSets:
    """The rows of one client by descending time, so that those at risk are always the first.

    Rows come in groups: one for each time at which an event happened, with the rows whose risk
    begins to count there. Each event has a term of the likelihood.

    Args:
        time: when each row was last seen.
        event: 1 where the event happened then, 0 for a row that was censored.
        weights: of the rows; all 1 without them.
        ties: "efron" or "breslow".
    """

    def __init__(
        self,
        time: npt.ArrayLike,
        event: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        ties: Ties = "efron",
    ) -> None:
        times = np.asarray(time, dtype=np.float64)
        w = np.ones(len(times)) if weights is None else np.asarray(weights, dtype=np.float64)
        happened = np.asarray(event).astype(bool) & (w > 0)
        # Of those at one time the events come last: a group's other rows are all before them.
        self.order = np.lexsort((happened, -times, w == 0))
        self.rows = len(times)
        self.events = np.flatnonzero(happened[self.order])
        """(J,): the rows of the events."""
        self.at_risk = int(self.events.max(initial=-1)) + 1
        """How many rows are ever at risk when an event happens: the first m."""
        w = w[self.order][: self.at_risk]
        self.log_w = np.log(w)
        self.w = w[self.events]
        new = np.diff(times[self.order][self.events], prepend=np.inf) != 0
        self.group = np.cumsum(new) - 1
        """(J,): the group of each event."""
        self.first = np.flatnonzero(new)
        """(G,): where each group begins among the events."""
        self.opening = self.events[self.first]
        """(G,): the row of each group's first event."""
        sizes = np.diff(self.first, append=self.events.size)
        self.end = self.events[self.first + sizes - 1] + 1
        """(G,): where the rows of each group end."""
        self.group_of_row = np.repeat(np.arange(sizes.size), np.diff(self.end, prepend=0))
        self.largest_tie = int(sizes.max(initial=0))
        self.kept = np.ones(self.events.size)
        """(J,): the part of its group's events that a term has."""
        if ties == "efron":
            left = (self.first + sizes)[self.group] - np.arange(self.events.size)
            self.kept = left / sizes[self.group]
        self.c = (self.tied(self.w) / sizes)[self.group]
        """(J,): the weight of each term."""

    def hazards(self, eta: Vector) -> Hazards:
        """What eta makes of the rows."""
        theta = eta[: self.at_risk] + self.log_w
        top = np.maximum.accumulate(theta)[self.end - 1]
        scale, levels = self._levels(top)
        x = np.exp(theta - scale[self.group_of_row])
        before = self.before(x, levels)
        tied = self.tied(x[self.events])
        ahead = before[self.opening]
        phi = ahead[self.group] + self.kept * tied[self.group]
        return Hazards(x, before, tied, ahead, phi, scale, levels)

    def _levels(self, top: Vector) -> tuple[Vector, list[Level]]:
        """Scales for groups in which eta goes up to ``top``, which never falls."""
        if not top[-1] - top[0] > WINDOW:
            everything = Level(slice(0, self.at_risk), slice(0, top.size), 0.0)
            return np.full(top.size, top[0]), [everything]
        scale = top[0] + WINDOW * np.floor((top - top[0]) / WINDOW)
        start = np.flatnonzero(np.diff(scale, prepend=-np.inf))
        stop = np.append(start[1:], top.size)
        row = np.append(0, self.end)
        steps = np.exp(-np.diff(scale[start], prepend=-np.inf))
        levels = [
            Level(slice(row[a], row[b]), slice(a, b), float(step))
            for a, b, step in zip(start, stop, steps, strict=True)
        ]
        return scale, levels

    def before(self, values: Vector, levels: list[Level]) -> Vector:
        """The sums over all rows before each row, in the scale of that row."""
        sums = np.empty_like(values)
        carry = 0.0
        for level in levels:
            running = _running(values[level.rows], carry * level.step)
            sums[level.rows] = running[:-1]
            carry = float(running[-1])
        return sums

    def means(self, h: Hazards, rows: Vector) -> Vector:
        """The means of all rows up to each row, in the shares of x."""
        means = h.x[:, None] * rows
        carry: Any = 0.0
        for level in h.levels:
            part = means[level.rows]
            part[0] += carry * level.step
            np.cumsum(part, axis=0, out=part)
            carry = part[-1]
        total = h.before + h.x
        means /= np.where(total > 0, total, 1.0)[:, None]
        return means

    def after(self, values: Vector, levels: list[Level]) -> Vector:
        """The sums over all groups after each group, of numbers in one over its scale."""
        sums = np.empty_like(values)
        carry = 0.0
        for level in reversed(levels):
            running = _running(values[level.groups][::-1], carry)
            sums[level.groups] = running[-2::-1]
            carry = float(running[-1]) * level.step
        return sums

    def tied(self, values: Vector) -> Vector:
        """The sums over the events of each group."""
        if self.largest_tie <= 1:
            return values
        return np.asarray(np.add.reduceat(values, self.first))

    def pull(self, h: Hazards, c: Vector) -> Vector:
        """The sum over the terms that have a row, of c/phi times the part of it they have."""
        each = c / h.phi
        groups = self.tied(each)
        later = self.after(groups, h.levels)
        pull = (later + groups)[self.group_of_row]
        pull[self.events] = (later + self.tied(each * self.kept))[self.group]
        return pull


def _running(values: Vector, start: float) -> Vector:
    """start, start plus the first entry, ..., plus all: their errors grow as the root of n."""
    n = len(values) + 1
    side = isqrt(n - 1) + 1
    padded = np.zeros(side * side)
    padded[0] = start
    padded[1:n] = values
    square = np.cumsum(padded.reshape(side, side), axis=1)
    square[1:] += np.cumsum(square[:-1, -1])[:, None]
    return square.ravel()[:n]
