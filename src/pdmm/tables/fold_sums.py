"""What clients answer along a path of penalties: sums over the rows that a fold trains on.

A fit is known by its number: 0 to K - 1 are the folds, and K is the fit on all rows. One exchange
asks for all fits that are not at rest, so that folds do not multiply the rounds.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.common.variables import Scaled
from pdmm.problems import GLM
from pdmm.problems.glm.statistics import constants
from pdmm.tables.design import means, spreads
from pdmm.tables.folds import Folds

Vector = npt.NDArray[np.float64]


class Answer(NamedTuple):
    """The sums of all clients for one fit at one point, in the coordinates of the path."""

    value: float
    """Minus the log-likelihood of the rows that it trains on."""
    gradient: Vector
    hessian: Vector
    held: float
    """The deviance of the rows that it holds out."""

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
    """

    def __init__(self, problem: GLM, folds: Folds, threads: Threads) -> None:
        self.fits = folds.count + 1
        self.rounds = 2  # means, and squares about them
        self.variables = _variables(problem)
        self._threads = threads
        self._folds = folds
        self._all = problem.in_variables(self.variables)
        self._training = {k: self._train(problem, k) for k in range(self.fits)}
        saturated = constants(problem)
        self._constant = float(saturated.sum())
        self._saturated = folds.added(saturated)
        self._weight = float(problem.rows.w.sum())
        self._weights = folds.added(problem.rows.w)
        self._scaled = problem.family in ("gamma", "huber")

    def _train(self, problem: GLM, fit: int) -> GLM:
        rows = self._folds.training(fit)
        if rows.all():
            return self._all
        if problem.family != "cox":
            return self._all.reweighted(np.where(rows, problem.rows.w, 0.0))
        starts = problem.rows.starts
        chosen = [np.flatnonzero(own) for own in np.split(rows, starts[1:-1])]
        return problem.subset(chosen).in_variables(self.variables)

    def start(self) -> dict[int, Answer]:
        def one(fit: int, block: slice) -> Answer:
            seen = self._training[fit].at(block).working()
            return Answer(0.0, seen.gradient.sum(axis=0), seen.hessian.sum(axis=0), 0.0)

        return self._exchange(range(self.fits), one)

    def ask(self, points: Mapping[int, Vector]) -> dict[int, Answer]:
        def one(fit: int, block: slice) -> Answer:
            value, gradient, hessian = self._training[fit].at(block).second_order(points[fit])
            return Answer(
                float(value.sum()), gradient.sum(axis=0), hessian.sum(axis=0), -2 * value.sum()
            )

        found = self._exchange(points, one)
        whole = self._values({k: x for k, x in points.items() if k < self._folds.count})
        for fit, answer in found.items():
            held = 0.0
            if fit < self._folds.count:
                held = answer.held + 2 * (whole[fit] + self._saturated[fit])
            found[fit] = answer._replace(held=float(held))
        return found

    def _exchange(
        self, fits: "Mapping[int, Vector] | range", one: Callable[[int, slice], Answer]
    ) -> dict[int, Answer]:
        """Ask all blocks for all fits, and add up in the order of the blocks."""
        self.rounds += 1
        jobs = [(k, block) for k in fits for block in self._training[k].blocks()]
        with np.errstate(over="ignore", invalid="ignore"):
            answers = list(self._threads.map(lambda job: one(*job), jobs))
        found: dict[int, list[Answer]] = {k: [] for k in fits}
        for (k, _), answer in zip(jobs, answers, strict=True):
            found[k].append(answer)
        return {k: reduce(Answer.plus, parts) for k, parts in found.items()}

    def _values(self, points: Mapping[int, Vector]) -> dict[int, float]:
        """F of all rows at the points of some folds, which is sent with the same answer."""
        jobs = [(k, block) for k in points for block in self._all.blocks()]

        def one(job: tuple[int, slice]) -> float:
            k, block = job
            return float(self._all.at(block).value(points[k]).sum())

        total = dict.fromkeys(points, 0.0)
        for (k, _), value in zip(jobs, self._threads.map(one, jobs), strict=True):
            total[k] += value
        return total

    def scale(self, fit: int, answer: Answer) -> float:
        if not self._scaled:
            return 1.0
        constant = self._constant
        weight = self._weight
        if fit < self._folds.count:
            constant -= self._saturated[fit]
            weight -= self._weights[fit]
        return float(2 * (answer.value + constant) / weight)


def _variables(problem: GLM) -> Scaled:
    mean = means(problem)
    spread = spreads(problem, mean)
    if problem.intercepts is None and problem.family != "cox":
        # Without an intercept, columns cannot be centred: their size is what counts.
        spread = np.hypot(mean, spread)
        mean = np.zeros_like(mean)
    each = problem.dimension // len(mean)
    return scaled(problem, np.repeat(mean, each), np.repeat(spread, each))


def scaled(problem: GLM, mean: Vector, spread: Vector) -> Scaled:
    """Coordinates of columns with this mean and spread; a column of zeros stays one.

    Args:
        problem: which has intercepts or none.
        mean: (d,), 0 for intercepts.
        spread: (d,).
    """
    width = np.where(spread > 0, spread, 1.0)
    centre = np.zeros(problem.dimension)
    return Scaled(centre, 1 / width, mean, problem.intercepts)
