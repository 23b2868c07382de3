"""A naive twin of L-BFGS: BFGS matrices as they are written, and a line search as a loop.

The inverse Hessian is built anew from the last pairs by eq. (7.16) of Nocedal & Wright, with whole
matrices. The search knows its line as a function and asks for values and slopes as it goes.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
F = Callable[[Vector], tuple[float, Vector]]

EPS = 2.0**-52


class Asked(NamedTuple):
    """A point that was tried, and the best one that was known before."""

    trial: Vector
    best: Vector


class StoppedError(Exception):
    """As many points were tried as were wanted."""


def lbfgs(f: F, x0: Vector, memory: int, evaluations: int) -> list[Asked]:
    """Minimise f: all points at which it was asked for, at most so many."""
    asked: list[Asked] = []
    best = [1.0 * x0]

    def counted(x: Vector) -> tuple[float, Vector]:
        if len(asked) == evaluations:
            raise StoppedError
        asked.append(Asked(x, best[0]))
        return f(x)

    try:
        for x in _points(counted, x0, memory):
            best[0] = x
    except StoppedError:
        pass
    return asked


def _points(f: F, x: Vector, memory: int) -> Iterator[Vector]:
    """The points that line searches end at."""
    pairs: list[tuple[Vector, Vector]] = []
    value, g = f(x)
    while True:
        p = -_inverse_hessian(pairs, len(x)) @ g
        t = 1.0 if pairs else 1 / float(np.linalg.norm(g))
        found = _search(f, x, p, value, float(g @ p), t)
        if found is None:
            if not pairs:
                return
            pairs = []
            continue
        t, new_value, new_g = found
        s = t * p
        y = new_g - g
        if s @ y > EPS * abs(s @ g):
            pairs = [*pairs, (s, y)][-memory:]
        x, value, g = x + s, new_value, new_g
        yield x


def _inverse_hessian(pairs: list[tuple[Vector, Vector]], d: int) -> Vector:
    H = np.eye(d)
    if pairs:
        s, y = pairs[-1]
        H = H * (s @ y) / (y @ y)
    for s, y in pairs:
        rho = 1 / (s @ y)
        V = np.eye(d) - rho * np.outer(y, s)
        H = V.T @ H @ V + rho * np.outer(s, s)  # eq. (7.16)
    return H


def _search(
    f: F, x: Vector, p: Vector, first: float, slope: float, t: float
) -> tuple[float, float, Vector] | None:
    """The t that satisfies the strong Wolfe conditions; None if it is not found."""
    a: Any = (0.0, first, slope)
    b: Any = None
    for trial in range(30):
        value, g = f(x + t * p)
        s = float(g @ p)
        falls = value <= first + 1e-4 * t * slope
        if value <= first + 1e-12 * abs(first) and s <= (2e-4 - 1) * slope:
            falls = True
        if falls and abs(s) <= 0.9 * abs(slope):
            return t, value, g
        if falls and s < 0:
            before, a = a, (t, value, s)
            if b is None:
                stretch = a[0] - before[0]
                t = float(np.clip(_cubic(before, a, first), t + 1.1 * stretch, t + 10 * stretch))
        else:
            b = (t, value, s)
        if b is not None:
            width = b[0] - a[0]
            if width <= 1e-15 * b[0]:
                return None
            t = a[0] + width / 2
            if trial % 3 != 1:
                guess = _cubic(a, b, first)
                t = float(np.clip(guess, a[0] + 0.1 * width, b[0] - 0.1 * width))
    return None


def _cubic(a: Any, b: Any, scale: float) -> float:
    """Where c0 + c1 t + c2 t² + c3 t³ through both values and slopes has its minimum."""
    if abs(a[1] - b[1]) <= 1e-12 * abs(scale):
        return float(a[0] - a[2] * (b[0] - a[0]) / (b[2] - a[2]))
    d1 = a[2] + b[2] - 3 * (a[1] - b[1]) / (a[0] - b[0])  # eq. (3.59)
    d2 = np.sqrt(d1**2 - a[2] * b[2])
    return float(b[0] - (b[0] - a[0]) * (b[2] + d2 - d1) / (b[2] - a[2] + 2 * d2))
