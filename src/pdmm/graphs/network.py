"""A network: a graph, a function at every node, a constraint on every edge."""

import warnings
from collections.abc import Hashable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.graphs.consensus import Consensus
from pdmm.graphs.constrained import Constrained
from pdmm.graphs.constraints import ConstraintReader
from pdmm.graphs.edges import Edges
from pdmm.graphs.incidence import Incidence, Indices
from pdmm.graphs.reading import common_dtype, read_functions, read_graph

Node = Hashable


class Network:
    """Minimise the sum over nodes of f_i(x_i), where B_{i|j} x_i = B_{j|i} x_j on every edge.

    Args:
        graph: an undirected networkx graph.
        functions: the nodes' functions, in the order of ``graph.nodes``: a list of
            ``pdmm.Quadratic(H, c)``, ``pdmm.Absolute(a)``, ``pdmm.Zero(d)``, or of problems with
            one client such as ``pdmm.LeastSquares([A], [b])`` or ``pdmm.Functions([value],
            [gradient], d)``; a dict from nodes to these; or one problem with a client for every
            node, such as ``pdmm.LeastSquares(A, b)``. In a list, a problem with several clients
            stands for as many nodes.
        constraints: None for x_i = x_j on every edge. Otherwise a dict with, for an edge of i and
            j, the matrices B_{i|j} (which multiplies x_i) under the key (i, j) and B_{j|i} under
            (j, i); or both as a pair under one of the keys. A number stands for that multiple of
            the identity. Edges that are not in it have x_i = x_j.

    A graph of several components is solved component by component, with a warning.

    Example:
        >>> import networkx as nx, numpy as np, pdmm
        >>> sensors = nx.cycle_graph(["north", "east", "south", "west"])
        >>> readings = [19.0, 21.0, 24.0, 20.0]
        >>> network = pdmm.Network(sensors, [pdmm.Quadratic(1.0, [a]) for a in readings])
        >>> result = pdmm.solve_network(network, rho=0.5)
        >>> result.x["west"].round(6).tolist()
        [21.0]
    """

    def __init__(
        self, graph: Any, functions: Any, constraints: Mapping[Any, Any] | None = None
    ) -> None:
        read = read_graph(graph)
        self.nodes = read.nodes
        self.position: dict[Node, int] = {node: i for i, node in enumerate(self.nodes)}
        self.incidence = Incidence(len(self.nodes), read.u, read.v)
        self.problems = read_functions(functions, self.nodes)
        self.dimensions: Indices = np.repeat(
            [problem.dimension for problem in self.problems],
            [problem.clients for problem in self.problems],
        )
        self.dtype = common_dtype(self.problems)
        self.edges = self._edges(constraints)
        self._warn_of_components()

    def _edges(self, constraints: Any) -> Edges:
        reader = ConstraintReader(self.nodes, self.position, self.incidence, self.dimensions)
        matrices = reader.read(constraints)
        if matrices is None and (self.dimensions == self.dimensions[0]).all():
            return Consensus(self.incidence, int(self.dimensions[0]), self.dtype)
        if matrices is None:  # x_i = x_j on every edge, but nodes without an edge have other sizes
            matrices = [None] * (2 * self.incidence.count)
        return Constrained(self.incidence, matrices, self.dimensions, self.dtype)

    def __repr__(self) -> str:
        d = self.dimensions
        size = f"{d[0]}" if (d == d[0]).all() else f"{d.min()}..{d.max()}"
        parts = int(self.components.max()) + 1
        several = f", {parts} components" if parts > 1 else ""
        return (
            f"Network({len(self.nodes)} nodes, {self.incidence.count} edges, dimension {size}"
            f"{several})"
        )

    @cached_property
    def offsets(self) -> Indices:
        """Where each node's entries begin in an array of all."""
        return np.asarray(np.cumsum(self.dimensions) - self.dimensions)

    def entries(self, nodes: Indices, dimension: int) -> Indices:
        """The entries of nodes of one dimension in an array of all, (nodes, dimension)."""
        return np.asarray(self.offsets[nodes][:, None] + np.arange(dimension))

    @property
    def consensus(self) -> bool:
        """Whether all constraints are x_i = x_j."""
        return self.edges.consensus

    @property
    def components(self) -> npt.NDArray[np.int32]:
        """A number for every node, the same for all nodes of a component."""
        return self.incidence.components

    def name(self, i: int) -> str:
        """The i-th node as messages call it."""
        return f"node {self.nodes[i]!r}"

    def edge(self, row: int) -> tuple[Node, Node]:
        """The nodes i, j of the row that i holds."""
        return (
            self.nodes[self.incidence.holder[row]],
            self.nodes[self.incidence.sender[row]],
        )

    def _warn_of_components(self) -> None:
        parts = int(self.components.max()) + 1
        if parts == 1:
            return
        alone = np.flatnonzero(self.incidence.degree == 0)
        which = ""
        if len(alone):
            some = ", ".join(repr(self.nodes[i]) for i in alone[:3])
            more = ", ..." if len(alone) > 3 else ""
            which = f"; isolated: {some}{more}"
        warnings.warn(
            f"the graph is not connected: it has {parts} components, which are solved on their "
            f"own and need not agree{which}",
            RuntimeWarning,
            stacklevel=3,
        )
