"""rho="auto"."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import CASES, groups_of, softmax_data, unconnected
from pdmm.graphs.penalty import choose_rho, mode_rate

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
            assert "of the graph" in result.choices[0] or "no slower part" in result.choices[0]


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
    found = mode_rate(np.array([y]), np.array([1 - abs(theta)]))
    np.testing.assert_allclose(found, np.abs(roots).max(), rtol=1e-12, atol=1e-12)


def test_a_mode_dies_fastest_where_its_roots_meet() -> None:
    theta = 0.8
    best = 1 / np.sqrt(1 - theta**2)  # 5/3, where the rate is sqrt((y - 1)/(y + 1)) = 1/2
    before, there, after = mode_rate(best * np.array([0.9, 1.0, 1.1]), np.full(3, 1 - theta))
    assert there == pytest.approx(0.5, abs=1e-7)
    assert before > 0.5
    assert after > 0.5


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


def test_rho_of_absolute_values_in_two_components() -> None:
    """What counts is how far they are from those that they must agree with."""
    functions = pdmm.Absolute([[0.0], [4.0], [1000.0], [1004.0], [1e9]])
    graph = nx.Graph([(0, 1), (2, 3)])
    graph.add_node(4)
    network = unconnected(graph, functions)
    assert choose_rho(network, groups_of(network))[0] == 1 / 2.0
    one = pdmm.Network(nx.path_graph(2), [pdmm.Absolute([0.0, 4.0]), pdmm.Zero(2)])
    assert choose_rho(one, groups_of(one))[0] == 1 / 2.0  # by what its own entries are apart


# --- nodes without edges, and components of their own ------------------------------------------


def alone_beside_an_edge(h: float = 1.0, constraints: Any = None) -> pdmm.Network:
    graph = nx.path_graph(2)
    graph.add_node(2)
    functions = [pdmm.Quadratic(1.0, [1.0]), pdmm.Quadratic(1.0, [5.0]), pdmm.Quadratic(h, [7 * h])]
    return unconnected(graph, functions, constraints)


@pytest.mark.parametrize("h", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("constraints", [None, {(0, 1): (1.0, 2.0)}])
def test_a_node_without_edges_does_not_matter(h: float, constraints: Any) -> None:
    result = pdmm.solve_network(alone_beside_an_edge(h, constraints), "auto", 60)
    together = 3.0 if constraints is None else 1.4
    expected = [[3.0 if constraints is None else 2.8], [together], [7.0]]
    np.testing.assert_allclose(np.asarray(result.x), expected, atol=1e-9)
    edge = pdmm.Network(
        nx.path_graph(2), pdmm.Quadratic(1.0, np.array([[1.0], [5.0]])), constraints
    )
    assert result.rho == pytest.approx(choose_rho(edge, groups_of(edge))[0], rel=1e-6)
    assert result.reason == "all 60 iterations done"


def test_only_nodes_that_nothing_holds() -> None:
    network = alone_beside_an_edge(1.0, {(0, 1): (0.0, 0.0)})
    result = pdmm.solve_network(network, "auto", 20)
    assert result.rho == 1.0
    np.testing.assert_allclose(np.asarray(result.x), [[1.0], [5.0], [7.0]], atol=1e-12)


@pytest.mark.parametrize("constraints", [None, {(0, 1): (1.0, 2.0)}])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_every_component_counts(scale: float, constraints: Any) -> None:
    """One rho for two components: as fast as the best, although one is much steeper."""
    graph = nx.disjoint_union(nx.path_graph(6), nx.cycle_graph(7))
    h = np.repeat([1.0, scale], [6, 7])[:, None]
    functions = pdmm.Quadratic(h, h * np.random.default_rng(0).standard_normal((13, 1)))
    network = unconnected(graph, functions, constraints)
    auto = pdmm.solve_network(network, "auto", 500)
    first = auto.history["error"][0]
    mine = auto.history.iterations_to(1e-6 * first)
    assert mine is not None
    sweep = [
        pdmm.solve_network(network, rho, 500).history.iterations_to(1e-6 * first)
        for rho in np.geomspace(0.1, 300, 12)
    ]
    assert mine <= 1.2 * min(k for k in sweep if k is not None)


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("ends", ["one", "both"])
def test_matrices_of_any_size(size: float, ends: str) -> None:
    given = (1.0, size) if ends == "one" else (size, size)
    functions = pdmm.Quadratic(1.0, np.array([[1.0], [5.0]]))
    network = pdmm.Network(nx.path_graph(2), functions, {(0, 1): given})
    result = pdmm.solve_network(network, "auto", 100)
    direction = np.array([given[1], given[0]]) / max(given)  # B x_0 = B' x_1
    expected = direction * (direction @ [1.0, 5.0]) / (direction @ direction)
    assert result.optimum is not None
    np.testing.assert_allclose(np.asarray(result.optimum)[:, 0], expected, atol=1e-8)
    np.testing.assert_allclose(np.asarray(result.x)[:, 0], expected, atol=1e-8)


def test_matrices_without_full_rank_and_without_entries() -> None:
    rng = np.random.default_rng(3)
    functions = pdmm.Quadratic(1.0, rng.standard_normal((6, 3)))
    only_first = np.diag([1.0, 0.0, 0.0])
    cycle = nx.cycle_graph(6)
    network = pdmm.Network(cycle, functions, dict.fromkeys(cycle.edges, (only_first, only_first)))
    result = pdmm.solve_network(network, "auto", 60)
    assert result.history["error"][-1] < 1e-9
    void = {**dict.fromkeys(cycle.edges, (only_first, only_first)), (0, 1): (0.0, 0.0)}
    result = pdmm.solve_network(pdmm.Network(cycle, functions, void), "auto", 200)
    assert result.history["error"][-1] < 1e-9


def test_a_guess_is_called_one() -> None:
    path = nx.path_graph(700)
    a = np.random.default_rng(0).standard_normal((700, 1))
    network = pdmm.Network(path, pdmm.Quadratic(1.0, a), {(0, 1): (1.0, 2.0)})
    _, why = choose_rho(network, groups_of(network))
    assert why[0].endswith("slowest eigenvalue of the graph 0.95 (assumed)")
