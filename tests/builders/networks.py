"""Networks twice, as the product holds them and as naive twins do, and runs side by side."""

import importlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.common.threads import Threads
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.nodes.grouping import grouped
from twins import networks as nt
from twins.networks import Function, Graph, Matrix, Node, Vector

nx: Any = importlib.import_module("networkx")

Generator = np.random.Generator
ROUNDING = 1e-12
QUADRATICS = [pdmm.Quadratic(1.0, [float(i)]) for i in range(3)]


@dataclass
class Case:
    """A network twice: as the product holds it, and as plain dicts."""

    network: pdmm.Network
    twin: Graph

    @property
    def nodes(self) -> list[Node]:
        return self.twin.nodes

    def start(self, rng: Generator) -> dict[Node, Vector]:
        return {node: rng.standard_normal(f.d) for node, f in self.twin.functions.items()}


def build(
    graph: Any,
    functions: dict[Node, tuple[pdmm.Problem, Function]],
    given: dict[tuple[Node, Node], Matrix] | None = None,
    constraints: Any = None,
) -> Case:
    nodes, edges = list(graph.nodes), [tuple(edge) for edge in graph.edges]
    network = pdmm.Network(
        graph,
        [functions[node][0] for node in nodes],
        given if constraints is None else constraints,
    )
    twin = Graph(nodes, edges, {node: functions[node][1] for node in nodes}, given or {})
    return Case(network, twin)


def positive_definite(rng: Generator, d: int) -> Matrix:
    M = rng.standard_normal((d, d))
    return M @ M.T / d + 0.3 * np.eye(d)


def some_quadratic(rng: Generator, d: int) -> tuple[pdmm.Problem, Function]:
    H: Any = [positive_definite(rng, d), rng.uniform(0.3, 3, d), float(rng.uniform(0.3, 3))][
        int(rng.integers(3))
    ]
    c = rng.standard_normal(d)
    return pdmm.Quadratic(H, c), nt.quadratic(H, c)


def some_function(rng: Generator, d: int) -> tuple[pdmm.Problem, Function]:
    kind = int(rng.integers(6))
    if kind == 0:
        return pdmm.Zero(d), nt.zero(d)
    if kind == 1:
        a = rng.standard_normal(d)
        return pdmm.Absolute(a), nt.absolute(a)
    if kind == 2:
        A, b = rng.standard_normal((d + 2, d)), rng.standard_normal(d + 2)
        return pdmm.LeastSquares([A], [b]), with_constant(
            nt.quadratic(A.T @ A, A.T @ b), float(b @ b) / 2
        )
    return some_quadratic(rng, d)


def with_constant(f: Function, constant: float) -> Function:
    return Function(f.d, f.update, lambda x: f.value(x) + constant, f.gradient, f.H, f.c)


def connected(rng: Generator, n: int, label: Callable[[int], Node] = lambda k: k) -> Any:
    """A random tree with some more edges; nodes and edges in no particular order."""
    graph = nx.Graph()
    graph.add_nodes_from(label(int(k)) for k in rng.permutation(n))
    for k in range(1, n):
        graph.add_edge(label(k), label(int(rng.integers(k))))
    for i, j in itertools.combinations(range(n), 2):
        if rng.random() < 0.3:
            graph.add_edge(label(j), label(i))
    return graph


def consensus_case(seed: int, n: int, d: int, mixed: bool = True, isolated: int = 0) -> Case:
    rng = np.random.default_rng([seed, n, d])
    graph = connected(rng, n)
    make = some_function if mixed else some_quadratic
    functions = {node: make(rng, d) for node in graph.nodes}
    if n == 1:
        functions = {node: some_quadratic(rng, d) for node in graph.nodes}
    for k in range(n, n + isolated):
        graph.add_node(k)
        functions[k] = some_quadratic(rng, d)
    return build(graph, functions)


def constrained_case(seed: int, n: int, largest: int = 3, isolated: int = 0) -> Case:
    """Random B: x_i of different lengths, different numbers of rows, some edges without B."""
    rng = np.random.default_rng([seed, n, 99])

    def label(k: int) -> Node:
        return [k, f"node {k}", ("pair", k), (k, k + 1)][k % 4]

    graph = connected(rng, n, label)
    graph.add_nodes_from(label(k) for k in range(n, n + isolated))
    dims = {node: int(rng.integers(1, largest + 1)) for node in graph.nodes}
    functions = {node: some_quadratic(rng, dims[node]) for node in graph.nodes}
    given: dict[tuple[Node, Node], Matrix] = {}
    constraints: dict[Any, Any] = {}
    for i, j in graph.edges:
        if dims[i] == dims[j] and rng.random() < 0.4:
            continue
        rows = int(rng.integers(1, largest + 1))
        first, second = (rng.standard_normal((rows, dims[node])) for node in (i, j))
        if dims[i] == dims[j] and rng.random() < 0.3:
            numbers = float(rng.uniform(0.5, 2)), float(rng.uniform(-2, -0.5))
            first, second = (number * np.eye(dims[i]) for number in numbers)
            constraints[j, i] = numbers[::-1]
        elif rng.random() < 0.5:
            constraints[i, j], constraints[j, i] = first, second.tolist()
        else:
            constraints[i, j] = (first, second) if rng.random() < 0.5 else [first, second]
        given[i, j], given[j, i] = first, second
    return build(graph, functions, given, constraints)


def flat(vectors: Mapping[Any, Any], nodes: list[Node]) -> Vector:
    return np.concatenate([np.asarray(vectors[node], dtype=np.float64) for node in nodes])


def assert_same(
    mine: Mapping[Any, Any],
    theirs: Mapping[Any, Any],
    tolerance: float = ROUNDING,
    scale: float = 0,
) -> None:
    """Equal up to rounding, relative to the largest entry of all."""
    assert set(mine) == set(theirs)
    keys = list(theirs)
    if not keys:
        return
    a, b = flat(mine, keys), flat(theirs, keys)
    scale = max(scale, float(np.abs(b).max()), 1e-300)
    assert float(np.abs(a - b).max()) <= tolerance * scale


def sequences(case: Case, order: list[Node] | None, seed: int) -> Any:
    """Activations, iteration by iteration."""
    n = len(case.nodes)
    if order is None:
        rng = np.random.default_rng(seed)
        while True:
            yield [case.nodes[k] for k in rng.permutation(n)]
    endless = itertools.cycle(order)
    while True:
        yield list(itertools.islice(endless, n))


def follow(
    case: Case,
    twin: Any,
    step: Callable[[], None],
    iterations: int = 25,
    tolerance: float = ROUNDING,
    **settings: Any,
) -> pdmm.NetworkResult:
    """Run the product with a twin at its side: the same x in every iteration, the same duals."""
    seen = []
    size = 0.0  # of the largest entry so far: rounding is relative to it, also where x shrinks

    def compare(iteration: int, x: Mapping[Any, Any]) -> None:
        nonlocal size
        step()
        seen.append(iteration)
        size = max(size, float(np.abs(np.concatenate(list(twin.x.values()))).max()))
        assert_same(x, twin.x, tolerance, size)

    result = pdmm.solve_network(
        case.network, iterations=iterations, callback=compare, optimum=False, **settings
    )
    assert seen == list(range(1, iterations + 1))
    assert_same(result.x, twin.x, tolerance, size)
    assert_same(result.dual, twin.lam, tolerance * 10, size * twin.rho)
    return result


def orders(case: Case, which: str, rng: Generator) -> list[Node] | None:
    n = len(case.nodes)
    if which == "random":
        return None
    if which == "permutation":
        return [case.nodes[k] for k in rng.permutation(n)]
    extra = [case.nodes[k] for k in rng.integers(0, n, n // 2 + 1)]  # repeats
    mixed = [*case.nodes, *extra]
    return [mixed[k] for k in rng.permutation(len(mixed))]


CASES: dict[str, Case] = {
    "numbers": consensus_case(1, 8, 1),
    "vectors": consensus_case(2, 7, 3),
    "quadratics": consensus_case(3, 9, 2, mixed=False),
    "constraints": constrained_case(4, 7),
    "more constraints": constrained_case(5, 9, 4),
}


def well_posed(count: int) -> list[int]:
    """Seeds of constrained cases in which no constraint is nearly void."""
    found: list[int] = []
    seed = 100
    while len(found) < count:
        singular = np.linalg.svd(
            constrained_case(seed, 6).twin.constraint_matrix(), compute_uv=False
        )
        if singular[singular > 1e-9 * singular[0]].min() > 0.05:
            found.append(seed)
        seed += 1
    return found


LIMITS: dict[str, Case] = {
    "consensus": consensus_case(21, 8, 3, mixed=False),
    "consensus of numbers": consensus_case(22, 10, 1, mixed=False),
    **{f"constraints {seed}": constrained_case(seed, 6) for seed in well_posed(5)},
}


def assert_kkt(result: pdmm.NetworkResult, twin: Graph, tolerance: float) -> None:
    """Feasible, duals opposite at the two ends, every function's slope held by its duals."""
    x, dual = result.x, result.dual
    for i, j in twin.edges:
        np.testing.assert_allclose(dual[i, j], -dual[j, i], atol=tolerance)
        np.testing.assert_allclose(twin.B[i, j] @ x[i], twin.B[j, i] @ x[j], atol=tolerance)
    for i in twin.nodes:
        slope = twin.functions[i].gradient
        assert slope is not None
        pull = sum((twin.B[i, j].T @ dual[i, j] for j in twin.neighbours[i]), 0 * x[i])
        np.testing.assert_allclose(slope(x[i].astype(np.float64)), pull, atol=tolerance)


def log_cosh(seed: int, d: int) -> tuple[Any, Any, Any, Function]:
    """q/2 ‖x - c‖² + sum log cosh(x - e): its value, gradient, prox, and twin."""
    rng = np.random.default_rng([seed, d, 1])
    q, c, e = float(rng.uniform(0.3, 2)), rng.standard_normal(d), rng.standard_normal(d)

    def parts(x: Vector) -> tuple[float, Vector, Matrix]:
        t = np.tanh(x - e)
        value = float(q / 2 * (x - c) @ (x - c) + np.log(np.cosh(x - e)).sum())
        return value, q * (x - c) + t, q * np.eye(d) + np.diag(1 - t**2)

    twin = nt.smooth(d, parts)

    def prox(v: Vector, t: float) -> Vector:
        return twin.update(np.eye(d) / t, v / t)

    return (lambda x: parts(x)[0]), (lambda x: parts(x)[1]), prox, twin


def softmax_data(seed: int, n: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((7, 1)) + i / 2 for i in range(n)]
    return X, [rng.integers(0, 2, 7) for _ in range(n)]


def unconnected(graph: Any, functions: Any, constraints: Any = None) -> pdmm.Network:
    with pytest.warns(RuntimeWarning, match="not connected"):
        return pdmm.Network(graph, functions, constraints)


def groups_of(network: pdmm.Network) -> list[Group]:
    """The nodes in groups, as a run has them."""
    with Threads(1) as threads:
        return grouped(network, threads)
