"""How strongly functions bend along the parts of the error."""

import importlib
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import groups_of, positive_definite
from pdmm.common.checks import ClientError
from pdmm.graphs.modes import Along, ByNode, Curvature

nx: Any = importlib.import_module("networkx")
BOUNDED = pdmm.Functions(
    [lambda x: float(x @ x)], [lambda x: 2 * x], 2, smoothness=2.0, strong_convexity=1.5
)


def together(network: pdmm.Network, weights: Any, components: Any = None) -> Curvature:
    labels = np.zeros(len(network.nodes), dtype=np.intp)
    if components is not None:
        labels[:] = components
    return ByNode(np.asarray(weights), labels, int(labels.max()) + 1).curvature(groups_of(network))


def test_of_quadratics_it_is_that_of_their_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    H = np.stack([positive_definite(rng, 3) for _ in range(2)])
    h = np.array([1.0, 2.0, 5.0])
    c = np.zeros(3)
    functions = [pdmm.Quadratic(H[0], c), pdmm.Quadratic(h, c), pdmm.Quadratic(H[1], c)]
    network = pdmm.Network(nx.path_graph(3), functions)
    values = np.linalg.eigvalsh(0.2 * H[0] + 0.5 * np.diag(h) + 0.3 * H[1])
    found = together(network, [0.2, 0.5, 0.3])
    np.testing.assert_allclose(np.ravel(found), values[[0, -1]], rtol=1e-12)
    found = together(network, [0.2, 0.5, 0.3], [0, 1, 0])
    values = np.linalg.eigvalsh(0.2 * H[0] + 0.3 * H[1])
    np.testing.assert_allclose(found.least, [values[0], 0.5], rtol=1e-12)
    np.testing.assert_allclose(found.most, [values[-1], 2.5], rtol=1e-12)


def test_of_diagonals_and_of_other_functions() -> None:
    diagonals = pdmm.Quadratic(np.array([[1.0, 4.0], [3.0, 0.0]]), np.zeros((2, 2)))
    found = together(pdmm.Network(nx.path_graph(2), diagonals), [1.0, 2.0])
    np.testing.assert_array_equal(found, [[4.0], [7.0]])  # of the sum: 1 + 2 3, 4 + 2 0
    mixed = [BOUNDED, pdmm.Quadratic([1.0, 4.0], [0.0, 0.0])]
    found = together(pdmm.Network(nx.path_graph(2), mixed), [3.0, 1.0])
    # bounds, function by function
    np.testing.assert_array_equal(found, [[3 * 1.5 + 1.0], [3 * 2.0 + 4.0]])
    kinks = pdmm.Network(nx.path_graph(2), pdmm.Absolute([[0.0], [1.0]]))
    with pytest.raises(ClientError, match="without curvature"):
        together(kinks, np.ones(2))


def test_along_any_directions() -> None:
    rng = np.random.default_rng(1)
    H = positive_definite(rng, 2)
    functions = [pdmm.Quadratic(H, np.zeros(2)), BOUNDED, pdmm.Quadratic(3.0, [0.0])]
    one_entry = np.array([[1.0, 0.0]])
    network = pdmm.Network(
        nx.path_graph(3), functions, {(1, 2): (one_entry, np.eye(1)), (0, 1): (1.0, 1.0)}
    )
    X = rng.standard_normal((5, 2))
    none = np.zeros((1, 0))
    places = [np.arange(5), np.array([4])]
    found = Along(places, [X, none], network.offsets, 5).curvature(groups_of(network))
    own = X[:2].T @ H @ X[:2] + 3.0 * X[4:].T @ X[4:]
    others = X[2:4].T @ X[2:4]
    low, high = np.linalg.eigvalsh(np.stack([own + 1.5 * others, own + 2.0 * others]))
    np.testing.assert_allclose(found.least, [low[0], np.nan], rtol=1e-12)
    np.testing.assert_allclose(found.most, [high[-1], np.nan], rtol=1e-12)
