"""The part of the error that dies last, on graphs whose eigenvalues are known."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.networks import groups_of, unconnected
from pdmm.common.threads import Threads
from pdmm.graphs import connected, constrained, spectrum
from pdmm.graphs.incidence import Incidence
from pdmm.graphs.modes import Along, Modes
from pdmm.graphs.penalty import choose_rho

nx: Any = importlib.import_module("networkx")

KNOWN: dict[str, tuple[Any, float]] = {
    "even cycle": (nx.cycle_graph(12), np.cos(np.pi / 6)),
    "odd cycle": (nx.cycle_graph(11), np.cos(np.pi / 11)),
    "complete": (nx.complete_graph(5), 1 / 4),
    "path of three": (nx.path_graph(3), 0.0),
    "star": (nx.star_graph(6), 0.0),
    "hypercube": (nx.hypercube_graph(4), 1 / 2),
    "Petersen": (nx.petersen_graph(), 2 / 3),
    "pair": (nx.path_graph(2), np.nan),  # 1 and -1 are all it has
}


def averaging(graph: Any, constraints: Any = None) -> pdmm.Network:
    return pdmm.Network(graph, pdmm.Quadratic(1.0, np.ones((len(graph), 1))), constraints)


def incidence_of(graph: Any) -> Incidence:
    numbered = nx.convert_node_labels_to_integers(graph)
    ends = np.array(numbered.edges, dtype=np.intp).reshape(-1, 2)
    return Incidence(len(graph), ends[:, 0].copy(), ends[:, 1].copy())


def gaps(graph: Any) -> npt.NDArray[np.float64]:
    """1 - |theta| of every component, of which the library is sure."""
    with Threads(1):
        found = spectrum.modes_of_graph(incidence_of(graph))
    assert found.doubt == ""
    return found.gap


@pytest.mark.parametrize("name", KNOWN)
def test_eigenvalues_that_are_known(name: str) -> None:
    graph, theta = KNOWN[name]
    np.testing.assert_allclose(gaps(graph), [1 - theta], atol=1e-12)


@pytest.mark.parametrize("name", KNOWN)
def test_matrices_that_are_the_identity_change_nothing(name: str) -> None:
    """The same eigenvalues, and the same curvature along their vectors."""
    graph, theta = KNOWN[name]
    network = averaging(graph, {next(iter(graph.edges)): (1.0, 1.0)})
    found = network.edges.modes()
    np.testing.assert_allclose(found.gap, [1 - theta], atol=1e-12)
    expected = averaging(graph).edges.modes()
    groups = groups_of(network)
    np.testing.assert_allclose(
        found.common.curvature(groups), expected.common.curvature(groups), rtol=1e-12
    )
    assert isinstance(found.slow, Along)
    X = found.slow.bases[0]
    degree = np.array([graph.degree(node) for node in graph])
    np.testing.assert_allclose(degree @ X**2, 1.0)


# --- large graphs ---------------------------------------------------------------------------


def by_whole_spectrum(graph: Any) -> float:
    W = nx.normalized_laplacian_matrix(graph).toarray() - np.eye(len(graph))
    sizes = np.sort(np.abs(np.linalg.eigvalsh(W)))
    return float(1 - sizes[-3 if nx.is_bipartite(graph) else -2])


def geometric(n: int) -> Any:
    graph = nx.random_geometric_graph(n, float(np.sqrt(14 / (np.pi * n))), seed=3)
    return graph.subgraph(max(nx.connected_components(graph), key=len))


LARGE: dict[str, Callable[[int], Any]] = {
    "path": nx.path_graph,
    "even cycle": nx.cycle_graph,
    "odd cycle": lambda n: nx.cycle_graph(n + 1),
    "star": nx.star_graph,
    "tree": lambda n: nx.random_labeled_tree(n, seed=1),
    "binary tree": lambda n: nx.balanced_tree(2, int(np.log2(n))),
    "grid": lambda n: nx.grid_2d_graph(int(np.sqrt(n)), int(np.sqrt(n))),
    "narrow grid": lambda n: nx.grid_2d_graph(5, n // 5),
    "geometric": geometric,
    "scale-free": lambda n: nx.barabasi_albert_graph(n, 3, seed=1),
    "small world": lambda n: nx.connected_watts_strogatz_graph(n, 6, 0.01, seed=1),
    "clique with tail": lambda n: nx.lollipop_graph(n // 3, n - n // 3),
    "bipartite": lambda n: nx.complete_bipartite_graph(10, n - 10),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_graphs_have_what_the_whole_spectrum_has(name: str) -> None:
    graph = LARGE[name](400)
    assert len(graph) > spectrum.DENSE
    np.testing.assert_allclose(gaps(graph), by_whole_spectrum(graph), rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("way", ["factors", "Lanczos"])
@pytest.mark.parametrize("name", LARGE)
def test_both_ways_find_it_where_they_are_sure(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = LARGE[name](300)
    monkeypatch.setattr(connected, "QUICK", 1 if way == "factors" else 400)
    monkeypatch.setattr(connected, "ACCURACY", 1e-4)
    np.testing.assert_allclose(gaps(graph), by_whole_spectrum(graph), rtol=1e-3, atol=1e-12)


def exact(name: str, n: int) -> float:
    """1 - |theta| in closed form."""
    angles = {
        "path": np.pi / (n - 1),
        "even cycle": 2 * np.pi / n,
        "odd cycle": np.pi / (n + 1),
    }
    return float(2 * np.sin(angles[name] / 2) ** 2)  # 1 - cos without cancellation


@pytest.mark.parametrize("n", [1_000, 10_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["path", "even cycle", "odd cycle"])
def test_long_paths_and_cycles(name: str, n: int) -> None:
    """Lanczos with W had 1.8e-6 for the 4.9e-10 of a path of 100,000 nodes."""
    np.testing.assert_allclose(gaps(LARGE[name](n)), exact(name, n), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in LARGE if name not in ("path", "even cycle", "odd cycle")]
)
def test_very_large_graphs_are_sure(name: str) -> None:
    """Whose residual says that they are right; what they are is known only for some."""
    graph = LARGE[name](3_000 if name == "clique with tail" else 30_000)
    found = gaps(graph)
    assert 0 < found[0] <= 1
    if name == "grid":
        side = int(np.sqrt(30_000))
        assert found[0] == pytest.approx((np.pi / side) ** 2 / 4, rel=0.02)
    if name == "scale-free":
        assert found[0] == pytest.approx(0.276, abs=0.005)


def test_every_component_has_its_own() -> None:
    graphs = [nx.path_graph(900), nx.path_graph(2), nx.cycle_graph(701), nx.star_graph(5)]
    graphs += [nx.path_graph(2), nx.cycle_graph(6), nx.cycle_graph(6)]
    graph = nx.disjoint_union_all(graphs)
    graph.add_nodes_from(["alone", "too"])
    expected = [exact("path", 900), np.nan, exact("odd cycle", 700), 1.0, np.nan, 0.5, 0.5]
    np.testing.assert_allclose(gaps(graph), expected, rtol=1e-3)
    found = spectrum.modes_of_graph(incidence_of(graph))
    network = unconnected(graph, pdmm.Quadratic(1.0, np.ones((len(graph), 1))))
    least, most = found.common.curvature(groups_of(network))
    means = [len(part) / (2 * part.number_of_edges()) for part in graphs]
    np.testing.assert_allclose(least, means, rtol=1e-12)
    np.testing.assert_allclose(most, means, rtol=1e-12)


def never(graph: connected.Connected) -> None:
    return None


def test_what_has_not_converged_is_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connected, "_by_factors", never)
    monkeypatch.setattr(connected, "PATIENT", 2)
    network = averaging(nx.path_graph(5_000))
    modes: Modes = network.edges.modes()
    assert modes.doubt == "a guess: Lanczos has not converged"
    _, why = choose_rho(network, groups_of(network))
    assert why[0].endswith("(a guess: Lanczos has not converged)")


def test_factors_that_would_fill_up_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connected._sparse_factors(_W(nx.path_graph(9_000)))
    assert connected._sparse_factors(_W(nx.star_graph(9_000)))
    monkeypatch.setattr(connected, "WORK", 1e6)
    monkeypatch.setattr(connected, "WORK_PER_ENTRY", 1e2)
    assert connected._sparse_factors(_W(nx.path_graph(9_000)))
    assert not connected._sparse_factors(_W(nx.barabasi_albert_graph(9_000, 3, seed=1)))


def _W(graph: Any) -> Any:
    incidence = incidence_of(graph)
    return spectrum._matrix(incidence, np.arange(len(graph)))


# --- networks with matrices -------------------------------------------------------------------


def test_large_networks_with_matrices_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained, "DENSE", 3)
    network = averaging(nx.cycle_graph(4), {(0, 1): (1.0, 2.0)})
    found = network.edges.modes()
    assert found.doubt == "assumed"
    np.testing.assert_allclose(found.gap, 0.05)
    # h/g of the nodes, with g = 2, 5, 2, 2 and equally many rows
    np.testing.assert_allclose(found.slow.curvature(groups_of(network)), (3 / 2 + 1 / 5) / 4)


@pytest.mark.parametrize("size", [1e-7, 1e-3])
@pytest.mark.parametrize("graph", [nx.path_graph(5), nx.cycle_graph(5)], ids=["path", "cycle"])
def test_a_weak_edge_is_not_a_free_direction(graph: Any, size: float) -> None:
    """However small its matrices are, the ends of an edge must agree."""
    network = averaging(graph, {(1, 2): (size, size), (3, 4): (size, size)})
    found = network.edges.modes()
    assert isinstance(found.common, Along)
    assert found.common.bases[0].shape[1] == 1
    x = found.common.bases[0][:, 0]
    np.testing.assert_allclose(x, x[0], rtol=1e-6)
    assert 0.1 * size**2 < found.gap[0] < 10 * size**2


def test_constraints_that_leave_nothing_free() -> None:
    one, other = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
    found = averaging(nx.path_graph(2), {(0, 1): (one, other)}).edges.modes()
    assert isinstance(found.common, Along)
    assert found.common.bases[0].shape == (2, 0)
    np.testing.assert_allclose(found.gap, 1.0)
