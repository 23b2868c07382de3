"""rho="auto"."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import CASES, groups_of, positive_definite, softmax_data
from pdmm.common.checks import ClientError
from pdmm.graphs.penalty import choose_rho, curvature, mode_rate

nx: Any = importlib.import_module("networkx")


GRAPHS: dict[str, Any] = {
    "path": nx.path_graph(12),
    "cycle": nx.cycle_graph(11),
    "even cycle": nx.cycle_graph(12),
    "complete": nx.complete_graph(7),
    "star": nx.star_graph(8),
    "grid": nx.grid_2d_graph(4, 4),
    "bipartite": nx.complete_bipartite_graph(3, 5),
    "random": nx.random_geometric_graph(40, 0.35, seed=1),
    "pair": nx.path_graph(2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_auto_on_many_graphs(name: str) -> None:
    graph = GRAPHS[name]
    n = len(graph)
    rng = np.random.default_rng(0)
    for functions, iterations in (
        (pdmm.Quadratic(1.0, rng.standard_normal((n, 1))), 250),
        (pdmm.Quadratic(1000.0, 1000 * rng.standard_normal((n, 1))), 250),
        (pdmm.LeastSquares(rng.standard_normal((n, 5, 3)), rng.standard_normal((n, 5))), 600),
    ):
        network = pdmm.Network(graph, functions)
        schedules: tuple[Any, ...] = ("synchronous", "asynchronous")
        for schedule in schedules[: 2 if iterations == 250 else 1]:
            result = pdmm.solve_network(network, "auto", iterations, schedule)
            assert result.history["error"][-1] < 1e-7
            assert len(result.choices) == 1
            assert result.choices[0].startswith("rho ")
            assert "slowest eigenvalue" in result.choices[0]


@pytest.mark.slow
@pytest.mark.parametrize("graph", [nx.path_graph(6), nx.star_graph(5), nx.grid_2d_graph(2, 3)])
def test_auto_of_functions_that_are_not_quadratic(graph: Any) -> None:
    n = len(graph)
    X, y = softmax_data(1, n)
    result = pdmm.solve_network(
        pdmm.Network(graph, pdmm.SoftmaxRegression(X, y, 2, 0.3)), "auto", 60, record_every=10
    )
    assert result.history["error"][-1] < 1e-2 * result.history["error"][0]
    for scale in (1e-3, 1e3):
        a = scale * np.random.default_rng(0).standard_normal((n, 1))
        network = pdmm.Network(graph, pdmm.Absolute(a))
        result = pdmm.solve_network(network, "auto", 3000, relaxation=0.9, record_every=100)
        assert result.history["error"][-1] < 1e-6 * scale
        assert result.history["consensus"][-1] < 1e-6 * scale
        assert "spread" in result.choices[0]


def test_auto_scales_with_the_functions() -> None:
    a = np.random.default_rng(0).standard_normal((12, 1))
    rhos = [
        pdmm.solve_network(pdmm.Network(GRAPHS["path"], pdmm.Quadratic(h, h * a)), "auto", 1).rho
        for h in (1e-4, 1.0, 1e4)
    ]
    np.testing.assert_allclose(rhos, [1e-4 * rhos[1], rhos[1], 1e4 * rhos[1]], rtol=1e-2)


@pytest.mark.parametrize("where", ["no edges", "no curvature", "constraints"])
def test_auto_where_little_is_known(where: str) -> None:
    if where == "no edges":
        network = pdmm.Network(nx.empty_graph(1), [pdmm.Quadratic(1.0, [1.0])])
        result = pdmm.solve_network(network, "auto", 2)
        assert "without edges" in result.choices[0]
        assert result.rho == 1.0
    elif where == "no curvature":
        network = pdmm.Network(nx.path_graph(2), [pdmm.Zero(1), pdmm.Zero(1)])
        result = pdmm.solve_network(network, "auto", 100, x0={0: 1.0, 1: 3.0}, relaxation=0.5)
        assert "no curvature" in result.choices[0]
        np.testing.assert_allclose(result.x[0], result.x[1], atol=1e-12)
    else:
        result = pdmm.solve_network(CASES["constraints"].network, "auto", 2)
        assert "slowest eigenvalue" in result.choices[0]
    given = pdmm.solve_network(CASES["constraints"].network, 0.7, 2)
    assert given.choices == ()
    assert given.rho == 0.7


REGULAR: dict[str, Any] = {
    "odd cycle": nx.cycle_graph(15),
    "even cycle": nx.cycle_graph(16),
    "complete": nx.complete_graph(8),
    "random regular": nx.random_regular_graph(4, 24, seed=2),
    "hypercube": nx.hypercube_graph(4),
    "Petersen": nx.petersen_graph(),
}


@pytest.mark.parametrize("h", [1.0, 0.2])
@pytest.mark.parametrize("name", REGULAR)
def test_auto_is_the_best_rho_on_regular_graphs(name: str, h: float) -> None:
    graph = REGULAR[name]
    adjacency = nx.to_numpy_array(graph)
    k = float(adjacency.sum(0)[0])
    sizes = np.abs(np.linalg.eigvalsh(adjacency))
    second = float(sizes[sizes < k - 1e-9].max())
    a = np.random.default_rng(1).standard_normal((len(graph), 1))
    network = pdmm.Network(graph, pdmm.Quadratic(h, h * a))
    result = pdmm.solve_network(network, "auto", 300)
    assert result.rho == pytest.approx(h / np.sqrt(k**2 - second**2), rel=0.03)
    mine = result.history.iterations_to(1e-6)
    assert mine is not None
    sweep = [
        pdmm.solve_network(network, rho, 300).history.iterations_to(1e-6)
        for rho in h * np.geomspace(0.05, 10, 12)
    ]
    assert mine <= 1.5 * min(k for k in sweep if k is not None)


def test_auto_on_a_graph_too_large_for_the_whole_spectrum() -> None:
    graph = nx.random_regular_graph(4, 650, seed=3)
    second = np.sort(np.abs(np.linalg.eigvalsh(nx.to_numpy_array(graph))))[-2]
    a = np.random.default_rng(0).standard_normal((700, 1))
    result = pdmm.solve_network(pdmm.Network(graph, pdmm.Quadratic(1.0, a[:650])), "auto", 150)
    assert result.rho == pytest.approx(1 / np.sqrt(16 - second**2), rel=0.05)
    assert result.history["error"][-1] < 1e-9
    even = nx.cycle_graph(700)  # two eigenvalues of size 1, both known
    result = pdmm.solve_network(
        pdmm.Network(even, pdmm.Quadratic(1.0, a)), "auto", 1, optimum=False
    )
    assert result.rho > 5


# --- the pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("y", [0.2, 1.0, 1.7, 30.0])
@pytest.mark.parametrize("theta", [-0.6, 0.0, 0.5, 0.99])
def test_a_mode_dies_by_the_larger_root_of_its_polynomial(y: float, theta: float) -> None:
    roots = np.roots([1 + y, -2 * y * theta, y - 1])
    assert mode_rate(y, theta) == pytest.approx(np.abs(roots).max(), rel=1e-12, abs=1e-12)


def test_a_mode_dies_fastest_where_its_roots_meet() -> None:
    theta = 0.8
    best = 1 / np.sqrt(1 - theta**2)  # 5/3, where the rate is sqrt((y - 1)/(y + 1)) = 1/2
    assert mode_rate(best, theta) == pytest.approx(0.5, abs=1e-7)
    assert mode_rate(0.9 * best, theta) > 0.5
    assert mode_rate(1.1 * best, theta) > 0.5


def test_the_curvature_of_quadratics_is_that_of_their_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    H = np.stack([positive_definite(rng, 3) for _ in range(2)])
    h = np.array([1.0, 2.0, 5.0])
    c = np.zeros(3)
    functions = [pdmm.Quadratic(H[0], c), pdmm.Quadratic(h, c), pdmm.Quadratic(H[1], c)]
    groups = groups_of(pdmm.Network(nx.path_graph(3), functions))
    weights = np.array([0.2, 0.5, 0.3])
    values = np.linalg.eigvalsh(0.2 * H[0] + 0.5 * np.diag(h) + 0.3 * H[1])
    np.testing.assert_allclose(curvature(groups, weights), values[[0, -1]], rtol=1e-12)


def test_the_curvature_of_diagonals_and_of_other_functions() -> None:
    diagonals = pdmm.Quadratic(np.array([[1.0, 4.0], [3.0, 0.0]]), np.zeros((2, 2)))
    groups = groups_of(pdmm.Network(nx.path_graph(2), diagonals))
    assert curvature(groups, np.array([1.0, 2.0])) == (4.0, 7.0)  # of the sum: 1 + 2 3, 4 + 2 0
    mine = pdmm.Functions(
        [lambda x: float(x @ x)], [lambda x: 2 * x], 2, smoothness=2.0, strong_convexity=1.5
    )
    groups = groups_of(
        pdmm.Network(nx.path_graph(2), [mine, pdmm.Quadratic([1.0, 4.0], [0.0, 0.0])])
    )
    found = curvature(groups, np.array([3.0, 1.0]))  # bounds, function by function
    assert found == (3 * 1.5 + 1.0, 3 * 2.0 + 4.0)
    groups = groups_of(pdmm.Network(nx.path_graph(2), pdmm.Absolute([[0.0], [1.0]])))
    with pytest.raises(ClientError, match="without curvature"):
        curvature(groups, np.ones(2))


def test_rho_of_averaging_on_a_cycle_by_hand() -> None:
    network = pdmm.Network(nx.cycle_graph(12), pdmm.Quadratic(3.0, np.ones((12, 1))))
    rho, why = choose_rho(network, groups_of(network))
    theta = np.cos(np.pi / 6)  # the second eigenvalue of A/2
    assert rho == pytest.approx(3.0 / (2 * np.sqrt(1 - theta**2)), rel=1e-4)
    assert why == (
        f"rho {rho:.3g}: curvature 1.5 .. 1.5 a neighbour, slowest eigenvalue of the graph 0.866",
    )


def test_rho_of_absolute_values_by_their_spread() -> None:
    functions = [pdmm.Absolute([0.0]), pdmm.Zero(1), pdmm.Absolute([4.0])]
    network = pdmm.Network(nx.cycle_graph(3), functions)
    rho, why = choose_rho(network, groups_of(network))
    assert rho == 1 / (2 * 2.0)  # two neighbours, and 0 and 4 spread by 2; Zero has no a
    assert "by the spread 2 of the a_i" in why[0]
    alike = pdmm.Network(nx.path_graph(2), pdmm.Absolute([[1.0], [1.0]]))
    assert choose_rho(alike, groups_of(alike))[0] == 1.0
