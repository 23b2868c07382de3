"""``pdmm.solve_network``: PDMM on any graph, synchronously or asynchronously."""

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any, Literal

from pdmm.common.checks import ClientError, is_auto, moderate, positive
from pdmm.common.matrices import largest_entry
from pdmm.common.sizes import check_start
from pdmm.common.threads import Threads
from pdmm.graphs import reasons
from pdmm.graphs.direct_solve import direct
from pdmm.graphs.loop import Loop
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group, LocalSteps, Updates, Vector
from pdmm.graphs.nodes.grouping import grouped
from pdmm.graphs.optimum import Optimum
from pdmm.graphs.penalty import Choice, choose_rho
from pdmm.graphs.record import Recorder
from pdmm.graphs.result import NetworkResult
from pdmm.graphs.run import Run
from pdmm.graphs.schedule import read_order
from pdmm.graphs.settings import Schedule, Settings, checked
from pdmm.graphs.vectors import EdgeVectors, NodeVectors, read_vectors
from pdmm.problems.block import Block


def solve_network(
    network: Network,
    rho: float | Literal["auto"] = 1.0,
    iterations: int = 300,
    schedule: Schedule = "synchronous",
    order: Any = None,
    relaxation: float = 1.0,
    loss: float = 0.0,
    record_every: int = 1,
    seed: int = 0,
    *,
    x0: Any = None,
    local_steps: int | None = None,
    step_size: float | Literal["auto"] = "auto",
    optimum: Any = None,
    callback: Callable[[int, NodeVectors], bool | None] | None = None,
) -> NetworkResult:
    """Minimise the sum of a network's functions with PDMM, each node talking to its neighbours.

    Args:
        network: a graph with functions and constraints.
        rho: the penalty, which sets how fast it goes but not where; "auto" chooses it by
            the functions' curvature and the graph's spectrum.
        iterations: how many.
        schedule: "synchronous": in an iteration all nodes move, from what they heard before.
            "asynchronous": one node moves at a time, from the newest it heard; an iteration
            is as many activations as there are nodes.
        order: of the asynchronous activations: a sequence of nodes, repeated. If not given,
            every iteration is a fresh random permutation.
        relaxation: above 0, at most 1. 1 is PDMM, 1/2 is ADMM. With 1 it converges where
            every f_i is strongly convex and smooth; take less, say 0.9, where they are not
            (absolute values).
        loss: the probability that a message is lost, each on its own. The receiver then keeps
            what it last heard; no one need know.
        record_every: record every so many iterations (and the last).
        seed: of the random orders and the losses.
        x0: the start: a dict from nodes to vectors, an array (nodes, d), or one vector for
            all; zeros if not given.
        local_steps: None for exact updates. A number K replaces them by K gradient steps
            (GPDMM) at all nodes with a gradient; Zero, Absolute and functions with their own
            prox stay exact.
        step_size: of the gradient steps; "auto" is 1/L_i at every node.
        optimum: the minimiser, for the history's ``error``, like ``x0``. Found by a direct solve
            if not given, where there is one; ``False`` saves that work.
        callback: called as ``callback(iteration, x)`` after every iteration, with ``x[node]``;
            a true answer stops.

    Returns:
        A :class:`pdmm.NetworkResult`: ``x[node]``, ``dual[i, j]``, and ``history`` with a row for
        the start and for every recorded iteration, and the columns

        - ``iteration``, ``seconds``;
        - ``error``: root mean square over nodes of ‖x_i - x_i*‖;
        - ``consensus``: root mean square over edges of ‖B_{i|j} x_i - B_{j|i} x_j‖;
        - ``objective``: the sum of f_i(x_i);
        - ``messages``, ``bytes``: sent so far by all nodes, lost ones included.

    Example:
        >>> import networkx as nx, numpy as np, pdmm
        >>> graph = nx.random_geometric_graph(50, 0.3, seed=1)
        >>> readings = np.random.default_rng(0).normal(20.0, 2.0, (50, 1))
        >>> network = pdmm.Network(graph, pdmm.Quadratic(1.0, readings))
        >>> result = pdmm.solve_network(network, rho="auto", iterations=200, loss=0.2)
        >>> bool(np.allclose(np.asarray(result.x), readings.mean(), atol=1e-6))
        True
    """
    begun = perf_counter()
    if not isinstance(network, Network):
        raise ValueError(f"network must be a pdmm.Network, got {network!r}")
    settings = checked(
        iterations=iterations,
        record_every=record_every,
        seed=seed,
        schedule=schedule,
        relaxation=relaxation,
        loss=loss,
        order=order,
        local_steps=local_steps,
        step_size=step_size,
        callback=callback,
    )
    start = read_vectors("x0", x0, network)
    check_start("it", largest_entry(start), network.dtype)
    activations = None
    if settings.schedule == "asynchronous":
        activations = read_order(network, order, settings.seed)
    for problem in network.problems:
        problem.check_data()
    with Threads(1) as threads:  # one BLAS thread: the same bits on any machine
        groups = grouped(network, threads)
        for group in groups:
            group.check(start[network.entries(group.nodes, group.dimension)], settings.exact)
        penalty, choices = _penalty(rho, network, groups)
        known = _known_optimum(optimum, network, groups)
        updates = _updates(network, groups, penalty, settings, start)
        run = Run(
            network, updates, start, penalty, settings.relaxation, settings.loss, settings.seed
        )
        recorder = Recorder(network, groups, known)
        loop = Loop(run, activations, recorder, settings)
        setup_seconds = perf_counter() - begun
        recorder.start_clock()
        try:
            ending = loop.go()
            history = recorder.history()
        except ClientError as error:
            error.add_note(loop.where)
            error.history = recorder.history()
            raise
        dual = run.dual
    x = run.x.reshape(-1)
    reason = ending.reason
    if ending.diverged:
        reason = reasons.diverged(network, x, ending.iterations, settings)
        x = recorder.last
    elif reasons.stuck(history):
        reason += reasons.why_stuck(groups, settings.relaxation, penalty, bool(choices))
    _warn_of_solver(network, updates)
    return NetworkResult(
        x=NodeVectors(network, x.copy()),
        dual=EdgeVectors(network, dual),
        history=history,
        reason=reason,
        diverged=ending.diverged,
        iterations=ending.iterations,
        rho=penalty,
        optimum=None if known is None else NodeVectors(network, known.middle),
        setup_seconds=setup_seconds,
        seed=settings.seed,
        choices=choices,
    )


def _penalty(rho: Any, network: Network, groups: list[Group]) -> Choice:
    """rho, and why, if it was chosen for the user."""
    if is_auto(rho):
        chosen, why = choose_rho(network, groups)
        return positive("rho", chosen), why
    return moderate("rho", rho), ()


def _known_optimum(optimum: Any, network: Network, groups: list[Group]) -> Optimum | None:
    """What the user gave, or found by a direct solve."""
    if optimum is None:
        return direct(network, groups)
    if optimum is False:
        return None
    if optimum is True:
        raise ValueError("optimum must be the minimiser, None or False, got True")
    point = read_vectors("optimum", optimum, network)
    return Optimum(point, point)


def _updates(
    network: Network, groups: list[Group], rho: float, settings: Settings, start: Vector
) -> list[Updates]:
    """What the nodes do, exactly or by gradient steps."""
    if settings.local_steps is None:
        return [group.exact(network, rho) for group in groups]
    steps = LocalSteps(settings.local_steps, settings.step_size, start)
    return [group.inexact(network, rho, steps) for group in groups]


def _warn_of_solver(network: Network, updates: list[Updates]) -> None:
    worst, node = max(group.missed for group in updates)
    if worst > Block.tolerance:
        warnings.warn(
            f"the exact update of {network.name(node)} stopped at a relative residual of "
            f"{worst:.1e}, above the tolerance {Block.tolerance:.0e}",
            RuntimeWarning,
            stacklevel=3,
        )
