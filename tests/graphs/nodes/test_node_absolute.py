"""Nodes with absolute values."""

import importlib
import itertools
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import build, follow, sequences
from twins import networks as nt
from twins.networks import Averaged, Function, Matrix, Node, Vector

nx: Any = importlib.import_module("networkx")


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_absolute_values_under_general_constraints(schedule: Any) -> None:
    """G_i is not diagonal: the update is no shrinkage, entry by entry."""
    rng = np.random.default_rng(12)
    graph, d = nx.cycle_graph(4), 3
    given: dict[tuple[Node, Node], Matrix] = {}
    for i, j in graph.edges:
        given[i, j], given[j, i] = rng.standard_normal((3, d)), rng.standard_normal((3, d))
    functions: dict[Node, tuple[pdmm.Problem, Function]] = {}
    for node in graph.nodes:
        a = rng.standard_normal(d)
        functions[node] = pdmm.Absolute(a), nt.absolute(a)
    case = build(graph, functions, given)
    twin, turns = Averaged(case.twin, 0.5, 0.9), sequences(case, None, 0)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    follow(case, twin, step, 15, 1e-9, rho=0.5, relaxation=0.9, schedule=schedule)


@pytest.mark.parametrize("rho", [0.05, 1.0, 20.0])
def test_one_update_of_absolute_values_is_a_minimum(rho: float) -> None:
    rng = np.random.default_rng(int(rho * 100))
    for trial in range(15):
        d = trial % 4 + 1
        B = rng.standard_normal((d + 1, d))
        a, x0 = rng.standard_normal(d), {0: rng.standard_normal(d), 1: rng.standard_normal(d + 1)}
        network = pdmm.Network(
            nx.path_graph(2),
            [pdmm.Absolute(a), pdmm.Quadratic(1.0, np.ones(d + 1))],
            {(0, 1): (B, np.eye(d + 1))},
        )
        x = (
            pdmm.solve_network(network, rho, 1, x0=x0, optimum=False, relaxation=0.9)
            .x[0]
            .astype(np.float64)
        )

        def objective(p: Vector, a: Vector = a, B: Matrix = B, z: Vector = x0[1]) -> float:
            away = B @ p - z
            return float(np.abs(p - a).sum() + rho / 2 * away @ away)

        lowest = objective(x)
        for size in (1e-1, 1e-3, 1e-5):
            for move in rng.standard_normal((60, d)):
                assert objective(x + size * move) >= lowest - 1e-12
        for k, sign in itertools.product(range(d), (1e-6, -1e-6)):
            assert objective(x + sign * np.eye(d)[k]) >= lowest - 1e-12


@pytest.mark.parametrize("d", [1, 3])
def test_medians(d: int) -> None:
    a = np.random.default_rng(d).standard_normal((9, d))
    for functions in (pdmm.Absolute(a), [pdmm.Absolute(row if d > 1 else row[0]) for row in a]):
        network = pdmm.Network(nx.complete_graph(9), functions)
        result = pdmm.solve_network(network, 0.3, 6000, relaxation=0.9, record_every=500)
        np.testing.assert_allclose(
            np.asarray(result.x), np.tile(np.median(a, axis=0), (9, 1)), atol=1e-8
        )
        assert result.optimum is not None
        np.testing.assert_array_equal(result.optimum[0], np.median(a, axis=0))
