"""Estimates of L and mu of a function of which only gradients are known."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import linalg

from pdmm.problems.eigenvalues import krylov
from pdmm.problems.secants import Secants

Vector = npt.NDArray[np.float64]
Gradient: TypeAlias = Callable[[Vector], Vector | None]

LOCAL_STEPS = 16  # gradient calls that look for the curvature at one point
# How far from 0 the first looks are, and whether all entries are positive, as every other time:
# functions of logarithms are at home there.
LOOKS = ((0, False), (1, False), (1, True), (10, False), (10, True))


def estimate(gradient: Gradient, dimension: int, precision: float) -> tuple[float, float] | None:
    """Estimates (mu, L) of one function from about 20 gradients.

    Lanczos on differences of gradients about 0 finds the two ends of the curvature there
    from inside; a few long secants are added, because it may not be the same everywhere.

    Args:
        gradient: x -> gradient, None where there is none.
        dimension: length of x.
        precision: the rounding unit of the gradients.

    Returns:
        None if no two points had a gradient.
    """
    seen = Secants(1)
    first = _look_around(gradient, dimension, seen)
    if first is None:
        return None
    low, high = _curvature_at(*first, gradient, precision)
    high = float(np.fmax(high, seen.steepest[0]))
    low = float(np.fmin(low, seen.least[0]))
    if high < 0:
        return None
    return min(max(low, 0.0), high), high


def _look_around(gradient: Gradient, dimension: int, seen: Secants) -> tuple[Vector, Vector] | None:
    """The first point near 0 with a gradient, and that; secants between all of them are seen."""
    rng = np.random.default_rng(0)
    first: tuple[Vector, Vector] | None = None
    for distance, positive in LOOKS:
        v = rng.standard_normal(dimension)
        scale = distance / np.linalg.norm(v)
        x = scale * (np.abs(v) if positive else v)
        g = gradient(x)
        if g is None:
            continue
        seen.add(0, x, g)
        if first is None:
            first = (x, g)
    return first


def _curvature_at(
    x: Vector, g: Vector, gradient: Gradient, precision: float
) -> tuple[float, float]:
    """The two ends of the curvature at x, as far as Lanczos finds them from inside."""
    step = precision**0.25 * (1 + float(np.linalg.norm(x)))

    def product(v: Vector) -> Vector | None:
        moved = gradient(x + step * v)
        return None if moved is None else (moved - g) / step

    low, high = np.inf, -np.inf
    for diagonal, beside in krylov(product, len(x), LOCAL_STEPS):
        values = linalg.eigvalsh_tridiagonal(diagonal, beside[:-1])
        low = float(values[0])
        high = float(np.abs(values[[0, -1]]).max())
    return low, high
