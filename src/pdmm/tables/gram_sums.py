"""Least squares along a path: after one matrix from each client and fold, nothing is asked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import dense
from pdmm.common.threads import Threads
from pdmm.problems import GLM
from pdmm.tables.design import means
from pdmm.tables.fold_sums import Answer, Shaped, scaled
from pdmm.tables.folds import Folds

Vector = npt.NDArray[np.float64]


class Gram(NamedTuple):
    """Sums over rows, from which least squares follow at any point."""

    matrix: Vector
    """Z'WZ."""
    products: Vector
    """Z'Wr."""
    squares: float
    """r'Wr."""
    weight: float

    def plus(self, other: "Gram") -> "Gram":
        """Those of more rows."""
        return Gram(
            self.matrix + other.matrix,
            self.products + other.products,
            self.squares + other.squares,
            self.weight + other.weight,
        )

    def rescaled(self, scale: Vector) -> "Gram":
        """Those of columns that are multiplied by numbers."""
        return self._replace(
            matrix=self.matrix * scale * scale[:, None], products=self.products * scale
        )

    def deviance(self, x: Vector) -> float:
        """The sum of the squared residuals at x, never below 0."""
        return max(0.0, self.squares - 2 * float(self.products @ x) + float(x @ self.matrix @ x))

    @classmethod
    def none(cls, dimension: int) -> "Gram":
        """Those of no row."""
        return cls(np.zeros((dimension, dimension)), np.zeros(dimension), 0.0, 0.0)


class GramSums:
    """Sums of the gaussian family: two exchanges, and the whole path is the server's work.

    In the first, clients send sums of columns and outcomes. In the second they send, for each fold,
    Z'WZ, Z'Wr and r'Wr of the rows that it holds out, about the means of all rows.

    Args:
        problem: all rows.
        folds: which of them are held out.
        threads: to work on clients.
    """

    def __init__(self, problem: GLM, folds: Folds, threads: Threads) -> None:
        mean, middle = _middle(problem)
        held = held_grams(problem, folds, mean, middle, threads)
        self._begin(problem, folds, mean, middle, held)

    @classmethod
    def of_sums(
        cls, like: Shaped, folds: Folds, mean: Vector, middle: float, held: list[Gram]
    ) -> "GramSums":
        """The same, of clients that are elsewhere.

        Args:
            like: what has intercepts or none.
            folds: how many there are.
            mean: (d,): of the columns.
            middle: the mean of the outcomes.
            held: what each fold holds out, of all clients.
        """
        found = cls.__new__(cls)
        found._begin(like, folds, mean, middle, held)
        return found

    def _begin(
        self, like: Shaped, folds: Folds, mean: Vector, middle: float, held: list[Gram]
    ) -> None:
        self.fits = folds.count + 1
        self.rounds = 2
        self._folds = folds
        spread = np.sqrt(np.diag(_total(held)) / sum(part.weight for part in held))
        if like.intercepts is not None:
            spread[-1] = 1.0
        self.variables = scaled(like, mean, spread)
        if like.intercepts is not None:
            centre = np.append(np.zeros(like.dimension - 1), middle)
            self.variables = replace(self.variables, centre=centre)
        self._held = [part.rescaled(self.variables.scale) for part in held]
        self._training = [self._without(k) for k in range(self.fits)]

    def _without(self, fold: int) -> Gram:
        # Added up, not subtracted from the whole: one fold may be nearly everything.
        found = Gram.none(len(self.variables.scale))
        for k, part in enumerate(self._held):
            if k != fold or fold == self._folds.count:
                found = found.plus(part)
        return found

    def start(self) -> dict[int, Answer]:
        zero = np.zeros(len(self.variables.scale))
        return self.ask(dict.fromkeys(range(self.fits), zero))

    def ask(self, points: Mapping[int, Vector]) -> dict[int, Answer]:
        return {k: self._answer(k, x) for k, x in points.items()}

    def _answer(self, k: int, x: Vector) -> Answer:
        own = self._training[k]
        return Answer(
            value=own.deviance(x) / 2,
            gradient=own.matrix @ x - own.products,
            hessian=own.matrix,
            held=self._held[k].deviance(x) if k < self._folds.count else 0.0,
        )

    def scale(self, fit: int, answer: Answer) -> float:
        # The path costs nothing, and so it is exact: a millionth of what others are asked for.
        return 1e-12 * 2 * answer.value / self._training[fit].weight


def held_grams(
    problem: GLM, folds: Folds, mean: Vector, middle: float, threads: Threads
) -> list[Gram]:
    """What each fold holds out, over the clients of a problem."""

    def of_client(i: int) -> list[Gram]:
        return _of_client(problem, folds, i, mean, middle)

    held = [Gram.none(problem.dimension) for _ in range(max(1, folds.count))]
    for parts in threads.map(of_client, range(problem.clients)):
        held = [sum_.plus(part) for sum_, part in zip(held, parts, strict=True)]
    return held


def _total(parts: list[Gram]) -> Vector:
    return np.asarray(sum((part.matrix for part in parts), np.zeros_like(parts[0].matrix)))


def _middle(problem: GLM) -> tuple[Vector, float]:
    """The means of columns and outcomes; 0 where no intercept could take them up."""
    if not problem.intercept:
        return np.zeros(problem.dimension), 0.0
    rows = problem.rows
    return means(problem), float(rows.w @ (rows.y - rows.given) / rows.w.sum())


def _of_client(problem: GLM, folds: Folds, i: int, mean: Vector, middle: float) -> list[Gram]:
    """What the i-th client sends: a matrix for each fold."""
    rows = problem.rows
    own = rows.own(i)
    r = rows.y[own] - rows.given[own] - middle
    w = rows.w[own]
    found = []
    for k in range(max(1, folds.count)):
        some = np.flatnonzero(folds.labels[own] == k)
        Z = dense(rows.A[i])[some] - mean
        weighted = Z * w[some, None]
        found.append(
            Gram(
                matrix=weighted.T @ Z,
                products=weighted.T @ r[some],
                squares=float(w[some] @ r[some] ** 2),
                weight=float(w[some].sum()),
            )
        )
    return found
