"""What is tried, what is chosen of it, and what is run with that."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pdmm.data import NAMES
from pdmm.paper.jobs import Job
from pdmm.paper.neural.training import METHODS, run
from pdmm.paper.store import Columns

MODELS = ("mlp", "cnn")
DATA = NAMES
LOCAL_STEPS = 20
BATCH = 50
SEEDS = (1, 2, 3)
BITS = (8, 4)
ROUNDED = ("FedAvg", "SCAFFOLD", "AGPDMM")
LAST = 3  # recorded rounds at the end of a trial, whose mean accuracy counts

STEPS = (0.05, 0.1, 0.2, 0.4)
# As many trials for methods without a parameter of their own.
MORE_STEPS = (0.02, 0.03, 0.045, 0.067, 0.1, 0.15, 0.22, 0.33, 0.5, 0.7, 1.0, 1.4)
CS = (0.3, 1.0, 3.0)  # rho is c/(K eta)
OWN: dict[str, tuple[float, ...]] = {
    "FedProx": (0.01, 0.1, 1.0),
    "FedDyn": (0.03, 0.1, 0.3),
    "GPDMM": CS,
    "GPDMM, last": CS,
    "AGPDMM": CS,
}


class Clients(NamedTuple):
    """How data are dealt out, who takes part, and for how many rounds."""

    clients: int
    by: str
    alpha: float
    participation: float
    rounds: int


class Pair(NamedTuple):
    """A step size and a method's own parameter, None where it has none."""

    step_size: float
    own: float | None


Key = tuple[int, str]  # how many clients there are, and the method
Done = Sequence[tuple[Job, Columns]]

SPLITS = (Clients(10, "shards", 0.1, 1.0, 50), Clients(100, "dirichlet", 0.1, 0.1, 60))
QUICK_SPLIT = Clients(10, "shards", 0.1, 1.0, 10)
QUICK_IMAGES = 2000
QUICK_EVERY = 4  # of the pairs that are tried in full


def name(model: str, data: str) -> str:
    """The experiment with a model and a data set."""
    return f"networks-{model}-{data}"


def names(model: str) -> tuple[str, ...]:
    """The experiments with a model, one for each data set."""
    return tuple(name(model, data) for data in DATA)


def tried(method: str) -> list[Pair]:
    """A method's grid: twelve pairs for each."""
    if method not in OWN:
        return [Pair(step, None) for step in MORE_STEPS]
    return [Pair(*both) for both in product(STEPS, OWN[method])]


def splits(quick: bool) -> tuple[Clients, ...]:
    """The ways in which data are dealt out."""
    return (QUICK_SPLIT,) if quick else SPLITS


def seeds(quick: bool) -> tuple[int, ...]:
    """Of the tests."""
    return SEEDS[:2] if quick else SEEDS


def trials(model: str, data: str, quick: bool) -> list[Job]:
    """Every method with its grid, for half of the rounds, judged on the validation split."""
    make = partial(_job, model, data, quick, stage="validation", seed=0)
    return [
        make(dealt, method, pair, rounds=dealt.rounds // 2)
        for dealt in splits(quick)
        for method in METHODS
        for pair in tried(method)[:: QUICK_EVERY if quick else 1]
    ]


def tests(model: str, data: str, quick: bool, done: Done) -> list[Job]:
    """Every method with what was chosen for it."""
    return _with_chosen(model, data, quick, done, tuple(METHODS), (None,))


def rounded(model: str, data: str, quick: bool, done: Done) -> list[Job]:
    """Some methods with what was chosen for them, and with few bits."""
    return _with_chosen(model, data, quick, done, ROUNDED, BITS)


def _with_chosen(
    model: str,
    data: str,
    quick: bool,
    done: Done,
    methods: tuple[str, ...],
    all_bits: tuple[int | None, ...],
) -> list[Job]:
    best = chosen(done)
    make = partial(_job, model, data, quick, stage="test")
    return [
        make(dealt, method, best[dealt.clients, method], dealt.rounds, seed=seed, bits=bits)
        for dealt in splits(quick)
        for seed in seeds(quick)
        for bits in all_bits
        for method in methods
    ]


def _job(
    model: str,
    data: str,
    quick: bool,
    dealt: Clients,
    method: str,
    pair: Pair,
    rounds: int,
    *,
    stage: str,
    seed: int,
    bits: int | None = None,
) -> Job:
    where = {
        "data": data,
        "model": model,
        "stage": stage,
        "seed": seed,
        "images": QUICK_IMAGES if quick else None,
        "clients": dealt.clients,
        "by": dealt.by,
        "alpha": dealt.alpha,
        "participation": dealt.participation,
        "batch_size": BATCH,
    }
    parameters = {
        "experiment": name(model, data),
        "method": method,
        "problem": where,
        "settings": {**pair._asdict(), "local_steps": LOCAL_STEPS, "bits": bits},
        "rounds": rounds,
    }
    return Job(parameters, cost=rounds, run=run, apart=not quick)


def score(job: Job, columns: Columns) -> float:
    """Validation accuracy at a trial's end; a run that did not come so far has none."""
    if columns["round"][-1] < job.parameters["rounds"]:
        return 0.0
    return float(np.mean(columns["accuracy"][-LAST:]))


def key(job: Job) -> Key:
    """What a choice is made for."""
    return job.parameters["problem"]["clients"], job.parameters["method"]


def stage(done: Done, which: str) -> list[tuple[Job, Columns]]:
    """The runs of a stage."""
    return [(job, columns) for job, columns in done if _where(job)["stage"] == which]


def _where(job: Job) -> dict[str, Any]:
    where: dict[str, Any] = job.parameters["problem"]
    return where


def chosen(done: Done) -> dict[Key, Pair]:
    """The pair with the best validation accuracy; the first of equals."""
    best: dict[Key, tuple[float, Pair]] = {}
    for job, columns in stage(done, "validation"):
        reached = score(job, columns)
        if key(job) not in best or reached > best[key(job)][0]:
            best[key(job)] = reached, pair_of(job)
    return {what: pair for what, (_, pair) in best.items()}


def pair_of(job: Job) -> Pair:
    """The step size and the own parameter that a run has."""
    given = job.parameters["settings"]
    return Pair(given["step_size"], given["own"])
