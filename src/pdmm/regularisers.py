"""Regularisers h, which live at the server: F(x) = sum_i w_i f_i(x) + h(x)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import as_array
from pdmm.common.checks import not_negative
from pdmm.common.packing import keepable
from pdmm.common.sizes import LARGEST

Vector = npt.NDArray[np.floating]


class Regulariser(ABC):
    """A convex function h whose proximal step is known."""

    @abstractmethod
    def value(self, x: Vector) -> float:
        """h(x)."""

    @abstractmethod
    def prox(self, v: Vector, t: float) -> Vector:
        """argmin_x h(x) + ‖x - v‖²/(2 t)."""

    @abstractmethod
    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        """h(x) - h(y) - slope·(x - y), without cancellation."""

    def subgradient(self, x: Vector, slope: Vector) -> Vector | None:
        """The subgradient of h at x that is nearest to -slope, in float64; None if none is known.

        Args:
            x: a point, in the run's dtype.
            slope: the gradient of the rest of F there, in float64.
        """
        return None

    def beside(self, x: Vector) -> Vector | None:
        """How far each entry of x is from where the subgradient is taken; None if it is there.

        That is not 0 where x belongs on a bound that its dtype cannot hold.
        """
        return None

    @property
    def strong_convexity(self) -> float:
        """A mu for which h is mu-strongly convex."""
        return 0.0

    def check(self, dimension: int) -> None:
        """Refuse a problem of another dimension."""


@keepable
@dataclass(frozen=True)
class L1(Regulariser):
    """c ‖x‖₁: drives entries of x to zero.

    Args:
        c: its weight, zero or more.
    """

    c: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", not_negative("L1's c", self.c))

    def value(self, x: Vector) -> float:
        return self.c * float(np.abs(x).sum(dtype=np.float64))

    def prox(self, v: Vector, t: float) -> Vector:
        return np.asarray(np.sign(v) * np.maximum(np.abs(v) - t * self.c, 0))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        signs = np.sign(x, dtype=np.float64)
        return np.where(x != 0, self.c * signs, np.clip(-slope, -self.c, self.c))

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        d = x - y
        same = (x > 0) & (y > 0) | (x < 0) & (y < 0)
        change = np.where(same, np.sign(y) * d, np.abs(x) - np.abs(y))
        # Where the sign stays, c sign(y) - slope is 0 at an optimum: subtract before scaling.
        parts = np.where(same, (self.c * np.sign(y) - slope) * d, self.c * change - slope * d)
        return float(parts.sum())


@keepable
@dataclass(frozen=True)
class SquaredL2(Regulariser):
    """c/2 ‖x‖²: ridge.

    Args:
        c: its weight, zero or more.
    """

    c: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", not_negative("SquaredL2's c", self.c))

    def value(self, x: Vector) -> float:
        return self.c / 2 * float(np.square(x, dtype=np.float64).sum())

    def prox(self, v: Vector, t: float) -> Vector:
        return np.asarray(v / (1 + t * self.c))

    def subgradient(self, x: Vector, slope: Vector) -> Vector:
        return np.asarray(self.c * x.astype(np.float64))

    @property
    def strong_convexity(self) -> float:
        return self.c

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        d = x - y
        return float(self.c / 2 * (d @ d) + (self.c * y - slope) @ d)


@keepable
@dataclass(frozen=True, eq=False)
class Box(Regulariser):
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

    def check(self, dimension: int) -> None:
        for name, bound in (("lo", self.lo), ("hi", self.hi)):
            if bound.ndim and bound.shape != (dimension,):
                raise ValueError(
                    f"Box's {name} must be a number or have shape ({dimension},), "
                    f"got shape {bound.shape}"
                )

    def _held(self, x: Vector) -> tuple[Vector, Vector]:
        """The bounds as x's dtype holds them: a float32 x cannot be at any other."""
        dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
        with np.errstate(over="ignore"):
            return self.lo.astype(dtype), self.hi.astype(dtype)

    def value(self, x: Vector) -> float:
        lo, hi = self._held(x)
        return 0.0 if (x >= lo).all() and (x <= hi).all() else np.inf

    def subgradient(self, x: Vector, slope: Vector) -> Vector | None:
        if self.value(x) != 0:
            return None
        lo, hi = self._held(x)
        below = np.where(x == lo, np.minimum(-slope, 0), 0)
        above = np.where(x == hi, np.maximum(-slope, 0), 0)
        return np.asarray(below + above)

    def beside(self, x: Vector) -> Vector:
        lo, hi = self._held(x)
        wide = x.astype(np.float64)
        from_lo = np.abs(np.where(x == lo, wide - self.lo, 0))
        from_hi = np.abs(np.where(x == hi, wide - self.hi, 0))
        return np.maximum(from_lo, from_hi)

    def prox(self, v: Vector, t: float) -> Vector:
        return np.clip(v, self.lo, self.hi)

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        return self.value(x) - float(slope @ (x - y))
