"""Runs that choose their parameters reach the plain optimum, and fast."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.automatic import (
    REGULARISERS,
    Data,
    clients,
    every_auto,
)
from pdmm.methods import Method
from twins import methods as twins
from twins.methods import Matrix, Vector

# --- the same optimum ------------------------------------------------------------------------


@cache
def plain_optimum(kind: str, dtype: Any = np.float64) -> Vector:
    data = clients()
    rho = float(np.sqrt(data.spectrum.min() * data.spectrum.max()))
    result = pdmm.solve(
        data.problem(),
        pdmm.PDMM(rho, 0.7),
        1500,
        weights=data.w,
        regulariser=REGULARISERS[kind],
        record_every=1500,
        threads=1,
    )
    assert result.certificate.stationarity < 1e-9
    return np.asarray(result.x, dtype=np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(REGULARISERS))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adapted_and_accelerated_runs_reach_the_plain_optimum(kind: str, dtype: Any) -> None:
    data = clients()
    x_star = plain_optimum(kind)
    L = float(data.spectrum.max())
    fixed: dict[str, Method] = {
        "PDMM, fixed rho": pdmm.PDMM(30.0, 0.9, "anderson"),
        "FedSplit, fixed gamma": pdmm.FedSplit(1 / 30, 1.0, "anderson"),
        "InexactFedSplit, fixed": pdmm.InexactFedSplit(
            1 / 30, 0.9 / (L + 30), 10, start="server", acceleration="anderson"
        ),
        "GPDMM, fixed": pdmm.GPDMM(0.9 / L, 10, 30.0, acceleration="anderson"),
        "AGPDMM, fixed": pdmm.AGPDMM(0.9 / L, 10, 30.0, acceleration="anderson"),
    }
    chosen = {n: m for n, m in every_auto().items() if "accelerated" in n or n == "FedSplit"}
    for name, method in {**fixed, **chosen, "no method": None}.items():
        result = pdmm.solve(
            data.problem(dtype),
            method,
            250,
            x0=data.x0,
            weights=data.w,
            regulariser=REGULARISERS[kind],
            tolerance=1e-24 if dtype == np.float64 else 1e-10,
            record_every=250,
            threads=1,
        )
        error = np.linalg.norm(result.x - x_star) / np.linalg.norm(x_star)
        assert error <= (1e-10 if dtype == np.float64 else 1e-4), (name, error, result.reason)


def test_softmax_and_functions_reach_the_plain_optimum() -> None:
    rng = np.random.default_rng(3)
    y = [np.full(6, i % 3) for i in range(4)]
    X = [rng.standard_normal((6, 2)) + v[0] for v in y]
    problem = pdmm.SoftmaxRegression(X, y, classes=3, l2=1e-2)

    def parts(x: Vector) -> tuple[float, Vector, Matrix]:
        found = [twins.softmax_parts(a, v, 3, 1e-2, x) for a, v in zip(X, y, strict=True)]
        return (
            sum(p[0] for p in found),
            np.asarray(sum(p[1] for p in found)),
            np.asarray(sum(p[2] for p in found)),
        )

    x_star = twins.newton(parts, np.zeros(problem.dimension))
    for method in (None, pdmm.AGPDMM(rho="auto", acceleration="anderson")):
        result = pdmm.solve(problem, method, 80, tolerance=1e-22)
        np.testing.assert_allclose(result.x, x_star, rtol=1e-6, atol=1e-7)


# --- how fast --------------------------------------------------------------------------------


def six_kinds() -> dict[str, Data]:
    """SPEC section 4: what they have in common is that no one rho suits them all."""
    m, d, n = 20, 20, 60
    kinds: dict[str, Data] = {}
    for k, name in enumerate(
        ("iid", "iid, kappa 150", "own optima", "well-conditioned sum", "scales", "kappa 1.5e4")
    ):
        rng = np.random.default_rng(k)
        common = rng.standard_normal(d)
        A, b = [], []
        for i in range(m):
            a = rng.standard_normal((n if k > 1 else 10 * n, d))
            if k == 1:
                a = a * np.sqrt(np.geomspace(1, 50, d))
            if k == 3:
                U, _, V = np.linalg.svd(a, full_matrices=False)
                a = U * np.sqrt(np.geomspace(1, 1e4, d)) @ V
            if k == 4:
                a = a * np.sqrt(100 ** (i / (m - 1)))
            if k == 5:
                a = a * np.sqrt(np.geomspace(1, 2e3, d))
            target = common if k < 2 else rng.standard_normal(d)
            A.append(a)
            b.append(a @ target + 0.5 * rng.standard_normal(len(a)))
        kinds[name] = Data(A, b, np.ones(m), np.zeros(d))
    return kinds


@pytest.mark.parametrize("name", list(six_kinds()))
def test_at_most_twice_the_rounds_of_the_best_fixed_rho(name: str) -> None:
    data = six_kinds()[name]
    problem = data.problem().factorise()
    history = pdmm.solve(problem, rounds=200).history
    rounds = history.rounds_to(1e-6 * float(history["gap"][0]))
    assert rounds is not None
    fewer = (rounds - 1) // 2  # what a fixed rho would have to do it in, for auto to need more
    if fewer == 0:
        return
    middle = float(np.sqrt(data.spectrum.max() * data.spectrum.min()))
    for rho in middle * np.geomspace(1e-2, 1e3, 21):
        gap = pdmm.solve(problem, pdmm.PDMM(rho), fewer, record_every=fewer).history["gap"]
        assert gap[-1] > 1e-6 * gap[0], (name, rounds, rho)


def test_the_papers_problem_in_a_dozen_rounds() -> None:
    problem = pdmm.LeastSquares.random(clients=25, samples=1000, features=100)
    rounds = pdmm.solve(problem, rounds=12).history.rounds_to(1e-6)
    assert rounds is not None
    assert rounds <= 12
