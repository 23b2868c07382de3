"""Runs of PDMM, FedSplit and Inexact FedSplit beside what is proven of them.

Their bounds allow for rounding, which is what remains where a theorem promises 0: with kappa = 1
and exact steps x_s is x* after one round, but for rounding.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.common.checks import whole
from pdmm.methods import PDMM, FedSplit, InexactFedSplit
from pdmm.problems.base import Problem
from pdmm.theory.bounds import Curve, fedsplit_bound
from pdmm.theory.conditions import curvatures
from pdmm.theory.exact_rate import ExactRate, pdmm_rate
from pdmm.theory.rounding import Rounding
from pdmm.theory.traced import Vector, Watched, known, square, watch


@dataclass(frozen=True)
class ExactTrace:
    """‖z - z*‖ of a run of PDMM or FedSplit, after 0, 1, 2, .. rounds.

    Attributes:
        distance: what was measured.
        proven: the first of them times rate^r.
        rounding: what rounding may add to that.
        exact: the :class:`ExactRate`.
    """

    distance: Curve
    proven: Curve
    rounding: Curve
    exact: ExactRate

    @property
    def bound(self) -> Curve:
        """What the distances keep: proven + rounding."""
        return self.proven + self.rounding


@dataclass(frozen=True)
class FedSplitTrace:
    """‖x_s - x*‖ of a run of Inexact FedSplit, after 1, 2, .. rounds.

    Attributes:
        distance: what was measured.
        proven: the bound, from the largest error that was measured.
        rounding: what rounding may add to that.
        errors: the largest error of a client's steps, in every round.
        start: ‖z^1 - z*‖, from which the bound begins.
        offset: the part of what is proven that stays, (sqrt(kappa) + 1) max(errors).
    """

    distance: Curve
    proven: Curve
    rounding: Curve
    errors: Curve
    start: float
    offset: float

    @property
    def bound(self) -> Curve:
        """What the distances keep: proven + rounding."""
        return self.proven + self.rounding


def trace_pdmm(
    problem: Problem,
    method: PDMM | FedSplit,
    rounds: int,
    x0: Any = None,
    x_star: Any = None,
    smoothness: float | None = None,
    strong_convexity: float | None = None,
) -> ExactTrace:
    """Run PDMM or FedSplit with exact steps, and put ‖z - z*‖ beside what is proven.

    Args:
        problem: with strongly convex f_i.
        method: PDMM or FedSplit; any relaxation.
        rounds: how many.
        x0: the start, zeros if not given.
        x_star: the minimiser; LeastSquares finds its own.
        smoothness: L, the largest of all clients; by default the problem's own.
        strong_convexity: mu, the smallest of all clients; by default the problem's own.

    Example:
        >>> import pdmm
        >>> problem = pdmm.LeastSquares.random(clients=5, samples=60, features=8, seed=0)
        >>> trace = pdmm.theory.trace_pdmm(problem, pdmm.PDMM(rho=50.0), rounds=20)
        >>> bool((trace.distance <= trace.bound).all())
        True
    """
    if not isinstance(method, PDMM | FedSplit) or method.acceleration is not None:
        raise ValueError(
            "method must be PDMM or FedSplit, whose steps are exact, without acceleration, "
            f"got {method!r}"
        )
    rounds = whole("rounds", rounds, at_least=1)
    exact = pdmm_rate(
        known(problem, "smoothness", smoothness),
        known(problem, "strong_convexity", strong_convexity),
        method.penalty,
        method.relaxation,
    )
    with watch(problem, method, rounds, x0, x_star) as run:
        z_star = run.x_star - run.lam_star / exact.rho
        doubt = Rounding(run, exact.smoothness, exact.strong_convexity, exact.rho)
        distance = np.empty(rounds + 1)
        rounding = np.empty(rounds + 1)
        distance[0] = math.sqrt(square(run.x0 - z_star))
        rounding[0] = 0.0
        gathered = doubt.of_fixed_point  # in the first distance, and what rounds add
        for r, done in enumerate(run, 1):
            distance[r] = math.sqrt(square(done.z - z_star))
            gathered = exact.rate * gathered + doubt.of_round(done, method.relaxation)
            rounding[r] = gathered + doubt.of_fixed_point
    proven = distance[0] * exact.rate ** np.arange(rounds + 1)
    return ExactTrace(distance, proven, rounding, exact)


def trace_fedsplit(
    problem: Problem,
    method: InexactFedSplit,
    rounds: int,
    x0: Any = None,
    x_star: Any = None,
    smoothness: float | None = None,
    strong_convexity: float | None = None,
) -> FedSplitTrace:
    """Run Inexact FedSplit, and put ‖x_s - x*‖ beside its bound, corrected.

    Every client's exact step is computed beside its K gradient steps, to measure the error b.

    Args:
        problem: with strongly convex f_i.
        method: InexactFedSplit with relaxation 1, from either start.
        rounds: how many.
        x0: the start, zeros if not given.
        x_star: the minimiser; LeastSquares finds its own.
        smoothness: L, the largest of all clients; by default the problem's own.
        strong_convexity: mu, the smallest of all clients; by default the problem's own.

    Example:
        >>> import pdmm
        >>> problem = pdmm.LeastSquares.random(clients=5, samples=60, features=8, seed=0)
        >>> method = pdmm.InexactFedSplit(gamma=0.02, step_size=0.005, local_steps=3)
        >>> trace = pdmm.theory.trace_fedsplit(problem, method, rounds=40)
        >>> bool((trace.distance <= trace.bound).all())
        True

    References:
        See :func:`fedsplit_bound`.
    """
    if (
        not isinstance(method, InexactFedSplit)
        or method.relaxation != 1
        or method.acceleration is not None
    ):
        raise ValueError(
            f"method must be InexactFedSplit with relaxation=1 and no acceleration, got {method!r}"
        )
    rounds = whole("rounds", rounds, at_least=1)
    L, mu = curvatures(
        known(problem, "smoothness", smoothness),
        known(problem, "strong_convexity", strong_convexity),
    )
    gamma = 1 / method.penalty
    distance = np.empty(rounds)
    errors = np.empty(rounds)
    missed = server = 0.0
    with watch(problem, method, rounds, x0, x_star) as run:
        doubt = Rounding(run, L, mu, method.penalty)
        start = math.sqrt(square(run.x0 - run.x_star - gamma * run.lam_star))
        for r, done in enumerate(run):
            exact = _exact_step(run, done.anchor, method.penalty)
            error = np.linalg.norm(done.x - exact, axis=1)
            errors[r] = error.max()
            distance[r] = np.linalg.norm(done.x_s - run.x_star)
            missed = max(missed, float((error + doubt.of_steps(done.anchor, exact)).max()))
            server = max(server, doubt.before(done), doubt.of_server(done.x_s, done.z))

    def bound(far: float, b: float) -> Curve:
        return fedsplit_bound(L, mu, far, b, rounds, problem.clients, gamma)

    worst = float(errors.max())
    proven = bound(start, worst)
    # An x_s that is not the mean moves the anchors by twice as much, as an error of x_i does z_i.
    wide = bound(start + doubt.of_fixed_point, missed + server) + doubt.of_optimum + server
    return FedSplitTrace(
        distance=distance,
        proven=proven,
        rounding=wide - proven,
        errors=errors,
        start=start,
        offset=float(bound(0.0, worst)[-1]),
    )


def _exact_step(run: Watched, anchor: Vector, rho: float) -> Vector:
    wanted = anchor.astype(run.problem.dtype)
    return run.each(lambda f, block: f.prox(wanted[block], rho, wanted[block]))
