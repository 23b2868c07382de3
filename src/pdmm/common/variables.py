"""Other variables y for the same x = centre + T y: scaled, centred, or mixed by any matrix."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from pdmm.common.packing import keepable

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Variables(ABC):
    """A change of variables x = centre + T y with an invertible T.

    Vectors are (d,), or (b, d) with one row per client.
    """

    centre: Vector

    @abstractmethod
    def times(self, y: Any) -> Vector:
        """T y."""

    @abstractmethod
    def transposed(self, g: Any) -> Vector:
        """T' g: the gradient in y, of the one in x."""

    @abstractmethod
    def solved(self, x: Any) -> Vector:
        """T^-1 x."""

    @abstractmethod
    def matrix(self) -> Vector:
        """T, with all of its entries."""

    def to_x(self, y: Any) -> Vector:
        """The x that y stands for."""
        return self.centre + self.times(y)

    def to_y(self, x: Any) -> Vector:
        """The y of an x."""
        return self.solved(np.asarray(x) - self.centre)


@keepable
@dataclass(frozen=True, eq=False)
class Mixed(Variables):
    """T is a triangular matrix.

    Args:
        centre: the x of y = 0.
        T: upper triangular.
    """

    T: Vector

    def times(self, y: Any) -> Vector:
        return np.asarray(y @ self.T.T)

    def transposed(self, g: Any) -> Vector:
        return np.asarray(g @ self.T)

    def solved(self, x: Any) -> Vector:
        return np.asarray(solve_triangular(self.T, np.asarray(x).T, check_finite=False).T)

    def matrix(self) -> Vector:
        return self.T


@keepable
@dataclass(frozen=True, eq=False)
class Scaled(Variables):
    """Columns are divided by a scale and centred: x_j = scale_j y_j, less for the intercepts.

    An intercept is scale times its y, minus the sum of means_j x_j over the entries that belong
    to it: then the linear predictor of a row r is that of (r_j - means_j) scale_j.

    Args:
        centre: the x of y = 0.
        scale: above 0, one for each entry.
        means: of each column, in the weights of its intercept's row of the Hessian; 0 for the
            intercepts themselves.
        intercepts: which entry is the intercept of each; None where there is none.
    """

    scale: Vector
    means: Vector
    intercepts: npt.NDArray[np.int64] | None

    def _entries(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The entries that have an intercept, and which it is."""
        if self.intercepts is None:
            none = np.arange(0)
            return none, none
        others = np.flatnonzero(self.intercepts != np.arange(len(self.scale)))
        return others, self.intercepts[others]

    def own_intercepts(self) -> npt.NDArray[np.int64]:
        """The entries that are intercepts of others."""
        return np.unique(self._entries()[1])

    def times(self, y: Any) -> Vector:
        x = np.asarray(y) * self.scale
        others, own = self._entries()
        where: Any = (..., own)
        np.subtract.at(x, where, (self.means * x)[..., others])
        return x

    def transposed(self, g: Any) -> Vector:
        moved = np.array(g, dtype=np.float64)
        others, own = self._entries()
        moved[..., others] -= self.means[others] * moved[..., own]
        return moved * self.scale

    def solved(self, x: Any) -> Vector:
        y = np.array(x, dtype=np.float64)
        others, own = self._entries()
        where: Any = (..., own)
        np.add.at(y, where, (self.means * y)[..., others])
        return y / self.scale

    def matrix(self) -> Vector:
        return self.times(np.eye(len(self.scale))).T
