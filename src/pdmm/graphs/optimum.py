"""The optimum of a network, where it is known: what the history's error is measured from."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.graphs.incidence import Indices

Vector = npt.NDArray[np.float64]


class Optimum(NamedTuple):
    """All x_i at the optimum, flat: the one, or from ``low`` to ``high`` in each component."""

    low: Vector
    high: Vector
    components: Indices | None = None
    """Where it is not unique: which entries must be equal."""

    def distance(self, X: Vector) -> Vector:
        """X - the nearest optimum, (s, entries)."""
        if self.components is None:
            return np.asarray(X - self.low)
        # Nodes of a component agree at an optimum: the nearest has their mean, if that is one.
        sums = np.stack([np.bincount(self.components, x) for x in X])
        means = sums / np.bincount(self.components)
        return np.asarray(X - np.clip(means[:, self.components], self.low, self.high))

    @property
    def middle(self) -> Vector:
        """An optimum in the middle of all."""
        middle = np.zeros_like(self.low)
        known = np.isfinite(self.low)
        middle[known] = 0.5 * (self.low[known] + self.high[known])
        return middle
