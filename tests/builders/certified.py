"""Least squares with a known optimum, and how far a point is from it."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

import pdmm
from pdmm.methods import Method
from twins.methods import Matrix, Vector


def methods(L: float) -> dict[str, Method]:
    """Every method, its steps safe where every f_i has this L."""
    eta, gamma = 0.9 / L, 3 / L
    return {
        "PDMM": pdmm.PDMM(L / 3),
        "PDMM, accelerated": pdmm.PDMM(L / 3, 0.9, "anderson"),
        "PDMM, auto": pdmm.PDMM("auto"),
        "FedSplit": pdmm.FedSplit(gamma, relaxation=0.5),
        "InexactFedSplit, anchor": pdmm.InexactFedSplit(gamma, 0.7 / L, 3),
        "InexactFedSplit, server": pdmm.InexactFedSplit(gamma, 0.7 / L, 3, start="server"),
        "GPDMM": pdmm.GPDMM(eta, 3),
        "GPDMM, auto": pdmm.GPDMM(rho="auto", acceleration="anderson"),
        "AGPDMM": pdmm.AGPDMM(eta, 3),
        "Scaffold": pdmm.Scaffold(eta, 3),
        "FedAvg": pdmm.FedAvg(eta, 3),
        "GradientDescent": pdmm.GradientDescent(eta),
    }


@dataclass
class Data:
    """Least squares, its data in float64, and the sum of them all."""

    A: list[Any]
    b: list[Any]
    w: Vector
    x0: Vector
    dtype: Any

    @property
    def problem(self) -> pdmm.LeastSquares:
        return pdmm.LeastSquares(
            [a.astype(self.dtype) for a in self.A], [v.astype(self.dtype) for v in self.b]
        )

    @property
    def H(self) -> Matrix:
        return np.asarray(sum(w * a.T @ a for w, a in zip(self.w, self.A, strict=True)))

    @property
    def g(self) -> Vector:
        triples = zip(self.w, self.A, self.b, strict=True)
        return np.asarray(sum(w * a.T @ v for w, a, v in triples))

    @property
    def ends(self) -> tuple[float, float]:
        """mu and L of F."""
        values = np.linalg.eigvalsh(self.H)
        return float(values[0]), float(values[-1])

    @property
    def client_L(self) -> float:
        return max(float(np.linalg.norm(a, 2)) ** 2 for a in self.A)

    @property
    def stacked(self) -> tuple[Matrix, Vector]:
        roots = np.sqrt(self.w)
        return (
            np.concatenate([r * a for r, a in zip(roots, self.A, strict=True)]),
            np.concatenate([r * v for r, v in zip(roots, self.b, strict=True)]),
        )

    def value(self, x: Vector) -> float:
        A, b = self.stacked
        return 0.5 * float(np.sum((A @ x - b) ** 2))

    def gradient(self, x: Vector) -> Vector:
        A, b = self.stacked
        return np.asarray(A.T @ (A @ x - b))


def least_squares(seed: int, shape: str, dtype: Any = np.float64, weighted: bool = True) -> Data:
    """Random data; wide clients make an F that is not wide, unless the shape is "flat"."""
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 5)), int(rng.integers(1, 7))
    sizes = {
        "tall": [2 * d + 2] * m,
        "wide": [max(1, d - 1)] * (m + 6),
        "ragged": rng.integers(1, 9, m + 4).tolist(),
        "flat": [1] * d,
    }[shape]
    d = d + 1 if shape == "flat" else d
    scales = np.exp(0.5 * rng.standard_normal(len(sizes)))
    A = [s * rng.standard_normal((n, d)) for s, n in zip(scales, sizes, strict=True)]
    b = [2 * rng.standard_normal(n) for n in sizes]
    narrow = [[part.astype(dtype).astype(np.float64) for part in parts] for parts in (A, b)]
    w = rng.uniform(0.3, 3, len(A)) if weighted else np.ones(len(A))
    x0 = rng.standard_normal(d).astype(dtype).astype(np.float64)
    return Data(narrow[0], narrow[1], w, x0, dtype)


def regulariser(kind: str) -> Any:
    return {
        "none": None,
        "SquaredL2": pdmm.SquaredL2(0.7),
        "L1": pdmm.L1(1.3),
        "Box": pdmm.Box(-0.25, 0.5),
    }[kind]


def optimum(data: Data, kind: str) -> Vector:
    """The minimiser of F, by trying every set of entries that h can hold fast."""
    A, b = data.stacked
    d = A.shape[1]
    if kind in ("none", "SquaredL2"):
        root = np.sqrt(0.7) if kind == "SquaredL2" else 0.0
        A, b = np.vstack([A, root * np.eye(d)]), np.concatenate([b, np.zeros(d)])
        return np.asarray(np.linalg.lstsq(A, b)[0], dtype=np.float64)
    H, g = data.H, data.g
    h = regulariser(kind)
    best, lowest = np.zeros(d), np.inf
    for held in itertools.product((-1, 0, 1), repeat=d):
        where = np.array(held)
        if kind == "L1":  # signs, 0 for an entry that is zero
            free, x, slope = where != 0, np.zeros(d), 1.3 * where
        else:  # an entry at its lower bound, between, or at its upper bound
            free, x, slope = where == 0, np.choose(where + 1, [-0.25, 0.0, 0.5]), np.zeros(d)
        right = (g - slope - H @ np.where(free, 0, x))[free]
        x[free] = np.linalg.solve(H[np.ix_(free, free)], right)
        here = data.value(x) + float(h.value(x))
        if here < lowest:
            best, lowest = x, here
    return best


def sum_gradient(data: Data, x: Vector) -> Vector:
    """Of the sum without weights."""
    pairs = zip(data.A, data.b, strict=True)
    return np.asarray(sum(a.T @ (a @ x - v) for a, v in pairs))
