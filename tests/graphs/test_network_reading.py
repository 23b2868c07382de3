"""What a user gives for a network: graphs, functions and constraints."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import CASES, QUADRATICS

nx: Any = importlib.import_module("networkx")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1), (1, 2)]), "directed"),
        (nx.MultiGraph([(0, 1), (1, 2)]), "multigraph"),
        (nx.MultiDiGraph([(0, 1), (1, 2)]), "directed"),
        (nx.Graph(), "no nodes"),
        (nx.Graph([(0, 1), (1, 2), (1, 1)]), "node 1 has an edge to itself"),
        ([(0, 1), (1, 2)], "networkx graph, got list"),
        (None, "networkx graph"),
    ],
)
def test_graphs_that_are_refused(graph: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Network(graph, QUADRATICS)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (QUADRATICS[:2], "functions for 2 nodes, but the graph has 3"),
        ([*QUADRATICS, pdmm.Zero(1)], "functions for 4 nodes, but the graph has 3"),
        (pdmm.Quadratic(1.0, np.ones((4, 1))), "functions for 4 nodes"),
        ([*QUADRATICS[:2], abs], r"functions\[2\]"),
        ([*QUADRATICS[:2], 3.0], r"functions\[2\]"),
        ("abc", "functions must be a list"),
        (3, "functions must be a list"),
        (None, "functions must be a list"),
        (dict(enumerate(QUADRATICS[:2])), "no function for node 2"),
        ({**dict(enumerate(QUADRATICS)), 7: QUADRATICS[0]}, "functions has 7"),
        (
            {0: pdmm.Quadratic(1.0, np.ones((2, 1))), 1: QUADRATICS[0], 2: QUADRATICS[0]},
            "2 clients",
        ),
        ({0: abs, 1: QUADRATICS[0], 2: QUADRATICS[0]}, "function"),
    ],
)
def test_functions_that_are_refused(functions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Network(nx.path_graph(3), functions)


def test_lengths_that_differ_need_matrices() -> None:
    functions = [pdmm.Quadratic(1.0, np.ones(2)), pdmm.Quadratic(1.0, np.ones(3))]
    graph = nx.Graph([("left", "right")])
    with pytest.raises(ValueError, match="'left' has 2 entries and x of node 'right' has 3"):
        pdmm.Network(graph, functions)
    good = {("left", "right"): ([[1.0, 0.0]], [[0.0, 0.0, 1.0]])}
    assert not pdmm.Network(graph, functions, good).consensus


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            {(0, 1): np.ones((1, 3)), (1, 0): np.ones((1, 2))},
            r"constraints\[0, 1\] must have 2 col",
        ),
        ({(0, 1): np.ones((1, 2)), (1, 0): np.ones((2, 2))}, "inconsistent on the edge of 0 and 1"),
        ({(0, 1): np.ones((1, 2))}, r"\(0, 1\) but none for \(1, 0\)"),
        ({(0, 2): (1.0, 1.0)}, r"\(0, 2\), which is not an edge"),
        ({(0, 9): (1.0, 1.0)}, r"\(0, 9\), which is not an edge"),
        ({0: (1.0, 1.0)}, "the key 0, which is not an edge"),
        ({(0, 1): (np.array([[1.0, np.nan]]), np.ones((1, 2)))}, r"constraints\[0, 1\] has nan"),
        ({(0, 1): (np.ones(2), np.ones(2))}, r"constraints\[0, 1\] must have 2 dimension"),
        ({(0, 1): (np.ones((0, 2)), np.ones((0, 2)))}, r"constraints\[0, 1\]"),
        ({(0, 1): (1.0, 1.0), (1, 0): 1.0}, "twice"),
        ({(0, 1): (np.nan, 1.0)}, r"constraints\[0, 1\] has nan"),
        ({(0, 1): ("x", 1.0)}, r"constraints\[0, 1\]"),
        ({(0, 1): None, (1, 0): None}, r"constraints\[0, 1\]"),
        ([((0, 1), 1.0)], "constraints must be a dict"),
        (1.0, "constraints must be a dict"),
    ],
)
def test_constraints_that_are_refused(constraints: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Network(nx.path_graph(3), pdmm.Quadratic(1.0, np.ones((3, 2))), constraints)


def test_functions_by_node() -> None:
    graph = nx.Graph([("b", "a"), ("a", "c")])
    readings = {"a": 1.0, "b": 2.0, "c": 6.0}
    functions = {node: pdmm.Quadratic(1.0, [a]) for node, a in readings.items()}
    result = pdmm.solve_network(pdmm.Network(graph, functions), 0.7, 1, optimum=False)
    for node, a in readings.items():  # from 0: x = a/(1 + rho degree)
        assert result.x[node][0] == pytest.approx(a / (1 + 0.7 * graph.degree(node)), rel=1e-14)


def test_representations() -> None:
    case = CASES["constraints"]
    assert "7 nodes" in repr(case.network)
    assert "dimension 1..3" in repr(case.network)
    assert "12 nodes, 12 edges, dimension 1" in repr(
        pdmm.Network(nx.cycle_graph(12), pdmm.Quadratic(1.0, np.ones((12, 1))))
    )
    assert "Quadratic(12 clients, dimension 1" in repr(pdmm.Quadratic(1.0, np.ones((12, 1))))


def test_matrices_are_copied_and_judged_node_by_node() -> None:
    B = np.eye(1)
    network = pdmm.Network(
        nx.path_graph(2), pdmm.Quadratic(1.0, np.array([[1.0], [2.0]])), {(0, 1): B, (1, 0): B}
    )
    B[:] = 5
    assert float(pdmm.solve_network(network, iterations=60).x[0][0]) == pytest.approx(1.5)
    c = np.random.default_rng(0).normal(size=(4, 2))
    B, eye = np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2)
    given = {(0, 1): (B, B), (1, 2): (eye, eye), (2, 3): (1e8 * eye, 1e8 * eye)}
    network = pdmm.Network(nx.path_graph(4), pdmm.Quadratic(1.0, c), given)
    first = pdmm.solve_network(network, rho=1.0, iterations=1).x[0]
    np.testing.assert_allclose(first, np.linalg.solve(eye + B.T @ B, c[0]), rtol=1e-12)
