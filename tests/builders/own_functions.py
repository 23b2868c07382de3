"""A user's own functions, and quadratics of which L and mu are known."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm

Array = npt.NDArray[Any]


def log_cosh(c: Array, k: float) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    """A smooth convex function with curvature between 0 and k², and its gradient."""

    def value(x: Array) -> float:
        t = np.abs(k * (x - c))
        return float((t + np.log1p(np.exp(-2 * t)) - np.log(2)).sum())

    return value, lambda x: k * np.tanh(k * (x - c))


def own_functions(m: int = 3, d: int = 4) -> pdmm.Functions:
    rng = np.random.default_rng(11)
    pairs = [log_cosh(rng.standard_normal(d), 1.0 + i) for i in range(m)]
    return pdmm.Functions([v for v, _ in pairs], [g for _, g in pairs], dimension=d)


def square(x: Array) -> float:
    return 0.5 * float(x @ x)


def identity(x: Array) -> Array:
    return x


def bowl(H: Array, centre: float, x: Array) -> float:
    return 0.5 * float((x - centre) @ H @ (x - centre))


def slope(H: Array, centre: float, x: Array) -> Array:
    return np.asarray(H @ (x - centre))


def quadratics(H: list[Array], centre: float = 1.0, **constants: Any) -> pdmm.Functions:
    return pdmm.Functions(
        [partial(bowl, h, centre) for h in H],
        [partial(slope, h, centre) for h in H],
        len(H[0]),
        **constants,
    )


def rotated(values: Array, seed: int = 0) -> Array:
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return np.asarray(Q * values @ Q.T)
