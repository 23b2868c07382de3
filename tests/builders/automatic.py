"""Methods that are all "auto", and clients to try them on."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import pdmm
from pdmm.methods import Method
from twins.methods import Vector


def every_auto() -> dict[str, Method]:
    """Every method that has something to choose, with all of it "auto"."""
    accelerated: dict[str, Any] = {"rho": "auto", "acceleration": "anderson"}
    return {
        "PDMM": pdmm.PDMM("auto"),
        "PDMM, accelerated": pdmm.PDMM("auto", 0.9, "anderson"),
        "FedSplit": pdmm.FedSplit("auto", acceleration="anderson"),
        "InexactFedSplit": pdmm.InexactFedSplit("auto", "auto", "auto", start="server"),
        "InexactFedSplit, accelerated": pdmm.InexactFedSplit(
            "auto", "auto", "auto", start="server", acceleration="anderson"
        ),
        "GPDMM": pdmm.GPDMM("auto", "auto", "auto"),
        "GPDMM, accelerated": pdmm.GPDMM(**accelerated),
        "GPDMM, last, accelerated": pdmm.GPDMM(iterate="last", **accelerated),
        "GPDMM, the paper's rho": pdmm.GPDMM("auto", "auto"),
        "AGPDMM": pdmm.AGPDMM("auto", "auto", "auto"),
        "AGPDMM, accelerated": pdmm.AGPDMM(**accelerated),
        "AGPDMM, the paper's rho": pdmm.AGPDMM("auto", "auto"),
        "Scaffold": pdmm.Scaffold("auto", "auto"),
        "FedAvg": pdmm.FedAvg("auto", "auto"),
        "FedProx": pdmm.FedProx("auto", "auto", 3.0),
        "FedDyn": pdmm.FedDyn("auto", "auto", "auto"),
        "GradientDescent": pdmm.GradientDescent("auto"),
    }


def is_accelerated(method: Method) -> bool:
    return getattr(method, "acceleration", None) is not None


@dataclass
class Data:
    """Least squares, with what is known of it."""

    A: list[Any]
    b: list[Any]
    w: Vector
    x0: Vector

    def problem(self, dtype: Any = np.float64) -> pdmm.LeastSquares:
        return pdmm.LeastSquares(
            [a.astype(dtype) for a in self.A], [v.astype(dtype) for v in self.b]
        )

    @property
    def m(self) -> int:
        return len(self.A)

    @property
    def spectrum(self) -> Vector:
        return np.concatenate([np.linalg.eigvalsh(a.T @ a) for a in self.A])


def clients(seed: int = 0, m: int = 6, d: int = 5, kappa: float = 300.0) -> Data:
    """Clients whose optima and curvatures differ."""
    rng = np.random.default_rng(seed)
    A, b = [], []
    for scale in np.geomspace(0.5, 2, m):
        U, _, V = np.linalg.svd(rng.standard_normal((2 * d, d)), full_matrices=False)
        A.append(scale * U * np.sqrt(np.geomspace(1, kappa, d)) @ V)
        b.append(A[-1] @ (3 * rng.standard_normal(d)) + rng.standard_normal(2 * d))
    return Data(A, b, rng.uniform(0.3, 3, m), rng.standard_normal(d))


REGULARISERS: dict[str, pdmm.Regulariser | None] = {
    "none": None,
    "SquaredL2": pdmm.SquaredL2(5.0),
    "L1": pdmm.L1(40.0),
    "Box": pdmm.Box(-0.5, 1.0),
}


def logcosh(x: Vector, a: Vector, s: float = 1.0, w: float = 1.0) -> float:
    return float(w / s * (np.logaddexp(s * (x - a), -s * (x - a)) - np.log(2)).sum())


def logcosh_slope(x: Vector, a: Vector, s: float = 1.0, w: float = 1.0) -> Vector:
    return np.asarray(w * np.tanh(s * (x - a)))
