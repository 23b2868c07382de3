"""The regulariser as a method's server step is given it, in x or in other variables."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.variables import Scaled, Variables
from pdmm.regularisers.base import Regulariser
from pdmm.regularisers.separable import Separable

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

    def __call__(self, v: Vector, t: float) -> Vector:
        if self.of_x is None:
            return v
        return self.prox_in(v, np.full(len(v), self.weight / t))

    def prox_in(self, v: Vector, P: Vector) -> Vector:
        """argmin_y h(centre + T y) + (y - v)'P(y - v)/2."""
        assert self.of_x is not None
        scaled = self.variables
        if isinstance(scaled, Scaled) and has_simple_prox(self.of_x, scaled):
            return self._simple(self.of_x, scaled, v, P)
        x = np.asarray(self.of_x.prox_in(scaled.to_x(v), self._metric(P)), dtype=np.float64)
        return self._kept(scaled.to_y(x), x)

    def _simple(self, h: Regulariser, scaled: Scaled, v: Vector, P: Vector) -> Vector:
        """The same in O(d), where h does not depend on intercepts: these stay in y.

        y_j is x_j/scale_j for all others, and what they do to x's intercepts costs nothing.
        """
        x = np.asarray(h.prox_in(scaled.to_x(v), P / scaled.scale**2), dtype=np.float64)
        y = scaled.to_y(x)
        own = scaled.own_intercepts()
        y[own] = v[own]
        x[own] = scaled.to_x(y)[own]
        return self._kept(y, x)

    @cached_property
    def _inverse(self) -> Vector:
        return np.linalg.inv(self.variables.matrix())

    def _metric(self, P: Vector) -> Vector:
        """The metric P of y as one of x."""
        inner = P[:, None] * self._inverse if P.ndim == 1 else P @ self._inverse
        metric = self._inverse.T @ inner
        return np.asarray((metric + metric.T) / 2)

    def _kept(self, y: Vector, x: Vector) -> Vector:
        self._last = y.copy(), x
        return y

    def to_x(self, y: Vector) -> Vector:
        """The x of a point of the run: that of the last step, if it is this one."""
        if self._last is not None and np.array_equal(self._last[0], y):
            return self._last[1].copy()
        return self.variables.to_x(y)


def has_simple_prox(h: Regulariser, scaled: Scaled) -> bool:
    """Whether the proximal step in these variables is one for each entry of x."""
    if not scaled.means.any():
        return True
    return isinstance(h, Separable) and h.spares(scaled.own_intercepts())
