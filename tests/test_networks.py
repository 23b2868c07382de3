"""PDMM on graphs: iterates against naive twins, limits against KKT solves, and what is refused."""

import importlib
import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import network_twins as nt
import pdmm
from network_twins import Averaged, Function, Graph, Inexact, Losses, Matrix, Node, Pdmm, Vector
from pdmm.graphs.edges import Incidence
from pdmm.graphs.schedule import plan
from twins import servers as twins

nx: Any = importlib.import_module("networkx")

Generator = np.random.Generator
ROUNDING = 1e-12


# --- cases --------------------------------------------------------------------------------


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


def consensus_case(seed: int, n: int, d: int, mixed: bool = True) -> Case:
    rng = np.random.default_rng([seed, n, d])
    graph = connected(rng, n)
    make = some_function if mixed else some_quadratic
    functions = {node: make(rng, d) for node in graph.nodes}
    if n == 1:
        functions = {node: some_quadratic(rng, d) for node in graph.nodes}
    return build(graph, functions)


def constrained_case(seed: int, n: int, largest: int = 3) -> Case:
    """Random B: x_i of different lengths, different numbers of rows, some edges without B."""
    rng = np.random.default_rng([seed, n, 99])

    def label(k: int) -> Node:
        return [k, f"node {k}", ("pair", k), (k, k + 1)][k % 4]

    graph = connected(rng, n, label)
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


# --- iterates equal the twins' ------------------------------------------------------------

CASES: dict[str, Case] = {
    "numbers": consensus_case(1, 8, 1),
    "vectors": consensus_case(2, 7, 3),
    "quadratics": consensus_case(3, 9, 2, mixed=False),
    "constraints": constrained_case(4, 7),
    "more constraints": constrained_case(5, 9, 4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rho", [0.2, 1.7])
def test_synchronous_iterates_are_those_of_the_equations(name: str, rho: float) -> None:
    twin = Pdmm(CASES[name].twin, rho)
    follow(CASES[name], twin, twin.synchronous, rho=rho)


@pytest.mark.parametrize("which", ["random", "permutation", "repeats"])
@pytest.mark.parametrize("name", CASES)
def test_asynchronous_iterates_are_those_of_the_equations(name: str, which: str) -> None:
    case, seed = CASES[name], 7
    order = orders(case, which, np.random.default_rng(11))
    twin, turns = Pdmm(case.twin, 0.8), sequences(case, order, seed)
    follow(
        case,
        twin,
        lambda: twin.asynchronous(next(turns)),
        rho=0.8,
        schedule="asynchronous",
        order=order,
        seed=seed,
    )


@pytest.mark.parametrize("relaxation", [0.9, 0.5])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("name", CASES)
def test_relaxed_iterates(name: str, schedule: str, relaxation: float) -> None:
    case = CASES[name]
    twin = Averaged(case.twin, 0.6, relaxation)
    turns = sequences(case, None, 3)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    follow(case, twin, step, rho=0.6, schedule=schedule, relaxation=relaxation, seed=3)


def test_the_two_twins_agree() -> None:
    case = CASES["constraints"]
    plain, averaged = Pdmm(case.twin, 0.7), Averaged(case.twin, 0.7)
    for _ in range(20):
        plain.synchronous()
        averaged.synchronous()
    assert_same(plain.x, averaged.x)
    assert_same(plain.lam, averaged.lam, 1e-11)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    d=st.integers(1, 3),
    constrained=st.booleans(),
    log_rho=st.floats(-2, 2),
    relaxation=st.sampled_from([1.0, 0.9, 0.5]),
    schedule=st.sampled_from(["synchronous", "random", "permutation", "repeats"]),
    started=st.booleans(),
)
def test_iterates_on_any_network(
    seed: int,
    n: int,
    d: int,
    constrained: bool,
    log_rho: float,
    relaxation: float,
    schedule: str,
    started: bool,
) -> None:
    case = constrained_case(seed, n, d) if constrained else consensus_case(seed, n, d)
    rng, rho = np.random.default_rng(seed), float(np.exp(log_rho))
    x0 = case.start(rng) if started else None
    twin: Any = (
        Pdmm(case.twin, rho, x0) if relaxation == 1 else Averaged(case.twin, rho, relaxation, x0)
    )
    settings: dict[str, Any] = {"rho": rho, "relaxation": relaxation, "x0": x0, "seed": seed}
    step = twin.synchronous
    if schedule != "synchronous":
        order = orders(case, schedule, rng)
        turns = sequences(case, order, seed)
        settings |= {"schedule": "asynchronous", "order": order}

        def step() -> None:
            twin.asynchronous(next(turns))

    follow(case, twin, step, 12, tolerance=5e-12, **settings)


@pytest.mark.parametrize("form", ["dict", "array", "nested list", "mapping", "one for all"])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_x0_in_every_form(form: str, schedule: str) -> None:
    case = CASES["vectors"]
    rng = np.random.default_rng(0)
    x0 = case.start(rng)
    rows = np.stack([x0[node] for node in case.nodes])
    forms: dict[str, Any] = {
        "dict": {node: x0[node].tolist() for node in reversed(case.nodes)},
        "array": rows,
        "nested list": rows.tolist(),
        "mapping": pdmm.solve_network(case.network, iterations=3).x,
        "one for all": rows[0],
    }
    if form == "mapping":
        x0 = dict(forms[form])
    if form == "one for all":
        x0 = dict.fromkeys(case.nodes, rows[0])
    twin, turns = Pdmm(case.twin, 1.0, x0), sequences(case, None, 0)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    follow(case, twin, step, 8, x0=forms[form], schedule=schedule)


def test_x0_as_a_number() -> None:
    case = CASES["numbers"]
    twin = Pdmm(case.twin, 1.0, {node: np.array([2.5]) for node in case.nodes})
    follow(case, twin, twin.synchronous, 5, x0=2.5)


def test_the_caller_s_x0_is_left_alone() -> None:
    rows = np.ones((7, 3))
    result = pdmm.solve_network(CASES["vectors"].network, iterations=3, x0=rows)
    assert (rows == 1).all()
    assert not np.shares_memory(np.asarray(result.x), rows)


@pytest.mark.parametrize("x0", [{0: [1.0]}, np.ones((3, 2)), [1.0, 2.0], "a", [np.nan] * 3])
def test_x0_is_checked(x0: Any) -> None:
    with pytest.raises(ValueError, match="x0"):
        pdmm.solve_network(CASES["vectors"].network, x0=x0)


def test_x0_of_different_lengths_needs_a_dict() -> None:
    case = CASES["constraints"]
    with pytest.raises(ValueError, match="x0 must be a dict"):
        pdmm.solve_network(case.network, x0=[0.0])
    wrong = {**case.twin.zeros(), case.nodes[2]: np.zeros(9)}
    with pytest.raises(ValueError, match="x0") as caught:
        pdmm.solve_network(case.network, x0=wrong)
    assert repr(case.nodes[2]) in str(caught.value)
    with pytest.raises(ValueError, match="x0 has 'nobody'"):
        pdmm.solve_network(case.network, x0={**case.twin.zeros(), "nobody": [0.0]})


# --- limits -------------------------------------------------------------------------------


def _well_posed(count: int) -> list[int]:
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
    **{f"constraints {seed}": constrained_case(seed, 6) for seed in _well_posed(5)},
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


@pytest.mark.parametrize(
    ("name", "schedule"),
    [(name, "synchronous") for name in LIMITS]
    + [(name, "asynchronous") for name in list(LIMITS)[:5]],
)
def test_limits_are_those_of_a_kkt_solve(name: str, schedule: Any) -> None:
    case = LIMITS[name]
    expected = case.twin.optimum()
    iterations = 2500 if schedule == "synchronous" else 500
    result = pdmm.solve_network(
        case.network, rho="auto", iterations=iterations, schedule=schedule, record_every=100
    )
    np.testing.assert_allclose(flat(result.x, case.nodes), expected, atol=1e-9)
    assert result.optimum is not None
    np.testing.assert_allclose(flat(result.optimum, case.nodes), expected, atol=1e-10)
    assert result.history["error"][-1] < 1e-9
    assert_kkt(result, case.twin, 1e-8)


def test_the_limit_does_not_depend_on_the_start_or_rho() -> None:
    case = LIMITS["consensus"]
    expected = case.twin.optimum()
    for rho, relaxation in ((0.3, 1.0), (2.0, 0.7)):
        x0 = case.start(np.random.default_rng(5))
        result = pdmm.solve_network(
            case.network, rho, 3000, relaxation=relaxation, x0=x0, record_every=1000
        )
        np.testing.assert_allclose(flat(result.x, case.nodes), expected, atol=1e-9)


def test_the_optimum_of_averaging_is_the_mean() -> None:
    a = np.random.default_rng(0).normal(size=(12, 2))
    result = pdmm.solve_network(
        pdmm.Network(nx.cycle_graph(12), pdmm.Quadratic(1.0, a)), rho="auto", iterations=400
    )
    np.testing.assert_allclose(np.asarray(result.x), np.tile(a.mean(0), (12, 1)), atol=1e-10)


# --- the star -----------------------------------------------------------------------------


def _star(m: int) -> tuple[Any, list[Node]]:
    graph = nx.Graph()
    clients: list[Node] = [f"client {i}" for i in range(m)]
    graph.add_node("server")
    graph.add_edges_from(("server", client) for client in clients)
    return graph, clients


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("local_steps", [None, 1, 4])
@pytest.mark.parametrize("kind", ["tall", "wide", "softmax"])
def test_a_star_is_the_centralised_method(
    kind: str, local_steps: int | None, started: bool
) -> None:
    rng = np.random.default_rng(3)
    m, d = 5, 6
    problem: pdmm.Problem
    if kind == "softmax":
        X = [rng.standard_normal((9, 2)) + i / 2 for i in range(m)]
        problem = pdmm.SoftmaxRegression(X, [rng.integers(0, 2, 9) for _ in range(m)], 2, 0.3)
    else:
        samples = 9 if kind == "tall" else 2
        problem = pdmm.LeastSquares(
            rng.standard_normal((m, samples, d)), rng.standard_normal((m, samples))
        )
    graph, clients = _star(m)
    network = pdmm.Network(graph, [pdmm.Zero(problem.dimension), problem])
    rho, eta, rounds = 1.3, 0.05, 30 if kind != "softmax" else 12
    x0 = rng.standard_normal(problem.dimension) if started else None
    method: Any = (
        pdmm.PDMM(rho)
        if local_steps is None
        else pdmm.GPDMM(step_size=eta, local_steps=local_steps, rho=rho)
    )
    central: list[Any] = []
    pdmm.solve(problem, method, rounds, x0=x0, callback=lambda r, x: central.append(x))
    decentral: list[Any] = []
    inexact = {} if local_steps is None else {"local_steps": local_steps, "step_size": eta}
    pdmm.solve_network(
        network,
        rho,
        rounds,
        "asynchronous",
        order=[*clients, "server"],
        x0=x0,
        optimum=False,
        callback=lambda k, x: decentral.append(x["server"]),
        **inexact,  # type: ignore[arg-type]
    )
    assert len(central) == len(decentral) == rounds
    exact_softmax = kind == "softmax" and local_steps is None
    tolerance = 1e-7 if exact_softmax else 1e-11
    for mine, theirs in zip(decentral, central, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=tolerance * max(1, np.abs(theirs).max()))


# --- relaxation ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_relaxation_one_half_is_admm(name: str) -> None:
    case = CASES[name]
    x0 = case.start(np.random.default_rng(1))
    twin = nt.Admm(case.twin, 0.9, x0)

    def compare(iteration: int, x: Any) -> None:
        twin.iterate()
        assert_same(x, twin.x)

    pdmm.solve_network(case.network, 0.9, 30, relaxation=0.5, x0=x0, callback=compare)
    assert any(np.abs(u).max() > 1e-3 for u in twin.u.values())


@pytest.mark.parametrize("seed", range(3))
def test_a_cycle_of_absolute_values_needs_relaxation(seed: int) -> None:
    a = np.random.default_rng(seed).normal(size=(10, 1))
    network = pdmm.Network(nx.cycle_graph(10), pdmm.Absolute(a))
    full = pdmm.solve_network(network, 1.0, 3000)
    assert full.history["consensus"][-1] > 1e-3
    assert full.history["consensus"][-500:].min() > 1e-4
    assert "relaxation=0.9" in full.reason
    relaxed = pdmm.solve_network(network, 1.0, 3000, relaxation=0.9)
    assert relaxed.history["consensus"][-1] < 1e-12
    assert relaxed.history["error"][-1] < 1e-12
    assert relaxed.reason == "all 3000 iterations done"
    low, high = np.sort(a[:, 0])[[4, 5]]
    assert low - 1e-12 <= relaxed.x[0][0] <= high + 1e-12


def test_a_run_that_agrees_is_not_told_to_relax() -> None:
    network = pdmm.Network(nx.path_graph(3), pdmm.Absolute([[0.0], [1.0], [5.0]]))
    result = pdmm.solve_network(network, 0.5, 400, relaxation=0.9)
    assert "relaxation" not in result.reason
    np.testing.assert_allclose(np.asarray(result.x), 1.0, atol=1e-12)


# --- lost messages ------------------------------------------------------------------------


@pytest.mark.parametrize("relaxation", [1.0, 0.8])
@pytest.mark.parametrize("schedule", ["synchronous", "random", "repeats"])
@pytest.mark.parametrize("name", ["numbers", "vectors", "constraints", "more constraints"])
def test_a_receiver_keeps_what_it_had(name: str, schedule: str, relaxation: float) -> None:
    case, seed, loss = CASES[name], 13, 0.3
    twin, losses = Averaged(case.twin, 0.7, relaxation), Losses(case.twin, loss, seed)
    settings: dict[str, Any] = {"loss": loss, "seed": seed, "relaxation": relaxation}

    def step() -> None:
        twin.synchronous(losses.synchronous())

    if schedule != "synchronous":
        order = orders(case, schedule, np.random.default_rng(0))
        turns = sequences(case, order, seed)
        settings |= {"schedule": "asynchronous", "order": order}

        def step() -> None:
            turn = next(turns)
            twin.asynchronous(turn, losses.asynchronous(turn))

    follow(case, twin, step, 20, rho=0.7, **settings)
    assert losses.count > 20


@pytest.mark.parametrize("loss", [0.2, 0.5])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("name", ["consensus", "consensus of numbers", list(LIMITS)[2]])
def test_lost_messages_do_not_move_the_limit(name: str, schedule: Any, loss: float) -> None:
    case = LIMITS[name]
    settings: dict[str, Any] = {"rho": "auto", "schedule": schedule, "record_every": 50}
    result = pdmm.solve_network(case.network, iterations=450, loss=loss, seed=1, **settings)
    assert result.history["error"][-1] < 1e-9
    np.testing.assert_allclose(flat(result.x, case.nodes), case.twin.optimum(), atol=1e-8)
    whole = pdmm.solve_network(case.network, iterations=150, seed=1, **settings)
    for column in ("messages", "bytes"):  # of lost ones too
        assert (result.history[column][:4] == whole.history[column]).all()


def test_losses_matter() -> None:
    case = LIMITS["consensus"]
    runs = [pdmm.solve_network(case.network, iterations=5, loss=p) for p in (0.0, 1e-9, 0.5)]
    x = [flat(run.x, case.nodes) for run in runs]
    np.testing.assert_allclose(x[0], x[1], rtol=1e-12)
    assert np.abs(x[0] - x[2]).max() > 1e-3


# --- history ------------------------------------------------------------------------------


def _recorded(iterations: int, every: int) -> list[int]:
    return sorted({0, *range(every, iterations + 1, every), iterations})


@pytest.mark.parametrize("every", [1, 4, 100])
@pytest.mark.parametrize("schedule", ["synchronous", "random", "repeats"])
@pytest.mark.parametrize("name", ["numbers", "vectors", "quadratics", "more constraints"])
def test_history_by_hand(name: str, schedule: str, every: int) -> None:
    case, iterations = CASES[name], 10
    twin = case.twin
    x0 = case.start(np.random.default_rng(4))
    optimum = case.start(np.random.default_rng(5))
    order = orders(case, schedule, np.random.default_rng(6)) if schedule != "synchronous" else None
    iterates: list[dict[Node, Vector]] = [x0]
    result = pdmm.solve_network(
        case.network,
        0.7,
        iterations,
        "synchronous" if schedule == "synchronous" else "asynchronous",
        order=order,
        x0=x0,
        optimum=optimum,
        record_every=every,
        callback=lambda k, x: iterates.append(dict(x)),
    )
    history, rows = result.history, _recorded(iterations, every)
    assert history["iteration"].tolist() == rows
    assert list(history) == [
        "iteration", "error", "consensus", "objective", "messages", "bytes", "seconds",
    ]  # fmt: skip
    turns = sequences(case, order, 0)
    messages, numbers = [0], [0]
    for _ in range(iterations):
        moved = case.nodes if schedule == "synchronous" else next(turns)
        sent = [(i, j) for i in moved for j in twin.neighbours[i]]
        messages.append(messages[-1] + len(sent))
        numbers.append(numbers[-1] + sum(len(twin.B[ends]) for ends in sent))
    assert history["messages"].tolist() == [messages[k] for k in rows]
    assert history["bytes"].tolist() == [8 * numbers[k] for k in rows]
    if schedule == "synchronous":
        assert history["messages"][-1] == 2 * len(twin.edges) * iterations
    n = len(case.nodes)
    for row, k in enumerate(rows):
        x = iterates[k]
        away = sum(float(((x[node] - optimum[node]) ** 2).sum()) for node in case.nodes)
        apart = sum(float(gap @ gap) for gap in twin.gaps(x))
        value = sum(twin.functions[node].value(x[node]) for node in case.nodes)
        assert history["error"][row] == pytest.approx(np.sqrt(away / n), rel=1e-12)
        assert history["consensus"][row] == pytest.approx(
            np.sqrt(apart / len(twin.edges)), rel=1e-9
        )
        assert history["objective"][row] == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert (np.diff(history["seconds"]) >= 0).all()
    assert result.iterations == iterations
    assert result.reason == f"all {iterations} iterations done" or "relaxation" in result.reason


def test_error_refers_to_the_optimum_that_is_found() -> None:
    case = LIMITS["consensus"]
    iterates = []
    result = pdmm.solve_network(
        case.network, iterations=6, callback=lambda k, x: iterates.append(np.asarray(x))
    )
    expected = case.twin.optimum().reshape(len(case.nodes), -1)
    errors = [np.sqrt(((x - expected) ** 2).sum(1).mean()) for x in [0 * expected, *iterates]]
    np.testing.assert_allclose(result.history["error"], errors, rtol=1e-9)


@pytest.mark.parametrize("a", [[0.0, 1.0, 4.0, 9.0], [0.0, 1.0, 4.0]])
def test_error_where_the_optimum_is_not_unique(a: list[float]) -> None:
    """The nearest optimum is one on which all nodes agree."""
    n = len(a)
    network = pdmm.Network(nx.path_graph(n), pdmm.Absolute(np.array(a)[:, None]))
    iterates: list[Any] = [np.array([[1.5], [3.5], [2.0], [2.5]])[:n]]
    result = pdmm.solve_network(
        network,
        0.4,
        30,
        x0=iterates[0],
        relaxation=0.9,
        callback=lambda k, x: iterates.append(np.array(x)),
    )
    low, high = np.sort(a)[(n - 1) // 2], np.sort(a)[n // 2]
    expected = [np.sqrt(((x - np.clip(x.mean(), low, high)) ** 2).mean()) for x in iterates]
    np.testing.assert_allclose(result.history["error"], expected, atol=1e-12)


def test_history_without_an_optimum() -> None:
    result = pdmm.solve_network(CASES["quadratics"].network, iterations=3, optimum=False)
    assert result.optimum is None
    assert "error" not in result.history
    with pytest.raises(KeyError, match="optimum"):
        result.history["error"]
    with pytest.raises(KeyError, match="has no 'gap'"):
        result.history["gap"]


def test_iterations_to() -> None:
    result = pdmm.solve_network(LIMITS["consensus"].network, rho="auto", iterations=500)
    k = result.history.iterations_to(1e-6)
    assert k is not None
    error = result.history["error"]
    assert (error[k:] <= 1e-6).all()
    assert error[k - 1] > 1e-6
    assert result.history.iterations_to(0.0) is None


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_float32_runs_in_float32(schedule: Any, constrained: bool) -> None:
    rng = np.random.default_rng(2)
    n, d = 8, 3
    graph = connected(rng, n)
    H = np.stack([positive_definite(rng, d) for _ in range(n)])
    c = rng.standard_normal((n, d))
    edge = next(iter(graph.edges))
    B: Any = {edge: (np.eye(2, d), np.eye(2, d))}
    results = []
    for dtype in (np.float32, np.float64):
        functions = pdmm.Quadratic(H.astype(dtype), c.astype(dtype))
        network = pdmm.Network(graph, functions, B if constrained else None)
        result = pdmm.solve_network(network, 0.7, 400, schedule, relaxation=0.95, record_every=100)
        assert all(result.x[node].dtype == dtype for node in graph.nodes)
        assert all(result.dual[ends].dtype == dtype for ends in result.dual)
        results.append(result)
    single, double = results
    assert (2 * single.history["bytes"] == double.history["bytes"]).all()
    assert (single.history["messages"] == double.history["messages"]).all()
    np.testing.assert_allclose(flat(single.x, list(graph)), flat(double.x, list(graph)), atol=1e-5)
    assert single.history["error"].dtype == np.float64
    assert single.history["error"][-1] < 1e-5


@pytest.mark.parametrize("local_steps", [None, 3])
def test_float32_of_every_kind(local_steps: int | None) -> None:
    rng = np.random.default_rng(8)
    d, dtype = 6, np.float32
    X = rng.standard_normal((1, 10, 2)).astype(dtype)
    functions = [
        pdmm.Zero(d),
        pdmm.Quadratic(1.0, rng.standard_normal(d).astype(dtype)),
        pdmm.LeastSquares(
            rng.standard_normal((2, 2, d)).astype(dtype), rng.standard_normal((2, 2)).astype(dtype)
        ),
        pdmm.SoftmaxRegression(X, rng.integers(0, 2, (1, 10)), 2, 0.2),
    ]
    network = pdmm.Network(nx.cycle_graph(5), functions)
    result = pdmm.solve_network(
        network, 0.5, 300, relaxation=0.95, local_steps=local_steps, record_every=50
    )
    assert np.asarray(result.x).dtype == dtype
    assert result.history["error"][-1] < 3e-5


def test_one_float64_function_makes_the_run_float64() -> None:
    functions = [pdmm.Quadratic(1.0, np.ones(1, np.float32)), pdmm.Quadratic(1.0, [2.0])]
    result = pdmm.solve_network(pdmm.Network(nx.path_graph(2), functions))
    assert result.x[0].dtype == np.float64
    assert result.x[0][0] == pytest.approx(1.5, abs=1e-12)


# --- node functions -----------------------------------------------------------------------


def test_quadratics_alone_and_stacked_are_the_same() -> None:
    rng = np.random.default_rng(1)
    n, d = 5, 3
    c, h = rng.standard_normal((n, d)), rng.uniform(0.5, 2, (n, d))
    H = np.stack([positive_definite(rng, d) for _ in range(n)])
    graph = nx.cycle_graph(n)
    for stacked, alone in (
        (pdmm.Quadratic(H, c), [pdmm.Quadratic(H[i], c[i]) for i in range(n)]),
        (pdmm.Quadratic(h, c), [pdmm.Quadratic(h[i], c[i]) for i in range(n)]),
        (pdmm.Quadratic(h, c), [pdmm.Quadratic(np.diag(h[i]), c[i]) for i in range(n)]),
        (pdmm.Quadratic(0.7, c), [pdmm.Quadratic(0.7, c[i]) for i in range(n)]),
        (pdmm.Quadratic(2, c), [pdmm.Quadratic(2 * np.eye(d), c[:2][i]) for i in range(2)]
         + [pdmm.Quadratic(2.0, c[2:])]),
    ):  # fmt: skip
        runs = [
            pdmm.solve_network(pdmm.Network(graph, functions), 0.6, 20)
            for functions in (stacked, alone)
        ]
        np.testing.assert_allclose(np.asarray(runs[0].x), np.asarray(runs[1].x), rtol=1e-11)
        for column in ("objective", "error"):
            np.testing.assert_allclose(
                runs[0].history[column], runs[1].history[column], rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("samples", [9, 4, 2])  # tall, square, wide
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("constrained", [False, True])
def test_least_squares(samples: int, schedule: Any, constrained: bool) -> None:
    rng = np.random.default_rng(samples)
    n, d = 5, 6
    A, b = rng.standard_normal((n, samples, d)), rng.standard_normal((n, samples))
    graph = connected(rng, n)
    nodes = list(graph.nodes)
    given: dict[tuple[Node, Node], Matrix] = {}
    if constrained:
        i, j = next(iter(graph.edges))
        given = {(i, j): positive_definite(rng, d), (j, i): positive_definite(rng, d)}
    twin = Graph(
        nodes,
        [tuple(edge) for edge in graph.edges],
        {
            node: with_constant(nt.quadratic(A[k].T @ A[k], A[k].T @ b[k]), b[k] @ b[k] / 2)
            for k, node in enumerate(nodes)
        },
        given,
    )
    for functions in (
        pdmm.LeastSquares(A, b),
        [pdmm.LeastSquares([A[k]], [b[k]]) for k in range(n)],
        [pdmm.LeastSquares(A[:2], b[:2]), pdmm.LeastSquares(list(A[2:]), list(b[2:]))],
        {node: pdmm.LeastSquares([A[k]], [b[k]]) for k, node in enumerate(nodes)},
    ):
        case = Case(pdmm.Network(graph, functions, given or None), twin)
        follower, turns = Pdmm(twin, 1.1), sequences(case, None, 2)
        step = (
            follower.synchronous
            if schedule == "synchronous"
            else lambda follower=follower, turns=turns: follower.asynchronous(next(turns))
        )
        result = follow(case, follower, step, 15, 1e-11, rho=1.1, schedule=schedule, seed=2)
        value = sum(twin.functions[k].value(np.asarray(result.x[k], np.float64)) for k in nodes)
        assert result.history["objective"][-1] == pytest.approx(value, rel=1e-10)


def test_ragged_least_squares() -> None:
    rng = np.random.default_rng(0)
    A = [rng.standard_normal((n, 5)) for n in (1, 7, 2, 3)]
    b = [rng.standard_normal(len(part)) for part in A]
    network = pdmm.Network(nx.cycle_graph(4), pdmm.LeastSquares(A, b))
    result = pdmm.solve_network(network, rho="auto", iterations=1500, record_every=100)
    best = np.linalg.lstsq(np.vstack(A), np.concatenate(b))[0]
    np.testing.assert_allclose(np.asarray(result.x), np.tile(best, (4, 1)), atol=1e-9)


def _log_cosh(seed: int, d: int) -> tuple[Any, Any, Any, Function]:
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


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("known_prox", [False, True])
def test_a_user_s_functions(known_prox: bool, schedule: Any, constrained: bool) -> None:
    rng = np.random.default_rng(6)
    d, graph = 2, nx.cycle_graph(4)
    made = [_log_cosh(seed, d) for seed in range(4)]
    values, gradients, proxes, functions = (list(column) for column in zip(*made, strict=True))
    problem = pdmm.Functions(values, gradients, d, prox=proxes if known_prox else None)
    given: dict[tuple[Node, Node], Matrix] = {}
    if constrained:
        given = {(0, 1): rng.standard_normal((2, d)), (1, 0): rng.standard_normal((2, d))}
    twin = Graph(list(graph), [tuple(e) for e in graph.edges], dict(enumerate(functions)), given)
    case = Case(pdmm.Network(graph, problem, given or None), twin)
    if constrained and known_prox:  # a prox is for multiples of the identity
        with pytest.raises(ValueError, match=r"node 0 has a function with a prox.* B matrices"):
            pdmm.solve_network(case.network, 0.8)
        return
    follower, turns = Pdmm(twin, 0.8), sequences(case, None, 0)
    step = (
        follower.synchronous
        if schedule == "synchronous"
        else lambda: follower.asynchronous(next(turns))
    )
    tolerance = 1e-11 if known_prox and not constrained else 1e-7
    follow(case, follower, step, 12, tolerance, rho=0.8, schedule=schedule)


def test_the_optimum_of_a_user_s_functions() -> None:
    made = [_log_cosh(seed, 3) for seed in range(5)]
    network = pdmm.Network(
        nx.path_graph(5), [pdmm.Functions([value], [slope], 3) for value, slope, *_ in made]
    )
    result = pdmm.solve_network(network, 0.7, 300, record_every=20)
    x = np.zeros(3)
    for _ in range(100):  # of the sum, by Newton steps with differences for Hessians
        slope = sum((one[1](x) for one in made), 0 * x)
        steps = 1e-6 * np.eye(3)
        hessian = np.stack(
            [sum((one[1](x + s) - one[1](x - s) for one in made), 0 * x) / 2e-6 for s in steps]
        )
        x = x - np.linalg.solve(hessian, slope)
    np.testing.assert_allclose(np.asarray(result.x), np.tile(x, (5, 1)), atol=1e-8)
    assert result.optimum is not None
    np.testing.assert_allclose(result.optimum[3], x, atol=1e-8)
    assert result.history["error"][-1] < 1e-8


def _softmax_data(seed: int, n: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((7, 1)) + i / 2 for i in range(n)]
    return X, [rng.integers(0, 2, 7) for _ in range(n)]


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("form", ["whole", "list", "constraints"])
def test_softmax(form: str, schedule: Any) -> None:
    n, classes, l2, d = 4, 2, 0.2, 4
    X, y = _softmax_data(3, n)
    graph = nx.cycle_graph(n)
    whole = pdmm.SoftmaxRegression(X, y, classes, l2)
    functions: Any = whole
    if form == "list":
        functions = [pdmm.SoftmaxRegression([X[i]], [y[i]], classes, l2) for i in range(n)]
    given: dict[tuple[Node, Node], Matrix] = {}
    if form == "constraints":
        rng = np.random.default_rng(0)
        given = {(0, 1): rng.standard_normal((2, d)), (1, 0): rng.standard_normal((2, d))}

    def parts(i: int) -> Callable[[Vector], tuple[float, Vector, Matrix]]:
        return lambda x: twins.softmax_parts(X[i], y[i], classes, l2, x)

    twin = Graph(
        list(graph),
        [tuple(e) for e in graph.edges],
        {i: nt.smooth(d, parts(i)) for i in range(n)},
        given,
    )
    case = Case(pdmm.Network(graph, functions, given or None), twin)
    follower, turns = Pdmm(twin, 0.3), sequences(case, None, 0)
    step = (
        follower.synchronous
        if schedule == "synchronous"
        else lambda: follower.asynchronous(next(turns))
    )
    follow(case, follower, step, 8, 1e-7, rho=0.3, schedule=schedule)


def test_softmax_reaches_the_minimum_of_the_sum() -> None:
    X, y = _softmax_data(4, 4)
    problem = pdmm.SoftmaxRegression(X, y, 2, 0.2)
    result = pdmm.solve_network(
        pdmm.Network(nx.path_graph(4), problem), "auto", 200, record_every=20
    )

    def total(x: Vector) -> tuple[float, Vector, Matrix]:
        each = [twins.softmax_parts(X[i], y[i], 2, 0.2, x) for i in range(4)]
        return sum(e[0] for e in each), sum(e[1] for e in each), sum(e[2] for e in each)  # type: ignore[return-value]

    best = twins.newton(total, np.zeros(4))
    np.testing.assert_allclose(np.asarray(result.x), np.tile(best, (4, 1)), atol=1e-7)
    assert result.history["objective"][-1] == pytest.approx(total(best)[0], rel=1e-9)
    assert result.history["error"][-1] < 1e-7


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_absolute_values_under_general_constraints(schedule: Any) -> None:
    """G_i is not diagonal: the update is no shrinkage, entry by entry."""
    rng = np.random.default_rng(12)
    graph, d = nx.cycle_graph(4), 3
    given: dict[tuple[Node, Node], Matrix] = {}
    for i, j in graph.edges:
        given[i, j], given[j, i] = rng.standard_normal((3, d)), rng.standard_normal((3, d))
    functions: dict[Node, tuple[pdmm.Problem, Function]] = {}
    for node in graph.nodes:
        a = rng.standard_normal(d)
        functions[node] = pdmm.Absolute(a), nt.absolute(a)
    case = build(graph, functions, given)
    twin, turns = Averaged(case.twin, 0.5, 0.9), sequences(case, None, 0)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    follow(case, twin, step, 15, 1e-9, rho=0.5, relaxation=0.9, schedule=schedule)


@pytest.mark.parametrize("rho", [0.05, 1.0, 20.0])
def test_one_update_of_absolute_values_is_a_minimum(rho: float) -> None:
    rng = np.random.default_rng(int(rho * 100))
    for trial in range(15):
        d = trial % 4 + 1
        B = rng.standard_normal((d + 1, d))
        a, x0 = rng.standard_normal(d), {0: rng.standard_normal(d), 1: rng.standard_normal(d + 1)}
        network = pdmm.Network(
            nx.path_graph(2),
            [pdmm.Absolute(a), pdmm.Quadratic(1.0, np.ones(d + 1))],
            {(0, 1): (B, np.eye(d + 1))},
        )
        x = (
            pdmm.solve_network(network, rho, 1, x0=x0, optimum=False, relaxation=0.9)
            .x[0]
            .astype(np.float64)
        )

        def objective(p: Vector, a: Vector = a, B: Matrix = B, z: Vector = x0[1]) -> float:
            away = B @ p - z
            return float(np.abs(p - a).sum() + rho / 2 * away @ away)

        lowest = objective(x)
        for size in (1e-1, 1e-3, 1e-5):
            for move in rng.standard_normal((60, d)):
                assert objective(x + size * move) >= lowest - 1e-12
        for k, sign in itertools.product(range(d), (1e-6, -1e-6)):
            assert objective(x + sign * np.eye(d)[k]) >= lowest - 1e-12


@pytest.mark.parametrize("d", [1, 3])
def test_medians(d: int) -> None:
    a = np.random.default_rng(d).standard_normal((9, d))
    for functions in (pdmm.Absolute(a), [pdmm.Absolute(row if d > 1 else row[0]) for row in a]):
        network = pdmm.Network(nx.complete_graph(9), functions)
        result = pdmm.solve_network(network, 0.3, 6000, relaxation=0.9, record_every=500)
        np.testing.assert_allclose(
            np.asarray(result.x), np.tile(np.median(a, axis=0), (9, 1)), atol=1e-8
        )
        assert result.optimum is not None
        np.testing.assert_array_equal(result.optimum[0], np.median(a, axis=0))


def test_a_mixture_of_everything() -> None:
    """The sum's minimum is found from its slope, by bisection."""
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((2, 4, 1)), rng.standard_normal((2, 4))
    (value, slope, *_), second = _log_cosh(2, 1), _log_cosh(3, 1)
    functions = [
        pdmm.Quadratic(0.5, [1.0]),
        pdmm.Quadratic(1.0, [[0.2], [0.4]]),  # two nodes
        pdmm.Absolute(-1.0),
        pdmm.Zero(1),
        pdmm.LeastSquares(A, b),  # two nodes
        pdmm.Functions([value], [slope], 1),
        pdmm.Functions([second[0]], [second[1]], 1, prox=[second[2]]),
        pdmm.Absolute([[0.1], [0.2]]),  # two nodes
    ]
    network = pdmm.Network(connected(rng, 11), functions)

    def total(x: float) -> float:
        at = np.array([x])
        return float(
            0.5 * x - 1 + (x - 0.2) + (x - 0.4) + np.sign(x + 1)
            + sum((A[k, :, 0] * (A[k, :, 0] * x - b[k])).sum() for k in range(2))
            + slope(at)[0] + second[1](at)[0] + np.sign(x - 0.1) + np.sign(x - 0.2)
        )  # fmt: skip

    low, high = -5.0, 5.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if total(middle) > 0 else (middle, high)
    result = pdmm.solve_network(network, "auto", 600, relaxation=0.9, optimum=[low])
    np.testing.assert_allclose(np.asarray(result.x), low, atol=1e-8)
    assert result.history["error"][-1] < 1e-8
    assert pdmm.solve_network(network, "auto", 1, relaxation=0.9).optimum is None


def test_functions_by_node() -> None:
    graph = nx.Graph([("b", "a"), ("a", "c")])
    readings = {"a": 1.0, "b": 2.0, "c": 6.0}
    functions = {node: pdmm.Quadratic(1.0, [a]) for node, a in readings.items()}
    result = pdmm.solve_network(pdmm.Network(graph, functions), 0.7, 1, optimum=False)
    for node, a in readings.items():  # from 0: x = a/(1 + rho degree)
        assert result.x[node][0] == pytest.approx(a / (1 + 0.7 * graph.degree(node)), rel=1e-14)


@pytest.mark.parametrize("given_size", [False, True])
@pytest.mark.parametrize("name", ["quadratics", "constraints"])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("K", [1, 3])
def test_gradient_steps(K: int, schedule: Any, name: str, given_size: bool) -> None:
    case = CASES[name]
    eta = {}
    for node, f in case.twin.functions.items():
        assert f.H is not None
        eta[node] = 0.1 if given_size else 1 / float(np.linalg.eigvalsh(f.H)[-1])
    x0 = case.start(np.random.default_rng(0))
    twin, turns = Inexact(case.twin, 0.6, K, eta, x0), sequences(case, None, 4)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    settings: dict[str, Any] = {"step_size": 0.1} if given_size else {}
    follow(
        case, twin, step, 20, 1e-11,
        rho=0.6, schedule=schedule, local_steps=K, x0=x0, seed=4, **settings,
    )  # fmt: skip


def test_gradient_steps_leave_zero_absolute_and_prox_exact() -> None:
    value, slope, prox, twin_function = _log_cosh(1, 1)
    graph = nx.cycle_graph(4)
    case = build(
        graph,
        {
            0: (pdmm.Zero(1), nt.zero(1)),
            1: (pdmm.Absolute(0.3), nt.absolute(0.3)),
            2: (pdmm.Functions([value], [slope], 1, prox=[prox]), twin_function),
            3: (pdmm.Quadratic(2.0, [1.0]), nt.quadratic(2.0, [1.0])),
        },
    )
    twin = Inexact(case.twin, 0.6, 2, {3: 0.5})
    follow(case, twin, twin.synchronous, 15, 1e-10, rho=0.6, local_steps=2)


def test_gradient_steps_reach_the_optimum() -> None:
    for name in ("consensus", list(LIMITS)[2]):
        case = LIMITS[name]
        result = pdmm.solve_network(
            case.network, 0.5, 4000, local_steps=3, record_every=1000, relaxation=0.95
        )
        assert result.history["error"][-1] < 1e-8


def test_gradient_steps_of_softmax_and_functions() -> None:
    X, y = _softmax_data(5, 3)
    problem = pdmm.SoftmaxRegression(X, y, 2, 0.2)
    made = _log_cosh(7, 4)
    network = pdmm.Network(
        nx.cycle_graph(4), [problem, pdmm.Functions([made[0]], [made[1]], 4, smoothness=3.0)]
    )
    result = pdmm.solve_network(network, 0.3, 700, local_steps=3, record_every=100)
    assert result.history["error"][-1] < 1e-7
    same = pdmm.solve_network(network, 0.3, 700, "asynchronous", local_steps=2, record_every=100)
    assert same.history["error"][-1] < 1e-7


# --- the elementary functions in pdmm.solve -----------------------------------------------


@pytest.mark.parametrize("form", ["matrix", "diagonal", "number"])
@pytest.mark.parametrize("method", ["PDMM", "AGPDMM", "auto"])
def test_quadratics_in_solve(method: str, form: str) -> None:
    rng = np.random.default_rng(4)
    m, d = 6, 3
    H: Any = {
        "matrix": np.stack([positive_definite(rng, d) for _ in range(m)]),
        "diagonal": rng.uniform(0.5, 2, (m, d)),
        "number": 1.5,
    }[form]
    c = 4 * rng.standard_normal((m, d))
    problem = pdmm.Quadratic(H, c)
    total = m * H * np.eye(d) if form == "number" else H.sum(0)
    total = np.diag(total) if form == "diagonal" else total
    best = np.linalg.solve(total, c.sum(0))
    least = -0.5 * float(c.sum(0) @ best)
    assert least < 0
    if method == "auto":
        result = pdmm.solve(problem)
    else:
        chosen: Any = {"PDMM": pdmm.PDMM(1.0), "AGPDMM": pdmm.AGPDMM(0.1, 3)}[method]
        result = pdmm.solve(problem, chosen, 200)
    np.testing.assert_allclose(result.x, best, atol=1e-6)
    assert result.optimum == pytest.approx(least, rel=1e-10)
    assert problem.objective(best) == pytest.approx(least, rel=1e-10)
    assert result.history["gap"][0] == pytest.approx(-least, rel=1e-9)
    assert 0 <= result.history["gap"][-1] < 1e-10


def test_absolute_values_in_solve() -> None:
    a = np.random.default_rng(3).standard_normal((9, 2))
    result = pdmm.solve(pdmm.Absolute(a), pdmm.PDMM(1.0, 0.9), 1000)
    np.testing.assert_allclose(result.x, np.median(a, axis=0), atol=1e-9)
    least = float(np.abs(a - np.median(a, axis=0)).sum())
    assert pdmm.Absolute(a).objective(np.median(a, axis=0)) == pytest.approx(least)
    with pytest.raises(ValueError, match="Absolute has no smoothness"):
        pdmm.Absolute(a).smoothness()


def test_zero_in_solve() -> None:
    result = pdmm.solve(pdmm.Zero(3), pdmm.PDMM(1.0), 3, x0=[1.0, 2.0, 3.0])
    assert result.x.tolist() == [1.0, 2.0, 3.0]
    assert pdmm.Zero(3).objective([1.0, 2.0, 3.0]) == 0


# --- what is refused ----------------------------------------------------------------------

QUADRATICS = [pdmm.Quadratic(1.0, [float(i)]) for i in range(3)]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1), (1, 2)]), "directed"),
        (nx.MultiGraph([(0, 1), (1, 2)]), "multigraph"),
        (nx.MultiDiGraph([(0, 1), (1, 2)]), "directed"),
        (nx.Graph(), "no nodes"),
        (nx.Graph([(0, 1), (1, 2), (1, 1)]), "node 1 has an edge to itself"),
        ([(0, 1), (1, 2)], "networkx graph, got list"),
        (None, "networkx graph"),
    ],
)
def test_graphs_that_are_refused(graph: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Network(graph, QUADRATICS)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (QUADRATICS[:2], "functions for 2 nodes, but the graph has 3"),
        ([*QUADRATICS, pdmm.Zero(1)], "functions for 4 nodes, but the graph has 3"),
        (pdmm.Quadratic(1.0, np.ones((4, 1))), "functions for 4 nodes"),
        ([*QUADRATICS[:2], abs], r"functions\[2\]"),
        ([*QUADRATICS[:2], 3.0], r"functions\[2\]"),
        ("abc", "functions must be a list"),
        (3, "functions must be a list"),
        (None, "functions must be a list"),
        (dict(enumerate(QUADRATICS[:2])), "no function for node 2"),
        ({**dict(enumerate(QUADRATICS)), 7: QUADRATICS[0]}, "functions has 7"),
        (
            {0: pdmm.Quadratic(1.0, np.ones((2, 1))), 1: QUADRATICS[0], 2: QUADRATICS[0]},
            "2 clients",
        ),
        ({0: abs, 1: QUADRATICS[0], 2: QUADRATICS[0]}, "function"),
    ],
)
def test_functions_that_are_refused(functions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Network(nx.path_graph(3), functions)


def test_lengths_that_differ_need_matrices() -> None:
    functions = [pdmm.Quadratic(1.0, np.ones(2)), pdmm.Quadratic(1.0, np.ones(3))]
    graph = nx.Graph([("left", "right")])
    with pytest.raises(ValueError, match="'left' has 2 entries and x of node 'right' has 3"):
        pdmm.Network(graph, functions)
    good = {("left", "right"): ([[1.0, 0.0]], [[0.0, 0.0, 1.0]])}
    assert not pdmm.Network(graph, functions, good).consensus


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (
            {(0, 1): np.ones((1, 3)), (1, 0): np.ones((1, 2))},
            r"constraints\[0, 1\] must have 2 col",
        ),
        ({(0, 1): np.ones((1, 2)), (1, 0): np.ones((2, 2))}, "inconsistent on the edge of 0 and 1"),
        ({(0, 1): np.ones((1, 2))}, r"\(0, 1\) but none for \(1, 0\)"),
        ({(0, 2): (1.0, 1.0)}, r"\(0, 2\), which is not an edge"),
        ({(0, 9): (1.0, 1.0)}, r"\(0, 9\), which is not an edge"),
        ({0: (1.0, 1.0)}, "the key 0, which is not an edge"),
        ({(0, 1): (np.array([[1.0, np.nan]]), np.ones((1, 2)))}, r"constraints\[0, 1\] has nan"),
        ({(0, 1): (np.ones(2), np.ones(2))}, r"constraints\[0, 1\] must have 2 dimension"),
        ({(0, 1): (np.ones((0, 2)), np.ones((0, 2)))}, r"constraints\[0, 1\]"),
        ({(0, 1): (1.0, 1.0), (1, 0): 1.0}, "twice"),
        ({(0, 1): (np.nan, 1.0)}, r"constraints\[0, 1\] has nan"),
        ({(0, 1): ("x", 1.0)}, r"constraints\[0, 1\]"),
        ({(0, 1): None, (1, 0): None}, r"constraints\[0, 1\]"),
        ([((0, 1), 1.0)], "constraints must be a dict"),
        (1.0, "constraints must be a dict"),
    ],
)
def test_constraints_that_are_refused(constraints: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Network(nx.path_graph(3), pdmm.Quadratic(1.0, np.ones((3, 2))), constraints)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rho": 0.0}, "rho"),
        ({"rho": -1.0}, "rho"),
        ({"rho": np.inf}, "rho"),
        ({"rho": "best"}, "rho"),
        ({"rho": np.ones(2)}, "rho"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": 2.5}, "iterations"),
        ({"record_every": 0}, "record_every"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"schedule": "sometimes"}, "schedule"),
        ({"relaxation": 0.0}, "relaxation"),
        ({"relaxation": 1.1}, "relaxation"),
        ({"relaxation": np.nan}, "relaxation"),
        ({"loss": -0.1}, "loss"),
        ({"loss": 1.0}, "loss"),
        ({"loss": "a"}, "loss"),
        ({"order": [0, 1, 2]}, "order is for schedule='asynchronous'"),
        ({"order": [0, 1, 7], "schedule": "asynchronous"}, r"order\[2\] is 7"),
        ({"order": [0, [1], 2], "schedule": "asynchronous"}, r"order\[1\]"),
        ({"order": [0, 2], "schedule": "asynchronous"}, "never activates node 1"),
        ({"order": [], "schedule": "asynchronous"}, "order is empty"),
        ({"order": 3, "schedule": "asynchronous"}, "order must be a sequence"),
        ({"local_steps": 0}, "local_steps"),
        ({"local_steps": 1.5}, "local_steps"),
        ({"step_size": 0.1}, "give local_steps"),
        ({"local_steps": 2, "step_size": 0.0}, "step_size"),
        ({"local_steps": 2, "step_size": "large"}, "step_size"),
        ({"callback": 3}, "callback"),
        ({"optimum": [1.0, 2.0]}, "optimum"),
        ({"optimum": {0: [1.0]}}, "optimum has no vector for node 1"),
        ({"x0": [[1.0], [2.0, 3.0], [4.0]]}, "x0"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    network = pdmm.Network(nx.path_graph(3), QUADRATICS)
    with pytest.raises(ValueError, match=message):
        pdmm.solve_network(network, **settings)


def test_not_a_network() -> None:
    graph: Any = nx.path_graph(3)
    with pytest.raises(ValueError, match=r"pdmm\.Network"):
        pdmm.solve_network(graph)


@pytest.mark.parametrize(
    ("H", "c", "message"),
    [
        ([[1.0, 2.0], [0.0, 1.0]], [1.0, 1.0], "H is not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0], "not convex"),
        ([1.0, -1.0], [1.0, 1.0], "not convex"),
        (-0.5, [1.0], "not convex"),
        (np.stack([np.eye(2), -np.eye(2)]), np.ones((2, 2)), r"H\[1\] \(client 1\)"),
        (np.stack([np.eye(2), [[1.0, 0.5], [0.0, 1.0]]]), np.ones((2, 2)), r"H\[1\]"),
        (
            np.ones((3, 3)),
            [1.0, 1.0],
            "H must be a number, a diagonal or a matrix",
        ),
        (np.nan, [1.0], "H"),
        (1.0, [np.nan], "c has nan"),
        (1.0, [], "c is empty"),
        (1.0, np.ones((1, 1, 1)), "c must be"),
        ("a", [1.0], "H"),
    ],
)
def test_quadratics_that_are_refused(H: Any, c: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Quadratic(H, c)


def test_a_singular_quadratic_is_convex() -> None:
    v = np.random.default_rng(0).standard_normal((5, 2))
    pdmm.Quadratic(v @ v.T, np.ones(5))
    pdmm.Quadratic(0.0, [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.Absolute([]), "a is empty"),
        (lambda: pdmm.Absolute([np.inf]), "a has inf"),
        (lambda: pdmm.Absolute("a"), "a must hold"),
        (lambda: pdmm.Zero(0), "d must be"),
        (lambda: pdmm.Zero(1.5), "d must be"),  # type: ignore[arg-type]
    ],
)
def test_elementary_functions_that_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _unconnected(graph: Any, functions: Any, constraints: Any = None) -> pdmm.Network:
    with pytest.warns(RuntimeWarning, match="not connected"):
        return pdmm.Network(graph, functions, constraints)


def test_an_isolated_node_without_a_minimum_is_refused() -> None:
    graph = nx.path_graph(2)
    graph.add_node("relay")
    network = _unconnected(graph, [*QUADRATICS[:2], pdmm.Zero(1)])
    with pytest.raises(ValueError, match=r"node 'relay' has no unique update.*isolated"):
        pdmm.solve_network(network)


def test_a_node_that_nothing_holds_is_refused() -> None:
    B = np.array([[1.0, 0.0]])
    network = pdmm.Network(
        nx.path_graph(2), [pdmm.Quadratic(1.0, np.ones(2)), pdmm.Zero(2)], {(0, 1): (B, B)}
    )
    with pytest.raises(ValueError, match=r"node 1 has no unique update.*common kernel"):
        pdmm.solve_network(network)
    network = pdmm.Network(
        nx.path_graph(2),
        [pdmm.Quadratic(1.0, np.ones(2)), pdmm.Absolute([1.0, 2.0])],
        {(0, 1): (np.ones((1, 2)), np.ones((1, 2)))},
    )
    with pytest.raises(ValueError, match="node 1 has no unique update"):
        pdmm.solve_network(network)


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_every_component_has_its_own_optimum(schedule: Any) -> None:
    graph = nx.Graph([("a", "b"), ("c", "d"), ("d", "e")])
    graph.add_node("alone")
    readings = dict(zip(graph.nodes, [1.0, 3.0, 4.0, 5.0, 9.0, 7.0], strict=True))
    with pytest.warns(RuntimeWarning, match="3 components.*isolated: 'alone'"):
        network = pdmm.Network(
            graph, {n: pdmm.Quadratic(2.0, [2 * a]) for n, a in readings.items()}
        )
    result = pdmm.solve_network(network, 0.8, 400, schedule)
    expected = {"a": 2.0, "b": 2.0, "c": 6.0, "d": 6.0, "e": 6.0, "alone": 7.0}
    for node, value in expected.items():
        assert result.x[node][0] == pytest.approx(value, abs=1e-10)
        assert result.optimum is not None
        assert result.optimum[node][0] == pytest.approx(value, abs=1e-12)
    assert result.history["error"][-1] < 1e-10
    assert result.history["messages"][-1] == 400 * 6


def test_many_components() -> None:
    graph = nx.Graph([(2 * k, 2 * k + 1) for k in range(25)])
    a = np.random.default_rng(0).standard_normal((50, 2))
    for functions in (pdmm.Quadratic(1.0, a), pdmm.Quadratic(np.tile(np.eye(2), (50, 1, 1)), a)):
        result = pdmm.solve_network(_unconnected(graph, functions), 1.0, 100)
        expected = np.repeat((a[0::2] + a[1::2]) / 2, 2, axis=0)
        order = [list(graph.nodes).index(k) for k in range(50)]
        np.testing.assert_allclose(np.asarray(result.x)[order], expected[order], atol=1e-12)
        assert result.history["error"][-1] < 1e-12


def test_components_of_absolute_values_and_of_nothing() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (3, 4)])
    functions = [pdmm.Absolute([[0.0], [1.0], [5.0]]), pdmm.Zero(1), pdmm.Zero(1)]
    result = pdmm.solve_network(_unconnected(graph, functions), 0.5, 300, relaxation=0.9, x0=2.0)
    np.testing.assert_allclose(np.asarray(result.x)[:3], 1.0, atol=1e-10)
    np.testing.assert_allclose(np.asarray(result.x)[3:], 2.0, atol=1e-10)
    assert result.history["error"][-1] < 1e-10
    assert result.optimum is not None
    assert result.optimum[0] == 1.0


@pytest.mark.parametrize("constrained", [False, True])
def test_isolated_nodes_go_to_their_own_minimum(constrained: bool) -> None:
    rng = np.random.default_rng(0)
    graph = nx.path_graph(2)
    value, slope, _, twin = _log_cosh(0, 2)
    functions: list[pdmm.Problem] = [pdmm.Absolute([1.0, 2.0]) for _ in range(2)]
    alone: dict[str, tuple[pdmm.Problem, Vector]] = {
        "absolute": (pdmm.Absolute([3.0, 4.0]), np.array([3.0, 4.0])),
        "quadratic": (pdmm.Quadratic(2.0, [3.0, 4.0]), np.array([1.5, 2.0])),
        "mine": (pdmm.Functions([value], [slope], 2), twin.update(np.zeros((2, 2)), np.zeros(2))),
    }
    graph.add_nodes_from(alone)
    functions += [problem for problem, _ in alone.values()]
    B = {(0, 1): (rng.standard_normal((3, 2)), rng.standard_normal((3, 2)))}
    network = _unconnected(graph, functions, B if constrained else None)
    for schedule in ("synchronous", "asynchronous"):
        result = pdmm.solve_network(network, 0.7, 3, schedule, relaxation=0.9)
        for node, (_, expected) in alone.items():
            np.testing.assert_allclose(result.x[node], expected, atol=1e-8)


@pytest.mark.parametrize("local_steps", [None, 2])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("whole", [False, True])
def test_an_error_in_a_user_s_function_names_the_node(
    whole: bool, schedule: Any, local_steps: int | None
) -> None:
    """It fails in the third iteration: the history until then is kept."""
    armed: list[int] = []

    def slope(x: Vector) -> Vector:
        if armed:
            raise RuntimeError("sensor broken")
        return x - 1

    def value(x: Vector) -> float:
        return float((x - 1) @ (x - 1)) / 2

    good = pdmm.Functions([value], [lambda x: x - 1], 1, smoothness=1.0)
    functions: Any = [good, pdmm.Functions([value], [slope], 1, smoothness=1.0), good]
    if whole:
        functions = pdmm.Functions(
            [value] * 3, [lambda x: x - 1, slope, lambda x: x - 1], 1, smoothness=1.0
        )
    graph = nx.Graph([("north", "east"), ("east", "south")])
    with pytest.raises(pdmm.ClientError, match="sensor broken") as caught:
        pdmm.solve_network(
            pdmm.Network(graph, functions),
            schedule=schedule,
            local_steps=local_steps,
            optimum=False,
            callback=lambda k, x: armed.append(k) if k == 2 else None,
        )
    assert "node 'east'" in str(caught.value)
    assert "in iteration 3" in caught.value.__notes__
    history = caught.value.history
    assert history["iteration"].tolist() == [0, 1, 2]
    assert {len(column) for column in history.values()} == {3}


@pytest.mark.parametrize("whole", [False, True])
def test_an_error_at_the_start_names_the_node(whole: bool) -> None:
    def slope(x: Vector) -> Vector:
        raise RuntimeError("sensor broken")

    def value(x: Vector) -> float:
        return float(x @ x)

    graph = nx.Graph([("north", "east")])
    functions: Any = [pdmm.Functions([value], [g], 1) for g in (lambda x: 2 * x, slope)]
    if whole:
        functions = pdmm.Functions([value] * 2, [lambda x: 2 * x, slope], 1)
    with pytest.raises(pdmm.ClientError, match="node 'east'"):
        pdmm.solve_network(pdmm.Network(graph, functions))


def test_a_value_that_fails_keeps_the_history_whole() -> None:
    armed: list[int] = []

    def value(x: Vector) -> float:
        if armed:
            raise RuntimeError("meter broken")
        return float((x - 1) @ (x - 1)) / 2

    functions = [pdmm.Quadratic(1.0, [1.0]), pdmm.Functions([value], [lambda x: x - 1], 1,
                                                           smoothness=1.0)]  # fmt: skip
    network = pdmm.Network(nx.Graph([("north", "east")]), functions)
    with pytest.raises(pdmm.ClientError, match=r"node 'east'.*meter broken") as caught:
        pdmm.solve_network(
            network,
            iterations=5,
            local_steps=1,
            optimum=False,
            callback=lambda k, x: armed.append(k),
        )
    history = caught.value.history
    assert history is not None
    assert len({len(column) for column in history.values()}) == 1
    assert "objective" in history or not history


def test_a_gradient_that_is_not_finite_is_told() -> None:
    def slope(x: Vector) -> Vector:
        return x - 1 if abs(x[0]) < 0.1 else np.nan * x

    def value(x: Vector) -> float:
        return float((x - 1) @ (x - 1)) / 2

    functions = [pdmm.Quadratic(1.0, [1.0]), pdmm.Functions([value], [slope], 1, smoothness=1.0)]
    network = pdmm.Network(nx.Graph([("north", "east")]), functions)
    with pytest.warns(RuntimeWarning, match="the exact update of node 'east' stopped at"):
        pdmm.solve_network(network, iterations=5, optimum=False)


def test_divergence_is_told() -> None:
    network = pdmm.Network(nx.path_graph(3), pdmm.Quadratic(1.0, np.ones((3, 1))))
    result = pdmm.solve_network(network, 1.0, 6000, local_steps=3, step_size=50.0)
    assert result.diverged
    assert "step_size=50" in result.reason
    assert np.isfinite(np.asarray(result.x)).all()  # as NetworkResult.diverged promises


# --- rho="auto" ---------------------------------------------------------------------------

GRAPHS: dict[str, Any] = {
    "path": nx.path_graph(12),
    "cycle": nx.cycle_graph(11),
    "even cycle": nx.cycle_graph(12),
    "complete": nx.complete_graph(7),
    "star": nx.star_graph(8),
    "grid": nx.grid_2d_graph(4, 4),
    "bipartite": nx.complete_bipartite_graph(3, 5),
    "random": nx.random_geometric_graph(40, 0.35, seed=1),
    "pair": nx.path_graph(2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_auto_on_many_graphs(name: str) -> None:
    graph = GRAPHS[name]
    n = len(graph)
    rng = np.random.default_rng(0)
    for functions, iterations in (
        (pdmm.Quadratic(1.0, rng.standard_normal((n, 1))), 250),
        (pdmm.Quadratic(1000.0, 1000 * rng.standard_normal((n, 1))), 250),
        (pdmm.LeastSquares(rng.standard_normal((n, 5, 3)), rng.standard_normal((n, 5))), 600),
    ):
        network = pdmm.Network(graph, functions)
        schedules: tuple[Any, ...] = ("synchronous", "asynchronous")
        for schedule in schedules[: 2 if iterations == 250 else 1]:
            result = pdmm.solve_network(network, "auto", iterations, schedule)
            assert result.history["error"][-1] < 1e-7
            assert len(result.choices) == 1
            assert result.choices[0].startswith("rho ")
            assert "slowest eigenvalue" in result.choices[0]


@pytest.mark.parametrize("graph", [nx.path_graph(6), nx.star_graph(5), nx.grid_2d_graph(2, 3)])
def test_auto_of_functions_that_are_not_quadratic(graph: Any) -> None:
    n = len(graph)
    X, y = _softmax_data(1, n)
    result = pdmm.solve_network(
        pdmm.Network(graph, pdmm.SoftmaxRegression(X, y, 2, 0.3)), "auto", 60, record_every=10
    )
    assert result.history["error"][-1] < 1e-2 * result.history["error"][0]
    for scale in (1e-3, 1e3):
        a = scale * np.random.default_rng(0).standard_normal((n, 1))
        network = pdmm.Network(graph, pdmm.Absolute(a))
        result = pdmm.solve_network(network, "auto", 3000, relaxation=0.9, record_every=100)
        assert result.history["error"][-1] < 1e-6 * scale
        assert result.history["consensus"][-1] < 1e-6 * scale
        assert "spread" in result.choices[0]


def test_auto_scales_with_the_functions() -> None:
    a = np.random.default_rng(0).standard_normal((12, 1))
    rhos = [
        pdmm.solve_network(pdmm.Network(GRAPHS["path"], pdmm.Quadratic(h, h * a)), "auto", 1).rho
        for h in (1e-4, 1.0, 1e4)
    ]
    np.testing.assert_allclose(rhos, [1e-4 * rhos[1], rhos[1], 1e4 * rhos[1]], rtol=1e-2)


@pytest.mark.parametrize("where", ["no edges", "no curvature", "constraints"])
def test_auto_where_little_is_known(where: str) -> None:
    if where == "no edges":
        network = pdmm.Network(nx.empty_graph(1), [pdmm.Quadratic(1.0, [1.0])])
        result = pdmm.solve_network(network, "auto", 2)
        assert "without edges" in result.choices[0]
        assert result.rho == 1.0
    elif where == "no curvature":
        network = pdmm.Network(nx.path_graph(2), [pdmm.Zero(1), pdmm.Zero(1)])
        result = pdmm.solve_network(network, "auto", 100, x0={0: 1.0, 1: 3.0}, relaxation=0.5)
        assert "no curvature" in result.choices[0]
        np.testing.assert_allclose(result.x[0], result.x[1], atol=1e-12)
    else:
        result = pdmm.solve_network(CASES["constraints"].network, "auto", 2)
        assert "slowest eigenvalue" in result.choices[0]
    given = pdmm.solve_network(CASES["constraints"].network, 0.7, 2)
    assert given.choices == ()
    assert given.rho == 0.7


REGULAR: dict[str, Any] = {
    "odd cycle": nx.cycle_graph(15),
    "even cycle": nx.cycle_graph(16),
    "complete": nx.complete_graph(8),
    "random regular": nx.random_regular_graph(4, 24, seed=2),
    "hypercube": nx.hypercube_graph(4),
    "Petersen": nx.petersen_graph(),
}


@pytest.mark.parametrize("h", [1.0, 0.2])
@pytest.mark.parametrize("name", REGULAR)
def test_auto_is_the_best_rho_on_regular_graphs(name: str, h: float) -> None:
    graph = REGULAR[name]
    adjacency = nx.to_numpy_array(graph)
    k = float(adjacency.sum(0)[0])
    sizes = np.abs(np.linalg.eigvalsh(adjacency))
    second = float(sizes[sizes < k - 1e-9].max())
    a = np.random.default_rng(1).standard_normal((len(graph), 1))
    network = pdmm.Network(graph, pdmm.Quadratic(h, h * a))
    result = pdmm.solve_network(network, "auto", 300)
    assert result.rho == pytest.approx(h / np.sqrt(k**2 - second**2), rel=0.03)
    mine = result.history.iterations_to(1e-6)
    assert mine is not None
    sweep = [
        pdmm.solve_network(network, rho, 300).history.iterations_to(1e-6)
        for rho in h * np.geomspace(0.05, 10, 12)
    ]
    assert mine <= 1.5 * min(k for k in sweep if k is not None)


def test_auto_on_a_graph_too_large_for_the_whole_spectrum() -> None:
    graph = nx.random_regular_graph(4, 650, seed=3)
    second = np.sort(np.abs(np.linalg.eigvalsh(nx.to_numpy_array(graph))))[-2]
    a = np.random.default_rng(0).standard_normal((700, 1))
    result = pdmm.solve_network(pdmm.Network(graph, pdmm.Quadratic(1.0, a[:650])), "auto", 150)
    assert result.rho == pytest.approx(1 / np.sqrt(16 - second**2), rel=0.05)
    assert result.history["error"][-1] < 1e-9
    even = nx.cycle_graph(700)  # two eigenvalues of size 1, both known
    result = pdmm.solve_network(
        pdmm.Network(even, pdmm.Quadratic(1.0, a)), "auto", 1, optimum=False
    )
    assert result.rho > 5


# --- determinism and schedules ------------------------------------------------------------


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("name", ["vectors", "constraints"])
def test_the_same_call_gives_the_same_bits(name: str, schedule: Any, loss: float) -> None:
    case = CASES[name]
    runs = [
        pdmm.solve_network(case.network, "auto", 30, schedule, loss=loss, seed=seed, relaxation=0.9)
        for seed in (5, 5, 6)
    ]
    first, again, other = (flat(run.x, case.nodes) for run in runs)
    assert (first == again).all()
    for column in ("error", "consensus", "objective"):
        if column in runs[0].history:
            assert (runs[0].history[column] == runs[1].history[column]).all()
    for ends in runs[0].dual:
        assert (runs[0].dual[ends] == runs[1].dual[ends]).all()
    random = schedule == "asynchronous" or loss > 0
    assert (first != other).any() == random


def test_what_ran_before_does_not_matter() -> None:
    case = CASES["quadratics"]
    before = flat(pdmm.solve_network(case.network, 0.7, 10).x, case.nodes)
    pdmm.solve_network(case.network, 3.0, 10, "asynchronous", local_steps=2, loss=0.5)
    after = flat(pdmm.solve_network(case.network, 0.7, 10).x, case.nodes)
    assert (before == after).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), repeats=st.booleans())
def test_levels_keep_the_order_of_neighbours(seed: int, n: int, repeats: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(n, 0.3, seed=seed)
    ends = np.array(list(graph.edges), dtype=np.intp).reshape(-1, 2)
    incidence = Incidence(n, ends[:, 0].copy(), ends[:, 1].copy())
    sequence = rng.integers(0, n, n + 3) if repeats else rng.permutation(n)
    made = plan(incidence, sequence)
    assert (made.sequence == sequence).all()
    found = np.split(made.order, made.cuts)
    level_of = np.empty(len(sequence), dtype=int)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(sequence)))
    for depth, positions in enumerate(found):
        assert len(positions) > 0
        level_of[positions] = depth
        for p, q in itertools.combinations(positions, 2):
            assert sequence[p] != sequence[q]
            assert not graph.has_edge(sequence[p], sequence[q])
    for p, q in itertools.combinations(range(len(sequence)), 2):
        if sequence[p] == sequence[q] or graph.has_edge(sequence[p], sequence[q]):
            assert level_of[p] < level_of[q]
    for q in range(len(sequence)):  # no one waits for nothing
        before = [
            level_of[p]
            for p in range(q)
            if sequence[p] == sequence[q] or graph.has_edge(sequence[p], sequence[q])
        ]
        assert level_of[q] == max(before, default=-1) + 1


# --- what is returned ---------------------------------------------------------------------


def test_a_callback_can_stop() -> None:
    case, seen = CASES["quadratics"], []

    def callback(iteration: int, x: Any) -> bool:
        seen.append(iteration)
        return iteration == 4

    result = pdmm.solve_network(
        case.network, 0.7, 100, record_every=3, callback=callback, optimum=False
    )
    assert seen == [1, 2, 3, 4]
    assert result.iterations == 4
    assert result.history["iteration"].tolist() == [0, 3, 4]
    assert result.reason == "stopped by the callback after iteration 4"
    plain = pdmm.solve_network(case.network, 0.7, 4)
    assert (np.asarray(result.x) == np.asarray(plain.x)).all()


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_a_callback_gets_copies(schedule: Any) -> None:
    case = CASES["quadratics"]
    kept: list[tuple[Any, npt.NDArray[Any]]] = []

    def spoil(iteration: int, x: Any) -> None:
        kept.append((x, np.array(x)))
        if iteration == 5:
            for node in x:
                x[node][:] = np.nan

    result = pdmm.solve_network(case.network, 0.7, 10, schedule, callback=spoil)
    plain = pdmm.solve_network(case.network, 0.7, 10, schedule)
    assert (np.asarray(result.x) == np.asarray(plain.x)).all()
    for k, (x, copy) in enumerate(kept, 1):
        if k != 5:
            assert (np.asarray(x) == copy).all()


def test_the_result_s_mappings() -> None:
    case = CASES["constraints"]
    result = pdmm.solve_network(case.network, 0.7, 5, optimum=False)
    assert list(result.x) == case.nodes
    assert len(result.x) == len(case.nodes)
    assert case.nodes[0] in result.x
    assert "nobody" not in result.x
    assert result.x.get("nobody") is None
    with pytest.raises(KeyError, match="no node 'nobody'"):
        result.x["nobody"]
    with pytest.raises(KeyError, match="no node"):
        result.x[[1]]
    with pytest.raises(ValueError, match="different lengths"):
        np.asarray(result.x)
    ends = {(i, j) for i, j in case.twin.B}
    assert set(result.dual) == ends
    assert len(result.dual) == len(ends) == 2 * len(case.twin.edges)
    for i, j in ends:
        assert result.dual[i, j].shape == (len(case.twin.B[i, j]),)
    missing: Any
    for missing in ((case.nodes[0], "nobody"), (case.nodes[0],) * 2, "ab", 3, (1, 2, 3), ([1], 2)):
        with pytest.raises(KeyError, match="no edge"):
            result.dual[missing]
    apart = [pair for pair in itertools.combinations(case.nodes, 2) if pair not in ends]
    with pytest.raises(KeyError, match="no edge"):
        result.dual[apart[0]]


def test_x_as_an_array() -> None:
    case = CASES["quadratics"]
    result = pdmm.solve_network(case.network, 0.7, 5)
    rows = np.asarray(result.x)
    assert rows.shape == (len(case.nodes), 2)
    for row, node in zip(rows, case.nodes, strict=True):
        assert (row == result.x[node]).all()
    assert np.asarray(result.x, dtype=np.float32).dtype == np.float32
    copy = np.array(result.x)
    copy[:] = 0
    assert np.asarray(result.x).any()
    numbers = pdmm.solve_network(CASES["numbers"].network, 0.7, 5)
    assert np.asarray(numbers.x).shape == (8, 1)
    assert all(numbers.x[node].shape == (1,) for node in numbers.x)
    assert all(numbers.dual[ends].shape == (1,) for ends in numbers.dual)


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("local_steps", [None, 2])
def test_a_graph_of_one_node(schedule: Any, local_steps: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network = pdmm.Network(nx.empty_graph(1), [pdmm.Quadratic([2.0, 4.0], [3.0, 4.0])])
    result = pdmm.solve_network(network, 1.0, 100, schedule, local_steps=local_steps, loss=0.1)
    np.testing.assert_allclose(result.x[0], [1.5, 1.0], atol=1e-12)
    assert len(result.dual) == 0
    assert (result.history["messages"] == 0).all()
    assert (result.history["consensus"] == 0).all()
    assert result.history["error"][-1] < 1e-12


def test_representations() -> None:
    case = CASES["constraints"]
    assert "7 nodes" in repr(case.network)
    assert "dimension 1..3" in repr(case.network)
    assert "12 nodes, 12 edges, dimension 1" in repr(
        pdmm.Network(nx.cycle_graph(12), pdmm.Quadratic(1.0, np.ones((12, 1))))
    )
    assert "Quadratic(12 clients, dimension 1" in repr(pdmm.Quadratic(1.0, np.ones((12, 1))))


@pytest.mark.parametrize("relaxation", [1.0, 0.5])
def test_without_losses_a_broadcast_of_x_is_enough(relaxation: float) -> None:
    """Every node sends x_i alone, and mirrors what its neighbours hold of it."""
    rng = np.random.default_rng(4)
    graph = nx.gnp_random_graph(12, 0.4, seed=5)
    assert nx.is_connected(graph)
    a, rho = rng.standard_normal((12, 2)), 0.6
    network = pdmm.Network(graph, pdmm.Quadratic(1.0, a))
    # held[i][j] is z_{j|i}, which i uses; mirror[i][j] is i's copy of z_{i|j}, which j uses.
    held = {i: {j: np.zeros(2) for j in graph[i]} for i in graph}
    mirror = {i: {j: np.zeros(2) for j in graph[i]} for i in graph}
    for _ in range(30):
        heard = {i: (a[i] + rho * sum(held[i].values())) / (1 + rho * len(held[i])) for i in graph}
        for i in graph:
            for j in graph[i]:
                mine, theirs = held[i][j].copy(), mirror[i][j].copy()
                # j sent only x_j; it made the message from z_{i|j}, of which i has a copy
                held[i][j] = mine + relaxation * (2 * heard[j] - theirs - mine)
                mirror[i][j] = theirs + relaxation * (2 * heard[i] - mine - theirs)
    result = pdmm.solve_network(network, rho, 30, relaxation=relaxation)
    np.testing.assert_allclose(np.asarray(result.x), [heard[i] for i in graph], atol=1e-13)


def test_a_prox_decides_wherever_its_node_allows_it() -> None:
    """An interval by its prox: the gradient, 0, knows nothing of it."""

    def interval() -> pdmm.Functions:
        return pdmm.Functions(
            [lambda x: 0.0 if ((x >= 1) & (x <= 2)).all() else np.inf],
            [lambda x: 0 * x],
            2,
            prox=[lambda v, t: np.clip(v, 1, 2)],
        )

    B = np.diag([1.0, 2.0])
    others = [pdmm.Quadratic(1.0, [0.0, 0.0]), pdmm.Quadratic(1.0, [0.0, 5.0])]
    free = pdmm.Network(nx.path_graph(3), [interval(), *others], {(1, 2): (B, B)})
    result = pdmm.solve_network(free, iterations=400, relaxation=0.9)
    np.testing.assert_allclose(np.asarray(result.x), np.tile([1.0, 2.0], (3, 1)), atol=1e-6)
    assert "error" not in result.history  # the optimum is not where the gradients vanish
    held = pdmm.Network(nx.path_graph(3), [interval(), *others], {(0, 1): (B, B)})
    with pytest.raises(ValueError, match="node 0 has a function with a prox"):
        pdmm.solve_network(held)
    alone = nx.empty_graph(1)
    result = pdmm.solve_network(pdmm.Network(alone, [interval()]), iterations=5)
    np.testing.assert_array_equal(result.x[0], [1.0, 1.0])


def test_matrices_are_copied_and_judged_node_by_node() -> None:
    B = np.eye(1)
    network = pdmm.Network(
        nx.path_graph(2), pdmm.Quadratic(1.0, np.array([[1.0], [2.0]])), {(0, 1): B, (1, 0): B}
    )
    B[:] = 5
    assert float(pdmm.solve_network(network, iterations=60).x[0][0]) == pytest.approx(1.5)
    c = np.random.default_rng(0).normal(size=(4, 2))
    B, eye = np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2)
    given = {(0, 1): (B, B), (1, 2): (eye, eye), (2, 3): (1e8 * eye, 1e8 * eye)}
    network = pdmm.Network(nx.path_graph(4), pdmm.Quadratic(1.0, c), given)
    first = pdmm.solve_network(network, rho=1.0, iterations=1).x[0]
    np.testing.assert_allclose(first, np.linalg.solve(eye + B.T @ B, c[0]), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-13), (np.float32, 1e-5)])
@pytest.mark.parametrize("rho", [1.0, 1e-3, 1e-6, 1e-9])
def test_one_row_a_node_is_exact_whatever_rho(rho: float, dtype: Any, close: float) -> None:
    rng = np.random.default_rng(3)
    A, b = 10 * rng.standard_normal((6, 1, 5)), rng.standard_normal((6, 1))
    problem = pdmm.LeastSquares(A.astype(dtype), b.astype(dtype))
    x0 = rng.standard_normal(5)
    network = pdmm.Network(nx.cycle_graph(6), problem)
    x = np.asarray(pdmm.solve_network(network, rho, 1, x0=x0, optimum=False).x)
    for i in range(6):
        along = A[i, 0] @ A[i, 0]
        exact = x0 + A[i, 0] * (b[i, 0] - A[i, 0] @ x0) / (along + 2 * rho)
        np.testing.assert_allclose(x[i], exact, atol=close * np.abs(exact).max())


def test_a_flat_sum_has_no_optimum_to_measure_from() -> None:
    flat = pdmm.Functions(
        [lambda x: 0.5 * (x[0] - 1) ** 2], [lambda x: np.array([x[0] - 1, 0.0])], 2
    )
    network = pdmm.Network(nx.path_graph(2), [flat, pdmm.Zero(2)])
    result = pdmm.solve_network(network, iterations=50, relaxation=0.9, x0=[0.0, 7.0])
    assert result.optimum is None
    with pytest.raises(KeyError, match="optimum is not known"):
        result.history["error"]


def test_one_matrix_or_diagonals_is_asked_for() -> None:
    H = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="may be one matrix or 3 diagonals"):
        pdmm.Quadratic(H, np.eye(3))


def test_what_circles_is_told_whatever_its_kind() -> None:
    lines = [pdmm.Quadratic(0.0, [1.0]), pdmm.Quadratic(0.0, [-1.0])]
    network = pdmm.Network(nx.path_graph(2), lines)
    assert "try relaxation=0.9" in pdmm.solve_network(network, iterations=200).reason
    path = pdmm.Network(nx.path_graph(40), pdmm.Absolute(np.arange(40.0)[:, None]))
    assert pdmm.solve_network(path, iterations=2).reason == "all 2 iterations done"
