"""``pdmm.solve_network``: where runs end, and what is said of how they ended."""

import importlib
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.networks import (
    CASES,
    LIMITS,
    QUADRATICS,
    assert_kkt,
    connected,
    flat,
    groups_of,
    log_cosh,
    positive_definite,
)
from pdmm.graphs import reasons

nx: Any = importlib.import_module("networkx")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "schedule"),
    [(name, "synchronous") for name in LIMITS]
    + [(name, "asynchronous") for name in list(LIMITS)[:5]],
)
def test_limits_are_those_of_a_kkt_solve(name: str, schedule: Any) -> None:
    case = LIMITS[name]
    expected = case.twin.optimum()
    iterations = 2500 if schedule == "synchronous" else 500
    result = pdmm.solve_network(
        case.network, rho="auto", iterations=iterations, schedule=schedule, record_every=100
    )
    np.testing.assert_allclose(flat(result.x, case.nodes), expected, atol=1e-9)
    assert result.optimum is not None
    np.testing.assert_allclose(flat(result.optimum, case.nodes), expected, atol=1e-10)
    assert result.history["error"][-1] < 1e-9
    assert_kkt(result, case.twin, 1e-8)


def test_the_limit_does_not_depend_on_the_start_or_rho() -> None:
    case = LIMITS["consensus"]
    expected = case.twin.optimum()
    for rho, relaxation in ((0.3, 1.0), (2.0, 0.7)):
        x0 = case.start(np.random.default_rng(5))
        result = pdmm.solve_network(
            case.network, rho, 3000, relaxation=relaxation, x0=x0, record_every=1000
        )
        np.testing.assert_allclose(flat(result.x, case.nodes), expected, atol=1e-9)


def test_the_optimum_of_averaging_is_the_mean() -> None:
    a = np.random.default_rng(0).normal(size=(12, 2))
    result = pdmm.solve_network(
        pdmm.Network(nx.cycle_graph(12), pdmm.Quadratic(1.0, a)), rho="auto", iterations=400
    )
    np.testing.assert_allclose(np.asarray(result.x), np.tile(a.mean(0), (12, 1)), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.2, 0.5])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("name", ["consensus", "consensus of numbers", list(LIMITS)[2]])
def test_lost_messages_do_not_move_the_limit(name: str, schedule: Any, loss: float) -> None:
    case = LIMITS[name]
    settings: dict[str, Any] = {"rho": "auto", "schedule": schedule, "record_every": 50}
    result = pdmm.solve_network(case.network, iterations=450, loss=loss, seed=1, **settings)
    assert result.history["error"][-1] < 1e-9
    np.testing.assert_allclose(flat(result.x, case.nodes), case.twin.optimum(), atol=1e-8)
    whole = pdmm.solve_network(case.network, iterations=150, seed=1, **settings)
    for column in ("messages", "bytes"):  # of lost ones too
        assert (result.history[column][:4] == whole.history[column]).all()


def test_losses_matter() -> None:
    case = LIMITS["consensus"]
    runs = [pdmm.solve_network(case.network, iterations=5, loss=p) for p in (0.0, 1e-9, 0.5)]
    x = [flat(run.x, case.nodes) for run in runs]
    np.testing.assert_allclose(x[0], x[1], rtol=1e-12)
    assert np.abs(x[0] - x[2]).max() > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_cycle_of_absolute_values_needs_relaxation(seed: int) -> None:
    a = np.random.default_rng(seed).normal(size=(10, 1))
    network = pdmm.Network(nx.cycle_graph(10), pdmm.Absolute(a))
    full = pdmm.solve_network(network, 1.0, 3000)
    assert full.history["consensus"][-1] > 1e-3
    assert full.history["consensus"][-500:].min() > 1e-4
    assert "relaxation=0.9" in full.reason
    relaxed = pdmm.solve_network(network, 1.0, 3000, relaxation=0.9)
    assert relaxed.history["consensus"][-1] < 1e-12
    assert relaxed.history["error"][-1] < 1e-12
    assert relaxed.reason == "all 3000 iterations done"
    low, high = np.sort(a[:, 0])[[4, 5]]
    assert low - 1e-12 <= relaxed.x[0][0] <= high + 1e-12


def test_a_run_that_agrees_is_not_told_to_relax() -> None:
    network = pdmm.Network(nx.path_graph(3), pdmm.Absolute([[0.0], [1.0], [5.0]]))
    result = pdmm.solve_network(network, 0.5, 400, relaxation=0.9)
    assert "relaxation" not in result.reason
    np.testing.assert_allclose(np.asarray(result.x), 1.0, atol=1e-12)


def test_what_circles_is_told_whatever_its_kind() -> None:
    lines = [pdmm.Quadratic(0.0, [1.0]), pdmm.Quadratic(0.0, [-1.0])]
    network = pdmm.Network(nx.path_graph(2), lines)
    assert "try relaxation=0.9" in pdmm.solve_network(network, iterations=200).reason
    path = pdmm.Network(nx.path_graph(40), pdmm.Absolute(np.arange(40.0)[:, None]))
    assert pdmm.solve_network(path, iterations=2).reason == "all 2 iterations done"


def test_a_rho_that_is_far_off_is_told_where_relaxation_is_not_at_fault() -> None:
    """Quadratics need no relaxation: it would not help."""
    network = pdmm.Network(nx.path_graph(3), pdmm.Quadratic(1.0, np.array([[1.0], [5.0], [9.0]])))
    result = pdmm.solve_network(network, 1e5, 200)
    assert "relaxation" not in result.reason
    assert result.reason.endswith("rho=1e+05 may be far from a good one; try rho='auto'")
    assert "relaxation" not in pdmm.solve_network(network, 1e5, 200, relaxation=0.9).reason
    kinks = pdmm.Network(nx.cycle_graph(10), pdmm.Absolute(np.arange(10.0)[:, None]))
    assert "relaxation" not in pdmm.solve_network(kinks, 1e5, 200, relaxation=0.9).reason
    groups = groups_of(network)
    assert "which auto chose by a model" in reasons.why_stuck(groups, 1.0, 7.0, chosen=True)


def test_a_result_is_shown_in_one_line() -> None:
    graph = nx.random_geometric_graph(100, 0.25, seed=1)
    functions = pdmm.Quadratic(1.0, np.random.default_rng(0).standard_normal((100, 1)))
    result = pdmm.solve_network(pdmm.Network(graph, functions), 0.5, 300)
    last = {name: column[-1] for name, column in result.history.items()}
    assert repr(result) == (
        f"NetworkResult(all 300 iterations done; rho 0.5, objective {last['objective']:.6g}, "
        f"consensus {last['consensus']:.3g}, error {last['error']:.3g})"
    )
    unknown = pdmm.solve_network(pdmm.Network(graph, functions), 0.5, 2, optimum=False)
    assert "error" not in repr(unknown)


def test_divergence_is_told() -> None:
    network = pdmm.Network(nx.path_graph(3), pdmm.Quadratic(1.0, np.ones((3, 1))))
    result = pdmm.solve_network(network, 1.0, 6000, local_steps=3, step_size=50.0)
    assert result.diverged
    assert "step_size=50" in result.reason
    assert np.isfinite(np.asarray(result.x)).all()  # as NetworkResult.diverged promises


def test_a_callback_can_stop() -> None:
    case, seen = CASES["quadratics"], []

    def callback(iteration: int, x: Any) -> bool:
        seen.append(iteration)
        return iteration == 4

    result = pdmm.solve_network(
        case.network, 0.7, 100, record_every=3, callback=callback, optimum=False
    )
    assert seen == [1, 2, 3, 4]
    assert result.iterations == 4
    assert result.history["iteration"].tolist() == [0, 3, 4]
    assert result.reason == "stopped by the callback after iteration 4"
    plain = pdmm.solve_network(case.network, 0.7, 4)
    assert (np.asarray(result.x) == np.asarray(plain.x)).all()


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_a_callback_gets_copies(schedule: Any) -> None:
    case = CASES["quadratics"]
    kept: list[tuple[Any, npt.NDArray[Any]]] = []

    def spoil(iteration: int, x: Any) -> None:
        kept.append((x, np.array(x)))
        if iteration == 5:
            for node in x:
                x[node][:] = np.nan

    result = pdmm.solve_network(case.network, 0.7, 10, schedule, callback=spoil)
    plain = pdmm.solve_network(case.network, 0.7, 10, schedule)
    assert (np.asarray(result.x) == np.asarray(plain.x)).all()
    for k, (x, copy) in enumerate(kept, 1):
        if k != 5:
            assert (np.asarray(x) == copy).all()


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("local_steps", [None, 2])
def test_a_graph_of_one_node(schedule: Any, local_steps: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = pdmm.Network(nx.empty_graph(1), [pdmm.Quadratic([2.0, 4.0], [3.0, 4.0])])
    result = pdmm.solve_network(network, 1.0, 100, schedule, local_steps=local_steps, loss=0.1)
    np.testing.assert_allclose(result.x[0], [1.5, 1.0], atol=1e-12)
    assert len(result.dual) == 0
    assert (result.history["messages"] == 0).all()
    assert (result.history["consensus"] == 0).all()
    assert result.history["error"][-1] < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_float32_runs_in_float32(schedule: Any, constrained: bool) -> None:
    rng = np.random.default_rng(2)
    n, d = 8, 3
    graph = connected(rng, n)
    H = np.stack([positive_definite(rng, d) for _ in range(n)])
    c = rng.standard_normal((n, d))
    edge = next(iter(graph.edges))
    B: Any = {edge: (np.eye(2, d), np.eye(2, d))}
    results = []
    for dtype in (np.float32, np.float64):
        functions = pdmm.Quadratic(H.astype(dtype), c.astype(dtype))
        network = pdmm.Network(graph, functions, B if constrained else None)
        result = pdmm.solve_network(network, 0.7, 400, schedule, relaxation=0.95, record_every=100)
        assert all(result.x[node].dtype == dtype for node in graph.nodes)
        assert all(result.dual[ends].dtype == dtype for ends in result.dual)
        results.append(result)
    single, double = results
    assert (2 * single.history["bytes"] == double.history["bytes"]).all()
    assert (single.history["messages"] == double.history["messages"]).all()
    np.testing.assert_allclose(flat(single.x, list(graph)), flat(double.x, list(graph)), atol=1e-5)
    assert single.history["error"].dtype == np.float64
    assert single.history["error"][-1] < 1e-5


@pytest.mark.parametrize("local_steps", [None, 3])
def test_float32_of_every_kind(local_steps: int | None) -> None:
    rng = np.random.default_rng(8)
    d, dtype = 6, np.float32
    X = rng.standard_normal((1, 10, 2)).astype(dtype)
    functions = [
        pdmm.Zero(d),
        pdmm.Quadratic(1.0, rng.standard_normal(d).astype(dtype)),
        pdmm.LeastSquares(
            rng.standard_normal((2, 2, d)).astype(dtype), rng.standard_normal((2, 2)).astype(dtype)
        ),
        pdmm.SoftmaxRegression(X, rng.integers(0, 2, (1, 10)), 2, 0.2),
    ]
    network = pdmm.Network(nx.cycle_graph(5), functions)
    result = pdmm.solve_network(
        network, 0.5, 300, relaxation=0.95, local_steps=local_steps, record_every=50
    )
    assert np.asarray(result.x).dtype == dtype
    assert result.history["error"][-1] < 3e-5


def test_one_float64_function_makes_the_run_float64() -> None:
    functions = [pdmm.Quadratic(1.0, np.ones(1, np.float32)), pdmm.Quadratic(1.0, [2.0])]
    result = pdmm.solve_network(pdmm.Network(nx.path_graph(2), functions))
    assert result.x[0].dtype == np.float64
    assert result.x[0][0] == pytest.approx(1.5, abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rho": 0.0}, "rho"),
        ({"rho": -1.0}, "rho"),
        ({"rho": np.inf}, "rho"),
        ({"rho": "best"}, "rho"),
        ({"rho": np.ones(2)}, "rho"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": 2.5}, "iterations"),
        ({"record_every": 0}, "record_every"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"schedule": "sometimes"}, "schedule"),
        ({"relaxation": 0.0}, "relaxation"),
        ({"relaxation": 1.1}, "relaxation"),
        ({"relaxation": np.nan}, "relaxation"),
        ({"loss": -0.1}, "loss"),
        ({"loss": 1.0}, "loss"),
        ({"loss": "a"}, "loss"),
        ({"order": [0, 1, 2]}, "order is for schedule='asynchronous'"),
        ({"order": [0, 1, 7], "schedule": "asynchronous"}, r"order\[2\] is 7"),
        ({"order": [0, [1], 2], "schedule": "asynchronous"}, r"order\[1\]"),
        ({"order": [0, 2], "schedule": "asynchronous"}, "never activates node 1"),
        ({"order": [], "schedule": "asynchronous"}, "order is empty"),
        ({"order": 3, "schedule": "asynchronous"}, "order must be a sequence"),
        ({"local_steps": 0}, "local_steps"),
        ({"local_steps": 1.5}, "local_steps"),
        ({"step_size": 0.1}, "give local_steps"),
        ({"local_steps": 2, "step_size": 0.0}, "step_size"),
        ({"local_steps": 2, "step_size": "large"}, "step_size"),
        ({"callback": 3}, "callback"),
        ({"optimum": [1.0, 2.0]}, "optimum"),
        ({"optimum": {0: [1.0]}}, "optimum has no vector for node 1"),
        ({"x0": [[1.0], [2.0, 3.0], [4.0]]}, "x0"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    network = pdmm.Network(nx.path_graph(3), QUADRATICS)
    with pytest.raises(ValueError, match=message):
        pdmm.solve_network(network, **settings)


def test_not_a_network() -> None:
    graph: Any = nx.path_graph(3)
    with pytest.raises(ValueError, match=r"pdmm\.Network"):
        pdmm.solve_network(graph)


# --- constraints that allow only x = 0 ---------------------------------------------------------


def _kinds() -> dict[str, pdmm.Problem]:
    rng = np.random.default_rng(0)
    value, slope, prox, _ = log_cosh(0, 4)
    return {
        "Functions": pdmm.Functions([value], [slope], 4),
        "Functions with a prox": pdmm.Functions([value], [slope], 4, prox=[prox]),
        "SoftmaxRegression": pdmm.SoftmaxRegression(
            [rng.standard_normal((6, 1))], [rng.integers(0, 2, 6)], 2, 0.1
        ),
        "LeastSquares": pdmm.LeastSquares([rng.standard_normal((5, 4))], [rng.standard_normal(5)]),
        "Quadratic": pdmm.Quadratic(1.0, rng.standard_normal(4)),
        "Absolute": pdmm.Absolute(rng.standard_normal(4)),
        "Zero": pdmm.Zero(4),
    }


@pytest.mark.parametrize("local_steps", [None, 2])
@pytest.mark.parametrize("rho", [0.7, "auto"])
@pytest.mark.parametrize("first", _kinds())
def test_constraints_may_allow_nothing_but_0(first: str, rho: Any, local_steps: int | None) -> None:
    """x_0 = 0 and x_1 = 0 on one edge: there is nothing to minimise over."""
    here, there = np.eye(8)[:, :4], np.eye(8)[:, 4:]
    for second in _kinds().values():
        network = pdmm.Network(nx.path_graph(2), [_kinds()[first], second], {(0, 1): (here, there)})
        settings: dict[str, Any] = {"local_steps": local_steps, "relaxation": 0.9}
        result = pdmm.solve_network(network, rho, 60, **settings)
        if result.optimum is not None:
            np.testing.assert_allclose(np.asarray(result.optimum), 0.0, atol=1e-12)
        if rho == 0.7:
            assert np.abs(np.asarray(result.x)).max() < 0.05
