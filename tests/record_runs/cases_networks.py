"""PDMM on graphs: schedules, relaxation, losses, B matrices, nodes of every kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.registry import M, add, caught, run

Networks = Callable[[], pdmm.Network]
GRAPH = nx.random_geometric_graph(M, 0.5, seed=2)
CYCLE = nx.cycle_graph(M)


def averaging() -> pdmm.Network:
    """The mean of all readings."""
    return pdmm.Network(GRAPH, p.averaging(range(M)))


def averaging32() -> pdmm.Network:
    """The same in float32."""
    readings = np.sin(np.arange(2.0 * M)).reshape(M, 2).astype(np.float32)
    return pdmm.Network(GRAPH, pdmm.Quadratic(np.float32(1.0), readings))


def named() -> pdmm.Network:
    """Nodes with names, one function each, by name."""
    graph = nx.Graph([("north", "east"), ("east", "south"), ("south", "west"), ("west", "north")])
    functions = {
        "north": pdmm.Quadratic([1.0, 2.0], [3.0, 4.0]),
        "east": pdmm.Quadratic(np.eye(2) + 0.5, [1.0, 0.0]),
        "south": pdmm.LeastSquares([np.arange(6.0).reshape(3, 2)], [np.ones(3)]),
        "west": pdmm.Quadratic(0.5, [-1.0, 2.0]),
    }
    return pdmm.Network(graph, functions)


def constrained() -> pdmm.Network:
    """Nodes of different dimensions, with B matrices on all edges."""
    line = nx.path_graph(["left", "middle", "right"])
    functions = {
        "left": pdmm.Quadratic(1.0, [1.0, 5.0]),
        "middle": pdmm.Quadratic(1.5, [3.0]),
        "right": pdmm.Quadratic([2.0, 1.0], [5.0, 7.0]),
    }
    position = np.array([[1.0, 0.5]])
    return pdmm.Network(
        line,
        functions,
        {
            ("left", "middle"): position,
            ("middle", "left"): np.eye(1),
            ("right", "middle"): (np.array([[1.0, 0.0]]), np.array([[2.0]])),
        },
    )


def some_constrained() -> pdmm.Network:
    """B matrices on some edges of a cycle, and a number for a multiple of the identity."""
    rng = np.random.default_rng(6)
    constraints = {
        (0, 1): (rng.standard_normal((2, 4)), rng.standard_normal((2, 4))),
        (3, 4): (2.0, 3.0),
    }
    return pdmm.Network(CYCLE, p.matrices(range(M)), constraints)


def mixture() -> pdmm.Network:
    """Nodes of every kind."""
    rng = np.random.default_rng(3)
    d = 2

    smooth = pdmm.Functions(
        [lambda x: float(np.log(np.cosh(x - 1)).sum() + 0.5 * x @ x)],
        [lambda x: np.tanh(x - 1) + x],
        d,
    )
    with_prox = pdmm.Functions(
        [lambda x: float(0.5 * x @ x)], [lambda x: x], d, prox=[lambda v, t: v / (1 + t)]
    )
    functions = [
        pdmm.Zero(d),
        pdmm.Quadratic(1.0, [1.0, -1.0]),
        pdmm.Quadratic(np.array([[2.0, 0.5], [0.5, 1.0]]), [0.0, 1.0]),
        pdmm.Absolute([0.5, 2.0]),
        pdmm.LeastSquares([rng.standard_normal((1, d))], [np.ones(1)]),
        smooth,
        with_prox,
        pdmm.LeastSquares([rng.standard_normal((4, d)) for _ in range(5)], np.ones((5, 4))),
    ]
    return pdmm.Network(GRAPH, functions)


def classifiers() -> pdmm.Network:
    """Softmax regression, with another number of samples at every node."""
    return pdmm.Network(nx.star_graph(4), p.softmax(range(5)))


def alike() -> pdmm.Network:
    """Softmax regression, with equally many samples at every node."""
    return pdmm.Network(nx.star_graph(4), p.softmax(range(5), rows=20))


def star() -> pdmm.Network:
    """A server and its clients."""
    return pdmm.Network(nx.star_graph(M), [pdmm.Zero(p.D), p.squares(range(M))])


def rows() -> pdmm.Network:
    """Least squares with fewer rows than columns at a node."""
    return pdmm.Network(GRAPH, p.ragged(range(M)))


def rows32() -> pdmm.Network:
    """Least squares in float32."""
    return pdmm.Network(GRAPH, p.squares32(range(M)))


def medians() -> pdmm.Network:
    """Absolute values on a cycle."""
    a = np.random.default_rng(0).standard_normal((M, 1))
    return pdmm.Network(CYCLE, pdmm.Absolute(a))


def own_functions() -> pdmm.Network:
    """A user's functions."""
    return pdmm.Network(nx.cycle_graph(5), p.functions(range(5)))


def components() -> pdmm.Network:
    """Two components and a node alone."""
    graph = nx.Graph([(0, 1), (1, 2), (3, 4)])
    graph.add_node(5)
    return pdmm.Network(graph, p.averaging(range(6)))


TURNS = [0, 3, 1, 4, 2, 5, 5, 6, 7, 8, 9, 10, 11]
NETWORKS: dict[str, tuple[Networks, dict[str, Any]]] = {
    "averaging": (averaging, {"rho": "auto", "iterations": 60}),
    "averaging asynchronous": (
        averaging,
        {"rho": "auto", "iterations": 30, "schedule": "asynchronous", "seed": 4},
    ),
    "averaging admm": (averaging, {"rho": 0.4, "iterations": 60, "relaxation": 0.5}),
    "averaging loss": (averaging, {"rho": "auto", "iterations": 80, "loss": 0.2, "seed": 1}),
    "averaging asynchronous loss": (
        averaging,
        {"rho": 0.5, "iterations": 40, "schedule": "asynchronous", "loss": 0.3, "relaxation": 0.8},
    ),
    "averaging order": (
        averaging,
        {"rho": 0.5, "iterations": 30, "schedule": "asynchronous", "order": TURNS},
    ),
    "averaging float32": (averaging32, {"rho": 0.5, "iterations": 40}),
    "averaging float32 asynchronous": (
        averaging32,
        {"rho": 0.5, "iterations": 30, "schedule": "asynchronous", "loss": 0.1},
    ),
    "averaging x0": (
        averaging,
        {"rho": 0.5, "iterations": 20, "x0": np.ones((M, 2)), "record_every": 6},
    ),
    "averaging optimum": (
        averaging,
        {"rho": 0.5, "iterations": 20, "optimum": [5.5, 0.0]},
    ),
    "averaging optimum false": (averaging, {"rho": 0.5, "iterations": 20, "optimum": False}),
    "averaging stopped": (
        averaging,
        {"rho": 0.5, "callback": lambda k, x: k == 7, "record_every": 5},
    ),
    "averaging steps": (averaging, {"rho": 0.5, "iterations": 40, "local_steps": 2}),
    "named": (named, {"rho": "auto", "iterations": 60}),
    "named asynchronous": (
        named,
        {
            "rho": 0.7,
            "iterations": 40,
            "schedule": "asynchronous",
            "order": ["west", "north", "east", "south"],
        },
    ),
    "constrained": (constrained, {"rho": "auto", "iterations": 60}),
    "constrained asynchronous": (
        constrained,
        {"rho": 0.9, "iterations": 40, "schedule": "asynchronous", "loss": 0.2},
    ),
    "constrained steps": (
        constrained,
        {"rho": 0.9, "iterations": 40, "local_steps": 3, "step_size": 0.3},
    ),
    "some constrained": (some_constrained, {"rho": "auto", "iterations": 60, "relaxation": 0.9}),
    "some constrained loss": (
        some_constrained,
        {"rho": 1.3, "iterations": 60, "loss": 0.2, "relaxation": 0.5},
    ),
    "mixture": (mixture, {"rho": "auto", "iterations": 50, "relaxation": 0.9}),
    "mixture asynchronous": (
        mixture,
        {"rho": 0.6, "iterations": 25, "schedule": "asynchronous", "relaxation": 0.9, "loss": 0.1},
    ),
    "mixture steps": (
        mixture,
        {"rho": 0.6, "iterations": 40, "relaxation": 0.9, "local_steps": 3},
    ),
    "softmax": (classifiers, {"rho": "auto", "iterations": 15}),
    "softmax alike": (alike, {"rho": 0.3, "iterations": 15, "schedule": "asynchronous"}),
    "softmax steps": (alike, {"rho": 0.3, "iterations": 40, "local_steps": 3}),
    "star": (star, {"rho": 40.0, "iterations": 20}),
    "star asynchronous": (
        star,
        {"rho": 40.0, "iterations": 20, "schedule": "asynchronous", "order": [*range(1, M + 1), 0]},
    ),
    "rows": (rows, {"rho": "auto", "iterations": 60, "relaxation": 0.9}),
    "rows float32": (rows32, {"rho": 20.0, "iterations": 40}),
    "rows steps": (rows, {"rho": 2.0, "iterations": 40, "local_steps": 2, "relaxation": 0.9}),
    "medians": (medians, {"rho": 1.0, "iterations": 600}),
    "medians relaxed": (medians, {"rho": "auto", "iterations": 150, "relaxation": 0.9}),
    "medians asynchronous": (
        medians,
        {"rho": 1.0, "iterations": 60, "relaxation": 0.9, "schedule": "asynchronous"},
    ),
    "functions": (own_functions, {"rho": "auto", "iterations": 15}),
    "functions steps": (own_functions, {"rho": 0.5, "iterations": 30, "local_steps": 2}),
    "components": (components, {"rho": "auto", "iterations": 30}),
    "diverges": (
        star,
        {"rho": 1.0, "iterations": 300, "local_steps": 3, "step_size": 50.0, "record_every": 3},
    ),
    "refused order": (averaging, {"order": [0, 1]}),
    "refused loss": (averaging, {"loss": 1.0}),
}


def solve_network(folder: Path, make: Networks, arguments: dict[str, Any]) -> pdmm.NetworkResult:
    """One of the runs above."""
    return pdmm.solve_network(make(), **arguments)


for name, (make, arguments) in NETWORKS.items():
    add(f"networks/{name}", solve_network, make, arguments)


@run("networks/a node that fails")
def failing(folder: Path) -> Any:
    """After some gradients, with either schedule."""

    def attempt(schedule: Any) -> pdmm.NetworkResult:
        network = pdmm.Network(nx.path_graph(6), p.breaking(range(6), 8))
        return pdmm.solve_network(network, schedule=schedule, local_steps=2, optimum=False)

    return [caught(lambda: attempt("synchronous")), caught(lambda: attempt("asynchronous"))]
