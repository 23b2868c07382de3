"""The part of the error that dies last: eigenvalues of a graph, or of its constraints."""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from pdmm.graphs.incidence import Incidence, Indices

Vector = npt.NDArray[np.float64]
DENSE = 600  # unknowns up to which the whole spectrum is computed
ONE = 1 - 1e-9  # eigenvalues above this belong to what the constraints leave free
ASSUMED = 0.95  # the eigenvalue of a large network with B matrices, which is not computed


class Slowest(NamedTuple):
    """The eigenvalue next to 1 (in size), and how much of its eigenvector is at each node."""

    theta: float
    mode: Vector
    assumed: bool = False
    """Whether it was too costly to compute."""


def slowest_of_graph(incidence: Incidence) -> Slowest:
    """Of D^-1/2 A D^-1/2, where A has a 1 for every edge and D the degrees."""
    n = incidence.nodes
    u, v = incidence.holder, incidence.sender
    degree = np.maximum(incidence.degree, 1).astype(np.float64)
    root = 1 / np.sqrt(degree)
    W = sparse.csr_array((root[u] * root[v], (u, v)), shape=(n, n))
    if n <= DENSE:
        values, vectors = np.linalg.eigh(W.toarray())
        k = _next_to_one(values)
        if k is None:
            return _nothing_left(n)
        return Slowest(float(abs(values[k])), np.asarray(vectors[:, k]))
    return _by_lanczos(W, _known_modes(incidence, degree), float(np.mean(degree)))


def slowest_of_constraints(C: Any, dimensions: Indices) -> Slowest:
    """Of C'PC relative to C'C, where P swaps the two ends of every edge."""
    nodes = len(dimensions)
    if C.shape[1] > DENSE:
        return Slowest(ASSUMED, np.full(nodes, 1 / math.sqrt(nodes)), assumed=True)
    C = C.toarray().astype(np.float64)
    half = len(C) // 2
    swapped = np.concatenate([C[half:], C[:half]])
    values, vectors = np.linalg.eigh(C.T @ C)
    good = values > 1e-12 * values[-1]
    root = vectors[:, good] / np.sqrt(values[good])
    theta, modes = np.linalg.eigh(root.T @ (C.T @ swapped) @ root)
    k = _next_to_one(theta)
    if k is None:
        return _nothing_left(nodes)
    along = vectors[:, good] @ modes[:, k]
    owner = np.repeat(np.arange(nodes), dimensions)
    return Slowest(float(abs(theta[k])), np.sqrt(np.bincount(owner, along**2)))


def _next_to_one(values: Vector) -> int | None:
    """Which eigenvalue is the largest in size of those below 1; None if there is none."""
    left = np.abs(values) < ONE
    if not left.any():
        return None
    return int(np.flatnonzero(left)[np.abs(values[left]).argmax()])


def _nothing_left(nodes: int) -> Slowest:
    return Slowest(0.0, np.full(nodes, 1 / math.sqrt(nodes)))


KnownMode = tuple[npt.NDArray[np.int32], Vector]  # a component for every node, and the entries


def _by_lanczos(W: Any, known: list[KnownMode], mean_degree: float) -> Slowest:
    """Of a large graph, with the eigenvectors of 1 and -1 taken out."""
    n = W.shape[0]

    def product(x: Vector) -> Vector:
        flat = x.ravel()
        y = W @ flat
        for labels, mode in known:
            along = np.bincount(labels, mode * y)
            y = y - mode * along[labels]
        return np.asarray(y)

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    vectors = np.random.default_rng(0).standard_normal((n, 1))
    theta = 0.0
    tolerance = 2.0
    try:
        while tolerance > 1 - theta:  # 1 - theta is what matters: find it, not only theta
            tolerance = min(1e-3, 0.5 * (1 - theta))
            values, vectors = eigsh(
                operator, k=1, ncv=40, tol=tolerance, maxiter=100, v0=vectors[:, 0]
            )
            theta = min(float(abs(values[0])), ONE)
    except ArpackNoConvergence:
        theta = max(theta, 1 - mean_degree / n)  # about that of random geometric graphs
    return Slowest(theta, np.asarray(vectors[:, 0]))


def _known_modes(incidence: Incidence, degree: Vector) -> list[KnownMode]:
    """The eigenvectors of the eigenvalues 1 and -1, for each component."""
    labels = incidence.components
    size = np.sqrt(np.bincount(labels, degree))
    mode = np.sqrt(degree) / size[labels]
    return [(labels, mode), (labels, mode * _two_colours(incidence))]


def _two_colours(incidence: Incidence) -> Vector:
    """+1 and -1 such that neighbours differ, 0 in components that do not allow it.

    Every node is taken twice, and an edge of i and j links one i with the other j: a component
    falls apart in two if and only if it has two colours.
    """
    n = incidence.nodes
    u, v = incidence.holder, incidence.sender
    twice = sparse.coo_array((np.ones(len(u), np.int8), (u, v + n)), shape=(2 * n, 2 * n))
    labels = sparse.csgraph.connected_components(twice, directed=False)[1]
    return np.asarray(np.sign(labels[n:] - labels[:n]), dtype=np.float64)
