"""Nodes with a user's functions or a softmax: exact updates by a solver or a prox, and errors."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import Case, connected, follow, log_cosh, sequences, softmax_data
from twins import methods as twins
from twins import networks as nt
from twins.networks import Graph, Matrix, Node, Pdmm, Vector

nx: Any = importlib.import_module("networkx")


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("known_prox", [False, True])
def test_a_user_s_functions(known_prox: bool, schedule: Any, constrained: bool) -> None:
    rng = np.random.default_rng(6)
    d, graph = 2, nx.cycle_graph(4)
    made = [log_cosh(seed, d) for seed in range(4)]
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
    made = [log_cosh(seed, 3) for seed in range(5)]
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


@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
@pytest.mark.parametrize("form", ["whole", "list", "constraints"])
def test_softmax(form: str, schedule: Any) -> None:
    n, classes, l2, d = 4, 2, 0.2, 4
    X, y = softmax_data(3, n)
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
    X, y = softmax_data(4, 4)
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


def test_a_mixture_of_everything() -> None:
    """The sum's minimum is found from its slope, by bisection."""
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((2, 4, 1)), rng.standard_normal((2, 4))
    (value, slope, *_), second = log_cosh(2, 1), log_cosh(3, 1)
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
