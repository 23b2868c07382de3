"""What holds at a point, to the last digit: whether it is inside, and how steep F is there."""

import itertools
from typing import Any

import numpy as np

from fuzz.certified_cases import Drawn
from fuzz.draws import Array
from fuzz.truth import Point, Regularised, exact, mp


def shortest(F: Regularised, x: Point) -> Point:
    """The shortest subgradient of F at x."""
    g = F.smooth(x).gradient
    if F.kind == "L1":
        return [
            v + F.c * mp.sign(at) if at != 0 else mp.sign(v) * max(abs(v) - F.c, 0)
            for v, at in zip(g, x, strict=True)
        ]
    if F.kind != "Box" or F.lo is None or F.hi is None:
        return g
    rows = zip(g, x, F.lo, F.hi, strict=True)
    return [mp.zero if (at <= a and v > 0) or (at >= b and v < 0) else v for v, at, a, b in rows]


def inside(x: Array, F: Regularised, rounding: Any = None) -> bool:
    """Whether x is in the Box, but for the rounding of bounds to what x can hold."""
    if F.lo is None or F.hi is None:
        return True
    eps = exact(2 * float(np.finfo(x.dtype).eps)) if rounding is None else rounding
    low = (at >= a - eps * abs(a) for at, a in zip(exact(x), F.lo, strict=True))
    high = (at <= b + eps * abs(b) for at, b in zip(exact(x), F.hi, strict=True))
    return all(low) and all(high)


def held(F: Regularised, at: Point, best: Point) -> bool:
    """Whether every entry that the regulariser holds fast is where it is held."""
    for j, (mine, true) in enumerate(zip(at, best, strict=True)):
        kink = F.kind == "L1" and true == 0
        if F.lo is not None and F.hi is not None:
            kink = true in (F.lo[j], F.hi[j])
        if kink and mine != true:
            return False
    return True


def refuted(drawn: Drawn) -> bool:
    """Whether two successive gradients of a client show that its mu is far too large."""
    for mu, rows in drawn.refutable:
        for (x, g), (y, h) in itertools.pairwise(rows):
            dx, dg = x - y, g - h
            clear = np.linalg.norm(dg) > 1e-3 * (np.linalg.norm(g) + np.linalg.norm(h))
            far = np.linalg.norm(dx) > 1e-6 * (np.linalg.norm(x) + np.linalg.norm(y))
            if clear and far and dg @ dx < 0.9 * mu * (dx @ dx):
                return True
    return False
