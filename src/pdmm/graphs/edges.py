"""The edges of a graph as stacked arrays: C x puts node vectors on edges, C'z sums them at nodes.

An edge e between u and v has two rows. Row e is held by u: it has what v last sent to u. Row
E + e is held by v. So the partner of a row, the same edge as the other end sees it, is found in
the other half, and a message sent is half an array moved. C maps all x_i to B_{i|j} x_i, one
row for the end i of every edge.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.problems.base import Floats

Indices = npt.NDArray[np.intp]


def ranges(starts: Indices, counts: Indices) -> Indices:
    """starts[0], starts[0] + 1, ... (counts[0] of them), starts[1], ..., one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - counts), counts))


class Incidence:
    """Which rows each node holds.

    Args:
        nodes: how many there are.
        u: one end of every edge.
        v: the other end.
    """

    def __init__(self, nodes: int, u: Indices, v: Indices) -> None:
        self.nodes, self.count = nodes, len(u)
        self.holder: Indices = np.concatenate([u, v])
        self.sender: Indices = np.concatenate([v, u])
        self.degree: Indices = np.bincount(self.holder, minlength=nodes)
        self.rows: Indices = np.argsort(self.holder, kind="stable")  # by node
        self.first: Indices = np.cumsum(self.degree) - self.degree

    def of(self, nodes: Indices) -> Indices:
        """The rows of some nodes, node after node."""
        return self.rows[ranges(self.first[nodes], self.degree[nodes])]

    def neighbours(self, node: int) -> Indices:
        """The nodes at the other ends of a node's edges."""
        first = self.first[node]
        return self.sender[self.rows[first : first + self.degree[node]]]

    def partner(self, rows: Indices) -> Indices:
        """The rows of the same edges at their other ends."""
        return np.where(rows < self.count, rows + self.count, rows - self.count)


class Part(ABC):
    """Some nodes, none of them neighbours, and what they hold."""

    rows: Indices
    """Where they hold it."""
    partner: Indices
    """Where their neighbours hold the same edges."""
    messages: Indices
    """The messages that they send, by their own rows."""

    @abstractmethod
    def spread(self, x: Floats) -> Floats:
        """B_{i|j} x_i on the rows, from the nodes' entries of x one after the other."""

    @abstractmethod
    def gather(self, z: Floats) -> Floats:
        """The sum over j of B_{i|j}' z_{j|i}, from what is on the rows."""


class Edges(ABC):
    """C of all edges."""

    incidence: Incidence
    sizes: Indices
    """Numbers in a message, edge by edge."""
    shape: tuple[int, ...]
    """Of an array with all rows."""
    x_shape: tuple[int, ...]
    """Of an array with all x_i."""

    @abstractmethod
    def spread(self, x: Floats, out: Floats) -> Floats:
        """C x: B_{i|j} x_i on every row."""

    @abstractmethod
    def gather(self, z: Floats) -> Floats:
        """C'z: the sum over j of B_{i|j}' z_{j|i} at every node."""

    @abstractmethod
    def parts(self, nodes: Indices, cuts: Sequence[int]) -> Iterator[Part]:
        """Nodes in parts, cut where the cuts say; no two of a part are neighbours."""

    @abstractmethod
    def entries_of(self, messages: Indices | None, flags: npt.NDArray[np.bool_]) -> Any:
        """A flag for every entry, from one for every message (None: of all rows)."""

    @abstractmethod
    def stiffness(self, nodes: Indices, dimension: int) -> npt.NDArray[np.float64]:
        """Sums over j of B_{i|j}'B_{i|j}: (k, 1) or (k, d) if these are diagonal, or (k, d, d)."""


class Consensus(Edges):
    """x_i = x_j on every edge: C only copies.

    Args:
        incidence: of the graph.
        dimension: of every x_i.
        dtype: of the run.
    """

    def __init__(self, incidence: Incidence, dimension: int, dtype: np.dtype[Any]) -> None:
        self.incidence, n, rows = incidence, incidence.nodes, len(incidence.holder)
        self.sizes = np.full(incidence.count, dimension)
        # Plain vectors, where x_i is a number: they are faster than arrays of one column.
        tail = () if dimension == 1 else (dimension,)
        self.shape, self.x_shape = (rows, *tail), (n, *tail)
        index = np.int32 if rows < 2**31 - 1 else np.int64
        starts = np.append(incidence.first, rows).astype(index)
        ones = np.ones(rows, dtype)
        self._sum = sparse.csr_array(
            (ones, incidence.rows.astype(index), starts), shape=(n, rows), copy=False
        )

    def spread(self, x: Floats, out: Floats) -> Floats:
        return np.take(x, self.incidence.holder, axis=0, out=out, mode="clip")

    def gather(self, z: Floats) -> Floats:
        return np.asarray(self._sum @ z)

    def parts(self, nodes: Indices, cuts: Sequence[int]) -> Iterator[Part]:
        incidence = self.incidence
        rows, degree = incidence.of(nodes), incidence.degree[nodes]
        partner = incidence.partner(rows)
        first = np.concatenate([[0], np.cumsum(degree)])
        alone = bool((degree == 0).any())
        for a, b in pairwise([0, *cuts, len(nodes)]):
            here = slice(first[a], first[b])
            yield ConsensusPart(
                rows[here], partner[here], degree[a:b], first[a:b] - first[a], alone
            )

    def entries_of(self, messages: Indices | None, flags: npt.NDArray[np.bool_]) -> Any:
        return flags if len(self.shape) == 1 else flags[:, None]

    def stiffness(self, nodes: Indices, dimension: int) -> npt.NDArray[np.float64]:
        return self.incidence.degree[nodes].astype(np.float64)[:, None]


class ConsensusPart(Part):
    """Some nodes of a graph on which all agree."""

    def __init__(
        self, rows: Indices, partner: Indices, degree: Indices, first: Indices, alone: bool
    ) -> None:
        self.rows = self.messages = rows
        self.partner, self.degree, self.first, self.alone = partner, degree, first, alone

    def spread(self, x: Floats) -> Floats:
        return np.repeat(x, self.degree, axis=0)

    def gather(self, z: Floats) -> Floats:
        if not self.alone:
            return np.add.reduceat(z, self.first, axis=0)
        sums = np.zeros((len(self.degree), *z.shape[1:]), z.dtype)
        some = self.degree > 0
        if some.any():
            sums[some] = np.add.reduceat(z, self.first[some], axis=0)
        return sums


class Constrained(Edges):
    """B_{i|j} x_i = B_{j|i} x_j with a user's matrices: C is a sparse matrix.

    Args:
        incidence: of the graph.
        matrices: B_{i|j} of every row, None for the identity.
        dimensions: of every x_i.
        dtype: of the run.
    """

    def __init__(
        self,
        incidence: Incidence,
        matrices: list[Floats | None],
        dimensions: Indices,
        dtype: np.dtype[Any],
    ) -> None:
        self.incidence, self.dimensions = incidence, dimensions
        self.matrices, self.count = matrices, incidence.count
        held = dimensions[incidence.holder]
        sizes = [int(d) if B is None else len(B) for B, d in zip(matrices, held, strict=True)]
        self.sizes = np.array(sizes[: self.count], dtype=np.intp)
        self.both = both = np.concatenate([self.sizes, self.sizes])  # of every row
        self.first = np.cumsum(both) - both  # of a row's entries
        self.offset = np.cumsum(dimensions) - dimensions  # of a node's entries
        self.half = int(self.sizes.sum())
        self.shape, self.x_shape = (2 * self.half,), (int(dimensions.sum()),)
        entries, down, across = [], [], []
        for row, (B, d) in enumerate(zip(matrices, held, strict=True)):
            block = np.eye(d) if B is None else B
            rows, columns = np.nonzero(block)
            entries.append(block[rows, columns])
            down.append(rows + self.first[row])
            across.append(columns + self.offset[incidence.holder[row]])
        self.C = sparse.csr_array(
            (_stacked(entries), (_stacked(down), _stacked(across))),
            shape=(self.shape[0], self.x_shape[0]),
            dtype=dtype,
        )
        self._transposed = self.C.T.tocsr()

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

    def entries_of(self, messages: Indices | None, flags: npt.NDArray[np.bool_]) -> Any:
        return np.repeat(flags, self.both if messages is None else self.both[messages])

    def stiffness(self, nodes: Indices, dimension: int) -> npt.NDArray[np.float64]:
        G = np.zeros((len(nodes), dimension, dimension))
        for k, rows in enumerate(np.split(self.incidence.of(nodes), self._cuts(nodes))):
            for row in rows:
                B = self.matrices[row]
                G[k] += np.eye(dimension) if B is None else B.T @ B
        diagonal = np.einsum("kii->ki", G)
        if np.count_nonzero(G) > np.count_nonzero(diagonal):
            return G
        same = diagonal[:, :1]
        return np.array(same if (diagonal == same).all() else diagonal)

    def _cuts(self, nodes: Indices) -> Indices:
        return np.asarray(np.cumsum(self.incidence.degree[nodes])[:-1])


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


def _stacked(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else np.empty(0)
