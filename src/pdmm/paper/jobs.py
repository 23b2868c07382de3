"""Experiments as lists of jobs: what to run, and what it costs."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

import pdmm
from pdmm.common.team import ALONE
from pdmm.common.threads import available
from pdmm.engines import MPI
from pdmm.paper.store import Columns, Store
from pdmm.paper.workers import side_by_side

log = logging.getLogger(__name__)

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
    run: Callable[..., Columns]
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


def least_squares(
    clients: int, samples: int, features: int, seed: int, engine: MPI | None = None
) -> pdmm.LeastSquares:
    """The paper's random problem, or this rank's clients of it, factorised for all runs on it."""
    mine = range(clients) if engine is None else engine.range(clients)
    return _least_squares(mine, samples, features, seed)


@lru_cache(maxsize=1)  # a large problem is held until another is asked for
def _least_squares(mine: range, samples: int, features: int, seed: int) -> pdmm.LeastSquares:
    return pdmm.LeastSquares.random(mine, samples, features, seed=seed).factorise()


def run_least_squares(
    parameters: dict[str, Any], advance: Callable[[], object], engine: MPI | None = None
) -> Columns:
    """Gap after every round."""

    def after_round(r: int, x: object) -> None:
        advance()

    method = METHODS[parameters["method"]](**parameters["settings"])
    result = pdmm.solve(
        least_squares(**parameters["problem"], engine=engine),
        method,
        rounds=parameters["rounds"],
        callback=after_round,
        engine=engine,
    )
    return {name: np.asarray(result.history[name]) for name in ("round", "gap", "objective")}


def complete(
    jobs: Iterable[Job],
    store: Store,
    advance: Callable[[str, float], object],
    engine: MPI | None = None,
) -> list[tuple[Job, Columns]]:
    """Every job's columns: from the store, or computed and stored.

    Args:
        jobs: what is wanted.
        store: where finished runs are.
        advance: called as ``advance(label, cost)`` as work is done.
        engine: whose ranks share every run; rank 0 has the store.
    """
    team = ALONE if engine is None else engine.team
    jobs = list(jobs)
    counted = _complete_apart(jobs, store, advance)
    done = []
    for job in jobs:
        columns = team.first(partial(store.get, job.parameters))
        if columns is None:
            log.info("running %s", job.label)
            columns = _run_and_store(job, store, advance, engine)
        elif id(job) not in counted:
            log.debug("found %s, finished before", job.label)
            advance(job.label, job.cost)
        done.append((job, columns))
    return done


def _complete_apart(
    jobs: Sequence[Job], store: Store, advance: Callable[[str, float], object]
) -> set[int]:
    """Run the small jobs that are missing side by side; returns the id() of each that was run."""
    missing = [job for job in jobs if job.apart and store.get(job.parameters) is None]
    if len(missing) < 2 or available() < 2:
        return set()
    log.info("running %d jobs, each on a core of its own", len(missing))
    side_by_side(
        sorted(missing, key=lambda job: -job.cost),  # the longest first: all end together
        lambda job: advance(job.label, job.per_round),
        lambda job, columns: store.put(job.parameters, columns),
    )
    return {id(job) for job in missing}


def _run_and_store(
    job: Job, store: Store, advance: Callable[[str, float], object], engine: MPI | None
) -> Columns:
    team = ALONE if engine is None else engine.team
    run = job.run if engine is None else partial(job.run, engine=engine)
    columns = run(job.parameters, partial(advance, job.label, job.per_round))
    team.first(partial(store.put, job.parameters, columns))
    # Read back, as a later command would find it: an interruption changes nothing.
    return team.first(partial(store.get, job.parameters)) or columns
