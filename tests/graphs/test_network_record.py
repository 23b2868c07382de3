"""The history of a run on a network."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import CASES, LIMITS, flat, groups_of, orders, sequences
from pdmm.common.checks import ClientError
from pdmm.graphs.optimum import Optimum
from pdmm.graphs.record import Recorder
from twins.networks import Node, Vector

nx: Any = importlib.import_module("networkx")


def _recorded(iterations: int, every: int) -> list[int]:
    return sorted({0, *range(every, iterations + 1, every), iterations})


@pytest.mark.parametrize("every", [1, 4, 100])
@pytest.mark.parametrize("schedule", ["synchronous", "random", "repeats"])
@pytest.mark.parametrize("name", ["numbers", "vectors", "quadratics", "more constraints"])
def test_history_by_hand(name: str, schedule: str, every: int) -> None:
    case, iterations = CASES[name], 10
    twin = case.twin
    x0 = case.start(np.random.default_rng(4))
    optimum = case.start(np.random.default_rng(5))
    order = orders(case, schedule, np.random.default_rng(6)) if schedule != "synchronous" else None
    iterates: list[dict[Node, Vector]] = [x0]
    result = pdmm.solve_network(
        case.network,
        0.7,
        iterations,
        "synchronous" if schedule == "synchronous" else "asynchronous",
        order=order,
        x0=x0,
        optimum=optimum,
        record_every=every,
        callback=lambda k, x: iterates.append(dict(x)),
    )
    history, rows = result.history, _recorded(iterations, every)
    assert history["iteration"].tolist() == rows
    assert list(history) == [
        "iteration", "error", "consensus", "objective", "messages", "bytes", "seconds",
    ]  # fmt: skip
    turns = sequences(case, order, 0)
    messages, numbers = [0], [0]
    for _ in range(iterations):
        moved = case.nodes if schedule == "synchronous" else next(turns)
        sent = [(i, j) for i in moved for j in twin.neighbours[i]]
        messages.append(messages[-1] + len(sent))
        numbers.append(numbers[-1] + sum(len(twin.B[ends]) for ends in sent))
    assert history["messages"].tolist() == [messages[k] for k in rows]
    assert history["bytes"].tolist() == [8 * numbers[k] for k in rows]
    if schedule == "synchronous":
        assert history["messages"][-1] == 2 * len(twin.edges) * iterations
    n = len(case.nodes)
    for row, k in enumerate(rows):
        x = iterates[k]
        away = sum(float(((x[node] - optimum[node]) ** 2).sum()) for node in case.nodes)
        apart = sum(float(gap @ gap) for gap in twin.gaps(x))
        value = sum(twin.functions[node].value(x[node]) for node in case.nodes)
        assert history["error"][row] == pytest.approx(np.sqrt(away / n), rel=1e-12)
        assert history["consensus"][row] == pytest.approx(
            np.sqrt(apart / len(twin.edges)), rel=1e-9
        )
        assert history["objective"][row] == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert (np.diff(history["seconds"]) >= 0).all()
    assert result.iterations == iterations
    assert result.reason == f"all {iterations} iterations done" or "relaxation" in result.reason


def test_error_refers_to_the_optimum_that_is_found() -> None:
    case = LIMITS["consensus"]
    iterates = []
    result = pdmm.solve_network(
        case.network, iterations=6, callback=lambda k, x: iterates.append(np.asarray(x))
    )
    expected = case.twin.optimum().reshape(len(case.nodes), -1)
    errors = [np.sqrt(((x - expected) ** 2).sum(1).mean()) for x in [0 * expected, *iterates]]
    np.testing.assert_allclose(result.history["error"], errors, rtol=1e-9)


@pytest.mark.parametrize("a", [[0.0, 1.0, 4.0, 9.0], [0.0, 1.0, 4.0]])
def test_error_where_the_optimum_is_not_unique(a: list[float]) -> None:
    """The nearest optimum is one on which all nodes agree."""
    n = len(a)
    network = pdmm.Network(nx.path_graph(n), pdmm.Absolute(np.array(a)[:, None]))
    iterates: list[Any] = [np.array([[1.5], [3.5], [2.0], [2.5]])[:n]]
    result = pdmm.solve_network(
        network,
        0.4,
        30,
        x0=iterates[0],
        relaxation=0.9,
        callback=lambda k, x: iterates.append(np.array(x)),
    )
    low, high = np.sort(a)[(n - 1) // 2], np.sort(a)[n // 2]
    expected = [np.sqrt(((x - np.clip(x.mean(), low, high)) ** 2).mean()) for x in iterates]
    np.testing.assert_allclose(result.history["error"], expected, atol=1e-12)


def test_history_without_an_optimum() -> None:
    result = pdmm.solve_network(CASES["quadratics"].network, iterations=3, optimum=False)
    assert result.optimum is None
    assert "error" not in result.history
    with pytest.raises(KeyError, match="optimum"):
        result.history["error"]
    with pytest.raises(KeyError, match="has no 'gap'"):
        result.history["gap"]


def test_iterations_to() -> None:
    result = pdmm.solve_network(LIMITS["consensus"].network, rho="auto", iterations=500)
    k = result.history.iterations_to(1e-6)
    assert k is not None
    error = result.history["error"]
    assert (error[k:] <= 1e-6).all()
    assert error[k - 1] > 1e-6
    assert result.history.iterations_to(0.0) is None


# --- the recorder alone -------------------------------------------------------------------

PATH = nx.path_graph(3)


def test_a_recorder_by_hand() -> None:
    network = pdmm.Network(PATH, pdmm.Quadratic(2.0, [[1.0], [0.0], [3.0]]))
    middle = np.full(3, 2 / 3)
    recorder = Recorder(network, groups_of(network), Optimum(middle, middle))
    recorder.record(0, np.zeros(3), 0, 0)
    recorder.record(4, np.array([1.0, 2.0, 5.0]), 16, 128)
    assert recorder.last.tolist() == [1.0, 2.0, 5.0]
    history = recorder.history()
    assert history["iteration"].tolist() == [0, 4]
    assert history["messages"].tolist() == [0, 16]
    assert history["bytes"].tolist() == [0, 128]
    assert history["objective"].tolist() == [0.0, (1 - 1) + 4 + (25 - 15)]
    np.testing.assert_allclose(history["consensus"], [0.0, np.sqrt((1 + 9) / 2)])
    away = [2 / 3, np.sqrt((1 / 9 + 16 / 9 + 169 / 9) / 3)]
    np.testing.assert_allclose(history["error"], away)


@pytest.mark.parametrize("name", CASES)
def test_iterates_that_wait_are_evaluated_like_iterates_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    rng = np.random.default_rng(0)
    iterates = [flat(case.start(rng), case.nodes) for _ in range(7)]
    histories = []
    for most in (1, 3, 100):
        monkeypatch.setattr("pdmm.graphs.record.HELD_BYTES", most * iterates[0].nbytes)
        recorder = Recorder(case.network, groups_of(case.network), None)
        for k, x in enumerate(iterates):
            recorder.record(k, x, k, k)
        histories.append(recorder.history())
    for column in ("iteration", "consensus", "objective", "messages", "bytes"):
        for history in histories[1:]:
            np.testing.assert_allclose(history[column], histories[0][column], rtol=1e-13)


def test_a_row_whose_value_fails_is_not_recorded() -> None:
    def value(x: Vector) -> float:
        if x[0] > 1:
            raise RuntimeError("meter broken")
        return float(x @ x)

    functions = [pdmm.Functions([value], [lambda x: 2 * x], 1), *[pdmm.Zero(1)] * 2]
    network = pdmm.Network(PATH, functions)
    recorder = Recorder(network, groups_of(network), None)
    recorder.record(0, np.ones(3), 0, 0)
    with pytest.raises(ClientError, match=r"node 0.*meter broken"):
        recorder.record(1, np.full(3, 2.0), 4, 32)
    history = recorder.history()
    assert history["iteration"].tolist() == [0]
    assert history["objective"].tolist() == [1.0]


def test_a_recorder_keeps_float32_and_sums_in_float64() -> None:
    c = np.array([[1.0], [0.0], [3.0]], np.float32)
    network = pdmm.Network(PATH, pdmm.Quadratic(np.float32(2.0), c))
    recorder = Recorder(network, groups_of(network), None)
    recorder.record(0, np.array([1e20, 0.0, 0.0], np.float32), 0, 0)
    assert recorder.last.dtype == np.float32
    history = recorder.history()
    assert history["objective"][0] == pytest.approx(1e40, rel=1e-6)  # more than float32 holds
    assert "error" not in history
