"""Theorems 1 and 2 beside runs of GPDMM, and Inexact FedSplit beside its bound."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm import theory
from pdmm.paper.jobs import Job, least_squares
from pdmm.paper.store import Columns

Curve = npt.NDArray[np.float64]
KS = (1, 3, 5, 10)
FRACTION = 0.8  # GPDMM's step size, in units of 1/L: about where Theorem 1 promises most
FIRST = "Theorem 1"
SECOND = "Theorem 2"
SPLIT = "Inexact FedSplit"
PAPER_RHO = "1/(K eta)"
BEST_RHO = "best"
NEARLY_EXACT = 300  # so many gradient steps leave nothing but rounding, where kappa is 7


def sizes(quick: bool) -> tuple[int, int, int]:
    """Clients, samples and features; the clients' kappa is about 7."""
    return (5, 100, 20) if quick else (10, 250, 50)


def jobs(quick: bool) -> list[Job]:
    """Every K for each theorem; Inexact FedSplit from both starts, and from x0 = x*."""
    m, n, d = sizes(quick)

    def job(what: str, K: int, rounds: int, start: str, **more: Any) -> Job:
        # The wide clients have fewer samples than features, so that mu = 0.
        samples = d * 2 // 5 if what == SECOND else n
        settings = {"local_steps": K, "start": start, "rho": PAPER_RHO, "x0": "0", **more}
        parameters = {
            "experiment": "theorem1",
            "what": what,
            "problem": {"clients": m, "samples": samples, "features": d, "seed": 0},
            "method": SPLIT if what == SPLIT else "GPDMM",
            "settings": settings,
            "rounds": rounds,
        }
        return Job(parameters, cost=rounds, run=run)

    rho = "sqrt(L mu)"
    return [
        *(job(FIRST, K, 60, "own", rho=r) for r in (PAPER_RHO, BEST_RHO) for K in KS),
        *(job(SPLIT, K, 60, start, rho=rho) for K in KS for start in ("anchor", "server")),
        job(SPLIT, NEARLY_EXACT, 60, "anchor", rho=rho, x0="x*"),
        *(job(SECOND, K, 200 if quick else 1000, "own") for K in KS),
    ]


def run(parameters: dict[str, Any], advance: Callable[[], object]) -> Columns:
    """What was measured and what is proven, round by round."""
    problem = least_squares(**parameters["problem"])
    rounds = parameters["rounds"]
    compare = {FIRST: _theorem1, SECOND: _theorem2, SPLIT: _fedsplit}[parameters["what"]]
    found = compare(problem, parameters["settings"], rounds)
    for _ in range(rounds):
        advance()
    return {
        "round": np.arange(1, rounds + 1),
        "measured": found.measured,
        "bound": found.bound,
        "rate": np.full(rounds, found.rate),
    }


class Comparison(NamedTuple):
    """What was measured and what is proven, by rounds, and the proven rate if there is one."""

    measured: Curve
    bound: Curve
    rate: float = np.nan


def _theorem1(problem: pdmm.Problem, settings: dict[str, Any], rounds: int) -> Comparison:
    L = largest_smoothness(problem)
    eta = FRACTION / L
    rho = None
    if settings["rho"] == BEST_RHO:
        rho = theory.best_gpdmm(L, least_convexity(problem), eta).rho
    method = pdmm.GPDMM(eta, settings["local_steps"], rho)
    trace = theory.trace_theorem1(problem, method, rounds)
    return Comparison(trace.Q, trace.bound, trace.theorem.beta)


def _theorem2(problem: pdmm.Problem, settings: dict[str, Any], rounds: int) -> Comparison:
    method = pdmm.GPDMM(FRACTION / largest_smoothness(problem), settings["local_steps"])
    trace = theory.trace_theorem2(problem, method, rounds)
    return Comparison(trace.left, trace.right)


def _fedsplit(problem: pdmm.Problem, settings: dict[str, Any], rounds: int) -> Comparison:
    L = largest_smoothness(problem)
    mu = least_convexity(problem)
    rho = theory.best_rho(L, mu)
    eta = 1 / (L + rho)
    method = pdmm.InexactFedSplit(1 / rho, eta, settings["local_steps"], settings["start"])
    x0 = _minimiser(problem, rho) if settings["x0"] == "x*" else None
    trace = theory.trace_fedsplit(problem, method, rounds, x0=x0)
    return Comparison(trace.distance, trace.proven, theory.pdmm_rate(L, mu, rho).rate)


def largest_smoothness(problem: pdmm.Problem) -> float:
    """L, the largest of all clients."""
    return float(problem.smoothness().clients.max())


def least_convexity(problem: pdmm.Problem) -> float:
    """The smallest mu of all clients."""
    return float(problem.strong_convexity().clients.min())


def _minimiser(problem: pdmm.Problem, rho: float) -> Any:
    return pdmm.solve(problem, pdmm.PDMM(rho), rounds=200, record_every=200).x
