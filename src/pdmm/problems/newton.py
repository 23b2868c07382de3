"""Newton's method by gradients alone, for convex functions that may grow like exp."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Gradient: TypeAlias = Callable[[Vector], Vector | None]  # None where it is not finite

NEARBY = 1e-7  # how far apart two points are whose gradients give a curvature, relative
PRODUCTS = 50  # with the Hessian, for one step, at most
ACCURATE = 0.01  # ‖H p + g‖/‖g‖ of a step p
OVERSHOT = 0.1  # of the slope along a step: what may be left of it with the other sign
STRAIGHT = 0.9  # of the slope along a step: if so much is left of it, the step is too short
SHORTER = 0.25  # times the step, as long as it goes too far
SHORTEST = 1e-30  # times the step: not even that is short enough
LONGEST = 1e30


class Point(NamedTuple):
    """A point on the way, the gradient there, and the step that led to it."""

    x: Vector
    g: Vector
    step: Vector
    whole: bool  # whether that is Newton's, neither shorter nor longer


def newton_path(gradient: Gradient, x: Vector, g: Vector, steps: int) -> Iterator[Point]:
    """The points of Newton's method from x, where the gradient is g.

    A step is shortened until it does not lead far beyond the lowest point on its line, and made
    longer while the function is a straight line. For a convex function the slopes at both ends
    tell this: no values are compared, whose differences rounding would swallow. The path ends
    where no step leads on.
    """
    for _ in range(steps):
        step = newton_step(gradient, x, g)
        reached = _on_the_line(gradient, x, step, float(g @ step))
        if reached is None:
            return
        yield reached
        x = reached.x
        g = reached.g


def _on_the_line(gradient: Gradient, x: Vector, step: Vector, slope: float) -> Point | None:
    """A point x + share step where the slope along the step is between two bounds."""
    if not -np.inf < slope < 0:
        return None
    good: Point | None = None
    share = 1.0
    factor = SHORTER
    while SHORTEST < share < LONGEST:
        there = x + share * step
        ahead = gradient(there)
        too_far = ahead is None or not float(ahead @ step) <= -OVERSHOT * slope
        if too_far and good is not None:
            return good
        if not too_far and ahead is not None:
            good = Point(there, ahead, share * step, whole=share == 1)
            if share < 1 or float(ahead @ step) > STRAIGHT * slope:
                return good
            factor = 1 / SHORTER
        share *= factor
    return good


def newton_step(gradient: Gradient, x: Vector, g: Vector) -> Vector:
    """About -H^-1 g by conjugate gradients, H by differences of gradients; -g where H is 0."""
    small = NEARBY * (float(np.linalg.norm(x)) or 1.0)
    p = np.zeros_like(x)
    r = -g
    v = r
    size = float(r @ r)
    enough = ACCURATE**2 * size
    for _ in range(min(PRODUCTS, 2 * x.size)):
        length = float(np.linalg.norm(v))
        if not 0 < length < np.inf:
            break
        moved = gradient(x + (small / length) * v)
        if moved is None:
            break
        Hv = (moved - g) * (length / small)
        bend = float(v @ Hv)
        if not 0 < bend < np.inf:
            break
        p = p + (size / bend) * v
        r = r - (size / bend) * Hv
        last = size
        size = float(r @ r)
        if not size > enough:
            break
        v = r + (size / last) * v
    return p if p.any() else -g
