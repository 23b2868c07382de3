"""Nodes that take gradient steps instead of exact updates."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import CASES, LIMITS, build, follow, log_cosh, sequences, softmax_data
from twins import networks as nt
from twins.networks import Inexact

nx: Any = importlib.import_module("networkx")


@pytest.mark.parametrize("given_size", [False, True])
@pytest.mark.parametrize("name", ["quadratics", "constraints"])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("K", [1, 3])
def test_gradient_steps(K: int, schedule: Any, name: str, given_size: bool) -> None:
    case = CASES[name]
    eta = {}
    for node, f in case.twin.functions.items():
        assert f.H is not None
        eta[node] = 0.1 if given_size else 1 / float(np.linalg.eigvalsh(f.H)[-1])
    x0 = case.start(np.random.default_rng(0))
    twin, turns = Inexact(case.twin, 0.6, K, eta, x0), sequences(case, None, 4)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    settings: dict[str, Any] = {"step_size": 0.1} if given_size else {}
    follow(
        case, twin, step, 20, 1e-11,
        rho=0.6, schedule=schedule, local_steps=K, x0=x0, seed=4, **settings,
    )  # fmt: skip


def test_gradient_steps_leave_zero_absolute_and_prox_exact() -> None:
    value, slope, prox, twin_function = log_cosh(1, 1)
    graph = nx.cycle_graph(4)
    case = build(
        graph,
        {
            0: (pdmm.Zero(1), nt.zero(1)),
            1: (pdmm.Absolute(0.3), nt.absolute(0.3)),
            2: (pdmm.Functions([value], [slope], 1, prox=[prox]), twin_function),
            3: (pdmm.Quadratic(2.0, [1.0]), nt.quadratic(2.0, [1.0])),
        },
    )
    twin = Inexact(case.twin, 0.6, 2, {3: 0.5})
    follow(case, twin, twin.synchronous, 15, 1e-10, rho=0.6, local_steps=2)


def test_gradient_steps_reach_the_optimum() -> None:
    for name in ("consensus", list(LIMITS)[2]):
        case = LIMITS[name]
        result = pdmm.solve_network(
            case.network, 0.5, 4000, local_steps=3, record_every=1000, relaxation=0.95
        )
        assert result.history["error"][-1] < 1e-8


def test_gradient_steps_of_softmax_and_functions() -> None:
    X, y = softmax_data(5, 3)
    problem = pdmm.SoftmaxRegression(X, y, 2, 0.2)
    made = log_cosh(7, 4)
    network = pdmm.Network(
        nx.cycle_graph(4), [problem, pdmm.Functions([made[0]], [made[1]], 4, smoothness=3.0)]
    )
    result = pdmm.solve_network(network, 0.3, 700, local_steps=3, record_every=100)
    assert result.history["error"][-1] < 1e-7
    same = pdmm.solve_network(network, 0.3, 700, "asynchronous", local_steps=2, record_every=100)
    assert same.history["error"][-1] < 1e-7


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_nodes_with_different_numbers_of_samples(schedule: Any) -> None:
    """One problem for all nodes does what a problem for each node does."""
    rng = np.random.default_rng(0)
    sizes = (5, 7, 5, 9)
    X = [rng.standard_normal((n, 2)) for n in sizes]
    y = [rng.integers(0, 2, n) for n in sizes]
    graph = nx.path_graph(4)
    settings: dict[str, Any] = {"schedule": schedule, "local_steps": 3, "iterations": 40}
    whole = pdmm.solve_network(
        pdmm.Network(graph, pdmm.SoftmaxRegression(X, y, 2, 0.1)), **settings
    )
    single = [pdmm.SoftmaxRegression([X[i]], [y[i]], 2, 0.1) for i in range(4)]
    one_by_one = pdmm.solve_network(pdmm.Network(graph, single), **settings)
    np.testing.assert_allclose(np.asarray(whole.x), np.asarray(one_by_one.x), atol=1e-12)
    assert whole.history["error"][-1] < whole.history["error"][0]
