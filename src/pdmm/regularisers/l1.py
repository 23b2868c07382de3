"""The l1 norm, with one weight or one for each entry of x."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdmm.common.packing import keepable
from pdmm.regularisers.base import Indices, Vector
from pdmm.regularisers.separable import Pieces, Separable
from pdmm.regularisers.weights import check_length, same, sparing, weight


@keepable
@dataclass(frozen=True, eq=False)
class L1(Separable):
    """c ‖x‖₁: drives entries of x to zero.

    Args:
        c: its weight, zero or more. A number spares the intercepts of a GLM; a vector has one
            weight for each entry of x.
    """

    c: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", weight("L1's c", self.c))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, L1) and same(self.c, other.c)

    def __hash__(self) -> int:
        return hash(("L1", np.asarray(self.c).tobytes()))

    @property
    def pieces(self) -> Pieces:
        return Pieces(l1=self.c)

    def check(self, dimension: int) -> None:
        check_length("L1's c", self.c, dimension)

    def for_problem(self, dimension: int, intercepts: Indices | None = None) -> "L1":
        self.check(dimension)
        return replace(self, c=sparing(self.c, dimension, intercepts))

    def value(self, x: Vector) -> float:
        if isinstance(self.c, float):
            return self.c * float(np.abs(x).sum(dtype=np.float64))
        return float(self.c @ np.abs(x))

    def prox(self, v: Vector, t: float) -> Vector:
        return np.asarray(np.sign(v) * np.maximum(np.abs(v) - t * self.c, 0))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        signs = np.sign(x, dtype=np.float64)
        return np.where(x != 0, self.c * signs, np.clip(-slope, np.negative(self.c), self.c))

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        d = x - y
        same = (x > 0) & (y > 0) | (x < 0) & (y < 0)
        change = np.where(same, np.sign(y) * d, np.abs(x) - np.abs(y))
        # Where the sign stays, c sign(y) - slope is 0 at an optimum: subtract before scaling.
        parts = np.where(same, (self.c * np.sign(y) - slope) * d, self.c * change - slope * d)
        return float(parts.sum())
