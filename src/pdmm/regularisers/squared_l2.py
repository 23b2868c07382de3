"""The squared l2 norm, with one weight or one for each entry of x."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdmm.common.packing import keepable
from pdmm.regularisers.base import Indices, Vector
from pdmm.regularisers.separable import Pieces, Separable
from pdmm.regularisers.weights import check_length, same, sparing, weight


@keepable
@dataclass(frozen=True, eq=False)
class SquaredL2(Separable):
    """c/2 ‖x‖²: ridge.

    Args:
        c: its weight, zero or more. A number spares the intercepts of a GLM; a vector has one
            weight for each entry of x.
    """

    c: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", weight("SquaredL2's c", self.c))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SquaredL2) and same(self.c, other.c)

    def __hash__(self) -> int:
        return hash(("SquaredL2", np.asarray(self.c).tobytes()))

    @property
    def pieces(self) -> Pieces:
        return Pieces(l2=self.c)

    def check(self, dimension: int) -> None:
        check_length("SquaredL2's c", self.c, dimension)

    def for_problem(self, dimension: int, intercepts: Indices | None = None) -> "SquaredL2":
        self.check(dimension)
        return replace(self, c=sparing(self.c, dimension, intercepts))

    def value(self, x: Vector) -> float:
        if isinstance(self.c, float):
            return self.c / 2 * float(np.square(x, dtype=np.float64).sum())
        return float(self.c / 2 @ np.square(x, dtype=np.float64))

    def prox(self, v: Vector, t: float) -> Vector:
        return np.asarray(v / (1 + t * self.c))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        return np.asarray(self.c * x.astype(np.float64))

    def subgradient_in(self, x: Vector, slope: Vector, H: Vector) -> Vector:
        return self.subgradient(x, slope)

    @property
    def strong_convexity(self) -> float:
        return float(np.min(self.c))

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        d = x - y
        if isinstance(self.c, float):
            return float(self.c / 2 * (d @ d) + (self.c * y - slope) @ d)
        return float(self.c / 2 @ (d * d) + (self.c * y - slope) @ d)
