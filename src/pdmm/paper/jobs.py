"""Experiments as lists of jobs: what to run, and what it costs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

import pdmm
from pdmm.paper.store import Columns, Store
from pdmm.paper.workers import side_by_side
from pdmm.threads import available

METHODS: dict[str, Callable[..., pdmm.Method]] = {
    "FedAvg": pdmm.FedAvg,
    "GPDMM": pdmm.GPDMM,
    "SCAFFOLD": pdmm.Scaffold,
    "AGPDMM": pdmm.AGPDMM,
    "Inexact FedSplit": pdmm.InexactFedSplit,
}


@dataclass(frozen=True)
class Job:
    """One run: its parameters (which name it on disk), its cost, and how to do it.

    ``apart``: it is small and long, better on one core beside others than on all of them.
    """

    parameters: dict[str, Any]
    cost: float
    run: Callable[[dict[str, Any], Callable[[], object]], Columns]
    apart: bool = False

    @property
    def label(self) -> str:
        """What a progress bar says."""
        p = self.parameters
        K = p["settings"].get("local_steps")
        return f"{p['experiment']}: {p['method']}" + (f", K = {K}" if K else "")

    @property
    def per_round(self) -> float:
        return self.cost / float(self.parameters["rounds"])


@lru_cache(maxsize=1)  # a large problem is held until another is asked for
def least_squares(clients: int, samples: int, features: int, seed: int) -> pdmm.LeastSquares:
    """The paper's random problem, factorised once for all runs on it."""
    return pdmm.LeastSquares.random(clients, samples, features, seed=seed).factorise()


def run_least_squares(parameters: dict[str, Any], advance: Callable[[], object]) -> Columns:
    """Gap after every round."""

    def after_round(r: int, x: object) -> None:
        advance()

    method = METHODS[parameters["method"]](**parameters["settings"])
    result = pdmm.solve(
        least_squares(**parameters["problem"]),
        method,
        rounds=parameters["rounds"],
        callback=after_round,
    )
    return {name: np.asarray(result.history[name]) for name in ("round", "gap", "objective")}


def complete(
    jobs: Iterable[Job], store: Store, advance: Callable[[str, float], object]
) -> list[tuple[Job, Columns]]:
    """Every job's columns: from the store, or computed and stored.

    Args:
        jobs: what is wanted.
        store: where finished runs are.
        advance: called as ``advance(label, cost)`` as work is done.
    """
    jobs, counted = list(jobs), set()
    apart = [job for job in jobs if job.apart and store.get(job.parameters) is None]
    if len(apart) > 1 and available() > 1:
        side_by_side(
            sorted(apart, key=lambda job: -job.cost),  # the longest first: all end together
            lambda job: advance(job.label, job.per_round),
            lambda job, columns: store.put(job.parameters, columns),
        )
        counted = {id(job) for job in apart}
    done = []
    for job in jobs:
        p = job.parameters
        columns = store.get(p)
        if columns is None:
            columns = job.run(p, partial(advance, job.label, job.per_round))
            store.put(p, columns)
            # Read back, as a later command would find it: an interruption changes nothing.
            columns = store.get(p) or columns
        elif id(job) not in counted:
            advance(job.label, job.cost)
        done.append((job, columns))
    return done
