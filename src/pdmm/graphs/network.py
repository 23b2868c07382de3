"""A network: a graph, a function at every node, a constraint on every edge."""

import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.checks import floats
from pdmm.graphs.edges import Consensus, Constrained, Edges, Incidence, Indices
from pdmm.problems.base import Floats, Problem
from pdmm.problems.elementary import Zero

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
        self.nodes, u, v = _read(graph)
        self.position: dict[Node, int] = {node: i for i, node in enumerate(self.nodes)}
        self.incidence = Incidence(len(self.nodes), u, v)
        self.problems = _functions(functions, self.nodes)
        self.dimensions: Indices = np.repeat(
            [problem.dimension for problem in self.problems],
            [problem.clients for problem in self.problems],
        )
        self.dtype = _dtype(self.problems)
        self.edges: Edges = self._edges(constraints)
        self.components = self._components()
        self._warn_of_components()

    def __repr__(self) -> str:
        d = self.dimensions
        size = f"{d[0]}" if (d == d[0]).all() else f"{d.min()}..{d.max()}"
        parts = int(self.components.max()) + 1
        return (
            f"Network({len(self.nodes)} nodes, {self.incidence.count} edges, dimension {size}"
            f"{f', {parts} components' if parts > 1 else ''})"
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
        return isinstance(self.edges, Consensus)

    def name(self, i: int) -> str:
        """The i-th node as messages call it."""
        return f"node {self.nodes[i]!r}"

    def edge(self, row: int) -> tuple[Node, Node]:
        """The nodes i, j of the row that i holds."""
        return (
            self.nodes[self.incidence.holder[row]],
            self.nodes[self.incidence.sender[row]],
        )

    # --- constraints ----------------------------------------------------------------------

    def _edges(self, constraints: Mapping[Any, Any] | None) -> Edges:
        given = {} if constraints is None else self._matrices(constraints)
        count, held = self.incidence.count, self.dimensions[self.incidence.holder]
        for e in np.flatnonzero(held[:count] != held[count:]).tolist():
            if e in given or e + count in given:
                continue
            i, j = self.edge(e)
            raise ValueError(
                f"x of node {i!r} has {held[e]} entries and x of node {j!r} has {held[e + count]}, "
                "so that x_i = x_j has no meaning on their edge: give its B matrices in "
                "constraints"
            )
        if not given:
            return Consensus(self.incidence, int(self.dimensions[0]), self.dtype)
        for row in given:
            if (row + count) % (2 * count) not in given:
                i, j = self.edge(row)
                raise ValueError(
                    f"constraints has a matrix for ({i!r}, {j!r}) but none for ({j!r}, {i!r}): "
                    "both ends of the edge need one"
                )
        for e in range(count):
            if e in given and len(given[e]) != len(given[e + count]):
                i, j = self.edge(e)
                raise ValueError(
                    f"constraints are inconsistent on the edge of {i!r} and {j!r}: B_{{i|j}} has "
                    f"{len(given[e])} rows and B_{{j|i}} has {len(given[e + count])}"
                )
        return Constrained(
            self.incidence,
            [given.get(row) for row in range(2 * count)],
            self.dimensions,
            self.dtype,
        )

    def _matrices(self, constraints: Any) -> dict[int, Floats]:
        """B_{i|j} by row, of the edges that have one."""
        if not isinstance(constraints, Mapping):
            raise ValueError(
                "constraints must be a dict with B_{i|j} under the key (i, j), or None, got "
                f"{type(constraints).__name__}"
            )
        rows = {
            (i, j): row
            for row, (i, j) in enumerate(
                zip(self.incidence.holder, self.incidence.sender, strict=True)
            )
        }
        given: dict[int, Floats] = {}
        for key, value in constraints.items():
            ends: Any = ()
            if isinstance(key, tuple) and len(key) == 2:
                ends = tuple(self.position.get(node) for node in key)
            if ends not in rows:
                raise ValueError(f"constraints has the key {key!r}, which is not an edge (i, j)")
            pair = _is_pair(value)
            parts = [(ends, value[0]), (ends[::-1], value[1])] if pair else [(ends, value)]
            for (i, j), part in parts:
                if rows[i, j] in given:
                    raise ValueError(
                        f"constraints has B_{{i|j}} for i = {self.nodes[i]!r}, "
                        f"j = {self.nodes[j]!r} twice"
                    )
                given[rows[i, j]] = self._matrix(i, j, part)
        return given

    def _matrix(self, i: int, j: int, value: Any) -> Floats:
        d = int(self.dimensions[i])
        name = f"constraints[{self.nodes[i]!r}, {self.nodes[j]!r}]"
        if sparse.issparse(value):
            value = value.toarray()
        if np.ndim(value) == 0:
            value = floats(name, value, 0) * np.eye(d)
        B = np.array(floats(name, value, 2), dtype=np.float64)  # a copy: it must not change
        if len(B) == 0:
            raise ValueError(f"{name} has no rows")
        if B.shape[1] != d:
            raise ValueError(
                f"{name} must have {d} columns, as many as x of node {self.nodes[i]!r} has "
                f"entries, got shape {B.shape}"
            )
        return B

    # --- components -----------------------------------------------------------------------

    def _components(self) -> npt.NDArray[np.int32]:
        n, count = len(self.nodes), self.incidence.count
        u, v = self.incidence.holder[:count], self.incidence.sender[:count]
        links = sparse.coo_array((np.ones(count, np.int8), (u, v)), shape=(n, n))
        labels = sparse.csgraph.connected_components(links, directed=False)[1]
        return np.asarray(labels)

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


class NodeVectors(Mapping[Any, Floats]):
    """A vector for every node, by its name; ``numpy.asarray`` of it has them as rows."""

    def __init__(self, network: Network, flat: Floats) -> None:
        self.network, self.flat = network, flat.reshape(-1)

    def __getitem__(self, node: Any) -> Floats:
        try:
            i = self.network.position[node]
        except (KeyError, TypeError):
            raise KeyError(f"the network has no node {node!r}") from None
        first = self.network.offsets[i]
        return self.flat[first : first + self.network.dimensions[i]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.network.nodes)

    def __len__(self) -> int:
        return len(self.network.nodes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        d = self.network.dimensions
        if not (d == d[0]).all():
            raise ValueError("the nodes' vectors have different lengths: they are not one array")
        rows = self.flat.reshape(len(d), d[0])
        return np.array(rows, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"NodeVectors({len(self)} nodes)"


def _is_pair(value: Any) -> bool:
    """Whether it is two matrices (or numbers), and not the rows of one matrix."""
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != 2:
        return False
    if isinstance(value, tuple) and all(isinstance(part, np.ndarray) for part in value):
        return True
    return all(sparse.issparse(part) or np.ndim(part) in (0, 2) for part in value)


def _read(graph: Any) -> tuple[list[Any], Indices, Indices]:
    """The nodes, and the two ends of every edge as positions among them."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise ValueError(f"graph must be a networkx graph, got {type(graph).__name__}")
    if graph.is_directed():
        raise ValueError("graph is directed, but messages go both ways: try graph.to_undirected()")
    if graph.is_multigraph():
        raise ValueError(
            "graph is a multigraph, but nodes share one edge: try networkx.Graph(graph)"
        )
    nodes = list(graph.nodes)
    if not nodes:
        raise ValueError("graph has no nodes")
    position = {node: i for i, node in enumerate(nodes)}
    ends = np.fromiter(
        (position[node] for edge in graph.edges for node in edge),
        dtype=np.intp,
        count=2 * graph.number_of_edges(),
    ).reshape(-1, 2)
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(loops):
        raise ValueError(
            f"node {nodes[ends[loops[0], 0]]!r} has an edge to itself: remove such edges, e.g. "
            "graph.remove_edges_from(networkx.selfloop_edges(graph))"
        )
    ends.sort(axis=1)
    ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]  # neighbours in memory are neighbours
    return nodes, ends[:, 0].copy(), ends[:, 1].copy()


def _functions(functions: Any, nodes: list[Any]) -> list[Problem]:
    """Problems whose clients are the nodes, in order."""
    if isinstance(functions, Problem):
        functions = [functions]
    if isinstance(functions, Mapping):
        known = set(nodes)
        for node in functions:
            if node not in known:
                raise ValueError(f"functions has {node!r}, which is not a node of the graph")
        for node in nodes:
            if node not in functions:
                raise ValueError(f"functions has no function for node {node!r}")
            one = functions[node]
            if isinstance(one, Problem) and one.clients != 1:
                raise ValueError(
                    f"functions[{node!r}] must be one function, got one with {one.clients} clients"
                )
        functions = [functions[node] for node in nodes]
    if isinstance(functions, np.ndarray):
        functions = functions.tolist()
    if isinstance(functions, (str, bytes)) or not isinstance(functions, Sequence):
        raise ValueError(
            "functions must be a list of node functions, a dict of them, or a problem with a "
            f"client for every node, got {type(functions).__name__}"
        )
    for k, function in enumerate(functions):
        if not isinstance(function, Problem):
            raise ValueError(
                f"functions[{k}] must be a function such as pdmm.Quadratic(H, c), pdmm.Absolute(a) "
                f"or pdmm.Functions([value], [gradient], d), got {function!r}"
            )
    count = sum(function.clients for function in functions)
    if count != len(nodes):
        several = "" if count > 1 else "; many at once have a row each: Quadratic(1.0, c[:, None])"
        raise ValueError(
            f"there are functions for {count} nodes, but the graph has {len(nodes)} nodes{several}"
        )
    return list(functions)


def _dtype(problems: list[Problem]) -> np.dtype[Any]:
    """float32 if all functions are (of Zero, nothing is known), else float64."""
    kinds = {problem.dtype for problem in problems if not isinstance(problem, Zero)}
    return np.dtype(np.float32) if kinds == {np.dtype(np.float32)} else np.dtype(np.float64)
