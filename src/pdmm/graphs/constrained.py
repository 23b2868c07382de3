"""Edges with a user's matrices: B_{i|j} x_i = B_{j|i} x_j."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.graphs.constraint_modes import modes_of_component
from pdmm.graphs.edges import Edges, Flags, Part
from pdmm.graphs.incidence import Incidence, Indices, ranges
from pdmm.graphs.kernel import Kernel
from pdmm.graphs.modes import Along, ByNode, Modes
from pdmm.graphs.spectrum import Linked, linked_components
from pdmm.problems.block import Floats

DENSE = 600  # unknowns of a component up to which its eigenvalues are computed
ASSUMED = 0.95  # the eigenvalue of larger ones


class Constrained(Edges):
    """B_{i|j} x_i = B_{j|i} x_j with a user's matrices: C is a sparse matrix.

    Args:
        incidence: of the graph.
        matrices: B_{i|j} of every row, None for the identity.
        dimensions: of every x_i.
        dtype: of the run.
    """

    consensus = False
    why_singular = "its B matrices have a common kernel"

    def __init__(
        self,
        incidence: Incidence,
        matrices: list[Floats | None],
        dimensions: Indices,
        dtype: np.dtype[Any],
    ) -> None:
        self.incidence = incidence
        self.dimensions = dimensions
        self.matrices = matrices
        self.sizes = self._sizes()
        self.both = np.concatenate([self.sizes, self.sizes])  # of every row
        self.first = np.cumsum(self.both) - self.both  # of a row's entries
        self.offset = np.cumsum(dimensions) - dimensions  # of a node's entries
        self.half = int(self.sizes.sum())
        self.shape = (2 * self.half,)
        self.x_shape = (int(dimensions.sum()),)
        self.C = self._matrix(dtype)
        self._transposed = self.C.T.tocsr()

    def _sizes(self) -> Indices:
        """How many rows the two matrices of every edge have."""
        count = self.incidence.count
        sizes = self.dimensions[self.incidence.holder[:count]].astype(np.intp)
        for e, B in enumerate(self.matrices[:count]):
            if B is not None:
                sizes[e] = len(B)
        return sizes

    def _matrix(self, dtype: np.dtype[Any]) -> Any:
        """C, from the entries of all B_{i|j} that are not zero."""
        entries: list[Any] = []
        down: list[Any] = []
        across: list[Any] = []
        for row, (B, node) in enumerate(zip(self.matrices, self.incidence.holder, strict=True)):
            block = np.eye(self.dimensions[node]) if B is None else B
            rows, columns = np.nonzero(block)
            entries.append(block[rows, columns])
            down.append(rows + self.first[row])
            across.append(columns + self.offset[node])
        return sparse.csr_array(
            (_stacked(entries), (_stacked(down), _stacked(across))),
            shape=(self.shape[0], self.x_shape[0]),
            dtype=dtype,
        )

    def spread(self, x: Floats, out: Floats) -> Floats:
        out[...] = self.C @ x
        return out

    def gather(self, z: Floats) -> Floats:
        return np.asarray(self._transposed @ z)

    def entries(self, rows: Indices) -> Indices:
        """Where the entries of some rows stand in an array of all."""
        return ranges(self.first[rows], self.both[rows])

    def parts(self, nodes: Indices, cuts: Sequence[int]) -> Iterator[Part]:
        for a, b in pairwise([0, *cuts, len(nodes)]):
            yield ConstrainedPart(self, nodes[a:b])

    def entries_of(self, messages: Indices | None, flags: Flags) -> Flags:
        return np.repeat(flags, self.both if messages is None else self.both[messages])

    def stiffness(self, nodes: Indices, dimension: int) -> npt.NDArray[np.float64]:
        G = np.zeros((len(nodes), dimension, dimension))
        for k, node in enumerate(nodes):
            for row in self.incidence.of_one(node):
                B = self.matrices[row]
                G[k] += np.eye(dimension) if B is None else B.T @ B
        diagonal = np.einsum("kii->ki", G)
        if np.count_nonzero(G) > np.count_nonzero(diagonal):
            return G
        same = diagonal[:, :1]
        return np.array(same if (diagonal == same).all() else diagonal)

    def differences(self, X: Floats) -> Iterator[Floats]:
        apart = (self.C[: self.half] - self.C[self.half :]) @ X.T
        yield np.asarray(apart).T

    def of_row(self, values: Floats, row: int) -> Floats:
        return values[self.entries(np.array([row]))]

    def mean_stiffness(self) -> npt.NDArray[np.float64]:
        squares = np.zeros(self.incidence.nodes)
        for B, node in zip(self.matrices, self.incidence.holder, strict=True):
            squares[node] += 1.0 if B is None else float((B * B).sum()) / B.shape[1]
        return squares

    def modes(self) -> Modes:
        linked = linked_components(self.incidence)
        columns = np.repeat(linked.labels, np.where(linked.held, self.dimensions, 0))
        if np.bincount(columns).max(initial=0) > DENSE:
            return self._assumed_modes(linked)
        return self._exact_modes(linked)

    def _exact_modes(self, linked: Linked) -> Modes:
        """By the eigenvalues of every component."""
        C = self.C.astype(np.float64)
        row_nodes = np.repeat(self.incidence.holder, self.both)
        column_nodes = np.repeat(np.arange(self.incidence.nodes), self.dimensions)
        rows_of = _grouped(linked.labels[row_nodes], linked.number)
        held = np.flatnonzero(linked.held[column_nodes])
        columns_of = [
            held[own] for own in _grouped(linked.labels[column_nodes[held]], linked.number)
        ]
        found = [
            modes_of_component(
                C[rows][:, columns].toarray(), row_nodes[rows], column_nodes[columns]
            )
            for rows, columns in zip(rows_of, columns_of, strict=True)
        ]
        size = self.x_shape[0]
        return Modes(
            common=Along(columns_of, [part.common for part in found], self.offset, size),
            slow=Along(columns_of, [part.slow for part in found], self.offset, size),
            gap=np.array([part.gap for part in found]),
        )

    def _assumed_modes(self, linked: Linked) -> Modes:
        """By the sizes of the matrices alone: as if all rows had the same B_{i|j} x_i."""
        rows = np.bincount(self.incidence.holder, self.both, self.incidence.nodes)
        total = np.bincount(linked.labels, rows, linked.number)[linked.labels]
        squares = self.mean_stiffness() * self.dimensions
        some = squares > 0
        weights = np.zeros(self.incidence.nodes)
        ranks = np.minimum(rows, self.dimensions)
        weights[some] = (rows * ranks / total)[some] / squares[some]
        directions = ByNode(weights, linked.labels, linked.number)
        gap = np.full(linked.number, 1 - ASSUMED)
        return Modes(directions, directions, gap, doubt="assumed")

    def allowed(self) -> Kernel:
        C = self.C.astype(np.float64)
        return Kernel((C[: self.half] - C[self.half :]).tocsr(), self.offset)


class ConstrainedPart(Part):
    """Some nodes of a graph with constraints."""

    def __init__(self, edges: Constrained, nodes: Indices) -> None:
        self.messages = edges.incidence.of(nodes)
        self.rows = edges.entries(self.messages)
        self.partner = edges.entries(edges.incidence.partner(self.messages))
        columns = ranges(edges.offset[nodes], edges.dimensions[nodes])
        self.C = edges.C[self.rows][:, columns]

    def spread(self, x: Floats) -> Floats:
        return np.asarray(self.C @ x)

    def gather(self, z: Floats) -> Floats:
        return np.asarray(self.C.T @ z)


def _grouped(labels: Indices, count: int) -> list[Indices]:
    """For each label, where it stands, in order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])


def _stacked(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else np.empty(0)
