"""Regularisers that are sums over the entries of x: absolute values, squares and bounds."""

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.regularisers.active_set import minimise
from pdmm.regularisers.base import Indices, Regulariser, Vector

Wide = npt.NDArray[np.float64]


class Pieces(NamedTuple):
    """h(x) = sum_j l1_j |x_j| + l2_j x_j²/2 where lo <= x <= hi, and infinity elsewhere.

    Each is a number, which counts for all entries, or a vector with one number for each.
    """

    l1: float | Vector = 0.0
    l2: float | Vector = 0.0
    lo: float | Vector = -np.inf
    hi: float | Vector = np.inf

    def left(self, x: Vector) -> Wide:
        """The slope of h on the left of each entry of x, -inf at its lower bound."""
        slope = np.where(x > 0, self.l1, np.negative(self.l1)) + self.l2 * x.astype(np.float64)
        return np.where(x <= held(self.lo, x), -np.inf, slope)

    def right(self, x: Vector) -> Wide:
        """The slope of h on the right of each entry of x, inf at its upper bound."""
        slope = np.where(x < 0, np.negative(self.l1), self.l1) + self.l2 * x.astype(np.float64)
        return np.where(x >= held(self.hi, x), np.inf, slope)

    def holds(self, x: Vector) -> bool:
        """Whether x is within the bounds, as its dtype holds them."""
        return bool((x >= held(self.lo, x)).all() and (x <= held(self.hi, x)).all())


def held(bound: float | Vector, x: Vector) -> Vector:
    """A bound as the dtype of x holds it: a float32 x cannot be at any other."""
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(bound).astype(dtype)


class Separable(Regulariser):
    """A sum over the entries of x of absolute values, squares and bounds.

    ``pieces`` is all that one of your own has to have.
    """

    @property
    @abstractmethod
    def pieces(self) -> Pieces:
        """What h consists of."""

    def value(self, x: Vector) -> float:
        pieces = self.pieces
        if not pieces.holds(x):
            return np.inf
        wide = x.astype(np.float64)
        return float((pieces.l1 * np.abs(wide) + pieces.l2 * wide * wide / 2).sum())

    def prox(self, v: Vector, t: float) -> Vector:
        return self._prox(v, t)

    def _prox(self, v: Vector, t: float | Vector) -> Vector:
        """The proximal step with a t of its own for each entry."""
        pieces = self.pieces
        shrunk = np.maximum(np.abs(v) - t * pieces.l1, 0) / (1 + t * pieces.l2)
        return np.clip(np.sign(v) * shrunk, pieces.lo, pieces.hi)

    def subgradient(self, x: Vector, slope: Vector) -> Vector | None:
        pieces = self.pieces
        if not pieces.holds(x):
            return None
        return np.clip(-slope, pieces.left(x), pieces.right(x))

    @property
    def strong_convexity(self) -> float:
        return float(np.min(self.pieces.l2))

    def check(self, dimension: int) -> None:
        for name, part in self.pieces._asdict().items():
            if np.ndim(part) and np.shape(part) != (dimension,):
                raise ValueError(
                    f"{type(self).__name__}'s {name} must be a number or have shape "
                    f"({dimension},), got shape {np.shape(part)}"
                )

    def prox_in(self, v: Vector, P: Vector) -> Vector:
        if P.ndim == 1:
            return self._prox(v, 1 / P)
        l1, l2, lo, hi = self._spread(len(v))
        matrix = P.astype(np.float64) + np.diag(l2)
        centre = v.astype(np.float64)
        return minimise(matrix, centre, l2 * centre, l1, lo, hi)

    def subgradient_in(self, x: Vector, slope: Vector, H: Vector) -> Vector | None:
        if not self.pieces.holds(x):
            return None
        left = self.pieces.left(x)
        right = self.pieces.right(x)
        # Its dual is a step u that minimises slope·u + u'Hu/2 + h'(x; u), with slope + v = -H u.
        # h'(x; u) has the slopes left and right of u = 0, so it is made of pieces itself.
        lo = np.where(np.isinf(left), 0.0, -np.inf)
        hi = np.where(np.isinf(right), 0.0, np.inf)
        least = np.where(np.isinf(left), right, left)
        most = np.where(np.isinf(right), left, right)
        fixed = np.isinf(least) | np.isinf(most)  # both, where lo = hi: u = 0 whatever the slope
        least[fixed] = 0.0
        most[fixed] = 0.0
        matrix = H.astype(np.float64)
        middle = slope.astype(np.float64) + (least + most) / 2
        u = minimise(matrix, np.zeros(len(x)), middle, (most - least) / 2, lo, hi)
        inside = np.clip(-(matrix @ u) - slope, left, right)
        at_an_end = np.where(u > 0, right, left)
        return np.where(u == 0, inside, at_an_end)

    def quadratic(self, dimension: int) -> Vector:
        return self._spread(dimension).l2

    @property
    def kinked(self) -> bool:
        pieces = self.pieces
        bounded = np.any(np.isfinite(pieces.lo)) or np.any(np.isfinite(pieces.hi))
        return bool(bounded or np.any(pieces.l1))

    def spares(self, entries: Indices) -> bool:
        """Whether h does not depend on these entries of x."""
        for part, nothing in zip(self.pieces, Pieces(), strict=True):
            own = np.asarray(part)
            if own.ndim:
                own = own[entries]
            if not np.equal(own, nothing).all():
                return False
        return True

    def _spread(self, dimension: int) -> "_Vectors":
        """The pieces as vectors."""
        parts = [np.broadcast_to(part, dimension).astype(np.float64) for part in self.pieces]
        return _Vectors(*parts)


class _Vectors(NamedTuple):
    """The pieces, one number for each entry of x."""

    l1: Wide
    l2: Wide
    lo: Wide
    hi: Wide
