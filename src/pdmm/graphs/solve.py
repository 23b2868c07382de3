"""``pdmm.solve_network``: PDMM on any graph, synchronously or asynchronously."""

import warnings
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError, number, one_of, positive, vector, whole
from pdmm.common.threads import Threads
from pdmm.graphs.network import Network, NodeVectors
from pdmm.graphs.nodes import Group, SmoothGroup, groups, inexact, naming
from pdmm.graphs.penalty import choose_rho
from pdmm.graphs.record import Recorder
from pdmm.graphs.reference import Optimum, direct
from pdmm.graphs.result import EdgeVectors, NetworkHistory, NetworkResult
from pdmm.graphs.run import Run, activations_of
from pdmm.problems.base import Block
from pdmm.problems.functions import Functions

TOO_LARGE = 1e30  # a norm that only a diverging run reaches, and that float32 still holds
Schedule = Literal["synchronous", "asynchronous"]


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
    iterations = whole("iterations", iterations, at_least=1)
    record_every = whole("record_every", record_every, at_least=1)
    seed = whole("seed", seed, at_least=0)
    one_of("schedule", schedule, ("synchronous", "asynchronous"))
    relaxation = positive("relaxation", relaxation)
    if relaxation > 1:
        raise ValueError(f"relaxation must be at most 1, got {relaxation}")
    loss = number("loss", loss)
    if not 0 <= loss < 1:
        raise ValueError(f"loss must be at least 0 and below 1, got {loss}")
    if order is not None and schedule == "synchronous":
        raise ValueError("order is for schedule='asynchronous': synchronous nodes move together")
    if local_steps is not None:
        local_steps = whole("local_steps", local_steps, at_least=1)
    by_itself = isinstance(step_size, str) and step_size == "auto"
    eta = None if by_itself else positive("step_size", step_size)
    if eta is not None and local_steps is None:
        raise ValueError("step_size is for gradient steps: give local_steps too")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable as callback(iteration, x), got {callback!r}")
    start = _vectors("x0", x0, network)
    activations = activations_of(network, order, seed) if schedule == "asynchronous" else None
    with Threads(1) as threads:  # one BLAS thread: the same bits on any machine
        parts = groups(network, threads)
        _check(network, start, exact=local_steps is None)
        why: tuple[str, ...] = ()
        if isinstance(rho, str) and rho == "auto":
            rho, why = choose_rho(network, parts)
        rho = positive("rho", rho)
        known: Optimum | None = None
        if optimum is None:
            known = direct(network, parts)
        elif optimum is True:
            raise ValueError("optimum must be the minimiser, None or False, got True")
        elif optimum is not False:
            point = _vectors("optimum", optimum, network)
            known = Optimum(point, point)
        if local_steps is not None:
            parts = [inexact(group, local_steps, eta) for group in parts]
        for group in parts:
            group.prepare(network, rho)
        run = Run(network, parts, start, rho, relaxation, loss, seed)
        sequences = None if activations is None else iter(activations)
        recorder = Recorder(network, parts, known)
        setup_seconds = perf_counter() - begun
        recorder.begun = perf_counter()
        reason, diverged, done = f"all {iterations} iterations done", False, 0
        working = 0
        far = TOO_LARGE * max(1.0, float(np.linalg.norm(start)))
        try:
            recorder.record(0, run.x, 0, 0)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                for k in range(1, iterations + 1):
                    working = k
                    if sequences is None:
                        run.synchronous()
                    else:
                        run.asynchronous(next(sequences))
                    done = k
                    stop = callback is not None and _says_stop(
                        callback(k, NodeVectors(network, run.x.copy()))
                    )
                    due = k % record_every == 0 or k == iterations or stop
                    if due or k % 16 == 1:
                        size = float(np.linalg.norm(run.x))
                        far = max(far, TOO_LARGE * size) if k == 1 and size < np.inf else far
                        if not size < far:
                            diverged = True
                            break
                    if due:
                        recorder.record(k, run.x, run.messages, run.sent)
                    if stop:
                        reason = f"stopped by the callback after iteration {k}"
                        break
            history = recorder.history()
        except ClientError as error:
            error.add_note(f"in iteration {working}" if working else "at the start")
            error.history = recorder.history()
            raise
        dual = run.dual
    x = run.x.reshape(-1)
    if diverged:
        reason = f"diverged by iteration {done}: {_where(network, x)}. "
        reason += _advice(local_steps, eta)
        x = recorder.last
    elif _circles(relaxation, history):
        reason += (
            ", but the nodes do not come to agree: with relaxation=1 PDMM may circle for ever "
            "where functions are not smooth and strongly convex; try relaxation=0.9"
        )
    _warn_of_solver(network, parts)
    return NetworkResult(
        x=NodeVectors(network, x.copy()),
        dual=EdgeVectors(network, dual),
        history=history,
        reason=reason,
        diverged=diverged,
        iterations=done,
        rho=rho,
        optimum=None if known is None else NodeVectors(network, known.middle),
        setup_seconds=setup_seconds,
        seed=seed,
        choices=why,
    )


def _says_stop(answer: Any) -> bool:
    return np.ndim(answer) == 0 and bool(answer)


def _vectors(name: str, given: Any, network: Network) -> npt.NDArray[np.float64]:
    """Vectors of all nodes, flat: from a dict, an array of rows, or one vector for all."""
    d, n = network.dimensions, len(network.nodes)
    size = int(d.sum())
    if given is None:
        return np.zeros(size)
    if isinstance(given, Mapping):
        for node in given:
            if node not in network.position:
                raise ValueError(f"{name} has {node!r}, which is not a node of the graph")
        lacking = [node for node in network.nodes if node not in given]
        if lacking:
            raise ValueError(f"{name} has no vector for node {lacking[0]!r}")
        rows = [
            vector(f"{name}[{node!r}]", np.atleast_1d(given[node]), int(length))
            for node, length in zip(network.nodes, d, strict=True)
        ]
        return np.concatenate(rows)
    if not (d == d[0]).all():
        raise ValueError(f"{name} must be a dict from nodes to vectors: their lengths differ")
    try:
        ndim = np.ndim(given)
    except ValueError as error:
        raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if ndim == 2:
        if np.shape(given) != (n, d[0]):
            raise ValueError(f"{name} must have shape {(n, int(d[0]))}, got {np.shape(given)}")
        return vector(name, np.reshape(given, -1), size)
    return np.tile(vector(name, np.atleast_1d(given), int(d[0])), n)


def _check(network: Network, start: npt.NDArray[np.float64], exact: bool) -> None:
    """Try out what can only be checked by calling it."""
    first = 0
    for problem in network.problems:
        if isinstance(problem, Functions):
            for client in range(problem.clients):
                i = first + client
                point = start[network.entries(np.array([i]), problem.dimension)[0]]
                with naming(network.name(i)):
                    problem.check_client(client, point, exact)
        first += problem.clients


def _circles(relaxation: float, history: NetworkHistory) -> bool:
    """Whether the nodes have stopped coming closer to each other, for want of relaxation."""
    apart = history["consensus"]
    if relaxation < 1 or len(apart) < 100 or apart[-1] <= 1e-3 * apart.max():
        return False
    half = apart[len(apart) // 2 :]
    before, after = np.array_split(half, 2)
    return bool(np.median(after) > 0.9 * np.median(before))


def _where(network: Network, x: npt.NDArray[Any]) -> str:
    """Which node is worst."""
    owner = np.repeat(np.arange(len(network.nodes)), network.dimensions)
    size = np.where(np.isfinite(x), np.abs(x), np.inf)
    k = int(size.argmax())
    what = "is not finite" if not np.isfinite(x[k]) else f"has reached {x[k]:.3g}"
    return f"x of {network.name(int(owner[k]))} {what}"


def _warn_of_solver(network: Network, parts: list[Group]) -> None:
    smooth = [group for group in parts if isinstance(group, SmoothGroup)]
    worst, node = max((group.missed for group in smooth), default=(0.0, 0))
    if worst > Block.tolerance:
        warnings.warn(
            f"the exact update of {network.name(node)} stopped at a relative residual of "
            f"{worst:.1e}, above the tolerance {Block.tolerance:.0e}",
            RuntimeWarning,
            stacklevel=3,
        )


def _advice(local_steps: int | None, eta: float | None) -> str:
    if local_steps is None:
        return "are all functions convex?"
    if eta is None:
        return "are all functions convex, with gradients that change no faster than near 0?"
    return f"step_size={eta:g} may be too large: 1/L of the steepest function is safe"
