"""The optimum of a network by a direct solve."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import (
    CASES,
    LIMITS,
    Case,
    build,
    flat,
    groups_of,
    log_cosh,
    positive_definite,
)
from pdmm.graphs.agreement import Agreement
from pdmm.graphs.direct_solve import direct
from pdmm.graphs.kernel import Kernel
from pdmm.graphs.optimum import Optimum
from twins import networks as nt
from twins.networks import Vector

nx: Any = importlib.import_module("networkx")


def found(network: pdmm.Network) -> Optimum | None:
    return direct(network, groups_of(network))


def the_one(network: pdmm.Network) -> Vector:
    optimum = found(network)
    assert optimum is not None
    assert optimum.low is optimum.high
    return optimum.low


# --- quadratics ---------------------------------------------------------------------------


def test_numbers_agree_on_their_weighted_mean() -> None:
    network = pdmm.Network(
        nx.path_graph(3), pdmm.Quadratic(np.array([[1.0], [2.0], [5.0]]), [[4.0], [2.0], [10.0]])
    )
    np.testing.assert_allclose(the_one(network), (4 + 2 + 10) / (1 + 2 + 5), rtol=1e-15)


def test_diagonals_and_matrices_are_added_up() -> None:
    rng = np.random.default_rng(0)
    H, h = positive_definite(rng, 3), rng.uniform(1, 2, 3)
    c = rng.standard_normal((3, 3))
    functions = [pdmm.Quadratic(H, c[0]), pdmm.Quadratic(h, c[1]), pdmm.Quadratic(0.5, c[2])]
    expected = np.linalg.solve(H + np.diag(h) + 0.5 * np.eye(3), c.sum(0))
    x = the_one(pdmm.Network(nx.path_graph(3), functions))
    np.testing.assert_allclose(x, np.tile(expected, 3), rtol=1e-12)


def test_wide_least_squares_are_enough_together() -> None:
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((4, 2, 5)), rng.standard_normal((4, 2))
    expected = np.linalg.lstsq(A.reshape(8, 5), b.reshape(8))[0]
    x = the_one(pdmm.Network(nx.cycle_graph(4), pdmm.LeastSquares(A, b)))
    np.testing.assert_allclose(x, np.tile(expected, 4), rtol=1e-10)


@pytest.mark.parametrize("name", LIMITS)
def test_constraints_by_a_dense_kkt_solve(name: str) -> None:
    case = LIMITS[name]
    np.testing.assert_allclose(the_one(case.network), case.twin.optimum(), atol=1e-11)


def test_one_constraint_by_hand() -> None:
    """1/2 (x - 1)² + 1/2 (y - 8)² where x = 2 y: y = (2 + 8)/5."""
    functions = [pdmm.Quadratic(1.0, [1.0]), pdmm.Quadratic(1.0, [8.0])]
    network = pdmm.Network(nx.path_graph(2), functions, {(0, 1): (1.0, 2.0)})
    np.testing.assert_allclose(the_one(network), [4.0, 2.0], rtol=1e-14)


@pytest.mark.parametrize("constraints", [None, {(0, 1): (1.0, 1.0)}])
def test_what_is_flat_has_no_optimum(constraints: Any) -> None:
    flat_twice = pdmm.Quadratic(np.array([[1.0, 0.0], [2.0, 0.0]]), [[1.0, 0.0], [3.0, 0.0]])
    assert found(pdmm.Network(nx.path_graph(2), flat_twice, constraints)) is None
    endless = pdmm.Quadratic(np.array([[1.0, 0.0], [2.0, 0.0]]), [[1.0, 1.0], [3.0, 0.0]])
    assert found(pdmm.Network(nx.path_graph(2), endless, constraints)) is None


# --- absolute values ----------------------------------------------------------------------


def test_medians_from_the_lower_to_the_upper() -> None:
    a = np.array([[0.0, 5.0], [1.0, 2.0], [4.0, 9.0], [9.0, 8.0]])
    functions = [pdmm.Absolute(a[:2]), pdmm.Zero(2), pdmm.Absolute(a[2:])]
    optimum = found(pdmm.Network(nx.path_graph(5), functions))
    assert optimum is not None
    assert optimum.low.tolist() == [1.0, 5.0] * 5
    assert optimum.high.tolist() == [4.0, 8.0] * 5
    assert optimum.middle.tolist() == [2.5, 6.5] * 5


def test_absolute_values_with_matrices_or_with_quadratics_have_no_direct_way() -> None:
    a = pdmm.Absolute([[0.0], [1.0]])
    assert found(pdmm.Network(nx.path_graph(2), a, {(0, 1): (1.0, 2.0)})) is None
    mixed = [pdmm.Absolute([0.0]), pdmm.Quadratic(1.0, [1.0])]
    assert found(pdmm.Network(nx.path_graph(2), mixed)) is None


def test_the_distance_from_the_nearest_of_many_optima() -> None:
    optimum = Optimum(np.full(2, 1.0), np.full(2, 3.0), np.zeros(2, dtype=np.intp))
    X = np.array([[1.0, 2.0], [0.0, 0.5], [4.0, 8.0]])
    nearest = np.array([[1.5], [1.0], [3.0]])  # the means, cut off at 1 and 3
    np.testing.assert_array_equal(optimum.distance(X), X - nearest)
    one = Optimum(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(one.distance(X), X - [1.0, 2.0])


def test_the_middle_of_what_is_free_is_zero() -> None:
    ends = np.array([-np.inf, 2.0]), np.array([np.inf, 4.0])
    assert Optimum(*ends, np.arange(2)).middle.tolist() == [0.0, 3.0]


# --- smooth functions ---------------------------------------------------------------------


@pytest.mark.parametrize("constrained", [False, True])
def test_smooth_functions_end_where_their_slopes_cancel(constrained: bool) -> None:
    made = [log_cosh(seed, 2) for seed in range(3)]
    functions: list[pdmm.Problem] = [pdmm.Functions([f], [slope], 2) for f, slope, *_ in made[:2]]
    functions.append(pdmm.Quadratic([1.0, 2.0], [3.0, 4.0]))
    constraints = {(0, 1): (2.0, 1.0)} if constrained else None
    x = the_one(pdmm.Network(nx.path_graph(3), functions, constraints)).reshape(3, 2)
    scale = 2.0 if constrained else 1.0
    np.testing.assert_allclose(x[1], scale * x[0], rtol=1e-12)
    np.testing.assert_allclose(x[2], x[1], rtol=1e-12)
    slopes = [made[0][1](x[0]), made[1][1](x[1]), np.array([1.0, 2.0]) * x[2] - [3.0, 4.0]]
    np.testing.assert_allclose(slopes[0] + scale * (slopes[1] + slopes[2]), 0, atol=1e-8)


def test_constraints_that_allow_nothing_but_zero() -> None:
    f, slope, *_ = log_cosh(0, 1)
    functions = pdmm.Functions([f] * 3, [slope] * 3, 1)
    given = {(0, 1): (1.0, 1.0), (1, 2): (1.0, 1.0), (0, 2): (1.0, 2.0)}
    network = pdmm.Network(nx.cycle_graph(3), functions, given)
    assert the_one(network).tolist() == [0.0, 0.0, 0.0]


# --- what the constraints allow -----------------------------------------------------------


def first_entries_agree() -> Case:
    """Three nodes with two numbers each, of which the first must be equal."""
    line, B = nx.path_graph(3), np.array([[1.0, 0.0]])
    functions: Any = {i: (pdmm.Quadratic(1.0, [1.0, i]), nt.quadratic(1.0, [1.0, i])) for i in line}
    return build(line, functions, dict.fromkeys([(0, 1), (1, 0), (1, 2), (2, 1)], B))


@pytest.mark.parametrize("case", [*CASES.values(), first_entries_agree()], ids=[*CASES, "by hand"])
def test_a_basis_spans_what_the_constraints_allow(case: Case) -> None:
    basis = case.network.edges.allowed().basis()
    assert basis is not None
    A = case.twin.constraint_matrix()
    assert basis.size == A.shape[1] - np.linalg.matrix_rank(A)
    columns = [basis.spread(e) for e in np.eye(basis.size)]
    N = np.array(columns).reshape(basis.size, A.shape[1]).T
    np.testing.assert_allclose(A @ N, 0, atol=1e-12)
    assert np.linalg.matrix_rank(N) == basis.size
    slope = flat(case.start(np.random.default_rng(0)), case.nodes)
    np.testing.assert_allclose(basis.collect(slope), N.T @ slope, atol=1e-12)


def test_the_two_kinds_of_edges_allow_the_same_where_both_can() -> None:
    rng = np.random.default_rng(3)
    H = np.stack([positive_definite(rng, 2) for _ in range(4)])
    functions = pdmm.Quadratic(H, rng.standard_normal((4, 2)))
    agree = pdmm.Network(nx.cycle_graph(4), functions)
    given = pdmm.Network(nx.cycle_graph(4), functions, {(0, 1): (1.0, 1.0)})
    assert type(agree.edges.allowed()) is Agreement
    assert type(given.edges.allowed()) is Kernel
    np.testing.assert_allclose(the_one(agree), the_one(given), rtol=1e-11)


def test_a_flat_sum_has_no_optimum_to_measure_from() -> None:
    flat = pdmm.Functions(
        [lambda x: 0.5 * (x[0] - 1) ** 2], [lambda x: np.array([x[0] - 1, 0.0])], 2
    )
    network = pdmm.Network(nx.path_graph(2), [flat, pdmm.Zero(2)])
    result = pdmm.solve_network(network, iterations=50, relaxation=0.9, x0=[0.0, 7.0])
    assert result.optimum is None
    with pytest.raises(KeyError, match="optimum is not known"):
        result.history["error"]
