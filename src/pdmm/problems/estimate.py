"""Estimates of L and mu of a function of which only gradients are known."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

from pdmm.problems.eigenvalues import krylov
from pdmm.problems.newton import Gradient, newton_path
from pdmm.problems.secants import secant

Vector = npt.NDArray[np.float64]

LOCAL_STEPS = 16  # gradient calls that look for the curvature at one point
# How far from the start the looks are, and whether all entries are positive, as every other time:
# functions of logarithms are at home there.
LOOKS = ((0, False), (1, False), (1, True), (10, False), (10, True))
STEEPER = 100.0  # times as steep as nearer to the start: there the function is another one
STRAIGHT = 0.1  # of a slope: what a quadratic's change of slope may be off by
NEWTON_STEPS = 100  # on the way to a function's lowest point: exp falls by a factor of e in each
ARRIVED = 0.1  # of the way: a step so short, and shorter than the one before, is one of the last
SHORTER_STEPS = 8  # that are tried, each an eighth of the one before, for differences of gradients
SHRINKS = 0.8  # times the step before: on a tail of exp, which has no lowest point, none does


class Ends(NamedTuple):
    """The smallest and the largest curvature that were found."""

    mu: float
    L: float

    def joined(self, other: "Ends") -> "Ends":
        """Those of both."""
        return Ends(min(self.mu, other.mu), max(self.L, other.L))

    def convex(self) -> "Ends":
        """The same, what is below 0 counting as 0."""
        return Ends(min(max(self.mu, 0.0), self.L), self.L)


class Estimate(NamedTuple):
    """What was found of one function."""

    way: Ends
    """From the start to the function's lowest point, as far as that was found."""
    valley: Ends | None
    """At the lowest point; None where none was found."""


class Look(NamedTuple):
    """A point and the gradient there."""

    x: Vector
    g: Vector


def estimate(gradient: Gradient, x0: Vector, precision: float) -> Estimate | None:
    """Estimates of mu and L of one convex function.

    Lanczos on differences of gradients about x0 finds the two ends of the curvature there
    from inside; a few long secants are added, because it may not be the same everywhere. That
    takes about 20 gradients. If the function is then seen to bend differently elsewhere (exp does,
    everywhere), Newton's method goes on to its lowest point, to find the curvature there: a run
    ends nearer to that than to x0, where it may be a million times as steep.

    Args:
        gradient: x -> gradient, None where there is none.
        x0: where to begin.
        precision: the rounding unit of the gradients.

    Returns:
        None if no two points had a gradient.
    """
    looks = _look_around(gradient, x0)
    if not looks:
        return None
    here = _curvature_at(looks[0], gradient, precision)
    around, alike = _widened(here, looks)
    if around.L < 0:
        return None
    if alike and _quadratic_on_its_gradient(looks[0], gradient):
        return Estimate(around.convex(), around.convex())
    valley = _valley(looks[0], gradient)
    if valley is None:
        return Estimate(around.convex(), None)
    if valley is looks[0]:
        return Estimate(around.convex(), around.convex())
    there = _curvature_at(valley, gradient, precision)
    return Estimate(here.joined(there).convex(), there.convex())


def _look_around(gradient: Gradient, x0: Vector) -> list[Look]:
    """Points near x0 that have a gradient, the nearest first."""
    rng = np.random.default_rng(0)
    found: list[Look] = []
    for distance, positive in LOOKS:
        v = rng.standard_normal(len(x0))
        scale = distance / np.linalg.norm(v)
        x = x0 + scale * (np.abs(v) if positive else v)
        g = gradient(x)
        if g is not None:
            found.append(Look(x, g))
    return found


def _widened(here: Ends, looks: list[Look]) -> tuple[Ends, bool]:
    """The ends with those of the secants between looks, as far out as the function is the same."""
    ends = here
    for a, b in zip(looks[1:], looks[:-1], strict=True):
        found = secant(a.x, a.g, b.x, b.g)
        if found is None:
            continue
        there = Ends(found.bend, found.steep)
        if there.L > STEEPER * ends.L > 0:
            return ends, False
        ends = ends.joined(there)
    return ends, len(looks) == len(LOOKS)


def _quadratic_on_its_gradient(look: Look, gradient: Gradient) -> bool:
    """Whether the slope vanishes where it would if f were a quadratic on the line of its gradient.

    This needs no unit of length, as looks do.
    """
    x, g = look
    size = float(g @ g)
    if size == 0:
        return True
    unit = g / np.sqrt(size)
    small = 1e-6 * (float(np.linalg.norm(x)) or 1.0)
    moved = gradient(x + small * unit)
    if moved is None:
        return False
    bend = float((moved - g) @ unit) / small
    if not bend > 0:
        return False
    ahead = gradient(x - g / bend)
    return ahead is not None and abs(float(ahead @ g)) <= STRAIGHT * size


def _valley(start: Look, gradient: Gradient) -> Look | None:
    """Nearly the lowest point; None if Newton's method does not come to rest."""
    if not start.g.any():
        return start
    shrunk = 0
    before = np.inf
    for x, g, step, whole in newton_path(gradient, start.x, start.g, NEWTON_STEPS):
        length = float(np.linalg.norm(step))
        way = float(np.linalg.norm(x - start.x))
        shrunk = shrunk + 1 if whole and length <= SHRINKS * before else 0
        if not g.any() or (length <= ARRIVED * way and shrunk >= 2):
            return Look(x, g)
        before = length
    return None


def _curvature_at(look: Look, gradient: Gradient, precision: float) -> Ends:
    """The two ends of the curvature at x, as far as Lanczos finds them from inside."""
    x, g = look
    step = _step_at(look, gradient, precision)
    if step is None:
        return Ends(0.0, 0.0)

    def product(v: Vector) -> Vector | None:
        moved = gradient(x + step * v)
        return None if moved is None else (moved - g) / step

    ends = Ends(np.inf, -np.inf)
    for diagonal, beside in krylov(product, len(x), LOCAL_STEPS):
        values = linalg.eigvalsh_tridiagonal(diagonal, beside[:-1])
        ends = Ends(float(values[0]), float(np.abs(values[[0, -1]]).max()))
    return ends


def _step_at(look: Look, gradient: Gradient, precision: float) -> float | None:
    """How far to go for a difference of gradients: so far that half the way gives the same.

    None if no way is short enough, as where x^4 is lowest: there is no curvature there.
    """
    x, g = look
    step = precision**0.25 * (1 + float(np.linalg.norm(x)))
    v = np.ones(len(x)) / np.sqrt(len(x))
    noise = 1e3 * precision * float(np.linalg.norm(g))
    for _ in range(SHORTER_STEPS):
        whole = gradient(x + step * v)
        half = gradient(x + step / 2 * v)
        if whole is not None and half is not None:
            change = float(np.linalg.norm(whole - g))
            bent = float(np.linalg.norm((whole - g) - 2 * (half - g)))
            if bent <= STRAIGHT * change + noise:
                return float(step)
        step /= 8
    return None
