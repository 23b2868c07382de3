"""Folds of cross-validation: which rows each client holds out, and what that leaves."""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import whole
from pdmm.problems import GLM
from pdmm.tables.design import Table

Vector = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

BY_CLIENT = "client"


@dataclass(frozen=True)
class Folds:
    """Which fold each row is held out in."""

    labels: Labels
    """(N,): the fold of each row, for the rows of one client after the other."""
    count: int
    names: tuple[str, ...]
    """Of the clients, where each of them is a fold; else none."""

    @property
    def by_client(self) -> bool:
        """Whether each fold is one client."""
        return bool(self.names)

    def training(self, fold: int) -> npt.NDArray[np.bool_]:
        """(N,): the rows that a fold trains on. One fold beyond the last trains on all rows."""
        if fold == self.count:
            return np.ones(len(self.labels), dtype=bool)
        return np.not_equal(self.labels, fold)

    def added(self, each: Vector) -> Vector:
        """(K,): the sum over the rows that each fold holds out."""
        found = np.bincount(self.labels, each, minlength=self.count)[: self.count]
        return np.asarray(found, dtype=np.float64)

    def in_words(self) -> str:
        """What kind of cross-validation this is."""
        if self.by_client:
            return "leave-one-client-out cross-validation"
        return f"{self.count}-fold cross-validation within clients"


def check_options(folds: Any, penalties: Any, seed: Any) -> None:
    """Refuse options of cross-validation that make no sense, before data are read."""
    if isinstance(folds, str):
        if folds != BY_CLIENT:
            raise ValueError(f"folds must be a whole number or 'client', got {folds!r}")
    else:
        whole("folds", folds, at_least=2)
    whole("penalties", penalties, at_least=2)
    whole("seed", seed, at_least=0)


def no_folds(problem: GLM) -> Folds:
    """Nothing is held out: a path on all rows alone."""
    return Folds(np.zeros(int(problem.samples.sum()), dtype=np.int64), 0, ())


def draw_folds(table: Table, folds: Any, seed: int) -> Folds:
    """Split each client's rows, or take each client as a fold.

    A client draws its folds from the seed and its own name. So they are the same whatever other
    clients there are, and no client has to be told.
    """
    problem = table.problem
    if folds == BY_CLIENT:
        if problem.clients < 2:
            raise ValueError(
                "folds='client' leaves out one client at a time, and only one has complete rows: "
                "give a number of folds"
            )
        clients = np.repeat(np.arange(problem.clients), problem.samples)
        return Folds(clients, problem.clients, table.names)
    each = []
    most = 0
    for i, name in enumerate(table.names):
        counted = problem.rows.w[problem.rows.own(i)] > 0
        most = max(most, int(counted.sum()))
        each.append(split_rows(counted, folds, np.random.default_rng([seed, crc32(name.encode())])))
    if folds > most:
        raise ValueError(
            f"folds={folds}, but no client has more than {most} rows: give folds={most} or fewer, "
            "or folds='client'"
        )
    return Folds(np.concatenate(each), int(folds), ())


def split_rows(counted: npt.NDArray[np.bool_], folds: int, rng: np.random.Generator) -> Labels:
    """Folds of nearly the same size; which ones are the larger is random too."""
    labels = np.zeros(len(counted), dtype=np.int64)
    places = np.arange(counted.sum()) % folds
    labels[counted] = rng.permutation(rng.permutation(folds)[places])
    return labels


@dataclass(frozen=True)
class Held:
    """What each fold holds out, as sums over clients."""

    weights: Vector
    """(K,): the sum of the rows' weights."""
    units: Vector
    """(K,): what a loss is divided by: the weights, or of Cox's model the events."""

    @property
    def shares(self) -> Vector:
        """(K + 1,): the share of all rows that each fold trains on, and that of all rows, 1."""
        return np.append(1 - self.weights / self.weights.sum(), 1.0)


def count_held(problem: GLM, folds: Folds) -> Held:
    """Ask all clients for sums of weights and outcomes, and refuse folds that say nothing."""
    names, _ = _occurrences(problem)
    return judged_held(names, *held_sums(problem, folds), problem.family, folds)


def occurrence_names(problem: GLM) -> list[str]:
    """What must be there in every training set of a problem."""
    return _occurrences(problem)[0]


def held_sums(problem: GLM, folds: Folds) -> tuple[Vector, Vector]:
    """What folds hold out over some clients: weights (K,), and of each occurrence how often."""
    w = problem.rows.w
    _, outcomes = _occurrences(problem)
    columns = [folds.added(w * own) for own in outcomes.T]
    return folds.added(w), np.array(columns).reshape(len(columns), folds.count)


def judged_held(
    names: list[str], weights: Vector, columns: Vector, family: str, folds: Folds
) -> Held:
    """What folds hold out over all clients, refused where it says nothing."""
    for name, held in zip(names, columns, strict=True):
        _refuse_without(name, held, folds)
    if family != "cox":
        return Held(weights, weights)
    events = columns[0]
    empty = np.flatnonzero(events == 0)
    if empty.size and not folds.by_client:
        raise ValueError(
            f"fold {empty[0] + 1} of {folds.count} holds out no event, so that nothing can be said "
            "of it: give fewer folds, or another seed"
        )
    return Held(weights, events)


def _occurrences(problem: GLM) -> tuple[list[str], Vector]:
    """What must be there in every training set for its model to exist, and how often rows have it.

    Without it, an intercept would go to infinity.
    """
    y = problem.rows.y
    if problem.family == "cox":
        return ["an event"], y[:, 1:]
    if problem.family == "poisson":
        return ["an outcome above 0"], y[:, None]
    if problem.family == "binomial":
        first, second = problem.classes or (0, 1)
        return [f"the outcome {first}", f"the outcome {second}"], np.column_stack([1 - y, y])
    if problem.family == "multinomial":
        kept = problem.rows.kept
        others = [label for label in problem.classes or () if label not in kept]
        rest = [1 - y.sum(axis=1)] if others else []
        return [f"the class {label}" for label in (*kept, *others)], np.column_stack([y, *rest])
    return [], np.empty((len(y), 0))


def _refuse_without(name: str, held: Vector, folds: Folds) -> None:
    left = [held[:k].sum() + held[k + 1 :].sum() for k in range(folds.count)]
    for k, amount in enumerate(left):
        if amount > 0:
            continue
        if not held.any():
            raise ValueError(f"no row has {name}: there is nothing to choose a penalty for")
        what = f"fold {k + 1} of {folds.count}"
        if folds.by_client:
            what = f"leaving out client {folds.names[k]!r}"
        raise ValueError(
            f"{what} leaves no row with {name} to train on: give another seed or number of folds"
        )
