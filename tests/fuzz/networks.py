"""Random networks: the iterates of the literal twins, and the optimum of a direct KKT solve.

What is asked of where a run ends, with strongly convex quadratics: the history's last error,
consensus and objective are the true ones; the optimum that it knows is that of the KKT system; the
reason does not blame relaxation, which is not at fault; and rho="auto" has not missed by 1e-3 what
another rho finds to 1e-6 in as many iterations, where no constraint is nearly void.
"""

from typing import Any

import numpy as np

import pdmm
from builders import networks as nets
from fuzz.attempts import about
from fuzz.draws import Generator, chance, pick, spread, whole
from twins import networks as nt
from twins.networks import Averaged, Graph, Inexact, Losses, Pdmm, Vector


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    n = whole(rng, 1, 7)
    isolated = whole(rng, 1, 2) if chance(rng, 0.2) else 0
    limit = chance(rng, 0.5)
    settings: dict[str, Any] = {
        "schedule": pick(rng, ["synchronous", "asynchronous"]),
        "loss": pick(rng, [0.0, 0.0, float(rng.uniform(0, 0.4))]),
        "relaxation": pick(rng, [1.0, 1.0, 0.9, float(rng.uniform(0.3, 1))]),
        "rho": spread(rng, 0.1, 10),
        "seed": whole(rng, 0, 999),
    }
    kind = pick(rng, ["consensus", "constraints", "functions"])
    with about(f"{kind} on {n} nodes and {isolated} isolated ones, {settings}"):
        if limit:
            if chance(rng, 0.6):
                settings["rho"] = "auto"
            return _ended(_quadratics(seed, n, isolated, kind == "constraints"), settings)
        if kind == "functions":
            return _followed(rng, _functions(rng, max(2, n)), settings, 6, 1e-6)
        if kind == "constraints":
            found = nets.constrained_case(seed, n, whole(rng, 1, 3), isolated)
        else:
            found = nets.consensus_case(seed, n, whole(rng, 1, 3), True, isolated)
        return _followed(rng, found, settings, 15, 1e-9)


def _quadratics(seed: int, n: int, isolated: int, constrained: bool) -> nets.Case:
    if constrained:
        return nets.constrained_case(seed, n, isolated=isolated)
    return nets.consensus_case(seed, n, 1 + seed % 3, False, isolated)


def _functions(rng: Generator, n: int) -> nets.Case:
    """Some nodes with a user's own functions, with and without a prox; none is alone.

    A node that is alone with a prox goes to its minimum in several iterations, by design.
    """
    d = whole(rng, 1, 2)
    graph = nets.connected(rng, n)
    functions: dict[Any, Any] = {}
    for node in graph.nodes:
        functions[node] = nets.some_quadratic(rng, d)
        if chance(rng, 0.5):
            functions[node] = _log_cosh(rng, d)
    return nets.build(graph, functions)


def _log_cosh(rng: Generator, d: int) -> tuple[pdmm.Problem, nt.Function]:
    made = nets.log_cosh(whole(rng, 0, 999), d)
    prox = [made[2]] if chance(rng, 0.5) else None
    return pdmm.Functions([made[0]], [made[1]], d, prox=prox), made[3]


# --- the same iterates ------------------------------------------------------------------------


def _followed(
    rng: Generator, found: nets.Case, settings: dict[str, Any], iterations: int, tolerance: float
) -> str:
    """A run beside its twin, iteration by iteration."""
    graph = found.twin
    rho, loss = settings["rho"], settings["loss"]
    x0 = found.start(rng) if chance(rng, 0.5) else None
    steep = _steepness(found)
    twin: Any
    if len(steep) == len(found.nodes) and chance(rng, 0.3):
        K = whole(rng, 1, 4)
        settings = {**settings, "relaxation": 1.0, "local_steps": K}
        twin = Inexact(graph, rho, K, {node: 1 / L for node, L in steep.items()}, x0)
    elif settings["relaxation"] == 1 and loss == 0:
        twin = Pdmm(graph, rho, x0)
    else:
        twin = Averaged(graph, rho, settings["relaxation"], x0)
    step = _step(rng, found, twin, settings)
    nets.follow(found, twin, step, iterations, tolerance, x0=x0, **settings)
    return "equal"


def _steepness(found: nets.Case) -> dict[Any, float]:
    """L of the nodes that are quadratics; those of Zero take no gradient steps."""
    known = ((node, f.H) for node, f in found.twin.functions.items() if f.H is not None)
    return {node: float(np.linalg.eigvalsh(H)[-1]) for node, H in known if H.any()}


def _step(rng: Generator, found: nets.Case, twin: Any, settings: dict[str, Any]) -> Any:
    """One iteration of the twin, with the losses that the run will have."""
    losses = Losses(found.twin, settings["loss"], settings["seed"])
    plain = settings["loss"] == 0
    if settings["schedule"] == "synchronous":
        if plain:
            return twin.synchronous
        return lambda: twin.synchronous(losses.synchronous())
    order = nets.orders(found, pick(rng, ["random", "permutation", "repeats"]), rng)
    settings["order"] = order
    turns = nets.sequences(found, order, settings["seed"])

    def step() -> None:
        turn = next(turns)
        if plain:
            twin.asynchronous(turn)
        else:
            twin.asynchronous(turn, losses.asynchronous(turn))

    return step


# --- where it ends ----------------------------------------------------------------------------


def _ended(found: nets.Case, settings: dict[str, Any]) -> str:
    """A long run of strongly convex quadratics."""
    iterations = 2000 if settings["schedule"] == "synchronous" else 500
    result = pdmm.solve_network(
        found.network, iterations=iterations, record_every=iterations // 200, **settings
    )
    best = found.twin.optimum()
    x = nets.flat(result.x, found.nodes)
    size = max(1.0, float(np.abs(best).max()))
    error = _root_mean(x - best, len(found.nodes))
    words = f"rho {result.rho:.3g}, error {error:.1e}, {result.reason}"
    with about(words):
        _truthful(result, found.twin, x, error, size)
        assert "relaxation" not in result.reason, "relaxation is blamed, of strongly convex f_i"
        sound = _sound(found.twin)
        if sound and result.optimum is not None:
            off = np.abs(nets.flat(result.optimum, found.nodes) - best).max()
            assert off < 1e-8 * size, f"its optimum is {off:.1e} off"
        if error < 1e-3 * size:
            return "at the optimum"
        if sound and settings["rho"] == "auto":
            _no_better(found, settings, iterations, best, size)
        return "not there, and says so"


def _no_better(
    found: nets.Case, settings: dict[str, Any], iterations: int, best: Vector, size: float
) -> None:
    """Where rho="auto" has not arrived, no other rho is far ahead of it."""
    for rho in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
        other = pdmm.solve_network(
            found.network,
            iterations=iterations,
            record_every=iterations,
            **{**settings, "rho": rho},
        )
        error = _root_mean(nets.flat(other.x, found.nodes) - best, len(found.nodes))
        assert error > 1e-6 * size, f"rho='auto' has not arrived, but rho={rho} has: {error:.1e}"


def _truthful(result: Any, graph: Graph, x: Vector, error: float, size: float) -> None:
    """What the last row of the history says, against what is so."""
    last = {name: float(column[-1]) for name, column in result.history.items()}
    if "error" in last:
        near = abs(last["error"] - error) < 1e-8 * size + 1e-6 * error
        assert near, f"the history's error is {last['error']:.3e}"
    gaps = graph.gaps({node: np.asarray(v, np.float64) for node, v in result.x.items()})
    apart = _root_mean(np.concatenate([*gaps, np.zeros(0)]), max(1, len(graph.edges)))
    near = abs(last["consensus"] - apart) < 1e-9 * size + 1e-6 * apart
    assert near, f"the history's consensus is {last['consensus']:.3e}, truly {apart:.3e}"
    value = sum(graph.functions[node].value(v) for node, v in result.x.items())
    near = abs(last["objective"] - value) < 1e-8 * (size**2 + abs(value))
    assert near, f"the history's objective is {last['objective']:.6e}, truly {value:.6e}"


def _root_mean(values: Vector, count: int) -> float:
    return float(np.sqrt(values @ values / count))


def _sound(graph: nt.Graph) -> bool:
    """Whether no constraint is nearly void."""
    matrix = graph.constraint_matrix()
    if matrix.size == 0:
        return True
    singular = np.linalg.svd(matrix, compute_uv=False)
    return bool(singular[singular > 1e-9 * singular[0]].min() > 0.05)
