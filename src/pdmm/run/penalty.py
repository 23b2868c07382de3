"""The regulariser as a method's server step is given it, in x or in other variables."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.variables import Mixed, Scaled, Variables
from pdmm.regularisers import Regulariser

Vector = npt.NDArray[Any]


class Penalty:
    """The prox of t h / weight, and what Newton's method asks of h beyond that.

    Args:
        h: the regulariser, or None.
        weight: of all clients: F is weight times a mean over clients, and h.
    """

    def __init__(self, h: Regulariser | None, weight: float) -> None:
        self.h = h
        self.weight = weight

    def __call__(self, v: Vector, t: float) -> Vector:
        return v if self.h is None else np.asarray(self.h.prox(v, t / self.weight))

    def to_x(self, y: Vector) -> Vector:
        """The x of a point of the run."""
        return y


class MovedPenalty:
    """The same for a run in other variables, where h(centre + T y) has no prox of its own.

    The proximal step is taken in x, in the metric (T T')^-1. Its answer is kept, so that zeros
    and bounds of x are met exactly, and not only to within the rounding of centre + T y.

    Args:
        h: the regulariser of x, or None.
        weight: of all clients.
        variables: y.
    """

    def __init__(self, h: Regulariser | None, weight: float, variables: Variables) -> None:
        self.of_x = h
        self.h = None if h is None else self  # what a method with a metric of its own asks
        self.weight = weight
        self.variables = variables
        self._last: tuple[Vector, Vector] | None = None
        inverse = np.linalg.inv(variables.matrix()) if self.needs_matrix else None
        self._inverse = inverse

    @property
    def needs_matrix(self) -> bool:
        """Whether the metric in x is more than a diagonal."""
        if self.of_x is None:
            return False
        v = self.variables
        return isinstance(v, Mixed) or (isinstance(v, Scaled) and bool(v.means.any()))

    def __call__(self, v: Vector, t: float) -> Vector:
        if self.of_x is None:
            return v
        return self._step(v, self._metric(np.full(len(v), self.weight / t)))

    def prox_in(self, v: Vector, P: Vector) -> Vector:
        """argmin_y h(centre + T y) + (y - v)'P(y - v)/2."""
        return self._step(v, self._metric(P))

    def _metric(self, P: Vector) -> Vector:
        """The metric P of y as one of x."""
        v = self.variables
        if self._inverse is None:
            assert isinstance(v, Scaled)
            return P / v.scale**2
        inner = P[:, None] * self._inverse if P.ndim == 1 else P @ self._inverse
        metric = self._inverse.T @ inner
        return np.asarray((metric + metric.T) / 2)

    def _step(self, v: Vector, metric: Vector) -> Vector:
        assert self.of_x is not None
        x = np.asarray(self.of_x.prox_in(self.variables.to_x(v), metric), dtype=np.float64)
        y = self.variables.to_y(x)
        self._last = y.copy(), x
        return y

    def to_x(self, y: Vector) -> Vector:
        """The x of a point of the run: that of the last step, if it is this one."""
        if self._last is not None and np.array_equal(self._last[0], y):
            return self._last[1].copy()
        return self.variables.to_x(y)
