"""Iterates of PDMM on graphs: those of naive twins, of the method with a server, and of ADMM."""

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.networks import (
    CASES,
    assert_same,
    consensus_case,
    constrained_case,
    flat,
    follow,
    orders,
    sequences,
)
from twins import networks as nt
from twins.networks import Averaged, Losses, Node, Pdmm

nx: Any = importlib.import_module("networkx")


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
