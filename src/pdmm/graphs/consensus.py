"""Edges on which both ends agree: x_i = x_j."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.graphs.agreement import Agreement
from pdmm.graphs.edges import Edges, Flags, Part
from pdmm.graphs.incidence import Incidence, Indices
from pdmm.graphs.modes import Modes
from pdmm.graphs.spectrum import modes_of_graph
from pdmm.problems.block import Floats

CACHED = 2**15  # numbers that are worked on at a time


class Consensus(Edges):
    """x_i = x_j on every edge: C only copies.

    Args:
        incidence: of the graph.
        dimension: of every x_i.
        dtype: of the run.
    """

    consensus = True
    why_singular = "its numbers are too far apart; try a larger rho"

    def __init__(self, incidence: Incidence, dimension: int, dtype: np.dtype[Any]) -> None:
        self.incidence = incidence
        self.dimension = dimension
        self.sizes = np.full(incidence.count, dimension)
        rows = len(incidence.holder)
        # Plain vectors, where x_i is a number: they are faster than arrays of one column.
        tail = () if dimension == 1 else (dimension,)
        self.shape = (rows, *tail)
        self.x_shape = (incidence.nodes, *tail)
        index = np.int32 if rows < 2**31 - 1 else np.int64
        starts = np.append(incidence.first, rows).astype(index)
        ones = np.ones(rows, dtype)
        self._sum = sparse.csr_array(
            (ones, incidence.rows.astype(index), starts), shape=(incidence.nodes, rows), copy=False
        )

    def spread(self, x: Floats, out: Floats) -> Floats:
        return np.take(x, self.incidence.holder, axis=0, out=out, mode="clip")

    def gather(self, z: Floats) -> Floats:
        return np.asarray(self._sum @ z)

    def parts(self, nodes: Indices, cuts: Sequence[int]) -> Iterator[Part]:
        rows = self.incidence.of(nodes)
        partner = self.incidence.partner(rows)
        degree = self.incidence.degree[nodes]
        first = np.concatenate([[0], np.cumsum(degree)])
        alone = bool((degree == 0).any())
        for a, b in pairwise([0, *cuts, len(nodes)]):
            here = slice(first[a], first[b])
            yield ConsensusPart(
                rows[here], partner[here], degree[a:b], first[a:b] - first[a], alone
            )

    def entries_of(self, messages: Indices | None, flags: Flags) -> Flags:
        return flags if len(self.shape) == 1 else flags[:, None]

    def stiffness(self, nodes: Indices, dimension: int) -> npt.NDArray[np.float64]:
        return self.incidence.degree[nodes].astype(np.float64)[:, None]

    def differences(self, X: Floats) -> Iterator[Floats]:
        u, v = self.incidence.ends
        points = X.reshape(len(X), *self.x_shape)
        # As many at a time as stay in cache: there are as many differences as edges.
        few = max(1, CACHED // max(1, self.incidence.count * self.dimension))
        for k in range(0, len(points), few):
            some = points[k : k + few]
            yield np.take(some, u, axis=1) - np.take(some, v, axis=1)

    def of_row(self, values: Floats, row: int) -> Floats:
        return np.atleast_1d(values[row])

    def mean_stiffness(self) -> npt.NDArray[np.float64]:
        return self.incidence.degree.astype(np.float64)

    def modes(self) -> Modes:
        return modes_of_graph(self.incidence)

    def allowed(self) -> Agreement:
        return Agreement(self.incidence.components, self.dimension)


class ConsensusPart(Part):
    """Some nodes of a graph on which all agree.

    Args:
        rows: where they hold what they heard.
        partner: the rows of their neighbours.
        degree: how many rows each of them has.
        first: where the rows of each begin among these.
        alone: whether some of them may have no row.
    """

    def __init__(
        self, rows: Indices, partner: Indices, degree: Indices, first: Indices, alone: bool
    ) -> None:
        self.rows = self.messages = rows
        self.partner = partner
        self.degree = degree
        self.first = first
        self.alone = alone

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
