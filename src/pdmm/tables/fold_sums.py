"""What clients answer along a path of penalties: sums over the rows that a fold trains on.

A fit is known by its number: 0 to K - 1 are the folds, and K is the fit on all rows. One exchange
asks for all fits that are not at rest, so that folds do not multiply the rounds.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.common.variables import Scaled
from pdmm.problems import GLM
from pdmm.problems.glm.statistics import constants
from pdmm.tables.design import means, spreads
from pdmm.tables.folds import Folds

Vector = npt.NDArray[np.float64]


SCALED = ("gamma", "huber")
"""Families whose deviances are measured in a dispersion."""


class Constants(NamedTuple):
    """What deviances have beside losses, and weights: of all rows, and of those held out."""

    saturated: float
    held: Vector
    """(K,)."""
    weight: float
    held_weights: Vector
    """(K,)."""

    def scale(self, fit: int, answer: "Answer") -> float:
        """The dispersion of the rows that a fit trains on."""
        constant = self.saturated
        weight = self.weight
        if fit < len(self.held):
            constant -= self.held[fit]
            weight -= self.held_weights[fit]
        return float(2 * (answer.value + constant) / weight)


class Answer(NamedTuple):
    """The sums of all clients for one fit at one point, in the coordinates of the path."""

    value: float
    """Minus the log-likelihood of the rows that it trains on."""
    gradient: Vector
    hessian: Vector
    held: float
    """The deviance of the rows that it holds out."""

    @classmethod
    def none(cls, dimension: int) -> "Answer":
        """That of no row."""
        return cls(0.0, np.zeros(dimension), np.zeros((dimension, dimension)), 0.0)

    def plus(self, other: "Answer") -> "Answer":
        """The sums of more clients."""
        return Answer(
            self.value + other.value,
            self.gradient + other.gradient,
            self.hessian + other.hessian,
            self.held + other.held,
        )


class Sums(Protocol):
    """Where a path gets its sums from."""

    fits: int
    """K + 1."""
    rounds: int
    """The exchanges so far."""
    variables: Scaled
    """The coordinates of the path: columns that are centred, where an intercept allows it, and
    have a standard deviation of 1. So columns whose mean is much larger than their spread cost no
    digits, and a penalty on a coefficient stays one on a coordinate."""

    def start(self) -> dict[int, Answer]:
        """For each fit, the quadratic that stands for it before anything is known, at 0."""

    def ask(self, points: Mapping[int, Vector]) -> dict[int, Answer]:
        """For each of these fits, its sums at a point of its own."""

    def scale(self, fit: int, answer: Answer) -> float:
        """The dispersion there, in which deviances are measured; 1 where the family has none."""


class ClientSums:
    """Sums of any family, one exchange for each question.

    The deviance that a fold holds out is twice the f of all rows less the f of those that it trains
    on. Where rows have nothing to do with each other, it is that of the rows that are held out.
    For Cox's model it is the one of van Houwelingen, as in glmnet, and where a whole client
    is left out, that of the client's own risk sets, because clients are strata.

    Args:
        problem: all rows.
        folds: which of them are held out.
        threads: to work on blocks of clients.
        variables: the coordinates, where there are more clients elsewhere.
    """

    def __init__(
        self, problem: GLM, folds: Folds, threads: Threads, variables: Scaled | None = None
    ) -> None:
        self.fits = folds.count + 1
        self.rounds = 2  # means, and squares about them
        self.variables = _variables(problem) if variables is None else variables
        self.threads = threads
        self._folds = folds
        self._all = problem.in_variables(self.variables)
        self._training = {k: self._train(problem, k) for k in range(self.fits)}
        saturated = constants(problem)
        self.constants = Constants(
            float(saturated.sum()),
            folds.added(saturated),
            float(problem.rows.w.sum()),
            folds.added(problem.rows.w),
        )
        self._scaled = problem.family in SCALED

    def _train(self, problem: GLM, fit: int) -> GLM | None:
        """What a fit trains on; None where all rows are held out."""
        rows = self._folds.training(fit)
        if rows.all():
            return self._all
        if not (rows & (problem.rows.w > 0)).any():
            return None
        if problem.family != "cox":
            return self._all.reweighted(np.where(rows, problem.rows.w, 0.0))
        starts = problem.rows.starts
        chosen = [np.flatnonzero(own) for own in np.split(rows, starts[1:-1])]
        return problem.subset(chosen).in_variables(self.variables)

    def start(self) -> dict[int, Answer]:
        def one(training: GLM, fit: int, block: slice) -> Answer:
            seen = training.at(block).working()
            return Answer(0.0, seen.gradient.sum(axis=0), seen.hessian.sum(axis=0), 0.0)

        return self._exchange(range(self.fits), one)

    def ask(self, points: Mapping[int, Vector]) -> dict[int, Answer]:
        def one(training: GLM, fit: int, block: slice) -> Answer:
            value, gradient, hessian = training.at(block).second_order(points[fit])
            return Answer(
                float(value.sum()), gradient.sum(axis=0), hessian.sum(axis=0), -2 * value.sum()
            )

        found = self._exchange(points, one)
        whole = self._values({k: x for k, x in points.items() if k < self._folds.count})
        for fit, answer in found.items():
            held = 0.0
            if fit < self._folds.count:
                held = answer.held + 2 * (whole[fit] + self.constants.held[fit])
            found[fit] = answer._replace(held=float(held))
        return found

    def _exchange(
        self, fits: "Mapping[int, Vector] | range", one: Callable[[GLM, int, slice], Answer]
    ) -> dict[int, Answer]:
        """Ask all blocks for all fits, and add up in the order of the blocks."""
        self.rounds += 1
        training = {k: part for k in fits if (part := self._training[k]) is not None}
        jobs = [(part, k, block) for k, part in training.items() for block in part.blocks()]
        with np.errstate(over="ignore", invalid="ignore"):
            answers = list(self.threads.map(lambda job: one(*job), jobs))
        found: dict[int, list[Answer]] = {
            k: [] if k in training else [Answer.none(len(self.variables.scale))] for k in fits
        }
        for (_, k, _), answer in zip(jobs, answers, strict=True):
            found[k].append(answer)
        return {k: reduce(Answer.plus, parts) for k, parts in found.items()}

    def _values(self, points: Mapping[int, Vector]) -> dict[int, float]:
        """F of all rows at the points of some folds, which is sent with the same answer."""
        jobs = [(k, block) for k in points for block in self._all.blocks()]

        def one(job: tuple[int, slice]) -> float:
            k, block = job
            return float(self._all.at(block).value(points[k]).sum())

        total = dict.fromkeys(points, 0.0)
        for (k, _), value in zip(jobs, self.threads.map(one, jobs), strict=True):
            total[k] += value
        return total

    def scale(self, fit: int, answer: Answer) -> float:
        return self.constants.scale(fit, answer) if self._scaled else 1.0


def _variables(problem: GLM) -> Scaled:
    mean = means(problem)
    spread = spreads(problem, mean)
    return coordinates(problem, problem.family, mean, spread)


def coordinates(like: "Shaped", family: str, mean: Vector, spread: Vector) -> Scaled:
    """The coordinates of a path, by the mean and the spread of each column over all rows.

    Args:
        like: what has intercepts or none.
        family: of the model.
        mean: (q,), 0 for the intercept.
        spread: (q,), 1 for the intercept.
    """
    if like.intercepts is None and family != "cox":
        # Without an intercept, columns cannot be centred: their size is what counts.
        spread = np.hypot(mean, spread)
        mean = np.zeros_like(mean)
    each = like.dimension // len(mean)
    return scaled(like, np.repeat(mean, each), np.repeat(spread, each))


class Shaped(Protocol):
    """A problem, as far as coordinates depend on it."""

    @property
    def dimension(self) -> int:
        """Of x."""

    @property
    def intercepts(self) -> Any:
        """For each entry of x, which entry is its intercept; None without one."""


def scaled(like: Shaped, mean: Vector, spread: Vector) -> Scaled:
    """Coordinates of columns with this mean and spread; a column of zeros stays one.

    Args:
        like: what has intercepts or none.
        mean: (d,), 0 for intercepts.
        spread: (d,).
    """
    width = np.where(spread > 0, spread, 1.0)
    centre = np.zeros(like.dimension)
    return Scaled(centre, 1 / width, mean, like.intercepts)
