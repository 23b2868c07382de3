"""PDMM with a metric for each client, one client after the other, with its matrices and duals."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


def own_metric(
    gradients: list[Callable[[Vector], Vector]],
    hessians: list[Callable[[Vector], Vector]],
    minimise: Callable[[int, Vector, Vector], Vector],
    weights: Any,
    x0: Vector,
    *,
    rho: float,
    relaxation: float,
    rounds: int,
) -> list[Vector]:
    """The x_s after each round.

    Args:
        gradients: of each f_i, functions of x.
        hessians: the same.
        minimise: (i, a, P) -> argmin f_i(x) + (x - a)'P(x - a)/2.
        weights: of the clients.
        x0: the start.
        rho: the factor of the metrics.
        relaxation: of the steps.
        rounds: how many.
    """
    m, d = len(hessians), len(x0)
    x = x0.copy()
    lam = [-gradient(x0) for gradient in gradients]
    P = [rho * np.eye(d) for _ in range(m)]
    found = []
    for r in range(1, rounds + 1):
        z = []
        for i in range(m):
            if r in (1, 2, 4, 8, 16):
                P[i] = rho * (hessians[i](x) + 1e-3 * np.eye(d))
            own = x + np.linalg.solve(P[i], lam[i])
            nearest = minimise(i, 2 * x - own, P[i])
            z.append(own + 2 * relaxation * (nearest - x))
        S = sum(w * p for w, p in zip(weights, P, strict=True))
        right = sum(w * (p @ v) for w, p, v in zip(weights, P, z, strict=True))
        x = np.linalg.solve(np.asarray(S), np.asarray(right))
        lam = [p @ (v - x) for p, v in zip(P, z, strict=True)]
        found.append(x)
    return found
