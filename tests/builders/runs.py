"""Every method, and problems of every kind, small."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm

Array = npt.NDArray[Any]
ProblemOf = Callable[[], pdmm.Problem]
METHODS: dict[str, pdmm.Method] = {
    "PDMM": pdmm.PDMM(20.0),
    "FedSplit": pdmm.FedSplit(0.05, relaxation=0.5),
    "InexactFedSplit, anchor": pdmm.InexactFedSplit(0.05, 0.005, 3),
    "InexactFedSplit, server": pdmm.InexactFedSplit(0.05, 0.005, 3, start="server"),
    "GPDMM, mean": pdmm.GPDMM(0.01, 3),
    "GPDMM, last": pdmm.GPDMM(0.01, 3, rho=20.0, iterate="last"),
    "AGPDMM": pdmm.AGPDMM(0.01, 3),
    "Scaffold": pdmm.Scaffold(0.01, 3),
    "FedAvg": pdmm.FedAvg(0.01, 3),
    "FedProx": pdmm.FedProx(0.01, 3, 2.0),
    "FedDyn": pdmm.FedDyn(0.01, 3, 20.0),
    "GradientDescent": pdmm.GradientDescent(0.01),
    "LBFGS": pdmm.LBFGS(4),
}
REGULARISED = [name for name in METHODS if name != "LBFGS" and not METHODS[name].no_regulariser]


def rows_of(samples: list[int], d: int = 4, dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    A = [rng.standard_normal((n, d)).astype(dtype) for n in samples]
    return A, [rng.standard_normal(n).astype(dtype) for n in samples]


def softmax(samples: list[int], dtype: Any = np.float64, **given: Any) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(2)
    X = [rng.standard_normal((n, 3)).astype(dtype) for n in samples]
    y = [rng.integers(0, 3, n) for n in samples]
    return pdmm.SoftmaxRegression(X, y, classes=3, **({"l2": 0.1} | given))


def bowl(c: Array) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    def value(x: Array) -> float:
        return float(np.sqrt(1 + (x - c) ** 2).sum() + 0.5 * ((x - c) ** 2).sum())

    return value, lambda x: (x - c) / np.sqrt(1 + (x - c) ** 2) + (x - c)


def functions(m: int = 3) -> pdmm.Functions:
    rng = np.random.default_rng(3)
    pairs = [bowl(rng.standard_normal(4)) for _ in range(m)]
    return pdmm.Functions([v for v, _ in pairs], [g for _, g in pairs], dimension=4)


def tall(dtype: Any = np.float64, m: int = 6) -> pdmm.LeastSquares:
    return pdmm.LeastSquares.random(clients=m, samples=12, features=4, seed=1, dtype=dtype)


def stacked(shape: tuple[int, int, int], dtype: Any = np.float64) -> pdmm.LeastSquares:
    A, b = rows_of([shape[1]] * shape[0], shape[2], dtype)
    return pdmm.LeastSquares(np.stack(A), np.stack(b))


PROBLEMS: dict[str, ProblemOf] = {
    "random": tall,
    "random, wide": lambda: pdmm.LeastSquares.random(clients=6, samples=3, features=9),
    "random, float32": lambda: tall(np.float32),
    "list": lambda: pdmm.LeastSquares(*rows_of([12] * 6)),
    "stacked": lambda: stacked((6, 12, 4)),
    "stacked, float32": lambda: stacked((6, 12, 4), np.float32),
    "wide": lambda: stacked((6, 3, 12)),
    "wide, few samples, float32": lambda: stacked((3, 3, 20), np.float32),
    "ragged": lambda: pdmm.LeastSquares(*rows_of([3, 12, 7, 7, 30, 5, 9])),
    "ragged, wide": lambda: pdmm.LeastSquares(*rows_of([1, 3, 2, 2, 4, 1, 3], 11)),
    "one client": lambda: pdmm.LeastSquares(*rows_of([12])),
    "softmax": lambda: softmax([8] * 6),
    "softmax, batches": lambda: softmax([8, 11, 9, 8, 14, 7], batch_size=3),
    "softmax, ragged": lambda: softmax([8, 8, 5, 9, 9, 9, 9, 9]),
    "softmax, float32": lambda: softmax([8] * 6, np.float32, batch_size=3),
    "functions": functions,
}


def bits(result: pdmm.Result) -> dict[str, bytes]:
    """Everything of a run that is a number, but for the time it took."""
    columns = {name: c.tobytes() for name, c in result.history.items() if name != "seconds"}
    return columns | {"x": result.x.tobytes()}
