"""Groups of nodes whose functions are of a kind, and what each kind answers."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import groups_of, log_cosh
from pdmm.common.checks import ClientError
from pdmm.graphs.nodes.absolute import AbsoluteGroup
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.nodes.inverses import inverses
from pdmm.graphs.nodes.quadratic import DiagonalGroup, GramGroup, SpectralGroup, ZeroGroup
from pdmm.graphs.nodes.smooth import FunctionGroup, ProxGroup, SmoothGroup

nx: Any = importlib.import_module("networkx")
RNG = np.random.default_rng(0)
A = RNG.standard_normal((2, 1, 4))  # wide: kept as eigenvectors
B = RNG.standard_normal((2, 1))
VALUE, SLOPE, PROX, _ = log_cosh(0, 4)
FUNCTIONS: dict[type[Group], pdmm.Problem] = {
    SmoothGroup: pdmm.SoftmaxRegression([RNG.standard_normal((6, 1))], [[0, 1] * 3], 2, 0.1),
    FunctionGroup: pdmm.Functions([VALUE], [SLOPE], 4),
    ProxGroup: pdmm.Functions([VALUE], [SLOPE], 4, prox=[PROX]),
    ZeroGroup: pdmm.Zero(4),
    DiagonalGroup: pdmm.Quadratic([1.0, 2.0, 3.0, 4.0], np.ones(4)),
    GramGroup: pdmm.Quadratic(np.eye(4) + 0.5, np.ones(4)),
    SpectralGroup: pdmm.LeastSquares(A, B),
    AbsoluteGroup: pdmm.Absolute([1.0, 2.0, 3.0, 4.0]),
}


def group_of(kind: type[Group]) -> Group:
    (group,) = groups_of(alone(FUNCTIONS[kind]))
    assert type(group) is kind
    return group


def alone(problem: pdmm.Problem) -> pdmm.Network:
    return pdmm.Network(nx.path_graph(problem.clients), problem)


def test_functions_of_a_kind_are_one_group() -> None:
    functions = [
        pdmm.Quadratic(1.0, [1.0]),
        pdmm.Absolute([1.0]),
        pdmm.Quadratic([[2.0]], [3.0]),  # a matrix of one entry is a number
        pdmm.Zero(1),
        pdmm.Functions([lambda x: float(x @ x)], [lambda x: 2 * x], 1),
        pdmm.Absolute([[2.0], [3.0]]),
        pdmm.Zero(1),
    ]
    groups = groups_of(pdmm.Network(nx.path_graph(8), functions))
    assert [(type(group), group.nodes.tolist()) for group in groups] == [
        (FunctionGroup, [4]),
        (DiagonalGroup, [0, 2]),
        (ZeroGroup, [3, 7]),
        (AbsoluteGroup, [1, 5, 6]),
    ]


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_values_are_those_of_the_problem(kind: type[Group]) -> None:
    problem = FUNCTIONS[kind]
    X = np.random.default_rng(1).standard_normal((3, problem.clients, 4))
    expected = [
        sum(float(problem.at(slice(i, i + 1)).value(x)[0]) for i, x in enumerate(points))
        for points in X
    ]
    np.testing.assert_allclose(group_of(kind).values(X), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_an_exact_update_lets_the_slopes_cancel(kind: type[Group]) -> None:
    """At the minimum of f_i(x) + rho/2 deg_i ‖x‖² - rho r_i·x."""
    problem, rho = FUNCTIONS[kind], 0.7
    functions = [problem, *[pdmm.Quadratic(1.0, np.ones(4))] * 2]
    network = pdmm.Network(nx.cycle_graph(problem.clients + 2), functions)
    group = next(group for group in groups_of(network) if 0 in group.nodes)
    r = np.random.default_rng(2).standard_normal((len(group.nodes), 4))
    x = group.exact(network, rho).solve(slice(None), r, np.zeros_like(r))
    for i in range(problem.clients):
        slope = problem.at(slice(i, i + 1)).gradient(x[i])[0]
        pull = rho * r[i] - rho * 2 * x[i]
        if kind is AbsoluteGroup:  # between the slopes at a kink
            assert (np.abs(pull) <= 1 + 1e-12).all()
            np.testing.assert_allclose(np.where(slope == 0, pull, slope), pull, atol=1e-12)
        else:
            np.testing.assert_allclose(slope, pull, atol=1e-7)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_what_a_kind_says_it_is(kind: type[Group]) -> None:
    group = group_of(kind)
    quadratic = kind in (ZeroGroup, DiagonalGroup, GramGroup, SpectralGroup)
    assert (group.as_quadratics() is not None) == quadratic
    assert (group.as_kinks() is not None) == (kind in (ZeroGroup, AbsoluteGroup))
    assert (group.as_smooth() is None) == (kind in (AbsoluteGroup, ProxGroup))
    assert group.stacked == (kind not in (SmoothGroup, FunctionGroup, ProxGroup))


@pytest.mark.parametrize("kind", [DiagonalGroup, GramGroup, SpectralGroup, FunctionGroup])
def test_value_and_slopes_of_the_sum(kind: type[Group]) -> None:
    problem = FUNCTIONS[kind]
    both = group_of(kind).as_smooth()
    assert both is not None
    x = np.random.default_rng(3).standard_normal((problem.clients, 4))
    _, slopes = both(x)
    for i in range(problem.clients):
        np.testing.assert_allclose(slopes[i], problem.at(slice(i, i + 1)).gradient(x[i])[0])
    step = 1e-6 * np.random.default_rng(4).standard_normal(x.shape)
    rise = both(x + step)[0] - both(x - step)[0]
    assert rise == pytest.approx(2 * float((slopes * step).sum()), rel=1e-3)


def test_constants_of_quadratics_are_eigenvalues() -> None:
    spectral = group_of(SpectralGroup)
    values = np.linalg.eigvalsh(np.einsum("kni,knj->kij", A, A))
    np.testing.assert_allclose(spectral.smoothness(), values[:, -1], rtol=1e-12)
    np.testing.assert_allclose(spectral.strong_convexity(), values[:, 0], atol=1e-12)
    diagonal = group_of(DiagonalGroup)
    assert diagonal.strong_convexity().tolist() == [1.0]
    assert diagonal.smoothness().tolist() == [4.0]
    with pytest.raises(ClientError, match="without curvature"):
        group_of(AbsoluteGroup).smoothness()


def test_inverses_and_what_has_none() -> None:
    M = np.array([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]], [[1e-9, 0.0], [0.0, 1e9]]])
    inverse, bad = inverses(M)
    assert bad.tolist() == [False, True, False]  # variables of different size are not singular
    np.testing.assert_allclose(inverse[0], np.array([[2.0, -1.0], [-1.0, 2.0]]) / 3, rtol=1e-15)
    np.testing.assert_allclose(inverse[2], np.diag([1e9, 1e-9]), rtol=1e-15)
    _, bad = inverses(np.zeros((1, 2, 2)))
    assert bad.tolist() == [True]
