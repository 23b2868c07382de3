"""The parts of the error of a run on a graph where all agree, component by component."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.graphs.connected import Connected, Part, slowest_part
from pdmm.graphs.incidence import Incidence, Indices
from pdmm.graphs.modes import ByNode, Modes

Vector = npt.NDArray[np.float64]
DENSE = 200  # nodes of a component up to which its whole spectrum is computed
AT_A_TIME = 2**22  # entries of the matrices of many small components
NOT_CONVERGED = "a guess: Lanczos has not converged"


def modes_of_graph(incidence: Incidence) -> Modes:
    """Of D^-1/2 A D^-1/2, where A has a 1 for every edge and D the degrees."""
    linked = linked_components(incidence)
    degree = np.maximum(incidence.degree, 1).astype(np.float64)
    total = np.bincount(linked.labels, linked.weigh(degree), linked.number)
    slowest = _slowest(incidence, linked)
    return Modes(
        common=ByNode(linked.weigh(1 / total[linked.labels]), linked.labels, linked.number),
        slow=ByNode(slowest.vector**2 / degree, linked.labels, linked.number),
        gap=slowest.gap,
        doubt="" if slowest.sure else NOT_CONVERGED,
    )


class Linked(NamedTuple):
    """The components that have an edge."""

    labels: Indices
    """The number of every node's component; any, if it has no edge."""
    held: npt.NDArray[np.bool_]
    """Which nodes have an edge."""
    number: int
    """How many components there are."""

    def weigh(self, values: Vector) -> Vector:
        """Values of all nodes, with 0 for those without an edge."""
        return np.where(self.held, values, 0.0)


def linked_components(incidence: Incidence) -> Linked:
    """The components that have an edge, numbered."""
    held = incidence.degree > 0
    names, own = np.unique(incidence.components[held], return_inverse=True)
    labels = np.zeros(incidence.nodes, dtype=np.intp)
    labels[held] = own
    return Linked(labels, held, len(names))


class _Slowest(NamedTuple):
    """For each component 1 - |theta| of its eigenvalue, and the eigenvectors of all in one."""

    gap: Vector
    vector: Vector
    sure: bool


def _slowest(incidence: Incidence, linked: Linked) -> _Slowest:
    """The eigenvalue next to 1 of every component."""
    nodes = np.flatnonzero(linked.held)
    order = nodes[np.argsort(linked.labels[nodes], kind="stable")]  # component after component
    W = _matrix(incidence, order)
    sizes = np.bincount(linked.labels[order], minlength=linked.number)
    starts = np.cumsum(sizes) - sizes
    colours = two_colours(incidence)[order]
    degree = incidence.degree[order].astype(np.float64)
    gap = np.empty(linked.number)
    vector = np.zeros(incidence.nodes)
    sure = True
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        few = max(1, AT_A_TIME // size**2) if size <= DENSE else 1
        for k in range(0, len(which), few):
            some = which[k : k + few]
            rows = starts[some][:, None] + np.arange(size)
            if size <= DENSE:
                found = _whole_spectrum(W, rows, colours[rows[:, 0]] != 0)
                gap[some], vector[order[rows]] = found
                continue
            part = _of_large(W, rows[0], degree, colours)
            gap[some], vector[order[rows[0]]] = part.gap, part.vector
            sure = sure and part.sure
    return _Slowest(gap, vector, sure)


def _matrix(incidence: Incidence, order: Indices) -> Any:
    """W, whose rows and columns are nodes in that order."""
    place = np.empty(incidence.nodes, dtype=np.intp)
    place[order] = np.arange(len(order))
    u, v = incidence.holder, incidence.sender
    root = 1 / np.sqrt(np.maximum(incidence.degree, 1).astype(np.float64))
    return sparse.csr_array((root[u] * root[v], (place[u], place[v])), shape=(len(order),) * 2)


def _whole_spectrum(
    W: Any, rows: Indices, coloured: npt.NDArray[np.bool_]
) -> tuple[Vector, Vector]:
    """Of several components of equal size: 1 - |theta| next to 1, and the vectors.

    Args:
        W: block by block.
        rows: of every component.
        coloured: whether a component has two colours, so that -1 is an eigenvalue.
    """
    count, size = rows.shape
    entries = W[rows.ravel()].tocoo()
    block = entries.row // size
    dense = np.zeros((count, size, size))
    dense[block, entries.row % size, entries.col - rows[block, 0]] = entries.data
    values, vectors = np.linalg.eigh(dense)
    left = np.abs(values)
    left[:, -1] = -1  # the eigenvalue 1
    left[coloured, 0] = -1
    best = left.argmax(1)
    size = left[np.arange(count), best]
    return np.where(size < 0, np.nan, 1 - size), vectors[np.arange(count), :, best]


def _of_large(W: Any, rows: Indices, degree: Vector, colours: Vector) -> Part:
    own = slice(rows[0], rows[-1] + 1)
    coloured = colours[rows[0]] != 0
    return slowest_part(
        Connected(
            W[own, own],
            np.sqrt(degree[own] / degree[own].sum()),
            colours[own] if coloured else None,
        )
    )


def two_colours(incidence: Incidence) -> Vector:
    """+1 and -1 such that neighbours differ, 0 in components that do not allow it.

    Every node is taken twice, and an edge of i and j links one i with the other j: a component
    falls apart in two if and only if it has two colours.
    """
    n = incidence.nodes
    u, v = incidence.holder, incidence.sender
    twice = sparse.coo_array((np.ones(len(u), np.int8), (u, v + n)), shape=(2 * n, 2 * n))
    labels = sparse.csgraph.connected_components(twice, directed=False)[1]
    return np.asarray(np.sign(labels[n:] - labels[:n]), dtype=np.float64)
