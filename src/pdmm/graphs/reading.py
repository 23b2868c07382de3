"""What a user gives for a network, checked: a graph, and a function for every node."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdmm.graphs.incidence import Indices
from pdmm.problems.base import Problem
from pdmm.problems.elementary import Zero


class Graph(NamedTuple):
    """The nodes, and the two ends of every edge as positions among them."""

    nodes: list[Any]
    u: Indices
    v: Indices


def read_graph(graph: Any) -> Graph:
    """The nodes and edges of an undirected networkx graph."""
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
    return Graph(nodes, ends[:, 0].copy(), ends[:, 1].copy())


def read_functions(functions: Any, nodes: list[Any]) -> list[Problem]:
    """Problems whose clients are the nodes, in order."""
    listed = _listed(functions, nodes)
    for k, function in enumerate(listed):
        if not isinstance(function, Problem):
            raise ValueError(
                f"functions[{k}] must be a function such as pdmm.Quadratic(H, c), pdmm.Absolute(a) "
                f"or pdmm.Functions([value], [gradient], d), got {function!r}"
            )
    count = sum(function.clients for function in listed)
    if count != len(nodes):
        several = "" if count > 1 else "; many at once have a row each: Quadratic(1.0, c[:, None])"
        raise ValueError(
            f"there are functions for {count} nodes, but the graph has {len(nodes)} nodes{several}"
        )
    return listed


def _listed(functions: Any, nodes: list[Any]) -> list[Any]:
    """A list of what was given as one problem, a dict, an array or a list."""
    if isinstance(functions, Problem):
        return [functions]
    if isinstance(functions, Mapping):
        return _by_node(functions, nodes)
    if isinstance(functions, np.ndarray):
        functions = functions.tolist()
    if isinstance(functions, (str, bytes)) or not isinstance(functions, Sequence):
        raise ValueError(
            "functions must be a list of node functions, a dict of them, or a problem with a "
            f"client for every node, got {type(functions).__name__}"
        )
    return list(functions)


def _by_node(functions: Mapping[Any, Any], nodes: list[Any]) -> list[Any]:
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
    return [functions[node] for node in nodes]


def common_dtype(problems: list[Problem]) -> np.dtype[Any]:
    """float32 if all functions are (of Zero, nothing is known), else float64."""
    kinds = {problem.dtype for problem in problems if not isinstance(problem, Zero)}
    return np.dtype(np.float32) if kinds == {np.dtype(np.float32)} else np.dtype(np.float64)
