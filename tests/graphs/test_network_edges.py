"""Edges as stacked arrays: C x, C'z and what else they answer, against loops over edges."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import CASES, Case, flat
from twins.networks import Vector

nx: Any = importlib.import_module("networkx")


def by_name(case: Case, x: Vector) -> dict[Any, Vector]:
    cuts = np.cumsum(case.network.dimensions)[:-1]
    return dict(zip(case.nodes, np.split(x, cuts), strict=True))


def some_x(case: Case, seed: int) -> Vector:
    return flat(case.start(np.random.default_rng(seed)), case.nodes)


@pytest.mark.parametrize("name", CASES)
def test_spread_and_gather_are_transposes_of_each_other(name: str) -> None:
    case = CASES[name]
    edges = case.network.edges
    x = some_x(case, 0)
    rows = edges.spread(x.reshape(edges.x_shape), np.empty(edges.shape))
    for row in range(2 * case.network.incidence.count):
        i, j = case.network.edge(row)
        expected = case.twin.B[i, j] @ by_name(case, x)[i]
        np.testing.assert_allclose(edges.of_row(rows, row), expected, atol=1e-14)
    z = np.random.default_rng(1).standard_normal(edges.shape)
    back = edges.gather(z).reshape(-1)
    assert float(back @ x) == pytest.approx(float((z * rows).sum()), rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_differences_are_those_of_every_edge(name: str) -> None:
    case = CASES[name]
    X = np.stack([some_x(case, seed) for seed in range(3)])
    found = np.concatenate(list(case.network.edges.differences(X)))
    for apart, x in zip(found, X, strict=True):
        expected = sum(float(gap @ gap) for gap in case.twin.gaps(by_name(case, x)))
        assert float((apart**2).sum()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_stiffness_is_the_sum_of_squares_of_a_node_s_matrices(name: str) -> None:
    case = CASES[name]
    edges = case.network.edges
    means = edges.mean_stiffness()
    for k, node in enumerate(case.nodes):
        d = int(case.network.dimensions[k])
        B = [case.twin.B[node, j] for j in case.twin.neighbours[node]]
        expected = sum((one.T @ one for one in B), np.zeros((d, d)))
        G = edges.stiffness(np.array([k]), d)[0]
        matrix = G if G.ndim == 2 else np.diag(np.broadcast_to(G, (d,)))
        np.testing.assert_allclose(matrix, expected, atol=1e-13)
        assert means[k] == pytest.approx(np.trace(expected) / d, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_parts_do_what_all_edges_do(name: str) -> None:
    case = CASES[name]
    edges = case.network.edges
    x = some_x(case, 0)
    rows = edges.spread(x.reshape(edges.x_shape), np.empty(edges.shape))
    z = np.random.default_rng(1).standard_normal(edges.shape)
    gathered = by_name(case, edges.gather(z).reshape(-1).astype(np.float64))
    every = np.arange(len(case.nodes))
    for k, part in enumerate(edges.parts(every, every[1:].tolist())):
        own = by_name(case, x)[case.nodes[k]]
        own = own.reshape(1, -1) if len(edges.shape) > 1 else own
        np.testing.assert_allclose(part.spread(own), rows[part.rows], atol=1e-14)
        expected = gathered[case.nodes[k]]
        np.testing.assert_allclose(part.gather(z[part.rows]).reshape(-1), expected, atol=1e-13)


def test_components_have_numbers_of_their_own() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (3, 4)])
    graph.add_node(5)
    with pytest.warns(RuntimeWarning, match="3 components"):
        network = pdmm.Network(graph, pdmm.Quadratic(1.0, np.ones((6, 1))))
    assert network.components.tolist() == [0, 0, 0, 1, 1, 2]
