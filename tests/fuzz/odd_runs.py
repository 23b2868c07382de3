"""The public functions, each with right arguments; ``odd_values`` has what is odd instead."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

import pdmm
from builders import inputs as small
from fuzz.odd_calls import AG, Call, call_of, pieces, problems, x_of

nx: Any = importlib.import_module("networkx")
certify: Any = getattr(pdmm, "certify", None)
KEPT = "run.safetensors"


def _runs(folder: Path) -> dict[str, Call]:
    softmax = small.softmax(np.float64)
    cycle = nx.cycle_graph(3)
    nodes = [pdmm.Quadratic(1.0, [float(i), 2.0]) for i in range(3)]
    network = pdmm.Network(cycle, nodes)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 3))
    w = rng.standard_normal(softmax.dimension)
    calls = {
        "solve": call_of(
            pdmm.solve,
            lambda **g: x_of(pdmm.solve(**{"rounds": 4, "threads": 1, **g})),
            problem=("thing", small.least_squares()),
            method=("thing", AG),
            rounds=("count", 4),
            x0=("array", np.array([1.0, 2.0, -1.0])),
            weights=("array", np.array([1.0, 2.0, 0.5])),
            regulariser=("thing", pdmm.L1(0.1)),
            tolerance=("number", 1e-3),
            check_every=("count", 2),
            optimum=("array", np.zeros(3)),
            seed=("count", 3),
            record_every=("count", 2),
            callback=("thing", lambda r, x: False),
            threads=("count", 1),
            participation=("number", 0.7),
            availability=("array", np.array([0.9, 0.8, 1.0])),
            loss=("number", 0.2),
            bits=("count", 8),
            local_steps=("array", np.array([1, 2, 3])),
            state=("word", "server"),
            checkpoint=("thing", folder / "new.safetensors"),
            every=("count", 2),
            engine=("thing", None),
        ),
        "resume": call_of(
            pdmm.resume,
            lambda **g: x_of(pdmm.resume(**g)),
            path=("thing", folder / KEPT),
            problem=("thing", small.least_squares()),
            rounds=("count", 5),
            method=("thing", None),
            participation=("thing", None),
            local_steps=("thing", None),
            callback=("thing", lambda r, x: False),
            threads=("count", 1),
            every=("count", 2),
            engine=("thing", None),
        ),
        "Network": call_of(
            pdmm.Network,
            lambda **g: x_of(pdmm.solve_network(pdmm.Network(**g), iterations=4)),
            graph=("thing", cycle),
            functions=("thing", nodes),
            constraints=("thing", {(0, 1): (1.0, 2.0), (1, 2): (np.eye(2), np.eye(2))}),
        ),
        "solve_network": call_of(
            pdmm.solve_network,
            lambda **g: x_of(pdmm.solve_network(**{"iterations": 4, **g})),
            network=("thing", network),
            rho=("number", 0.5),
            iterations=("count", 4),
            schedule=("word", "asynchronous"),
            relaxation=("number", 0.9),
            loss=("number", 0.2),
            record_every=("count", 2),
            seed=("count", 3),
            x0=("array", np.ones((3, 2))),
            local_steps=("count", 2),
            optimum=("array", np.ones((3, 2))),
            callback=("thing", lambda r, x: False),
        ),
        "predict": call_of(softmax.predict, softmax.predict, x=("array", w), X=("array", X)),
        "accuracy": call_of(
            softmax.accuracy,
            softmax.accuracy,
            x=("array", w),
            X=("arrays", [X, X]),
            y=("answers", [np.array([0, 1, 2, 0]), np.array([1, 1, 0, 2])]),
        ),
        "objective": call_of(
            softmax.objective, softmax.objective, x=("array", w), weights=("array", np.ones(5))
        ),
    }
    if certify is not None:
        calls["certify"] = call_of(
            certify,
            lambda **g: certify(**g) and None,
            problem=("thing", small.least_squares()),
            x=("array", np.array([1.0, 2.0, -1.0])),
            weights=("array", np.array([1.0, 2.0, 0.5])),
            regulariser=("thing", pdmm.L1(0.1)),
        )
    return calls


def lay_down(folder: Path) -> None:
    """The checkpoint that ``resume`` goes on from."""
    pdmm.solve(small.least_squares(), AG, 4, checkpoint=folder / KEPT, callback=lambda r, x: r == 2)


def calls(folder: Path) -> dict[str, Call]:
    """All of them; what they write, they write into the folder."""
    return {**problems(), **pieces(), **_runs(folder)}
