"""The elastic net: an l1 norm and half of a squared l2 norm."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdmm.common.packing import keepable
from pdmm.regularisers.base import Indices, Vector
from pdmm.regularisers.l1 import L1
from pdmm.regularisers.separable import Pieces, Separable
from pdmm.regularisers.squared_l2 import SquaredL2
from pdmm.regularisers.weights import check_length, same, sparing, weight


@keepable
@dataclass(frozen=True, eq=False)
class ElasticNet(Separable):
    """l1 ‖x‖₁ + l2/2 ‖x‖².

    Args:
        l1: the weight of the norm, zero or more. A number spares the intercepts of a GLM; a
            vector has one weight for each entry of x.
        l2: the weight of the square, likewise.

    Examples:
        >>> import numpy as np
        >>> import pdmm
        >>> net = pdmm.ElasticNet(l1=1.0, l2=0.5)
        >>> net.prox(np.array([4.0, 0.5]), 1.0)
        array([2., 0.])
    """

    l1: Any = 0.0
    l2: Any = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "l1", weight("ElasticNet's l1", self.l1))
        object.__setattr__(self, "l2", weight("ElasticNet's l2", self.l2))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ElasticNet):
            return False
        return same(self.l1, other.l1) and same(self.l2, other.l2)

    def __hash__(self) -> int:
        return hash(("ElasticNet", np.asarray(self.l1).tobytes(), np.asarray(self.l2).tobytes()))

    @property
    def pieces(self) -> Pieces:
        return Pieces(l1=self.l1, l2=self.l2)

    def check(self, dimension: int) -> None:
        check_length("ElasticNet's l1", self.l1, dimension)
        check_length("ElasticNet's l2", self.l2, dimension)

    def for_problem(self, dimension: int, intercepts: Indices | None = None) -> "ElasticNet":
        self.check(dimension)
        l1 = sparing(self.l1, dimension, intercepts)
        return replace(self, l1=l1, l2=sparing(self.l2, dimension, intercepts))

    def value(self, x: Vector) -> float:
        return L1(self.l1).value(x) + SquaredL2(self.l2).value(x)

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        # The gradient of the square at y goes with the slope: at an optimum, they cancel there.
        kinks = L1(self.l1).divergence(x, y, slope - self.l2 * y)
        return kinks + SquaredL2(self.l2).value(x - y)
