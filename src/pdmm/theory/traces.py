"""Runs of GPDMM beside Theorems 1 and 2: measured and proven, round by round.

In float64, what is measured ends in rounding noise: about 1e-30 of the first value where it
is a square, 1e-15 where it is a distance; in float32, 1e-13 and 1e-7; or, if ``x_star`` is less
accurate than that, its own error. A bound goes on falling below that: no contradiction.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.common.checks import whole
from pdmm.methods import GPDMM
from pdmm.problems.base import Problem
from pdmm.problems.block import Block
from pdmm.theory.bounds import Curve, theorem2_bound
from pdmm.theory.conditions import step_below
from pdmm.theory.rates import Theorem1, gpdmm_rate
from pdmm.theory.traced import Vector, Watched, known, square, watch


@dataclass(frozen=True)
class Theorem1Trace:
    """Q^r of a run of GPDMM beside Q^1 beta^(r-1).

    Attributes:
        Q: Q^1, .., Q^R.
        bound: what Theorem 1 allows, Q^1 beta^(r-1).
        theorem: the :class:`Theorem1` that they are made of.
    """

    Q: Curve
    bound: Curve
    theorem: Theorem1


@dataclass(frozen=True)
class Theorem2Trace:
    """Both sides of Theorem 2 along a run of GPDMM, for R = 1, 2, ..

    Attributes:
        gap: the Lagrangian gap at the clients' averages.
        dual: (gamma1 eta²/2) sum_i ‖lambar_i^R - lam_i*‖².
        right: the bound.
    """

    gap: Curve
    dual: Curve
    right: Curve

    @property
    def left(self) -> Curve:
        """The left-hand side, gap + dual."""
        return self.gap + self.dual


def trace_theorem1(
    problem: Problem,
    method: GPDMM,
    rounds: int,
    x0: Any = None,
    x_star: Any = None,
    smoothness: float | None = None,
    strong_convexity: float | None = None,
) -> Theorem1Trace:
    """Run GPDMM, and put its Lyapunov function Q^r beside what Theorem 1 promises.

    Args:
        problem: with strongly convex f_i.
        method: GPDMM with the mean iterate and relaxation 1, for which the theorem is proven.
        rounds: how many.
        x0: the start, zeros if not given.
        x_star: the minimiser; LeastSquares finds its own.
        smoothness: L, the largest of all clients; by default the problem's own.
        strong_convexity: mu, the smallest of all clients; by default the problem's own.

    Example:
        >>> import pdmm
        >>> problem = pdmm.LeastSquares.random(clients=5, samples=60, features=8, seed=0)
        >>> trace = pdmm.theory.trace_theorem1(problem, pdmm.GPDMM(0.005, 3), rounds=20)
        >>> bool((trace.Q <= trace.bound).all())
        True
        >>> trace.Q.shape, 0 < trace.theorem.beta < 1
        ((20,), True)

    References:
        Zhang, Niwa, Kleijn, Section V, Theorem 1.
    """
    rounds = _gpdmm(method, rounds)
    theorem = gpdmm_rate(
        known(problem, "smoothness", smoothness),
        known(problem, "strong_convexity", strong_convexity),
        method.eta,
        method.penalty,
    )
    with watch(problem, method, rounds, x0, x_star) as run:
        Q = np.array(
            [
                theorem.lyapunov(
                    before.x,
                    x_bar,
                    theorem.rho * (anchor - x_bar),  # Alg. 1, line 9
                    run.x_star,
                    run.lam_star,
                    method.steps,
                )
                for before, anchor, x_bar, _, _ in run
            ]
        )
    return Theorem1Trace(Q, Q[0] * theorem.beta ** np.arange(rounds), theorem)


def trace_theorem2(
    problem: Problem,
    method: GPDMM,
    rounds: int,
    x0: Any = None,
    x_star: Any = None,
    smoothness: float | None = None,
) -> Theorem2Trace:
    """Run GPDMM, and compute both sides of Theorem 2, which needs no strong convexity.

    Args:
        problem: with convex f_i.
        method: GPDMM with the mean iterate and relaxation 1, for which the theorem is proven.
        rounds: R = 1 .. rounds.
        x0: the start, zeros if not given.
        x_star: a minimiser; LeastSquares finds its own.
        smoothness: L, the largest of all clients; by default the problem's own.

    Example:
        >>> import pdmm
        >>> problem = pdmm.LeastSquares.random(clients=5, samples=3, features=8, seed=0)  # mu = 0
        >>> trace = pdmm.theory.trace_theorem2(problem, pdmm.GPDMM(0.03, 3), rounds=50)
        >>> bool((trace.left <= trace.right).all())
        True

    References:
        Zhang, Niwa, Kleijn, Section V, Theorem 2; see :func:`theorem2_bound`.
    """
    rounds = _gpdmm(method, rounds)
    L = known(problem, "smoothness", smoothness)
    eta = step_below(method.eta, L)
    rho = method.penalty
    gap = np.empty(rounds)
    dual = np.empty(rounds)
    start = first = 0.0
    with watch(problem, method, rounds, x0, x_star) as run:
        x_sum = np.zeros_like(run.lam_star)
        lam_sum = np.zeros_like(run.lam_star)
        for r, (before, anchor, x_bar, _, _) in enumerate(run):
            lam = rho * (anchor - x_bar)  # Alg. 1, line 9
            if r == 0:
                start = square(before.x - run.x_star)
                first = square(rho * (x_bar - run.x_star) + lam - run.lam_star)
            x_sum += x_bar
            lam_sum += lam
            gap[r] = _lagrangian_gap(run, x_sum / (r + 1))
            dual[r] = eta * (1 - L * eta) / 4 * square(lam_sum / (r + 1) - run.lam_star)
    right = theorem2_bound(L, start, first, eta, method.steps, rho, rounds)
    return Theorem2Trace(gap, dual, right)


def _gpdmm(method: Any, rounds: Any) -> int:
    """Refuse a method of which Theorems 1 and 2 say nothing; returns the rounds."""
    if not isinstance(method, GPDMM):
        raise ValueError(
            f"method must be pdmm.GPDMM, of which Theorems 1 and 2 speak, got {method!r}"
        )
    if method.iterate != "mean" or method.relaxation != 1 or method.acceleration is not None:
        raise ValueError(
            'method must be GPDMM with iterate="mean", relaxation=1 and no acceleration, for which '
            f"Theorems 1 and 2 are proven, got {method!r}"
        )
    return whole("rounds", rounds, at_least=1)


def _lagrangian_gap(run: Watched, x: Vector) -> float:
    """sum_i f_i(x_i) - f_i(x*) - lam_i*·(x_i - x*), without cancellation where it is known."""
    x_star = run.x_star
    rows = x.astype(run.problem.dtype)

    def part(f: Block, block: slice) -> Vector:
        if run.problem.accurate:
            return np.asarray(f.divergence(rows[block], x_star), dtype=np.float64)
        slope = ((x[block] - x_star) * run.lam_star[block]).sum(1)
        return np.asarray(f.value(rows[block]) - f.value(x_star) - slope, dtype=np.float64)

    return float(run.each(part).sum())
