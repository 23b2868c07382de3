"""Minimisers of small convex sums to 80 digits: what certificates are held against.

The numbers that a problem holds are taken as they are, exactly; all else is in mpmath.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

mpmath: Any = importlib.import_module("mpmath")
DIGITS = 80
mp = mpmath.MPContext()
mp.dps = DIGITS
ROUNDING = mp.mpf(10) ** (25 - DIGITS)
NEWTON = mp.mpf(10) ** (20 - DIGITS)  # a step so short, relative to x, is the last

Number = Any  # an mpf, for which mpmath has no types
Point = list[Number]


class Local(NamedTuple):
    """A smooth function at a point."""

    value: Number
    gradient: Point
    hessian: list[Point]


Smooth = Callable[[Point], Local]


def exact(values: Any) -> Any:
    """Floats, in lists as deep as they are, as the numbers that they stand for."""
    if isinstance(values, (list, tuple)) or getattr(values, "ndim", 0) > 0:
        return [exact(value) for value in values]
    return mp.mpf(float(values))


def dot(x: Sequence[Number], y: Sequence[Number]) -> Number:
    return mp.fdot(x, y)


def norm(x: Sequence[Number]) -> Number:
    return mp.sqrt(dot(x, x))


@dataclass
class Regularised:
    """f + h, of which f is smooth and strongly convex, and h one of the library's regularisers.

    ``kind`` is "none", "L1", "SquaredL2" or "Box"; c, lo and hi are those of h.
    """

    f: Smooth
    d: int
    kind: str = "none"
    c: Number = 0
    lo: Point | None = None
    hi: Point | None = None

    def smooth(self, x: Point) -> Local:
        """f, with the part of h that is smooth."""
        here = self.f(x)
        if self.kind != "SquaredL2":
            return here
        c = self.c
        hessian = [[v + c if j == k else v for k, v in enumerate(row)] for j, row in _rows(here)]
        gradient = [g + c * entry for g, entry in zip(here.gradient, x, strict=True)]
        return Local(here.value + c / 2 * dot(x, x), gradient, hessian)

    def value(self, x: Point) -> Number:
        """(f + h)(x), but for the bounds of a Box."""
        more = self.c * mp.fsum(abs(entry) for entry in x) if self.kind == "L1" else 0
        return self.smooth(x).value + more

    def minimiser(self, start: Point) -> Point:
        """By trying which entries h holds fast, the likeliest first, until all conditions hold."""
        every = itertools.product((0, -1, 1), repeat=self.d if self.kind in ("L1", "Box") else 0)
        for held in itertools.chain(self._active_set(start), map(list, every)):
            x = self._restricted(held, start) if len(held) == self.d else None
            if x is not None and self._optimal(x, held):
                return x
        raise AssertionError("the reference solver found no minimiser")

    def _active_set(self, start: Point) -> Iterator[list[int]]:
        """Sets that an active-set method passes through, until one comes back."""
        held = [_sign(entry) for entry in start] if self.kind == "L1" else [0] * self.d
        passed: list[list[int]] = []
        while held not in passed:
            passed.append(held)
            yield held
            x = self._restricted(held, start)
            if x is None:
                return
            g = self.smooth(x).gradient
            held = [self._revised(j, held[j], x[j], g[j]) for j in range(self.d)]

    def _revised(self, j: int, held: int, x: Number, g: Number) -> int:
        if self.kind == "L1":
            if held == 0:
                return 0 if abs(g) <= self.c else -_sign(g)
            return held if _sign(x) == held else 0
        if self.kind != "Box":
            return 0
        assert self.lo is not None
        assert self.hi is not None
        if held == 0:
            return -1 if x < self.lo[j] else int(x > self.hi[j])
        return held if _sign(g) != held else 0

    def _restricted(self, held: list[int], start: Point) -> Point | None:
        """The minimiser where some entries are held; None if they cannot be."""
        fixed: list[Any] = [None] * self.d
        slope: Point = [mp.zero] * self.d
        if self.kind == "L1":
            fixed = [mp.zero if s == 0 else None for s in held]
            slope = [self.c * s for s in held]
        elif self.kind == "Box":
            assert self.lo is not None
            assert self.hi is not None
            fixed = [(None, self.hi[j], self.lo[j])[held[j]] for j in range(self.d)]
            if any(end is not None and mp.isinf(end) for end in fixed):
                return None
        return self._newton(start, slope, fixed)

    def _newton(self, start: Point, slope: Point, fixed: list[Any]) -> Point:
        """Minimise f + slope·x over the entries that are not fixed."""
        free = [j for j in range(self.d) if fixed[j] is None]
        x = [start[j] if fixed[j] is None else fixed[j] for j in range(self.d)]
        for _ in range(500 if free else 0):
            here = self.smooth(x)
            g = mp.matrix([here.gradient[j] + slope[j] for j in free])
            H = mp.matrix([[here.hessian[j][k] for k in free] for j in free])
            step = mp.lu_solve(H, g)
            size = mp.mpf(1)
            while True:
                y = list(x)
                for k, j in enumerate(free):
                    y[j] = x[j] - size * step[k]
                if size < 1e-3 or self._lower(y, x, slope):
                    break
                size /= 2
            x = y
            if mp.norm(step) <= NEWTON * norm(x):
                break
        return x

    def _lower(self, y: Point, x: Point, slope: Sequence[Number]) -> bool:
        here = self.smooth(x).value + dot(slope, x)
        return bool(self.smooth(y).value + dot(slope, y) <= here + ROUNDING * abs(here))

    def _optimal(self, x: Point, held: list[int]) -> bool:
        """Whether the conditions for a minimum hold at x, to far more digits than are needed."""
        here = self.smooth(x)
        for j, entry in enumerate(x):
            bend = abs(here.hessian[j][j])
            terms = mp.fsum(abs(h * v) for h, v in zip(here.hessian[j], x, strict=True))
            small = ROUNDING * (mp.fsum(map(abs, here.gradient)) + terms + bend * norm(x) + self.c)
            if not self._stationary(j, held[j], entry, here.gradient[j], small, small / bend):
                return False
        return True

    def _stationary(
        self, j: int, held: int, x: Number, g: Number, small: Number, near: Number
    ) -> bool:
        if self.kind == "L1" and held == 0:
            return bool(abs(g) <= self.c + small)
        if self.kind == "L1":
            return bool(abs(g + held * self.c) <= small and held * x >= -near)
        if self.kind != "Box":
            return bool(abs(g) <= small)
        assert self.lo is not None
        assert self.hi is not None
        if held == 0:
            return bool(abs(g) <= small and self.lo[j] - near <= x <= self.hi[j] + near)
        return bool(held * g <= small or self.lo[j] == self.hi[j])


def _rows(here: Local) -> Any:
    return enumerate(here.hessian)


def _sign(x: Number) -> int:
    return int(x > 0) - int(x < 0)
