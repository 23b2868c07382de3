"""What the server of Newton's method works out: steps in whitened coordinates, and their search."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from pdmm.methods.base import Evidence, Prox
from pdmm.methods.whitening import Vector, factor

SHARE = 1e-4  # of the decrease that the slope promises: what a step must bring
GRID = np.array([2.0**-k for k in range(10, 0, -1)] + [4.0, 16.0, 64.0])  # of the step on trial
SHORTER = GRID < 1
HUGE = 1e200  # what clients send in the place of a number that is not finite
TOO_LARGE = 1e150  # a mean that has such a number in it, or might as well


class Penalised(Protocol):
    """What Newton's method asks of a regulariser beyond its proximal step."""

    @property
    def kinked(self) -> bool:
        """Whether there is more in it than a quadratic."""

    def value(self, x: Vector) -> float:
        """h(x)."""

    def quadratic(self, dimension: int) -> Vector:
        """The weights q of its part sum_j q_j x_j²/2."""

    def prox_in(self, v: Vector, P: Vector) -> Vector:
        """argmin_x h(x) + (x - v)'P(x - v)/2."""


class Penalty(NamedTuple):
    """The regulariser as the server's step is given it."""

    h: Any  # a Penalised, or None
    weight: float
    """The sum of the clients' weights: F = weight * mean + h."""
    q: Vector

    @classmethod
    def of(cls, prox: Prox, dimension: int) -> Self:
        """From a run's prox, which has ``h`` and ``weight`` where there is something to know."""
        h = getattr(prox, "h", None)
        weight = float(getattr(prox, "weight", 1.0))
        q = np.zeros(dimension)
        if h is not None:
            q = np.asarray(h.quadratic(dimension), dtype=np.float64) * np.ones(dimension)
        return cls(h, weight, q)

    @property
    def kinked(self) -> bool:
        return self.h is not None and bool(self.h.kinked)

    def value(self, x: Vector) -> float:
        return 0.0 if self.h is None else float(self.h.value(x))

    def total(self, mean: float, x: Vector) -> float:
        """F(x), infinite where a client could not tell its value."""
        if not mean < TOO_LARGE:
            return np.inf
        return self.weight * mean + self.value(x)

    def bounds(self, x: Vector, direction: Vector, length: Callable[[Vector], float]) -> bool:
        """Whether h keeps x from going on for ever along a direction.

        Args:
            x: where it stands.
            direction: where it goes.
            length: the Hessian's norm, a function of a direction.
        """
        if self.h is None:
            return False
        free = np.where(self.q > 0, 0.0, direction)
        if not length(direction - free) <= 0.05 * length(direction):
            return True
        if not self.kinked:
            return False
        here = self.value(x)
        return not self.value(x + 1e6 * free) <= here + 1e-9 * abs(here)


class Step(NamedTuple):
    """A full step from a point."""

    direction: Vector
    fall: float
    """By how much F would fall at its slope, without curvature: lam² where h is smooth."""
    T: Vector
    """The coordinates in which the Hessian at that point is the identity."""
    lost: int
    """Directions of which the data say nothing."""
    vague: bool
    """Whether it is not clear yet which these are."""
    shortest: bool
    """Whether the point itself has nothing in these directions."""
    rounding: float
    """What rounding of the gradient alone may make of lam²."""
    q: float
    """R lam: below 1 only near a minimum."""


def full_step(seen: Evidence, penalty: Penalty) -> Step:
    """Newton's step from a point, from what the clients said of it; prox-Newton with kinks."""
    T = seen.T
    W = penalty.weight
    g = W * seen.gradient
    M = W * seen.hessian
    curved = factor(M + T.T @ (penalty.q[:, None] * T), T)
    if penalty.kinked:
        plain = factor(M, T)
        v = seen.x - T @ plain.solve(g)
        x = penalty.h.prox_in(v, plain.in_x(T))
        direction = x - seen.x
        y = solve_triangular(T, direction, check_finite=False)
        fall = _kinked_fall(float(g @ y), float(y @ M @ y), penalty.value(x), penalty.value(seen.x))
    else:
        g = g + T.T @ (penalty.q * seen.x)
        y = curved.solve(g)
        fall = float(g @ y)
        direction = curved.shortest(seen.x - T @ y, T) - seen.x
    fall = max(fall, 0.0)
    reach = W * float(seen.reach) / curved.least
    if not seen.reach < TOO_LARGE:
        reach = np.inf
    q = float(np.sqrt(reach * fall)) if fall else 0.0
    doubt = W * float(seen.doubt)
    return Step(
        direction=direction,
        fall=fall,
        T=curved.whiten(T),
        lost=curved.lost,
        vague=curved.vague,
        shortest=_same(curved.shortest(seen.x, T), seen.x),
        rounding=doubt * doubt / curved.least,  # ** would raise where this is infinite
        q=q,
    )


def _kinked_fall(slope: float, squares: float, after: float, before: float) -> float:
    """By how much F would fall along a prox-Newton step, without its curvature.

    It is at least d'Hd, and near the minimum no more, where the difference of two values of h
    has lost all its digits.
    """
    fall = before - after - slope
    rounding = 1e-13 * (abs(before) + abs(after) + abs(slope))
    if fall - squares <= rounding:
        return squares
    return fall


def _same(x: Vector, y: Vector) -> bool:
    return bool(np.linalg.norm(x - y) <= 1e-9 * np.linalg.norm(x))


def shorter(
    values: Vector, F: float, fall: float, trial: Vector, direction: Vector, penalty: Penalty
) -> float:
    """The best t of the grid for a step that was too long; 0 where none is good enough.

    Args:
        values: means of the clients' values at the points of the grid.
        F: at t = 0.
        fall: that of the whole direction.
        trial: at t = 1.
        direction: from 0 to 1.
        penalty: the regulariser.
    """
    best = 0.0
    lowest = np.inf
    for t, mean in zip(GRID[SHORTER].tolist(), values[SHORTER].tolist(), strict=True):
        value = penalty.total(mean, trial - (1 - t) * direction)
        if value < lowest and value <= F - SHARE * t * fall:
            best = t
            lowest = value
    return best


def longer(
    values: Vector, F: float, fall: float, trial: Vector, direction: Vector, penalty: Penalty
) -> float:
    """A t beyond 1 that saves rounds; 0 where none does.

    Far out on an exponential each full step is as long as the one before, and F falls by the same
    factor.

    Args:
        values: as above.
        F: at t = 1.
        fall: what the next full step would bring from there, at its slope.
        trial: at t = 1.
        direction: from 0 to 1.
        penalty: the regulariser.
    """
    best = 0.0
    lowest = np.inf
    for t, mean in zip(GRID[~SHORTER].tolist(), values[~SHORTER].tolist(), strict=True):
        value = penalty.total(mean, trial + (t - 1) * direction)
        gained = F - value
        if value < lowest and gained > 0.8 * fall and gained > abs(value) / 2:
            best = t
            lowest = value
    return best


def drifted(count: int, before: float, step: Step) -> int:
    """How many rounds in a row F has fallen as it does on the way to infinity.

    There each full step brings all outcomes of some rows nearer to certainty by the same amount:
    what can still be gained falls by a factor of about e, and q stays near 1.
    """
    if before > 0 and step.q >= 0.5 and 0.2 <= step.fall / before <= 0.6:
        return count + 1
    return 0


Flags = npt.NDArray[np.bool_]


def usable(value: Vector, *others: Vector) -> Flags:
    """Which clients could tell all that they were asked for, in numbers."""
    good = np.abs(value) < TOO_LARGE
    for field in others:
        axes = tuple(range(value.ndim, field.ndim))
        good = good & np.isfinite(field).all(axis=axes)
    return np.asarray(good)
