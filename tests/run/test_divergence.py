"""Runs that diverge say when, how far, and what is safe."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import inf, nan, quadratics, scaled, softmax

DIVERGING: list[Callable[[float], pdmm.Method]] = [
    lambda step: pdmm.AGPDMM(step, 3),
    lambda step: pdmm.GPDMM(step, 3, rho=0.01),
    lambda step: pdmm.Scaffold(step, 2),
    lambda step: pdmm.FedAvg(step, 3),
    pdmm.GradientDescent,
    lambda step: pdmm.InexactFedSplit(1.0, step, 2),
]


@pytest.mark.parametrize("make", DIVERGING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["softmax", "least squares", "large least squares"])
@pytest.mark.parametrize("optimum", [None, False])
def test_a_run_that_diverges_says_when_how_far_and_what_is_safe(
    make: Callable[[float], pdmm.Method], dtype: Any, kind: str, optimum: bool | None
) -> None:
    problem: pdmm.Problem
    if kind == "softmax":
        problem = softmax(dtype)
    else:
        problem = scaled(dtype, 1.0 if kind == "least squares" else 1e4)
    safe = 1 / float(problem.smoothness().clients.max())
    method = make((30 if kind == "softmax" else 4) * safe)
    result = pdmm.solve(problem, method, rounds=400, threads=2, optimum=optimum)
    assert result.diverged
    assert result.rounds < 400
    assert f"diverged in round {result.rounds}:" in result.reason
    size = re.search(r"‖x_s‖ = (\S+)[,.] ", result.reason)
    assert size is not None
    assert not float(size.group(1)) < 1e30
    name, limit = method.step_limit(safe)
    assert f"at most {name} = {limit:.3g} is safe" in result.reason
    assert np.isfinite(result.x).all()
    assert result.x.dtype == dtype
    # Every round but the diverged one is kept, and the start.
    np.testing.assert_array_equal(result.history["round"], np.arange(result.rounds))
    assert result.history["objective"][-1] > 1e3 * result.history["objective"][0]


@pytest.mark.parametrize("threads", [None, 2])
def test_own_functions_that_diverge(threads: int | None) -> None:
    problem = quadratics()
    result = pdmm.solve(problem, pdmm.AGPDMM(50.0, 3, rho=1e-3), rounds=500, threads=threads)
    assert result.diverged
    assert f"diverged in round {result.rounds}: ‖x_s‖ = " in result.reason
    assert "step_size=50 may be too large: at most 1/L, about 1, is safe" in result.reason
    assert np.isfinite(result.x).all()
    assert len(result.history["objective"]) == result.rounds


@pytest.mark.parametrize("threads", [None, 2])
def test_own_functions_that_turn_to_nan_name_the_client(threads: int | None) -> None:
    rounds: list[int] = []
    problem = quadratics(gradient={1: lambda x: x if len(rounds) < 2 else x + nan})
    method = pdmm.AGPDMM(0.1, 2)
    result = pdmm.solve(
        problem, method, rounds=9, threads=threads, callback=lambda r, x: rounds.append(r)
    )
    assert result.diverged
    assert "diverged in round 3" in result.reason
    assert "client 1 is not finite" in result.reason
    np.testing.assert_array_equal(result.history["round"], [0, 1, 2])


@pytest.mark.parametrize("bad", [nan, inf])
def test_an_exact_step_on_a_slope_that_is_not_finite_does_not_pass(bad: float) -> None:
    rounds: list[int] = []
    problem = quadratics(gradient={1: lambda x: x if len(rounds) < 2 else np.full(2, bad)})
    try:
        result = pdmm.solve(
            problem, pdmm.PDMM(1.0), rounds=5, callback=lambda r, x: rounds.append(r)
        )
    except pdmm.ClientError as error:
        message = str(error)
    else:
        assert result.diverged
        message = result.reason
    assert "client 1" in message
    assert rounds == [1, 2]


def test_functions_that_overflow_late_keep_the_history() -> None:
    problem = pdmm.Functions(
        [lambda x: float((x**4).sum())] * 2, [lambda x: 4 * x**3] * 2, dimension=1
    )
    result = pdmm.solve(problem, pdmm.GradientDescent(0.5), rounds=100, x0=[1.1])
    assert result.diverged
    assert len(result.history["round"]) == result.rounds >= 2
    assert np.isfinite(result.x).all()


def test_a_run_that_grows_without_blowing_up_says_so() -> None:
    problem = scaled(np.float64, 1.0)
    safe = 1 / float(problem.smoothness().clients.max())
    result = pdmm.solve(problem, pdmm.FedAvg(4 * safe, 1), rounds=20)
    assert result.diverged
    assert result.rounds == 20
    assert result.history["objective"][-1] > 10 * result.history["objective"][0]
    assert "the objective ended far above its start" in result.reason
    assert f"at most 1/L = {safe:.3g} is safe" in result.reason


def test_an_exact_step_that_misses_its_tolerance_warns() -> None:
    rng = np.random.default_rng(0)
    problem = quadratics(gradient={1: lambda x: x - 1 + 1e-4 * rng.standard_normal(2)})
    with pytest.warns(RuntimeWarning, match="an exact step of PDMM stopped at a relative residual"):
        result = pdmm.solve(problem, pdmm.PDMM(1.0), rounds=3)
    assert result.history["exact_error"].max() > 1e-10


# --- runs that neither blow up nor arrive ------------------------------------------------------


def unscaled(l2: float = 0.0) -> pdmm.SoftmaxRegression:
    """Columns as they come in a file: their sizes are 1e4 apart."""
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 2, 60) for _ in range(3)]
    sizes = np.array([0.1, 1.0, 30.0, 1000.0])
    X = [sizes * (rng.standard_normal((60, 4)) + 0.5 * labels[:, None]) for labels in y]
    return pdmm.SoftmaxRegression(X, y, 2, l2=l2)


@pytest.mark.parametrize("make", DIVERGING[:5])
def test_an_objective_that_ends_far_above_its_start_is_a_divergence(
    make: Callable[[float], pdmm.Method],
) -> None:
    result = pdmm.solve(unscaled(), make(0.2), rounds=100)
    objective = result.history["objective"]
    assert objective[-1] > 100 * objective[0]
    assert result.diverged
    assert result.rounds == 100
    assert f"it went from {objective[0]:.6g} to {objective[-1]:.6g}" in result.reason
    assert "step_size=0.2 is too large: at most 1/L" in result.reason


def test_a_run_that_stands_still_because_of_its_steps_names_them() -> None:
    rng = np.random.default_rng(39)
    X = [
        rng.standard_normal((30, 5)) * rng.uniform(0.5, 5) + 3 * rng.standard_normal(5)
        for _ in range(4)
    ]
    y = [rng.integers(0, 3, 30) for _ in range(4)]
    problem = pdmm.SoftmaxRegression(X, y, 3, l2=1e-3)
    safe = 1 / float(problem.smoothness().clients.max())
    lowest = pdmm.solve(problem).history["objective"][-1]
    long = pdmm.solve(problem, pdmm.AGPDMM(4 * safe, 5), rounds=300)
    start, end = long.history["objective"][[0, -1]]
    assert end - lowest > 0.01 * (start - lowest)
    assert "but the run stands still: ‖grad F(x)‖ is still" in long.reason
    assert f"at most 1/L = {safe:.3g} is safe" in long.reason
    for method in (pdmm.AGPDMM(safe, 5), pdmm.FedAvg(safe, 5), pdmm.PDMM("auto")):
        assert "but" not in pdmm.solve(problem, method, rounds=300).reason


def test_long_steps_that_arrive_are_nobodys_business() -> None:
    problem = scaled(np.float64, 1.0)
    safe = 1 / float(problem.smoothness().clients.max())
    result = pdmm.solve(problem, pdmm.GradientDescent(1.5 * safe), rounds=400)
    assert result.history["gap"][-1] < 1e-20
    assert result.reason == "all 400 rounds done"
