"""Everything at once, on random problems: the optimum must be exact.

``PDMM_EXAMPLES=500 pytest tests/links/test_links_property.py`` runs it for long.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pdmm

EXAMPLES = int(os.environ.get("PDMM_EXAMPLES", "30"))
MOST_ROUNDS = 2500


def random_problem(seed: int, clients: int, d: int) -> tuple[pdmm.LeastSquares, float, float]:
    """Different, strongly convex clients; with their L and mu."""
    rng = np.random.default_rng(seed)
    A = []
    for _ in range(clients):
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        A.append(np.sqrt(rng.uniform(1.0, 20.0, d))[:, None] * basis)
    b = [matrix @ (2 * rng.standard_normal(d)) for matrix in A]
    problem = pdmm.LeastSquares(A, b)
    L = float(problem.smoothness().clients.max())
    return problem, L, float(problem.strong_convexity().clients.min())


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    clients=st.integers(2, 7),
    d=st.integers(1, 6),
    name=st.sampled_from(["AGPDMM", "GPDMM", "PDMM"]),
    participation=st.floats(0.2, 1.0),
    loss=st.one_of(st.floats(0.0, 0.4), st.just(pdmm.Bursts(0.1, 0.4))),
    few=st.one_of(st.none(), st.integers(3, 16)),
    straggling=st.booleans(),
    state=st.sampled_from(["clients", "server"]),
    crashes=st.lists(st.integers(1, 200), max_size=3),
    threads=st.sampled_from([1, 2]),
    weighted=st.booleans(),
)
@settings(
    max_examples=EXAMPLES,
    derandomize="PDMM_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_the_optimum_is_exact_whatever_happens(
    seed: int,
    clients: int,
    d: int,
    name: str,
    participation: float,
    loss: Any,
    few: int | None,
    straggling: bool,
    state: Any,
    crashes: list[int],
    threads: int,
    weighted: bool,
) -> None:
    problem, L, mu = random_problem(seed, clients, d)
    rho, rng = float(np.sqrt(L * mu)), np.random.default_rng(seed)
    method: pdmm.Method = {
        "AGPDMM": pdmm.AGPDMM(1 / L, 10, rho),
        "GPDMM": pdmm.GPDMM(1 / L, 10, rho),
        "PDMM": pdmm.PDMM(rho),
    }[name]
    bits = few if few is None or name != "GPDMM" else max(few, 8)
    steps = rng.integers(5, 20, clients).tolist() if straggling and name != "PDMM" else None
    weights = rng.uniform(0.5, 2.0, clients) if weighted else None
    reached: list[float] = []
    ends = sorted(set(crashes))

    def watch(r: int, x: Any) -> bool:
        away = x - x_star
        reached.append(float(away @ away) ** 0.5)
        if ends and r == ends[0]:  # the process ends here, and another goes on
            ends.pop(0)
            return True
        return reached[-1] <= 1e-9 * size

    x_star = _minimiser(problem, weights)
    size = max(1.0, float(np.linalg.norm(x_star)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        pdmm.solve(
            problem,
            method,
            MOST_ROUNDS,
            participation=participation,
            loss=loss,
            bits=bits,
            local_steps=steps,
            state=state,
            weights=weights,
            seed=seed,
            threads=threads,
            checkpoint=path,
            every=50,
            record_every=MOST_ROUNDS,
            optimum=False,
            callback=watch,
        )
        while reached[-1] > 1e-9 * size and len(reached) < MOST_ROUNDS:
            pdmm.resume(path, problem, threads=threads, callback=watch)
    assert reached[-1] <= 1e-9 * size, f"{reached[-1]:.1e} after {len(reached)} rounds"


def _minimiser(problem: pdmm.LeastSquares, weights: Any) -> Any:
    from pdmm.common.threads import Threads

    w = np.ones(problem.clients) if weights is None else weights
    with Threads(1) as one:
        return problem.total(w, one).minimiser(0.0)
