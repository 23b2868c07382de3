"""Nodes with quadratics and least squares."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import Case, connected, follow, positive_definite, sequences, with_constant
from twins import networks as nt
from twins.networks import Graph, Matrix, Node, Pdmm

nx: Any = importlib.import_module("networkx")


def test_quadratics_alone_and_stacked_are_the_same() -> None:
    rng = np.random.default_rng(1)
    n, d = 5, 3
    c, h = rng.standard_normal((n, d)), rng.uniform(0.5, 2, (n, d))
    H = np.stack([positive_definite(rng, d) for _ in range(n)])
    graph = nx.cycle_graph(n)
    for stacked, alone in (
        (pdmm.Quadratic(H, c), [pdmm.Quadratic(H[i], c[i]) for i in range(n)]),
        (pdmm.Quadratic(h, c), [pdmm.Quadratic(h[i], c[i]) for i in range(n)]),
        (pdmm.Quadratic(h, c), [pdmm.Quadratic(np.diag(h[i]), c[i]) for i in range(n)]),
        (pdmm.Quadratic(0.7, c), [pdmm.Quadratic(0.7, c[i]) for i in range(n)]),
        (pdmm.Quadratic(2, c), [pdmm.Quadratic(2 * np.eye(d), c[:2][i]) for i in range(2)]
         + [pdmm.Quadratic(2.0, c[2:])]),
    ):  # fmt: skip
        runs = [
            pdmm.solve_network(pdmm.Network(graph, functions), 0.6, 20)
            for functions in (stacked, alone)
        ]
        np.testing.assert_allclose(np.asarray(runs[0].x), np.asarray(runs[1].x), rtol=1e-11)
        for column in ("objective", "error"):
            np.testing.assert_allclose(
                runs[0].history[column], runs[1].history[column], rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("samples", [9, 4, 2])  # tall, square, wide
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("constrained", [False, True])
def test_least_squares(samples: int, schedule: Any, constrained: bool) -> None:
    rng = np.random.default_rng(samples)
    n, d = 5, 6
    A, b = rng.standard_normal((n, samples, d)), rng.standard_normal((n, samples))
    graph = connected(rng, n)
    nodes = list(graph.nodes)
    given: dict[tuple[Node, Node], Matrix] = {}
    if constrained:
        i, j = next(iter(graph.edges))
        given = {(i, j): positive_definite(rng, d), (j, i): positive_definite(rng, d)}
    twin = Graph(
        nodes,
        [tuple(edge) for edge in graph.edges],
        {
            node: with_constant(nt.quadratic(A[k].T @ A[k], A[k].T @ b[k]), b[k] @ b[k] / 2)
            for k, node in enumerate(nodes)
        },
        given,
    )
    for functions in (
        pdmm.LeastSquares(A, b),
        [pdmm.LeastSquares([A[k]], [b[k]]) for k in range(n)],
        [pdmm.LeastSquares(A[:2], b[:2]), pdmm.LeastSquares(list(A[2:]), list(b[2:]))],
        {node: pdmm.LeastSquares([A[k]], [b[k]]) for k, node in enumerate(nodes)},
    ):
        case = Case(pdmm.Network(graph, functions, given or None), twin)
        follower, turns = Pdmm(twin, 1.1), sequences(case, None, 2)
        step = (
            follower.synchronous
            if schedule == "synchronous"
            else lambda follower=follower, turns=turns: follower.asynchronous(next(turns))
        )
        result = follow(case, follower, step, 15, 1e-11, rho=1.1, schedule=schedule, seed=2)
        value = sum(twin.functions[k].value(np.asarray(result.x[k], np.float64)) for k in nodes)
        assert result.history["objective"][-1] == pytest.approx(value, rel=1e-10)


def test_ragged_least_squares() -> None:
    rng = np.random.default_rng(0)
    A = [rng.standard_normal((n, 5)) for n in (1, 7, 2, 3)]
    b = [rng.standard_normal(len(part)) for part in A]
    network = pdmm.Network(nx.cycle_graph(4), pdmm.LeastSquares(A, b))
    result = pdmm.solve_network(network, rho="auto", iterations=1500, record_every=100)
    best = np.linalg.lstsq(np.vstack(A), np.concatenate(b))[0]
    np.testing.assert_allclose(np.asarray(result.x), np.tile(best, (4, 1)), atol=1e-9)


@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("rho", [1.0, 1e-3, 1e-6, 1e-9])
def test_one_row_a_node_is_exact_whatever_rho(rho: float, dtype: Any, close: float) -> None:
    rng = np.random.default_rng(3)
    A, b = 10 * rng.standard_normal((6, 1, 5)), rng.standard_normal((6, 1))
    problem = pdmm.LeastSquares(A.astype(dtype), b.astype(dtype))
    x0 = rng.standard_normal(5)
    network = pdmm.Network(nx.cycle_graph(6), problem)
    x = np.asarray(pdmm.solve_network(network, rho, 1, x0=x0, optimum=False).x)
    for i in range(6):
        along = A[i, 0] @ A[i, 0]
        exact = x0 + A[i, 0] * (b[i, 0] - A[i, 0] @ x0) / (along + 2 * rho)
        np.testing.assert_allclose(x[i], exact, atol=close * np.abs(exact).max())


def test_a_node_that_nothing_holds_is_refused() -> None:
    B = np.array([[1.0, 0.0]])
    network = pdmm.Network(
        nx.path_graph(2), [pdmm.Quadratic(1.0, np.ones(2)), pdmm.Zero(2)], {(0, 1): (B, B)}
    )
    with pytest.raises(ValueError, match=r"node 1 has no unique update.*common kernel"):
        pdmm.solve_network(network)
    network = pdmm.Network(
        nx.path_graph(2),
        [pdmm.Quadratic(1.0, np.ones(2)), pdmm.Absolute([1.0, 2.0])],
        {(0, 1): (np.ones((1, 2)), np.ones((1, 2)))},
    )
    with pytest.raises(ValueError, match="node 1 has no unique update"):
        pdmm.solve_network(network)
