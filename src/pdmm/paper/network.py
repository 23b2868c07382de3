"""Averaging in a random geometric sensor network: PDMM, ADMM and randomised gossip."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.paper.jobs import Job
from pdmm.paper.store import Columns

Vector = npt.NDArray[np.float64]
NEIGHBOURS = 12  # on average, away from the border
ACCURACY = 1e-6  # of the first error: where transmissions are compared
RHOS = (0.01, 31.6)  # between these rho is swept
LOSSES = (0.0, 0.2)
FLOOR = 1e-11  # of the first error: where runs end
ITERATIONS = 1000
METHODS: dict[str, dict[str, Any]] = {
    "PDMM": {},
    "asynchronous PDMM": {"schedule": "asynchronous"},
    "ADMM": {"relaxation": 0.5},
}
GOSSIP = "gossip"
AUTO = "PDMM, rho = auto"


class Sensors(NamedTuple):
    """A network of sensors in the unit square, and what they read."""

    graph: Any
    positions: Vector
    readings: Vector

    @property
    def network(self) -> pdmm.Network:
        """The averaging problem on it."""
        return pdmm.Network(self.graph, pdmm.Quadratic(1.0, self.readings[:, None]))

    @property
    def first_error(self) -> float:
        """Root mean square of the readings about their mean, where every method starts."""
        return float(self.readings.std())


@lru_cache(maxsize=1)
def sensors(count: int, seed: int) -> Sensors:
    """The first connected random geometric graph of a seed; a smooth field is read, with noise."""
    radius = float(np.sqrt(NEIGHBOURS / (np.pi * count)))
    rng = np.random.default_rng([seed, count])
    while True:
        positions = rng.random((count, 2))
        graph = nx.random_geometric_graph(count, radius, pos=dict(enumerate(positions)))
        if nx.is_connected(graph):
            break
    x, y = positions.T
    field = 20 + 3 * np.sin(2 * np.pi * x) * np.cos(np.pi * y) + 2 * x
    return Sensors(graph, positions, field + 0.5 * rng.standard_normal(count))


def jobs(quick: bool) -> list[Job]:
    """Every method with and without losses, on several networks; rho swept."""
    count, seeds, tried = (60, 2, 8) if quick else (200, 5, 29)

    def job(method: str, loss: float, seed: int) -> Job:
        tuned = method in METHODS
        parameters = {
            "experiment": "network",
            "problem": {"count": count, "seed": seed},
            "method": method,
            "settings": {"loss": loss, "tried": tried if tuned else 1},
            "rounds": tried if tuned else 1,
        }
        return Job(parameters, cost=tried if tuned else 2, run=run, apart=True)

    return [
        job(method, loss, seed)
        for seed in range(seeds)
        for loss in LOSSES
        for method in (*METHODS, AUTO, GOSSIP)
    ]


def run(parameters: dict[str, Any], advance: Callable[[], object]) -> Columns:
    """The error against transmissions, with the best rho of the grid."""
    setting = sensors(**parameters["problem"])
    method = parameters["method"]
    loss = parameters["settings"]["loss"]
    if method == GOSSIP:
        columns = gossip(setting, loss, seed=0)
        advance()
        return columns
    rho = float(pdmm.solve_network(setting.network, rho="auto", iterations=1).rho)
    options = METHODS.get(method, {})
    if method in METHODS:
        tried = np.geomspace(*RHOS, parameters["settings"]["tried"]).tolist()
        rho = _best_rho(setting, options, loss, tried, rho, advance)
        result = solve(setting, options, rho, loss)
    else:
        result = solve(setting, options, rho, loss)
        advance()
    return {
        "messages": result.history["messages"],
        "activations": result.history["iteration"] * len(setting.readings),
        "error": result.history["error"] / setting.first_error,
        "rho": np.full(len(result.history["error"]), result.rho),
    }


def _best_rho(
    setting: Sensors,
    options: dict[str, Any],
    loss: float,
    tried: list[float],
    likely: float,
    advance: Callable[[], object],
) -> float:
    """The rho that needs the fewest iterations; the likely one, if none is accurate enough."""
    best = likely
    most = ITERATIONS
    # From the likely ones outwards: each needs to go on only as long as it may be the best.
    for rho in sorted(tried, key=lambda value: abs(np.log(value / likely))):
        found = solve(setting, options, rho, loss, iterations=most)
        taken = found.history.iterations_to(ACCURACY * setting.first_error)
        if taken is not None and taken < most:
            most = taken
            best = rho
        advance()
    return best


def solve(
    setting: Sensors, options: dict[str, Any], rho: Any, loss: float, **more: Any
) -> pdmm.NetworkResult:
    """A run from the sensors' own readings, until the error is rounding."""
    mean = setting.readings.mean()
    enough = FLOOR * setting.first_error

    def reached(k: int, x: pdmm.graphs.NodeVectors) -> bool:
        away = x.flat - mean
        return bool(away @ away <= len(away) * enough**2)

    given = {"callback": reached, "iterations": ITERATIONS, **options, **more}
    return pdmm.solve_network(
        setting.network, rho=rho, loss=loss, x0=setting.readings[:, None], **given
    )


def sent_until(columns: Columns, error: float, what: str = "messages") -> float:
    """What was sent until the error stays below this: messages, or activations; inf if never."""
    above = np.flatnonzero(~(columns["error"] <= error))
    first = int(above[-1]) + 1 if len(above) else 0
    return float(columns[what][first]) if first < len(columns["error"]) else np.inf


def gossip(setting: Sensors, loss: float, seed: int) -> Columns:
    """Randomised gossip (Boyd et al., 2006): a random node and a random neighbour average.

    Two messages: a value, and the other's value in reply. If the first is lost nothing happens;
    if the reply is lost, only one of the two has averaged.
    """
    x = setting.readings.copy()
    mean = float(x.mean())
    every = 10 * len(x)  # messages between two records
    most = 3000 * len(x)  # enough to see where it ends
    messages: list[int] = []
    errors: list[float] = []
    due = 0
    for sent in gossip_steps(setting, x, loss, seed):
        if sent < due:
            continue
        due = sent + every
        error = float(np.sqrt(np.mean((x - mean) ** 2))) / setting.first_error
        messages.append(sent)
        errors.append(error)
        if error < FLOOR or sent >= most:
            break
    return {
        "messages": np.array(messages),
        "activations": np.array(messages),
        "error": np.array(errors),
        "rho": np.full(len(errors), np.nan),
    }


def gossip_steps(setting: Sensors, x: Vector, loss: float, seed: int) -> Any:
    """Change x by one exchange at a time; yields the messages sent so far."""
    rng = np.random.default_rng(seed)
    neighbours = [list(setting.graph[i]) for i in range(len(x))]
    sent = 0
    yield sent
    while True:
        draws = rng.random((4096, 4)).tolist()
        for who, whom, there, back in draws:
            i = int(who * len(x))
            j = neighbours[i][int(whom * len(neighbours[i]))]
            sent += 1
            if there >= loss:
                sent += 1
                mine, theirs = x[i], x[j]
                x[j] = 0.5 * (mine + theirs)
                if back >= loss:
                    x[i] = x[j]
            yield sent
