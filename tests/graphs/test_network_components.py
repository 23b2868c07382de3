"""Graphs of several components, and nodes without neighbours."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import QUADRATICS, log_cosh, unconnected
from twins.networks import Vector

nx: Any = importlib.import_module("networkx")


def test_an_isolated_node_without_a_minimum_is_refused() -> None:
    graph = nx.path_graph(2)
    graph.add_node("relay")
    network = unconnected(graph, [*QUADRATICS[:2], pdmm.Zero(1)])
    with pytest.raises(ValueError, match=r"node 'relay' has no unique update.*isolated"):
        pdmm.solve_network(network)


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_every_component_has_its_own_optimum(schedule: Any) -> None:
    graph = nx.Graph([("a", "b"), ("c", "d"), ("d", "e")])
    graph.add_node("alone")
    readings = dict(zip(graph.nodes, [1.0, 3.0, 4.0, 5.0, 9.0, 7.0], strict=True))
    with pytest.warns(RuntimeWarning, match="3 components.*isolated: 'alone'"):
        network = pdmm.Network(
            graph, {n: pdmm.Quadratic(2.0, [2 * a]) for n, a in readings.items()}
        )
    result = pdmm.solve_network(network, 0.8, 400, schedule)
    expected = {"a": 2.0, "b": 2.0, "c": 6.0, "d": 6.0, "e": 6.0, "alone": 7.0}
    for node, value in expected.items():
        assert result.x[node][0] == pytest.approx(value, abs=1e-10)
        assert result.optimum is not None
        assert result.optimum[node][0] == pytest.approx(value, abs=1e-12)
    assert result.history["error"][-1] < 1e-10
    assert result.history["messages"][-1] == 400 * 6


def test_many_components() -> None:
    graph = nx.Graph([(2 * k, 2 * k + 1) for k in range(25)])
    a = np.random.default_rng(0).standard_normal((50, 2))
    for functions in (pdmm.Quadratic(1.0, a), pdmm.Quadratic(np.tile(np.eye(2), (50, 1, 1)), a)):
        result = pdmm.solve_network(unconnected(graph, functions), 1.0, 100)
        expected = np.repeat((a[0::2] + a[1::2]) / 2, 2, axis=0)
        order = [list(graph.nodes).index(k) for k in range(50)]
        np.testing.assert_allclose(np.asarray(result.x)[order], expected[order], atol=1e-12)
        assert result.history["error"][-1] < 1e-12


def test_components_of_absolute_values_and_of_nothing() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (3, 4)])
    functions = [pdmm.Absolute([[0.0], [1.0], [5.0]]), pdmm.Zero(1), pdmm.Zero(1)]
    result = pdmm.solve_network(unconnected(graph, functions), 0.5, 300, relaxation=0.9, x0=2.0)
    np.testing.assert_allclose(np.asarray(result.x)[:3], 1.0, atol=1e-10)
    np.testing.assert_allclose(np.asarray(result.x)[3:], 2.0, atol=1e-10)
    assert result.history["error"][-1] < 1e-10
    assert result.optimum is not None
    assert result.optimum[0] == 1.0


@pytest.mark.parametrize("constrained", [False, True])
def test_isolated_nodes_go_to_their_own_minimum(constrained: bool) -> None:
    rng = np.random.default_rng(0)
    graph = nx.path_graph(2)
    value, slope, _, twin = log_cosh(0, 2)
    functions: list[pdmm.Problem] = [pdmm.Absolute([1.0, 2.0]) for _ in range(2)]
    alone: dict[str, tuple[pdmm.Problem, Vector]] = {
        "absolute": (pdmm.Absolute([3.0, 4.0]), np.array([3.0, 4.0])),
        "quadratic": (pdmm.Quadratic(2.0, [3.0, 4.0]), np.array([1.5, 2.0])),
        "mine": (pdmm.Functions([value], [slope], 2), twin.update(np.zeros((2, 2)), np.zeros(2))),
    }
    graph.add_nodes_from(alone)
    functions += [problem for problem, _ in alone.values()]
    B = {(0, 1): (rng.standard_normal((3, 2)), rng.standard_normal((3, 2)))}
    network = unconnected(graph, functions, B if constrained else None)
    for schedule in ("synchronous", "asynchronous"):
        result = pdmm.solve_network(network, 0.7, 3, schedule, relaxation=0.9)
        for node, (_, expected) in alone.items():
            np.testing.assert_allclose(result.x[node], expected, atol=1e-8)
