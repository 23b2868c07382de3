"""Bounds on the entries of x."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.common.arrays import as_array
from pdmm.common.packing import keepable
from pdmm.common.sizes import LARGEST
from pdmm.regularisers.base import Vector
from pdmm.regularisers.separable import Pieces, Separable, held


@keepable
@dataclass(frozen=True, eq=False)
class Box(Separable):
    """Zero where lo <= x <= hi, infinite elsewhere: a constraint on every entry.

    For a float32 x the bounds are those that float32 holds, the nearest to lo and hi.

    Args:
        lo: lower bound, a number or an array (d,); -inf for none.
        hi: upper bound, likewise.
    """

    lo: Any
    hi: Any

    def __post_init__(self) -> None:
        for name in ("lo", "hi"):
            given = as_array(f"Box's {name}", getattr(self, name))
            try:
                if np.iscomplexobj(given):
                    raise TypeError("complex numbers have no order")
                bound = np.array(given, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(
                    f"Box's {name} must be numbers, got {getattr(self, name)!r}"
                ) from None
            if bound.ndim > 1 or bound.size == 0 or np.isnan(bound).any():
                raise ValueError(f"Box's {name} must be a number or an array (d,), without NaN")
            object.__setattr__(self, name, bound)
        try:
            empty = bool((self.lo > self.hi).any())
        except ValueError:
            raise ValueError(
                f"Box's lo and hi have different shapes {self.lo.shape} and {self.hi.shape}"
            ) from None
        if empty or (self.lo == np.inf).any() or (self.hi == -np.inf).any():
            raise ValueError(
                f"Box's lo must not be above hi (the box is empty): lo={self.lo}, hi={self.hi}"
            )
        least = float(np.maximum(self.lo, -self.hi).max())
        if least > LARGEST[np.dtype(np.float64)]:
            raise ValueError(
                f"Box allows no x whose entries are all below {least:.3g}, which leaves a run no "
                "room for squares and sums: rescale the problem"
            )

    @property
    def pieces(self) -> Pieces:
        return Pieces(lo=self.lo, hi=self.hi)

    def check(self, dimension: int) -> None:
        for name, bound in (("lo", self.lo), ("hi", self.hi)):
            if bound.ndim and bound.shape != (dimension,):
                raise ValueError(
                    f"Box's {name} must be a number or have shape ({dimension},), "
                    f"got shape {bound.shape}"
                )

    def value(self, x: Vector) -> float:
        return 0.0 if self.pieces.holds(x) else np.inf

    def subgradient(self, x: Vector, slope: Vector) -> Vector | None:
        if self.value(x) != 0:
            return None
        lo = held(self.lo, x)
        hi = held(self.hi, x)
        below = np.where(x == lo, np.minimum(-slope, 0), 0)
        above = np.where(x == hi, np.maximum(-slope, 0), 0)
        return np.asarray(below + above)

    def beside(self, x: Vector) -> Vector:
        lo = held(self.lo, x)
        hi = held(self.hi, x)
        wide = x.astype(np.float64)
        from_lo = np.abs(np.where(x == lo, wide - self.lo, 0))
        from_hi = np.abs(np.where(x == hi, wide - self.hi, 0))
        return np.maximum(from_lo, from_hi)

    def prox(self, v: Vector, t: float) -> Vector:
        return np.clip(v, self.lo, self.hi)

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        return self.value(x) - float(slope @ (x - y))
