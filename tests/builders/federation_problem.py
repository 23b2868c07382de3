"""A problem for the sites of a test federation: least squares that takes its time."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pdmm

D, CLIENTS, ROUNDS = 5, 3, 120
METHOD = pdmm.AGPDMM(step_size=1 / 30, local_steps=3, rho=15.0)


def matrices(i: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([11, i])
    H = rng.standard_normal((D, D))
    return H @ H.T / 4 + 6 * np.eye(D), rng.standard_normal(D) * 10


def functions(clients: range | list[int], poison: str = "", pause: float = 0.0) -> pdmm.Problem:
    def value(H: Any, c: Any) -> Callable[[Any], float]:
        return lambda x: float(x @ H @ x / 2 - c @ x)

    def gradient(H: Any, c: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            time.sleep(pause)
            return (H @ x - c) * (np.nan if poison and Path(poison).exists() else 1.0)

        return call

    parts = [matrices(i) for i in clients]
    return pdmm.Functions([value(*p) for p in parts], [gradient(*p) for p in parts], D)


def optimum() -> Any:
    parts = [matrices(i) for i in range(CLIENTS)]
    return np.linalg.solve(sum(H for H, _ in parts), sum(c for _, c in parts))


def write(folder: Path, site: int) -> str:
    """The file of a site, which names no other's data."""
    path, here = folder / f"site{site}.py", os.path.dirname(os.path.abspath(__file__))
    path.write_text(
        f"import sys\nsys.path.insert(0, {here!r})\nimport federation_problem\n\n"
        f"def problem():\n"
        f"    poison = {str(folder / f'poison{site}')!r}\n"
        f"    return federation_problem.functions([{site}], poison, pause=0.01)\n"
    )
    return f"{path}:problem"
