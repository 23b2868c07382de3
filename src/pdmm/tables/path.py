"""A path of penalties: each fit starts where the one before it ended, all folds side by side."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.caller import warn_caller
from pdmm.tables.fold_sums import Answer, Sums
from pdmm.tables.penalties import Net, Step, Sweep, grid, step

Vector = npt.NDArray[np.float64]

CLOSE = 1e-3  # standard errors: how near to its minimum a fit of the path is
SHARE = 1e-4  # of the decrease that the slope promises: what a step must bring
MOST = 60  # exchanges for one penalty


class Point(NamedTuple):
    """Where a fit is, and what clients said of it there."""

    x: Vector
    seen: Answer


class Path(NamedTuple):
    """All fits along a path, from the largest penalty to the smallest: L of them, K folds."""

    penalties: Vector
    """(L,): the values of c."""
    coefficients: Vector
    """(L, d): of the fit on all rows, in the units of the table."""
    held: Vector
    """(L, K): the deviance that each fold holds out."""
    rounds: npt.NDArray[np.int64]
    """(L,): the exchanges for each penalty."""
    total: int
    """All exchanges, those before the first penalty among them."""


def follow(
    sums: Sums,
    sweep: Sweep,
    unit: Vector,
    shares: Vector,
    count: int,
    wide: bool,
    close: float = CLOSE,
    done: Callable[[int], object] = lambda count: None,
) -> Path:
    """Fit all folds and all rows along a path of penalties.

    Args:
        sums: what clients answer.
        sweep: which penalties.
        unit: (d,): the weight of each coefficient in l1, in the units of the table; 0 where it is
            free.
        shares: (K + 1,): the share of rows that each fit trains on. Penalties are multiplied by it,
            so that one c is as strong against fewer rows.
        count: how many penalties.
        wide: whether there are more rows than coefficients.
        close: how near to its minimum each fit shall be, in standard errors.
        done: called with 1 after each penalty.
    """
    own = unit * sums.variables.scale
    null = null_models(sums, own == 0, close)
    values = grid(sweep, null[sums.fits - 1].seen, own, count, wide)
    points = null
    rounds = []
    held = []
    coefficients = []
    moving = np.ones(len(unit), dtype=bool)
    for c in values.tolist():
        before = sums.rounds
        l1, l2 = sweep.at(c)
        nets = [Net(s * l1 * own, s * l2 * own**2, moving) for s in shares.tolist()]
        points, arrived = descend(sums, points, nets, close)
        if not arrived:
            warn_caller(
                f"the fits of the penalty {c:.3g} did not arrive in {MOST} rounds: its loss is "
                "that of where they stand",
                UserWarning,
            )
        rounds.append(sums.rounds - before)
        held.append([points[k].seen.held for k in range(sums.fits - 1)])
        coefficients.append(sums.variables.to_x(points[sums.fits - 1].x))
        done(1)
    return Path(values, np.array(coefficients), np.array(held), np.array(rounds), sums.rounds)


def null_models(sums: Sums, free: npt.NDArray[np.bool_], close: float) -> dict[int, Point]:
    """For each fit, the model in which all penalised coefficients are 0."""
    nothing = np.zeros(len(free))
    net = Net(nothing, nothing, free)
    at = dict.fromkeys(range(sums.fits), nothing)
    if free.any():
        # The first step is taken on the quadratics of working responses, as R does: then no unit
        # of the outcome is special.
        at = {k: step(seen, nothing, net).direction for k, seen in sums.start().items()}
    points = {k: Point(at[k], seen) for k, seen in sums.ask(at).items()}
    return descend(sums, points, [net] * sums.fits, close)[0]


class _Search(NamedTuple):
    """A fit that is not at rest."""

    base: Point
    """The best point so far."""
    step: Step
    """From there to where the quadratic and the penalty are least."""
    t: float
    """How much of it is on trial."""

    @property
    def trial(self) -> Vector:
        return self.base.x + self.t * self.step.direction


def descend(
    sums: Sums, points: Mapping[int, Point], nets: Sequence[Net], close: float
) -> tuple[dict[int, Point], bool]:
    """Take all fits to the minima of their penalties, and say whether all arrived.

    Each exchange is for all fits that are not there yet. The answers that show that a fit is at
    rest are also the ones from which the next penalty starts.
    """
    found = dict(points)
    searches: dict[int, _Search] = {}

    def settle(k: int, point: Point) -> None:
        found[k] = point
        searches.pop(k, None)
        following = step(point.seen, point.x, nets[k])
        if following.length > close**2 * sums.scale(k, point.seen):
            searches[k] = _Search(point, following, 1.0)

    for k, point in points.items():
        settle(k, point)
    for _ in range(MOST):
        if not searches:
            return found, True
        for k, seen in sums.ask({k: search.trial for k, search in searches.items()}).items():
            search = searches[k]
            risen = _rise(search, seen, nets[k])
            if risen <= -SHARE * search.t * search.step.fall or _is_noise(search, risen):
                settle(k, Point(search.trial, seen))
            elif _is_rounding(search):
                searches.pop(k)
            else:
                searches[k] = search._replace(t=search.t * _shorter(search, risen))
    return found, not searches


def _rise(search: _Search, seen: Answer, net: Net) -> float:
    """By how much F is larger on trial; infinite where a client could not tell."""
    base = search.base
    risen = seen.value - base.seen.value + net.value(search.trial) - net.value(base.x)
    usable = np.isfinite(risen) and np.isfinite(seen.gradient).all()
    return risen if usable and np.isfinite(seen.hessian).all() else np.inf


def _is_noise(search: _Search, risen: float) -> bool:
    """Whether the step is so short that rounding hides what it brings."""
    noise = 1e-12 * (1 + abs(search.base.seen.value))
    return search.step.fall <= noise and risen <= noise


def _is_rounding(search: _Search) -> bool:
    return search.t * search.step.fall <= 1e-15 * (1 + abs(search.base.seen.value))


def _shorter(search: _Search, risen: float) -> float:
    """The part of a step that was too long to be tried next: the minimum of a parabola."""
    if risen == np.inf:
        return 0.1
    slope = search.t * search.step.fall
    return float(np.clip(slope / (2 * (risen + slope)), 0.1, 0.5))
