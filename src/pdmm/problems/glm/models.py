"""What a block's outcomes make of linear predictors: values, slopes and curvature for each row."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, dense, is_sparse, row_squares
from pdmm.problems.glm.families import EVALUATED, Family, Gaussian

Vector = npt.NDArray[np.float64]


class Look(NamedTuple):
    """The functions of a block at some linear predictors eta."""

    value: Vector
    """(b,): f_i."""
    slope: Vector
    """The derivatives by the entries of eta, in the shape of eta."""
    bend: Vector
    """What the second derivatives are made of, which only the model knows."""


class Model(ABC):
    """The rows of b clients, one after the other, as functions of their linear predictors.

    Linear predictors are (N,), or (N, C) where a row has several.

    Args:
        starts: (b + 1,): where each client's rows begin, and the end.
        w: (N,): the weights of the rows.
    """

    columns: int | None = None
    """C; None where a row has one linear predictor."""
    exponential: bool = True
    """Whether losses are exponential functions of them, so that far out they tell rows apart."""

    def __init__(self, starts: npt.NDArray[np.int64], w: Vector) -> None:
        self.starts = starts
        self.w = w
        self.unit = bool((w == 1).all())
        self.size = len(starts) - 1

    def rows(self, i: int) -> slice:
        """The i-th client's rows."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    def sums(self, each: Vector) -> Vector:
        """(b,): the sum over each client's rows."""
        return np.asarray(np.add.reduceat(each, self.starts[:-1]))

    @abstractmethod
    def look(self, eta: Vector) -> Look:
        """Everything at eta."""

    def look_around(self, eta: Vector) -> Look:
        """The same with second derivatives that mean something around eta too, for metrics."""
        return self.look(eta)

    @abstractmethod
    def values(self, eta: Vector) -> Vector:
        """(b,): the values alone."""

    @abstractmethod
    def divergence(self, eta: Vector, t: Vector) -> Vector:
        """(b,): f(eta + t) - f(eta) - f'(eta) t, without cancellation."""

    @abstractmethod
    def working(self, eta: Vector) -> tuple[Look, Vector]:
        """The quadratics that stand for the functions before anything is known, at eta.

        With how far rounding may have moved the slopes.
        """

    @abstractmethod
    def hessian(self, i: int, A: Matrix, look: Look) -> Vector:
        """(q, q) or (q C, q C): the i-th client's Hessian, where eta = A v or A V."""

    @abstractmethod
    def hessian_of(self, i: int, Z: Sequence[Vector], look: Look) -> Vector:
        """(k, k): the same, where the c-th linear predictors are Z[c] y."""

    @abstractmethod
    def slope_doubt(self, look: Look, eta: Vector, doubt: Vector) -> Vector:
        """How far the slopes can be off, where eta is off by at most ``doubt``."""

    @abstractmethod
    def reach(self, i: int, Z: Sequence[Vector], eta: Vector) -> float:
        """R_i² in the coordinates of Z; see ``Curvature.reach``. eta is the i-th client's."""

    @abstractmethod
    def reach_of_rows(self, i: int, A: Matrix, eta: Vector) -> float:
        """The same, in the coordinates of v where eta = A v or A V."""

    def unsettled(self, margins: Vector, doubt: Vector) -> Vector:
        """(b,): how many rows eta less its offset does not put on the side of their outcome."""
        return self.sums((self.w > 0).astype(np.float64))

    @abstractmethod
    def rows_bend(self, look: Look) -> Vector:
        """(N, C): how much each row's loss bends along each of its linear predictors.

        An answer is about the rows that bend: where one alone does, about that one.
        """

    def mean_excess(self, values: Vector) -> Vector:
        """(b,): by how much the mean loss of the rows is above the least that there is."""
        return np.asarray((values - self.least()) / self.sums(self.w))

    def least(self) -> Vector:
        """(b,): what no linear predictors go below."""
        return np.zeros(self.size)

    def bends(self, i: int, look: Look) -> Vector | None:
        """(n, C): second derivatives of the i-th client by each entry of eta, where rows are alone.

        None where a client's rows have to do with each other.
        """
        return None


class RowModel(Model):
    """Rows that have one linear predictor each and nothing to do with each other.

    Args:
        family: what a row's loss is.
        starts: where each client's rows begin, and the end.
        w: the weights of the rows.
        y: their outcomes.
    """

    def __init__(self, family: Family, starts: npt.NDArray[np.int64], w: Vector, y: Vector) -> None:
        super().__init__(starts, w)
        self.family = family
        self.y = y
        self.exponential = not isinstance(family, Gaussian)

    def look(self, eta: Vector) -> Look:
        loss, slope, bend = self.family.terms(eta, self.y)
        return Look(self.sums(self._weighed(loss)), self._weighed(slope), self._weighed(bend))

    def look_around(self, eta: Vector) -> Look:
        return self.look(eta)._replace(bend=self._weighed(self.family.majorant(eta, self.y)))

    def _weighed(self, each: Vector) -> Vector:
        if self.unit:
            return each
        return np.asarray(np.where(self.w > 0, self.w * each, 0.0))

    def values(self, eta: Vector) -> Vector:
        return self.sums(self._weighed(self.family.loss(eta, self.y)))

    def least(self) -> Vector:
        return self.sums(self._weighed(self.family.least(self.y)))

    def divergence(self, eta: Vector, t: Vector) -> Vector:
        return self.sums(self._weighed(self.family.divergence(eta, t, self.y)))

    def working(self, eta: Vector) -> tuple[Look, Vector]:
        start, (loss, slope, bend) = self.family.start(self.y, self.w)
        r = eta - start
        value = loss + slope * r + bend * r * r / 2
        look = Look(
            self.sums(self._weighed(value)),
            self._weighed(slope + bend * r),
            self._weighed(bend),
        )
        sizes = np.abs(slope) + 2 * bend * (np.abs(eta) + np.abs(start))
        return look, EVALUATED * self._weighed(sizes)

    def hessian(self, i: int, A: Matrix, look: Look) -> Vector:
        return gram(A, look.bend[self.rows(i)])

    def hessian_of(self, i: int, Z: Sequence[Vector], look: Look) -> Vector:
        return gram(Z[0], look.bend[self.rows(i)])

    def slope_doubt(self, look: Look, eta: Vector, doubt: Vector) -> Vector:
        terms = self.family.terms(eta, self.y)
        return self._weighed(self.family.slope_doubt(terms, self.y, doubt))

    def reach(self, i: int, Z: Sequence[Vector], eta: Vector) -> float:
        return self.reach_of_rows(i, Z[0], eta)

    def reach_of_rows(self, i: int, A: Matrix, eta: Vector) -> float:
        rows = self.rows(i)
        squares = row_squares(A)
        each = self.family.reach(squares, eta, self.y[rows])
        return float(np.max(each, where=self.w[rows] > 0, initial=0.0))

    def unsettled(self, margins: Vector, doubt: Vector) -> Vector:
        sides = self.family.sides(self.y)
        if sides is None:
            return super().unsettled(margins, doubt)
        settled = sides * margins > doubt
        return self.sums((~settled & (self.w > 0)).astype(np.float64))

    def rows_bend(self, look: Look) -> Vector:
        return look.bend[:, None]

    def bends(self, i: int, look: Look) -> Vector:
        return look.bend[self.rows(i), None]


def gram(A: Matrix, weights: Vector) -> Vector:
    """A' diag(weights) A."""
    if is_sparse(A):
        return dense(A.T @ A.multiply(weights[:, None]).tocsr())
    if (weights >= 0).all():
        rows = A * np.sqrt(weights)[:, None]
        return np.asarray(rows.T @ rows)  # a matrix and its own transpose: BLAS takes half the time
    return np.asarray((A * weights[:, None]).T @ A)
