"""Runs for tests of the MPI engine: the same calls, in one process and on many ranks.

As a program (under mpirun) it does all of them and rank 0 writes what came out.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pdmm

M, D = 12, 6
COLUMNS = ("round", "objective", "gap", "bytes_up", "bytes_down", "vectors_up", "gradient_calls")


def least_squares(clients: Sequence[int], n: int = 20, dtype: Any = np.float64) -> pdmm.Problem:
    data = []
    for i in clients:
        rng = np.random.default_rng([5, i])
        A = rng.standard_normal((n + i, D)) * np.geomspace(1, 3, D)
        data.append((A.astype(dtype), (A @ rng.standard_normal(D) + i).astype(dtype)))
    return pdmm.LeastSquares([A for A, _ in data], [b for _, b in data])


def wide(clients: Sequence[int]) -> pdmm.Problem:
    rng = [np.random.default_rng([6, i]) for i in clients]
    return pdmm.LeastSquares([r.standard_normal((2, 40)) for r in rng], np.ones((len(rng), 2)))


def softmax(clients: Sequence[int], batch: int | None = None) -> pdmm.Problem:
    rng = [np.random.default_rng([7, i]) for i in clients]
    X = [r.standard_normal((24 if batch else 15 + i, 4)) for i, r in zip(clients, rng, strict=True)]
    y = [(x[:, 0] + 0.3 * i > 1).astype(int) for i, x in zip(clients, X, strict=True)]
    return pdmm.SoftmaxRegression(X, y, classes=2, l2=0.1, batch_size=batch)


def functions(clients: Sequence[int]) -> pdmm.Problem:
    def value(i: int) -> Callable[[Any], float]:
        return lambda x: float(np.logaddexp(0, x - i / 5).sum() + 0.5 * ((x + 1) ** 2).sum())

    def gradient(i: int) -> Callable[[Any], Any]:
        return lambda x: 1 / (1 + np.exp(i / 5 - x)) + (x + 1)

    return pdmm.Functions([value(i) for i in clients], [gradient(i) for i in clients], D)


def quadratic(clients: Sequence[int]) -> pdmm.Problem:
    c = np.array([[i, 1.0, -i] for i in clients])
    return pdmm.Quadratic(np.array([[1.0 + i, 2.0, 0.5] for i in clients]), c)


def absolute(clients: Sequence[int]) -> pdmm.Problem:
    return pdmm.Absolute(np.array([[i * 1.0, np.cos(i)] for i in clients]))


L_RHO: dict[str, Any] = {"step_size": 2e-3, "local_steps": 4}
W = np.linspace(0.5, 2.0, M)
STEPS = [1 + i % 3 for i in range(M)]

# Problem, method, arguments of solve: all that an engine must give the same results for.
CASES: dict[str, tuple[Callable[..., pdmm.Problem], Any, dict[str, Any]]] = {
    "pdmm": (least_squares, pdmm.PDMM(rho=40.0), {"rounds": 30}),
    "fedsplit": (least_squares, pdmm.FedSplit(gamma=0.02), {"rounds": 30}),
    "inexact": (
        least_squares,
        pdmm.InexactFedSplit(gamma=0.02, start="server", **L_RHO),
        {"rounds": 30},
    ),
    "gpdmm": (least_squares, pdmm.GPDMM(**L_RHO), {"rounds": 30, "weights": W}),
    "agpdmm": (least_squares, pdmm.AGPDMM(**L_RHO), {"rounds": 30, "record_every": 4}),
    "scaffold": (least_squares, pdmm.Scaffold(**L_RHO), {"rounds": 30, "weights": W}),
    "fedavg": (least_squares, pdmm.FedAvg(**L_RHO), {"rounds": 30}),
    "fedprox": (least_squares, pdmm.FedProx(**L_RHO, mu=20.0), {"rounds": 30, "weights": W}),
    "feddyn": (least_squares, pdmm.FedDyn(**L_RHO, alpha=40.0), {"rounds": 30, "weights": W}),
    "descent": (least_squares, pdmm.GradientDescent(step_size=2e-3), {"rounds": 30}),
    "lbfgs": (softmax, pdmm.LBFGS(5), {"rounds": 25, "weights": W}),
    "auto": (least_squares, None, {}),
    "auto softmax": (softmax, None, {}),
    "auto functions": (functions, None, {"tolerance": 1e-10}),
    "auto absolute": (absolute, None, {"rounds": 60}),
    "auto steps": (functions, pdmm.AGPDMM(rho="auto"), {"rounds": 40, "tolerance": 1e-12}),
    "anderson": (softmax, pdmm.GPDMM(rho="auto", acceleration="anderson"), {"rounds": 40}),
    "quadratic": (quadratic, pdmm.PDMM(rho="auto"), {"rounds": 40, "tolerance": 1e-14}),
    "wide": (wide, pdmm.PDMM(rho=2.0), {"rounds": 40}),
    "softmax": (softmax, pdmm.AGPDMM(step_size=0.5, local_steps=5), {"rounds": 30}),
    "batches": (
        lambda clients: softmax(clients, 8),
        pdmm.AGPDMM(step_size=0.2, local_steps=2),
        {"rounds": 20, "record_every": 3},
    ),
    "lasso": (
        least_squares,
        pdmm.PDMM(rho=40.0),
        {"rounds": 30, "regulariser": pdmm.L1(300.0), "tolerance": 1e-9},
    ),
    "optimum": (softmax, pdmm.PDMM(rho=0.2), {"rounds": 30, "optimum": np.zeros(10)}),
    "float32": (
        lambda clients: least_squares(clients, dtype=np.float32),
        pdmm.AGPDMM(**L_RHO),
        {"rounds": 30},
    ),
    "participation": (
        least_squares,
        pdmm.AGPDMM(**L_RHO),
        {"rounds": 40, "participation": 0.25, "seed": 3},
    ),
    "loss and bits": (
        least_squares,
        pdmm.AGPDMM(**L_RHO),
        {"rounds": 60, "participation": 0.5, "loss": 0.3, "bits": 4, "weights": W},
    ),
    "scaffold bits": (least_squares, pdmm.Scaffold(**L_RHO), {"rounds": 20, "bits": 8}),
    "own steps": (
        softmax,
        pdmm.GPDMM(step_size=0.3, local_steps=3),
        {"rounds": 30, "local_steps": STEPS, "availability": pdmm.OnOff(0.3, 0.5)},
    ),
    "at server": (softmax, pdmm.GPDMM(rho="auto"), {"rounds": 30, "state": "server"}),
    "named": (
        functions,
        pdmm.AGPDMM(step_size=0.1, local_steps=3),
        {"rounds": 12, "participation": [[0], [11, 3], 2, [5, 6, 7]]},
    ),
    "nobody": (
        least_squares,
        pdmm.AGPDMM(**L_RHO),
        {"rounds": 15, "loss": pdmm.Bursts(0.5, 0.2), "participation": 1},
    ),
    "stopped": (
        softmax,
        pdmm.AGPDMM(step_size=0.5, local_steps=5),
        {"rounds": 30, "callback": lambda r, x: r == 7, "record_every": 5},
    ),
    "diverges": (least_squares, pdmm.FedAvg(step_size=1.0, local_steps=9), {"rounds": 60}),
}


def solve(name: str, engine: Any = None, **more: Any) -> pdmm.Result:
    make, method, arguments = CASES[name]
    mine = range(M) if engine is None else engine.range(M)
    return pdmm.solve(make(mine), method, engine=engine, **{**arguments, **more})


def outcome(result: pdmm.Result) -> dict[str, Any]:
    """All of a result that must not depend on the number of ranks."""
    certificate = result.certificate
    return {
        "x": result.x.tolist(),
        "reason": result.reason.split(":")[0],
        "rounds": result.rounds,
        "diverged": result.diverged,
        "choices": list(result.choices),
        "traffic": list(result.traffic),
        "optimum": result.optimum,
        "history": {
            name: result.history[name].tolist() for name in COLUMNS if name in result.history
        },
        "certificate": [certificate.gap, certificate.stationarity, certificate.consensus],
    }


def main(out: str) -> None:
    mpi = pdmm.engines.MPI()
    results = {}
    for name in CASES:
        result = solve(name, mpi)
        for other in mpi.team.gather(result.x):
            np.testing.assert_array_equal(other, result.x, err_msg=name)
        results[name] = outcome(result)
    if mpi.rank == 0:
        Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
