"""Clients that are made one by one, and the same ones as an ordinary problem."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm

M, D = 12, 4
AG = pdmm.AGPDMM(step_size=0.02, local_steps=4, rho=6.0)
METHODS: dict[str, pdmm.Method] = {
    "PDMM": pdmm.PDMM(rho=8.0),
    "AGPDMM": AG,
    "GPDMM": pdmm.GPDMM(step_size=0.02, local_steps=4, rho=6.0),
    "Scaffold": pdmm.Scaffold(step_size=0.02, local_steps=4),
    "FedAvg": pdmm.FedAvg(step_size=0.02, local_steps=4),
    "FedProx": pdmm.FedProx(step_size=0.02, local_steps=4, mu=2.0),
    "FedDyn": pdmm.FedDyn(step_size=0.02, local_steps=4, alpha=6.0),
    "GradientDescent": pdmm.GradientDescent(step_size=0.05),
}


class StopError(Exception):
    pass


def data(i: int, dtype: Any = np.float64) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    rng = np.random.default_rng([7, i])
    A = rng.standard_normal((10, D))
    return A.astype(dtype), (A @ np.arange(1.0, D + 1) + rng.standard_normal(10)).astype(dtype)


def one(i: int) -> pdmm.LeastSquares:
    A, b = data(i)
    return pdmm.LeastSquares([A], [b])


def one32(i: int) -> pdmm.LeastSquares:
    A, b = data(i, np.float32)
    return pdmm.LeastSquares([A], [b])


def everyone(dtype: Any = np.float64) -> pdmm.LeastSquares:
    pairs = [data(i, dtype) for i in range(M)]
    return pdmm.LeastSquares([A for A, _ in pairs], [b for _, b in pairs])


def counted(
    make: Callable[[int], pdmm.Problem] = one,
) -> tuple[Callable[[int], pdmm.Problem], "Counter[int]"]:
    calls: Counter[int] = Counter()

    def made(i: int) -> pdmm.Problem:
        calls[i] += 1
        return make(i)

    return made, calls


def schedule(rounds: int, count: int, clients: int = M, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [sorted(rng.choice(clients, count, replace=False).tolist()) for _ in range(rounds)]
