"""Exact steps of all clients of a block at once, by Newton's method with Hessians."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import gamma

if TYPE_CHECKING:
    from pdmm.problems.glm.block import GLMBlock

Vector = npt.NDArray[np.float64]
Floats = npt.NDArray[np.floating]

STEPS = 100
ENOUGH = 1e-4  # of the decrease that the slope promises: a step with less is too long
STRAIGHT = 0.3  # of the slope along a step: if so much is left of it, the step is too short
SHORTER = np.array([1 / 2, 1 / 4, 1 / 8, 1 / 16])  # times a step that is too long
LONGER = np.array([2.0, 4.0, 8.0, 16.0])
SHORTEST = 1e-12
ROUNDED = 1e-13  # of a value: what differences of values are off by, about
NEAR = 1e-6  # a relative residual from which on Newton's method doubles its digits in each step
PATIENCE = 3  # steps that do not halve the residual, before rounding is held to be the reason


@dataclass
class _Point:
    """Where the clients are, and what they know there: f_i and the pull to the anchor added up."""

    x: Vector
    value: Vector
    slope: Vector
    H: Vector
    scale: Vector
    """(b,): the size of what cancels in the slope."""
    size: Vector
    """(b,): the size of what cancels in the value."""

    @property
    def residual(self) -> Vector:
        return np.asarray(np.linalg.norm(self.slope, axis=1))

    @property
    def error(self) -> Vector:
        """(b,): the residual, relative to what cancels in it."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.residual == 0, 0.0, self.residual / self.scale)

    def some(self, which: npt.NDArray[np.int64]) -> "_Point":
        return _Point(
            self.x[which],
            self.value[which],
            self.slope[which],
            self.H[which],
            self.scale[which],
            self.size[which],
        )

    def put(self, where: npt.NDArray[np.int64], other: "_Point") -> None:
        """Take over another's points for some clients."""
        self.x[where] = other.x
        self.value[where] = other.value
        self.slope[where] = other.slope
        self.H[where] = other.H
        self.scale[where] = other.scale
        self.size[where] = other.size


class _Pull:
    """(x - anchor)'P(x - anchor)/2 of some clients, with P = rho I or their own."""

    def __init__(self, anchor: Vector, rho: float | Vector) -> None:
        self.anchor = anchor
        self.rho = rho

    def some(self, which: npt.NDArray[np.int64]) -> "_Pull":
        rho = self.rho if np.ndim(self.rho) == 0 else np.asarray(self.rho)[which]
        return _Pull(self.anchor[which], rho)

    def times(self, v: Vector) -> Vector:
        """P v for each client."""
        if np.ndim(self.rho) == 0:
            return np.asarray(self.rho * v)
        return np.asarray(np.matmul(self.rho, v[..., None])[..., 0])

    def added(self, H: Vector) -> Vector:
        if np.ndim(self.rho) == 0:
            return np.asarray(H + self.rho * np.eye(H.shape[1]))
        return np.asarray(H + self.rho)

    def at(self, f: "GLMBlock", x: Vector) -> _Point:
        value, g, H = f.second_order(x)
        away = x - self.anchor
        pull = self.times(away)
        added = np.einsum("bd,bd->b", away, pull) / 2
        scale = np.linalg.norm(g, axis=1) + np.linalg.norm(self.times(x), axis=1)
        scale += np.linalg.norm(self.times(self.anchor), axis=1)
        size = np.abs(value) + added
        return _Point(x, value + added, g + pull, self.added(H), scale, size)

    def along(self, f: "GLMBlock", x: Vector, step: Vector, t: Vector) -> Vector:
        """(b, len(t)): values at x + t step."""
        away = x - self.anchor
        pull = self.times(step)
        constant = np.einsum("bd,bd->b", away, self.times(away)) / 2
        linear = np.einsum("bd,bd->b", away, pull)
        square = np.einsum("bd,bd->b", step, pull) / 2
        added = constant[:, None] + linear[:, None] * t + square[:, None] * t * t
        return np.asarray(f.along(x, step, t) + added)


def exact_steps(
    f: "GLMBlock",
    anchor: Floats,
    rho: float | Vector,
    start: Floats,
    slack: Floats | None,
) -> Vector:
    """The minimiser (b, d) of f_i(x) + (x - anchor)'P(x - anchor)/2 of each client.

    Every step must decrease the function itself. What was asked of clients is added to f's tally.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _exact_steps(f, anchor, rho, start, slack)


def _exact_steps(
    f: "GLMBlock",
    anchor: Floats,
    rho: float | Vector,
    start: Floats,
    slack: Floats | None,
) -> Vector:
    b = f.size
    f.tally.exact += b
    pull = _Pull(anchor.astype(np.float64), rho)
    x = np.array(np.broadcast_to(start, anchor.shape), dtype=np.float64)
    here = pull.at(f, x)
    _count(f, b)
    lost = np.flatnonzero(~_finite(here))
    _begin_again(f, pull, here, lost)
    begun_again = np.zeros(b, dtype=bool)
    begun_again[lost] = True
    left = np.full(b, PATIENCE)
    active = np.flatnonzero(_finite(here) & ~_arrived(f, here, slack))
    for _ in range(STEPS):
        if not len(active):
            break
        before = here.some(active)
        there = _step(f, f.part(active), pull.some(active), before)
        # Near the end rounding decides, and values do not tell which point is better.
        near = there.error < NEAR
        slow = there.residual > before.residual / 2
        left[active] = np.where(slow & near, left[active] - 1, PATIENCE)
        take = np.flatnonzero(~near | (there.residual < before.residual))
        here.put(active[take], there.some(take))
        moved = (there.x != before.x).any(1)
        lost = active[~moved & ~near & ~begun_again[active]]
        _begin_again(f, pull, here, lost)
        begun_again[lost] = True
        moved |= np.isin(active, lost)
        active = active[moved & (left[active] > 0) & ~_arrived(f, here, slack)[active]]
    here.x[~_finite(here)] = np.nan  # the engine names the client
    _report(f, here, slack)
    return here.x


def _begin_again(f: "GLMBlock", pull: _Pull, here: _Point, lost: npt.NDArray[np.int64]) -> None:
    """Take x = 0, where linear predictors are those that the user gave, for some clients.

    So far away that exp overflows, or that all digits are lost, no step leads on.
    """
    if len(lost):
        origin = np.zeros((len(lost), here.x.shape[1]))
        here.put(lost, pull.some(lost).at(f.part(lost), origin))
        _count(f, len(lost))


def _arrived(f: "GLMBlock", here: _Point, slack: Floats | None) -> npt.NDArray[np.bool_]:
    """Which clients have a residual that is small enough."""
    arrived = here.residual <= f.tolerance * here.scale
    return arrived if slack is None else arrived | (here.residual <= slack)


def _finite(point: _Point) -> npt.NDArray[np.bool_]:
    inside = np.isfinite(point.value) & np.isfinite(point.residual) & np.isfinite(point.scale)
    return np.asarray(inside & np.isfinite(point.H).all((1, 2)))


def _count(f: "GLMBlock", clients: int) -> None:
    """So many clients were asked for values, gradients and Hessians."""
    f.tally.gradients += clients
    f.tally.values += clients


def _report(f: "GLMBlock", here: _Point, slack: Floats | None) -> None:
    """Say how good the points are; what rounding leaves is not missed."""
    error = np.nan_to_num(here.error, nan=0.0)
    f.tally.error = max(f.tally.error, float(error.max(initial=0.0)))
    short = np.flatnonzero(_finite(here) & ~_arrived(f, here, slack))
    if len(short):
        _, doubt = f.part(short).certain_gradient(here.x[short])
        missed = here.residual[short] > 4 * doubt + gamma(64) * here.scale[short]
        f.tally.missed = max(f.tally.missed, float(error[short][missed].max(initial=0.0)))


def _step(whole: "GLMBlock", f: "GLMBlock", pull: _Pull, here: _Point) -> _Point:
    """A step of Newton's for all clients of f, shortened or made longer where that is better."""
    step = _direction(here)
    slope = np.einsum("bd,bd->b", here.slope, step)
    there = pull.at(f, here.x + step)
    _count(whole, f.size)
    rounding = ROUNDED * (here.size + there.size)
    ahead = np.einsum("bd,bd->b", there.slope, step)
    lower = there.value <= here.value + ENOUGH * slope
    even = np.abs(there.value - here.value) <= rounding
    fine = _finite(there) & (lower | (even & (np.abs(ahead) <= np.abs(slope))))
    short = fine & (ahead < STRAIGHT * slope) & ~even
    share = np.ones(f.size)
    if short.any():
        share[short] = _longer(f, pull, here, step, there.value)[short]
    if not fine.all():
        share[~fine] = _shorter(f, pull, here, step, slope)[~fine]
    other = share != 1
    if other.any():
        where = np.flatnonzero(other)
        again = here.x[where] + share[where, None] * step[where]
        found = pull.some(where).at(f.part(where), again)
        _count(whole, len(where))
        whole.tally.values += len(SHORTER) * len(where)
        there.put(where, found)
    return there


def _direction(here: _Point) -> Vector:
    """-H^-1 times the slope, in coordinates in which the diagonal of H is 1."""
    own = np.sqrt(np.einsum("bdd->bd", here.H))
    own = np.where(own > 0, own, 1.0)
    H = here.H / own[:, :, None] / own[:, None, :]
    right = -(here.slope / own)[..., None]
    try:
        solved = np.linalg.solve(H, right)
    except np.linalg.LinAlgError:  # rho is lost in the rounding of a Hessian without full rank
        solved = np.linalg.solve(H + 1e-14 * len(H[0]) * np.eye(H.shape[1]), right)
    step = solved[..., 0] / own
    down = np.einsum("bd,bd->b", here.slope, step) < 0
    scaled = right[..., 0] / own
    return np.where(down[:, None], step, scaled)


def _shorter(f: "GLMBlock", pull: _Pull, here: _Point, step: Vector, slope: Vector) -> Vector:
    """(b,): how much of a step to take: the best of some shares of which one is low enough."""
    share = np.zeros(f.size)
    longest = 1.0
    while longest > SHORTEST and not share.all():
        t = longest * SHORTER
        values = pull.along(f, here.x, step, t)
        low = values <= here.value[:, None] + ENOUGH * t * slope[:, None]
        values = np.where(low, values, np.inf)
        best = t[values.argmin(1)]
        share = np.where((share == 0) & low.any(1), best, share)
        longest = float(t[-1])
    return share


def _longer(f: "GLMBlock", pull: _Pull, here: _Point, step: Vector, value: Vector) -> Vector:
    """(b,): how many times a step to go, as long as that is lower."""
    values = pull.along(f, here.x, step, LONGER)
    values = np.where(np.isfinite(values), values, np.inf)
    best = values.argmin(1)
    lowest = values[np.arange(f.size), best]
    return np.where(lowest < value, LONGER[best], 1.0)
