"""The part of the error that dies last, on graphs whose eigenvalues are known."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.graphs import spectrum
from pdmm.graphs.incidence import Incidence

nx: Any = importlib.import_module("networkx")

KNOWN: dict[str, tuple[Any, float]] = {
    "even cycle": (nx.cycle_graph(12), np.cos(np.pi / 6)),
    "odd cycle": (nx.cycle_graph(11), np.cos(np.pi / 11)),
    "complete": (nx.complete_graph(5), 1 / 4),
    "path of three": (nx.path_graph(3), 0.0),
    "star": (nx.star_graph(6), 0.0),
    "hypercube": (nx.hypercube_graph(4), 1 / 2),
    "Petersen": (nx.petersen_graph(), 2 / 3),
    "pair": (nx.path_graph(2), 0.0),
}


def averaging(graph: Any, constraints: Any = None) -> pdmm.Network:
    return pdmm.Network(graph, pdmm.Quadratic(1.0, np.ones((len(graph), 1))), constraints)


@pytest.mark.parametrize("name", KNOWN)
def test_eigenvalues_that_are_known(name: str) -> None:
    graph, theta = KNOWN[name]
    found = averaging(graph).edges.slowest()
    assert found.theta == pytest.approx(theta, abs=1e-12)
    assert not found.assumed
    assert np.linalg.norm(found.mode) == pytest.approx(1.0)


@pytest.mark.parametrize("name", KNOWN)
def test_matrices_that_are_the_identity_change_nothing(name: str) -> None:
    graph, theta = KNOWN[name]
    edge = next(iter(graph.edges))
    found = averaging(graph, {edge: (1.0, 1.0)}).edges.slowest()
    assert found.theta == pytest.approx(theta, abs=1e-12)


@pytest.mark.parametrize(
    "graph",
    [
        nx.random_geometric_graph(80, 0.25, seed=3),
        nx.grid_2d_graph(7, 9),  # bipartite: -1 is an eigenvalue, and is left out
        nx.disjoint_union(nx.cycle_graph(45), nx.grid_2d_graph(5, 8)),
    ],
    ids=["geometric", "grid", "two components"],
)
def test_lanczos_finds_what_the_whole_spectrum_has(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = np.array(nx.convert_node_labels_to_integers(graph).edges, dtype=np.intp)
    incidence = Incidence(len(graph), ends[:, 0].copy(), ends[:, 1].copy())
    whole = spectrum.slowest_of_graph(incidence)
    monkeypatch.setattr(spectrum, "DENSE", 0)
    found = spectrum.slowest_of_graph(incidence)
    assert 1 - found.theta == pytest.approx(1 - whole.theta, rel=0.01)


def test_large_networks_with_matrices_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "DENSE", 3)
    found = averaging(nx.cycle_graph(4), {(0, 1): (1.0, 2.0)}).edges.slowest()
    assert found.assumed
    assert found.theta == 0.95
    np.testing.assert_allclose(found.mode, 0.5)
