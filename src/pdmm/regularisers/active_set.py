"""A quadratic with absolute values and bounds on each entry of x, minimised to rounding.

The problem is min over x of

    slope·(x - centre) + (x - centre)'A(x - centre)/2 + sum_j c_j |x_j|,   lo <= x <= hi.

Where an answer is on a kink (0 or a bound), and on which side of 0 it is elsewhere, is all that
has to be found: the rest is a linear solve. Semismooth Newton guesses both for all entries at
once. It takes a few solves, but may go round in circles where A is far from a diagonal. Then a
descent takes over: every step of it lowers the function, so it meets no state twice and ends.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

UNIT = float(np.finfo(np.float64).eps)
GUESSES = 12  # of semismooth Newton; where it arrives at all, it does within about ten
INDEFINITE = "the matrix of a metric must be symmetric and positive definite, without NaN"


def minimise(A: Vector, centre: Vector, slope: Vector, c: Vector, lo: Vector, hi: Vector) -> Vector:
    """The minimiser, with entries exactly 0, lo or hi where it is on a kink.

    Args:
        A: symmetric positive definite, (d, d).
        centre: the point that the quadratic is taken about.
        slope: the gradient of the quadratic there.
        c: the weights of the absolute values, zero or more.
        lo: the lower bounds; -inf for none.
        hi: the upper bounds; inf for none.
    """
    if not (np.diag(A) > 0).all():
        raise ValueError(INDEFINITE)
    # Powers of two scale without rounding: what is optimal already comes back as it was.
    scale = np.exp2(np.round(np.log2(np.diag(A)) / 2))
    model = _Model(
        A=A / scale / scale[:, None],
        centre=centre * scale,
        slope=slope / scale,
        c=c / scale,
        lo=lo * scale,
        hi=hi * scale,
    )
    start = np.clip(model.centre, model.lo, model.hi)
    y, arrived = _semismooth_newton(model, start)
    if not arrived:
        y = _descent(model, y)
    x = y / scale
    x[y == model.lo] = lo[y == model.lo]
    x[y == model.hi] = hi[y == model.hi]
    return np.clip(x, lo, hi)


@dataclass(frozen=True, eq=False)
class _Model:
    """The problem in variables in which the diagonal of A is about 1."""

    A: Vector
    centre: Vector
    slope: Vector
    c: Vector
    lo: Vector
    hi: Vector

    def gradient(self, x: Vector) -> Vector:
        """Of the quadratic alone."""
        return np.asarray(self.slope + self.A @ (x - self.centre))

    def value(self, x: Vector) -> float:
        u = x - self.centre
        return float(self.slope @ u + u @ (self.A @ u) / 2 + self.c @ np.abs(x))

    def kinks(self, x: Vector) -> Mask:
        """Which entries are on a kink."""
        return np.asarray((x == self.lo) | (x == self.hi) | ((x == 0) & (self.c > 0)))

    def left(self, x: Vector) -> Vector:
        """The slope of the rest on the left of each entry."""
        return np.where(x <= self.lo, -np.inf, np.where(x > 0, self.c, -self.c))

    def right(self, x: Vector) -> Vector:
        """The slope of the rest on the right of each entry."""
        return np.where(x >= self.hi, np.inf, np.where(x < 0, -self.c, self.c))

    def pull(self, x: Vector) -> Vector:
        """How strongly each entry wants to move to the right, or to the left if it is negative.

        It is 0 where the entry is at rest as far as rounding can tell.
        """
        g = self.gradient(x)
        pull = np.maximum(-g - self.right(x), 0) - np.maximum(g + self.left(x), 0)
        reach = np.abs(x - self.centre) + np.abs(x)
        sizes = np.abs(self.slope) + np.abs(self.A) @ reach + self.c
        rounding = (8 + np.sqrt(len(x))) * UNIT * sizes
        return np.where(np.abs(pull) > rounding, pull, 0.0)

    def solve(self, free: Mask, r: Vector) -> Vector:
        """The p with A p = -r in the free entries and 0 in the others."""
        p = np.zeros_like(r)
        part = self.A[np.ix_(free, free)]
        if part.size:
            p[free] = -cho_solve(_factor(part), r[free], check_finite=False)
        return p


def _factor(part: Vector) -> tuple[Vector, bool]:
    """A Cholesky factor, of a matrix that rounding may have made just indefinite."""
    try:
        factor, lower = cho_factor(part, lower=True, check_finite=False)
    except LinAlgError:
        shift = 8 * len(part) * UNIT * np.eye(len(part))
        try:
            factor, lower = cho_factor(part + shift, lower=True, check_finite=False)
        except LinAlgError:
            raise ValueError(INDEFINITE) from None
    return factor, lower


def _semismooth_newton(model: _Model, x: Vector) -> tuple[Vector, bool]:
    """Guess the kinks of all entries from a step of each alone, and solve for the others.

    Returns:
        A point, and whether it is the minimiser; if not, it is the lowest that was met.
    """
    steps = 1 / np.diag(model.A)
    lowest = x
    least = model.value(x)
    for _ in range(GUESSES):
        alone = x - steps * model.gradient(x)
        alone = np.sign(alone) * np.maximum(np.abs(alone) - steps * model.c, 0)
        alone = np.clip(alone, model.lo, model.hi)
        fixed = model.kinks(alone)
        on_kinks = np.where(fixed, alone, x)
        slopes = model.gradient(on_kinks) + model.c * np.sign(alone)
        moved = on_kinks + model.solve(~fixed, slopes)
        x = _on_its_side(model, moved, alone)
        if not model.pull(x).any():
            return x, True
        value = model.value(x)
        if value < least:
            lowest = x
            least = value
    return lowest, False


def _on_its_side(model: _Model, x: Vector, side: Vector) -> Vector:
    """Entries that passed 0, or a bound, are put there."""
    passed = (np.sign(x) != np.sign(side)) & (model.c > 0)
    return np.clip(np.where(passed, 0.0, x), model.lo, model.hi)


def _descent(model: _Model, x: Vector) -> Vector:
    """Solve for the free entries, stop them at kinks, and free those that want to leave one."""
    free = ~model.kinks(x)
    pull = np.zeros_like(x)
    for _ in range(20 * len(x) + 100):
        direction = _direction(model, x, free, pull)
        moved, stopped = _along(model, x, direction)
        stuck = pull.any() and (moved == x).all()
        x = moved
        free = direction.free & ~stopped
        pull = np.zeros_like(x)
        if stopped.any():
            continue
        pull = np.where(free, 0.0, model.pull(x))
        if not pull.any() or stuck:
            break
    last = _direction(model, x, free, np.zeros_like(x))  # takes off what the solves have rounded
    return _on_its_side(model, x + last.p, x)


class _Direction(NamedTuple):
    p: Vector
    """To where the function is least in the free entries, were there no kinks on the way."""
    slopes: Vector
    """Of the function, in the free entries; 0 in the others."""
    free: Mask
    """Which entries may move."""


def _direction(model: _Model, x: Vector, free: Mask, pull: Vector) -> _Direction:
    """Where to go from x; of the entries that want to leave a kink, as many as can at once."""
    all_slopes = model.gradient(x) + np.where(pull > 0, model.right(x), model.left(x))
    leaving = pull != 0
    while True:
        moving = free | leaving
        slopes = np.where(moving, all_slopes, 0.0)
        p = model.solve(moving, slopes)
        back = leaving & (p * pull <= 0)
        if not back.any() or leaving.sum() == 1:
            return _Direction(p, slopes, moving)
        leaving &= ~back
        if not leaving.any():  # one alone goes where it is pulled
            leaving[np.abs(pull).argmax()] = True


def _along(model: _Model, x: Vector, direction: _Direction) -> tuple[Vector, Mask]:
    """Go along a direction to the lowest point; entries that meet a kink stay there.

    Returns:
        That point, and which entries met a kink.
    """
    p = direction.p.copy()
    slopes = direction.slopes.copy()
    stopped = np.zeros(len(x), dtype=bool)
    kinks = _next_kinks(model, x, p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        times = np.where(p != 0, (kinks - x) / p, np.inf)
    x = x.copy()
    change = model.A @ p
    now = 0.0
    lowest = 1.0  # that of a quadratic without kinks
    for j in np.argsort(times):
        if times[j] >= lowest:
            break
        ahead = times[j] - now
        now = times[j]
        x += ahead * p
        slopes += ahead * change
        x[j] = kinks[j]
        stopped[j] = True
        change -= p[j] * model.A[:, j]
        p[j] = 0.0
        descent = -float(slopes @ p)
        curvature = float(p @ change)
        if not (descent > 0 and curvature > 0):
            return x, stopped
        lowest = now + descent / curvature
    x += (lowest - now) * p
    return _on_its_side(model, x, x), stopped


def _next_kinks(model: _Model, x: Vector, p: Vector) -> Vector:
    """The kink that each entry meets first on its way, or infinity."""
    rising = np.where((x < 0) & (model.c > 0), np.minimum(0.0, model.hi), model.hi)
    falling = np.where((x > 0) & (model.c > 0), np.maximum(0.0, model.lo), model.lo)
    return np.where(p > 0, rising, falling)
