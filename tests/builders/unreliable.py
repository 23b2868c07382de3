"""Least squares behind unreliable links: as the library holds it, and as plain functions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.links.links import Contact, Links
from pdmm.methods import Method
from twins import methods as twins
from twins import unreliable
from twins.methods import Network, Vector


@dataclass
class Case:
    """Least squares twice: as the product holds it, and as plain functions; L and mu of the f_i."""

    problem: pdmm.LeastSquares
    gradient: twins.Gradient
    prox: twins.Prox
    L: float
    mu: float
    H: npt.NDArray[np.float64]
    g: npt.NDArray[np.float64]

    @property
    def m(self) -> int:
        return self.problem.clients

    @property
    def d(self) -> int:
        return self.problem.dimension

    @property
    def rho(self) -> float:
        return float(np.sqrt(self.L * self.mu))

    def network(self, **more: Any) -> Network:
        x0 = more.pop("x0", np.zeros(self.d))
        return Network(self.m, x0, self.gradient, self.prox, **more)

    def optimum(self, weights: Any = None, l2: float = 0.0) -> Vector:
        w = np.ones(self.m) if weights is None else np.asarray(weights)
        H = np.tensordot(w, self.H, 1) + l2 * np.eye(self.d)
        return np.asarray(np.linalg.solve(H, w @ self.g))

    def gap(self, weights: Any = None) -> Callable[[Vector], float]:
        """(F(x) - F*)/(F(0) - F*)."""
        w = np.ones(self.m) if weights is None else np.asarray(weights)
        H, best = np.tensordot(w, self.H, 1), self.optimum(weights)
        first = float(best @ H @ best)
        return lambda x: float((x - best) @ H @ (x - best)) / first


def make(
    m: int, d: int, kappa: float, seed: int, dtype: type = np.float64, spread: float = 5.0
) -> Case:
    """Every client has its own A_i (eigenvalues of A_i'A_i from 1 to kappa) and its own optimum."""
    rng = np.random.default_rng([seed, m, d])
    A, b = np.empty((m, 2 * d, d)), np.empty((m, 2 * d))
    for i in range(m):
        U, _, V = np.linalg.svd(rng.standard_normal((2 * d, d)), full_matrices=False)
        A[i] = U * np.sqrt(np.geomspace(1, kappa, d)) @ V
        b[i] = A[i] @ (spread * rng.standard_normal(d)) + rng.standard_normal(2 * d)
    A, b = A.astype(dtype), b.astype(dtype)
    Aw, bw = A.astype(np.float64), b.astype(np.float64)
    H, g = np.swapaxes(Aw, 1, 2) @ Aw, np.einsum("ijk,ij->ik", Aw, bw)
    ends = np.linalg.eigvalsh(H)
    problem = pdmm.LeastSquares(A, b)
    return Case(
        problem, *twins.least_squares(list(A), list(b)), float(ends.max()), float(ends.min()), H, g
    )


@cache
def case(m: int = 7, d: int = 5, kappa: float = 12.0, seed: int = 0) -> Case:
    return make(m, d, kappa, seed)


def trace(problem: Any, method: Any, rounds: int, **settings: Any) -> tuple[Any, list[Vector]]:
    """A run, and its x after every round."""
    xs: list[Any] = []
    result = pdmm.solve(
        problem,
        method,
        rounds,
        callback=lambda r, x: xs.append(x),
        record_every=settings.pop("record_every", rounds),
        **settings,
    )
    return result, xs


def contacts(
    m: int, rounds: int, participation: Any, loss: Any, seed: int, availability: Any = None
) -> list[Contact]:
    """The same as a run with this seed has."""
    links = Links(m, participation, availability, loss, seed)
    return [links.contact(r) for r in range(1, rounds + 1)]


def close(ours: list[Vector], theirs: list[Vector], tolerance: float = 1e-10) -> None:
    assert len(ours) == len(theirs)
    for r, (x, y) in enumerate(zip(ours, theirs, strict=True), start=1):
        far = float(np.linalg.norm(x - y)) / max(1e-3, float(np.linalg.norm(y)))
        assert far < tolerance, f"round {r}: {far}"


K = 4


def variant(name: str, c: Case) -> tuple[Method, Any]:
    eta, rho = 0.9 / c.L, 1.3 * c.rho
    small = 0.2 / (c.L * K)
    methods: dict[str, tuple[Method, Any]] = {
        "AGPDMM": (pdmm.AGPDMM(eta, K, rho), unreliable.Family(rho, eta)),
        "AGPDMM relaxed": (
            pdmm.AGPDMM(eta, K, rho, relaxation=0.7),
            unreliable.Family(rho, eta, relaxation=0.7),
        ),
        "GPDMM": (pdmm.GPDMM(eta, K, rho), unreliable.Family(rho, eta, "own", "mean")),
        "GPDMM last": (
            pdmm.GPDMM(eta, K, rho, iterate="last"),
            unreliable.Family(rho, eta, "own", "last"),
        ),
        "PDMM": (pdmm.PDMM(rho), unreliable.Family(rho)),
        "SCAFFOLD": (
            pdmm.Scaffold(small, K, server_step=0.8),
            unreliable.Scaffold(small, K, both=False, eta_g=0.8),
        ),
        "SCAFFOLD both": (
            pdmm.Scaffold(small, K, server_step=0.8, send_control=True),
            unreliable.Scaffold(small, K, both=True, eta_g=0.8),
        ),
        "FedAvg": (pdmm.FedAvg(small, K), unreliable.FedAvg(small)),
        "FedProx": (pdmm.FedProx(small, K, rho), unreliable.FedProx(small, rho)),
        "FedDyn": (pdmm.FedDyn(eta / 2, K, rho), unreliable.FedDyn(eta / 2, rho)),
    }
    return methods[name]


NAMES = [
    "AGPDMM",
    "AGPDMM relaxed",
    "GPDMM",
    "GPDMM last",
    "PDMM",
    "SCAFFOLD",
    "SCAFFOLD both",
    "FedAvg",
    "FedProx",
    "FedDyn",
]
LINKS: dict[str, dict[str, Any]] = {
    "some": {"participation": 0.4, "loss": 0.0},
    "lossy": {"participation": 1.0, "loss": 0.35},
    "both": {"participation": 0.5, "loss": 0.3},
    "one": {"participation": 1, "loss": 0.5},
    "bursts": {"participation": 4, "loss": pdmm.Bursts(0.2, 0.3, 0.9, 0.05)},
    "come and go": {"participation": 0.6, "loss": 0.2, "availability": pdmm.OnOff(0.2, 0.3)},
}


def own_steps(r: int, i: int) -> int:
    return 1 + (3 * r + 5 * i) % 6
