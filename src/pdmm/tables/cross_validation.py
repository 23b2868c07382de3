"""Penalties chosen by cross-validation over clients that keep their rows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.progress import progress_bar
from pdmm.common.threads import Threads
from pdmm.problems import GLM
from pdmm.tables.design import Layout, Table
from pdmm.tables.fold_sums import ClientSums, Sums
from pdmm.tables.folds import Folds, Held, count_held, draw_folds
from pdmm.tables.gram_sums import GramSums
from pdmm.tables.path import CLOSE, Path, follow
from pdmm.tables.penalties import Sweep

Vector = npt.NDArray[np.float64]

LARGEST = 4000  # entries of x up to which clients may send Hessians, as in pdmm.solve


class Losses(NamedTuple):
    """What was lost on rows that were held out, for each penalty."""

    mean: Vector
    error: Vector
    """The standard error of the mean over folds."""
    best: int
    """Which penalty has the smallest mean."""
    one_se: int
    """The largest penalty whose mean is within one standard error of the smallest."""


class Choice(NamedTuple):
    """What cross-validation found."""

    l1: float
    l2: float
    path: dict[str, Any]
    """As a model file holds it: ``columns`` with one number for each penalty, and ``rounds``."""
    note: str


def _nobody(done: int) -> None:
    """Nobody is told how far it is."""


class Folded(NamedTuple):
    """Rows that are split into folds, wherever they are."""

    sums: Sums
    held: Held
    split: Folds
    wide: bool
    """Whether there are more rows than coefficients."""
    tell: Callable[[int], object] = _nobody
    """Takes how many penalties are done."""


@contextmanager
def fold(table: Table, folds: Any, seed: int, threads: int | None) -> Iterator[Folded]:
    """Split the rows of clients in this process."""
    problem = table.problem
    split = draw_folds(table, folds, seed)
    held = count_held(problem, split)
    wide = int(problem.samples.sum()) > problem.dimension
    with Threads(threads) as pool:
        yield Folded(sums_of(problem, split, pool), held, split, wide)


def choose(
    folded: Folded,
    layout: Layout,
    l1: Any,
    l2: Any,
    widths: Vector | None,
    penalties: int,
    progress: bool,
) -> Choice:
    """Choose the penalty whose fits lose least on rows that they have not seen.

    Args:
        folded: all rows.
        layout: of the coefficients.
        l1: a number, or "cv".
        l2: a number, or "cv".
        widths: (q,): the standard deviation of each column, where penalties treat them alike.
        penalties: how many are tried.
        progress: whether to show it.
    """
    sweep = Sweep(_given(l1), _given(l2))
    with progress_bar("cross-validation", penalties, progress, "penalties") as bar:
        numbers = count(1)

        def done(more: int) -> None:
            bar(more)
            folded.tell(next(numbers))

        found = follow(
            folded.sums,
            sweep,
            layout.weights(widths),
            folded.held.shares,
            penalties,
            folded.wide,
            CLOSE,
            done,
        )
    losses = judge(found, folded.held)
    chosen = sweep.at(float(found.penalties[losses.best]))
    return Choice(
        *chosen,
        path=_as_stored(found, losses, sweep, layout),
        note=_in_words(found, losses, sweep, folded.split),
    )


def sums_of(problem: GLM, folds: Folds, threads: Threads) -> Sums:
    """Where the path gets its sums from: Gram matrices are enough for least squares."""
    if problem.family == "gaussian":
        return GramSums(problem, folds, threads)
    return ClientSums(problem, folds, threads)


def judge(path: Path, held: Held) -> Losses:
    """Means over folds in the weights of what they hold out, and standard errors, as in glmnet."""
    counted = held.units > 0
    units = held.units[counted]
    each = path.held[:, counted] / units
    with np.errstate(invalid="ignore", over="ignore"):
        mean = each @ units / units.sum()
        squares = (each - mean[:, None]) ** 2 @ units / units.sum()
        error = np.sqrt(squares / max(1, counted.sum() - 1))
    usable = np.isfinite(mean)
    if not usable.any():
        raise ValueError(
            "no penalty has a finite loss on the rows that were held out: do the scales of the "
            "columns differ between clients?"
        )
    best = int(np.where(usable, mean, np.inf).argmin())
    within = usable & (mean <= mean[best] + error[best])
    return Losses(mean, error, best, int(within.argmax()))


def _given(penalty: Any) -> float | None:
    return None if isinstance(penalty, str) else float(penalty)


def check_permission(dimension: int, curvature: str) -> None:
    """Refuse cross-validation where clients may not be asked for what it needs."""
    if curvature in ("none", "diagonal"):
        raise ValueError(
            f"cross-validation needs Hessians of the clients, which curvature={curvature!r} does "
            "not permit: give curvature='full', or l1 and l2 as numbers"
        )
    if dimension > LARGEST:
        raise ValueError(
            f"cross-validation needs Hessians of the clients, and there are {dimension:,} "
            f"coefficients, more than {LARGEST:,}: give l1 and l2 as numbers"
        )


def _as_stored(path: Path, losses: Losses, sweep: Sweep, layout: Layout) -> dict[str, Any]:
    pairs = [sweep.at(c) for c in path.penalties.tolist()]
    places = np.arange(len(pairs))
    counted = layout.penalised()
    columns: dict[str, list[Any]] = {
        "penalty": path.penalties.tolist(),
        "l1": [l1 for l1, _ in pairs],
        "l2": [l2 for _, l2 in pairs],
        "loss": losses.mean.tolist(),
        "error": losses.error.tolist(),
        "nonzero": np.count_nonzero(path.coefficients[:, counted], axis=1).tolist(),
        "rounds": path.rounds.tolist(),
        "chosen": (places == losses.best).tolist(),
        "one_se": (places == losses.one_se).tolist(),
    }
    return {"columns": columns, "rounds": path.total}


def _in_words(path: Path, losses: Losses, sweep: Sweep, folds: Folds) -> str:
    by = folds.in_words()
    tried = len(path.penalties)
    return (
        f"{_names(sweep, path, losses.best)} was chosen by {by} out of {tried} values, in "
        f"{path.total} rounds; the largest penalty within one standard error of its loss is "
        f"{_names(sweep, path, losses.one_se)}"
    )


def _names(sweep: Sweep, path: Path, place: int) -> str:
    l1, l2 = sweep.at(float(path.penalties[place]))
    if sweep.l1 is None and sweep.l2 is None:
        return f"l1 = l2 = {l1:.4g}"
    return f"l1 = {l1:.4g}" if sweep.l1 is None else f"l2 = {l2:.4g}"
