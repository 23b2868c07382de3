"""Certificates: bounds that are never wrong, residuals that are what they say, stopping by them."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pdmm
from pdmm.methods import Method
from twins import servers as twins
from twins.servers import Matrix, Vector

EPS = {np.dtype(t): float(np.finfo(t).eps) for t in (np.float64, np.float32)}


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


def true_gap(data: Data, kind: str, x: Vector, x_star: Vector) -> float:
    """F(x) - F*: without cancellation where h is quadratic, so that it is right when it is tiny."""
    v = x - x_star
    if kind in ("none", "SquaredL2"):
        c = 0.7 if kind == "SquaredL2" else 0.0
        return 0.5 * float(v @ data.H @ v + c * v @ v)
    h = regulariser(kind)
    return data.value(x) + float(h.value(x)) - data.value(x_star) - float(h.value(x_star))


# --- least squares: never below the truth, and not far above it ------------------------------


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from(["tall", "wide", "ragged"]),
    kind=st.sampled_from(["none", "SquaredL2", "L1", "Box"]),
    dtype=st.sampled_from([np.float64, np.float32]),
    rounds=st.sampled_from([1, 4, 50]),
    own=st.booleans(),
)
def test_least_squares_bounds_are_never_below_the_truth(
    seed: int, shape: str, kind: str, dtype: Any, rounds: int, own: bool
) -> None:
    data = least_squares(seed, shape, dtype)
    mu, L = data.ends
    if mu < 1e-4 * L:
        return
    problem, h, x_star = data.problem, regulariser(kind), optimum(data, kind)
    convexity = mu + (0.7 if kind == "SquaredL2" else 0.0)
    F = data.value(x_star) + float(np.abs(x_star).sum())
    eps = EPS[problem.dtype]
    for k, (name, method) in enumerate(methods(data.client_L).items()):
        if (h is not None and name in ("Scaffold", "FedAvg")) or (seed + k) % 3:
            continue  # a third of the methods at a time
        result = pdmm.solve(
            problem,
            method,
            rounds,
            x0=data.x0,
            weights=data.w,
            regulariser=h,
            optimum=None if own else False,
            record_every=rounds,
            threads=1,
        )
        x, certificate = result.x.astype(np.float64), result.certificate
        assert certificate.gap is not None, name
        assert certificate.distance is not None, name
        assert certificate.strong_convexity <= convexity * (1 + 1e-9)
        assert certificate.round == rounds
        inside = np.clip(x, -0.25, 0.5) if kind == "Box" else x  # a float32 may just miss a bound
        gap = true_gap(data, kind, inside, x_star)
        distance = float(np.linalg.norm(x - x_star))
        # What the clients' precision makes of a gradient, and float64 of the two optima.
        rough = 8 * eps * (L * (1 + np.linalg.norm(x)) + np.linalg.norm(data.g))
        noise = rough if dtype == np.float32 else 1e-13 * rough / eps
        size = certificate.stationarity + noise
        assert gap <= size**2 / (2 * convexity) * (1 + 1e-9) + 1e-13 * F + rough * (
            eps if kind == "Box" else 0
        ), name
        assert distance <= size / convexity * (1 + 1e-9) + 1e-13, name
        # and the three numbers belong together
        assert certificate.gap == pytest.approx(certificate.stationarity**2 / (2 * convexity), 1e-6)
        assert certificate.distance == pytest.approx(certificate.stationarity / convexity, 1e-6)
        if kind == "none":
            least = 0.5 * float((x - x_star) @ data.H @ (x - x_star))
            most = (np.sqrt(least * L / mu) + noise / np.sqrt(2 * mu)) ** 2
            assert certificate.gap <= most * (1 + 1e-6), name


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["none", "SquaredL2", "L1", "Box"]),
    rounds=st.integers(1, 30),
)
def test_stationarity_is_the_shortest_subgradient(seed: int, kind: str, rounds: int) -> None:
    data, h = least_squares(seed, "tall"), regulariser(kind)
    result = pdmm.solve(
        data.problem, pdmm.PDMM("auto"), rounds, x0=data.x0, weights=data.w, regulariser=h
    )
    g, x = data.gradient(result.x), result.x
    for j, entry in enumerate(x):  # the interval of h' at each entry, and its point nearest to -g
        low, high = {
            "none": (0.0, 0.0),
            "SquaredL2": (0.7 * entry, 0.7 * entry),
            "L1": (1.3 * np.sign(entry),) * 2 if entry else (-1.3, 1.3),
            "Box": (-np.inf if entry <= -0.25 else 0.0, np.inf if entry >= 0.5 else 0.0),
        }[kind]
        g[j] += np.clip(-g[j], low, high)
    A, b = data.stacked
    noise = 1e-13 * np.linalg.norm(A) * (np.linalg.norm(A) * np.linalg.norm(x) + np.linalg.norm(b))
    assert result.certificate.stationarity == pytest.approx(
        np.linalg.norm(g), 1e-9, abs=float(noise)
    )


@pytest.mark.parametrize("kind", ["none", "L1", "Box"])
@pytest.mark.parametrize("own", [True, False])
def test_without_strong_convexity_there_is_no_bound(kind: str, own: bool) -> None:
    data = least_squares(3, "flat")
    result = pdmm.solve(
        data.problem,
        pdmm.AGPDMM(0.9 / data.client_L, 3),
        5,
        weights=data.w,
        regulariser=regulariser(kind),
        optimum=None if own else False,
    )
    certificate = result.certificate
    assert (certificate.gap, certificate.distance) == (None, None)
    assert certificate.strong_convexity == 0
    if kind == "none":
        size = float(np.linalg.norm(data.gradient(result.x)))
        assert certificate.stationarity == pytest.approx(size, rel=1e-9)
    bounded = pdmm.solve(
        data.problem, pdmm.AGPDMM(0.9 / data.client_L, 3), 5, regulariser=pdmm.SquaredL2(0.1)
    ).certificate
    assert bounded.gap is not None  # the regulariser's own mu is enough
    assert bounded.strong_convexity == pytest.approx(0.1)


@pytest.mark.parametrize("samples", [4, 30, 2000])
def test_dependent_columns_prove_nothing_wrong(samples: int) -> None:
    # F has no mu > 0 here, however rounding makes A'A look; a bound would have to be huge.
    rng = np.random.default_rng(samples)
    A = [a @ np.diag([1.0, 0.3, 1]) for a in rng.standard_normal((3, samples, 3))]
    for a in A:
        a[:, 2] = a[:, 0] / 3 + a[:, 1]
    b = list(rng.standard_normal((3, samples)))
    certificate = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.PDMM("auto"), 5).certificate
    assert certificate.gap is None


# --- softmax ---------------------------------------------------------------------------------


@dataclass
class Classes:
    """Softmax regression in float64, and its derivatives written out."""

    X: list[Any]
    y: list[Any]
    l2: float
    w: Vector
    dtype: Any

    def problem(self, **more: Any) -> pdmm.SoftmaxRegression:
        X = [part.astype(self.dtype) for part in self.X]
        return pdmm.SoftmaxRegression(X, self.y, classes=3, l2=self.l2, **more)

    def parts(self, x: Vector, c: float = 0.0) -> tuple[float, Vector, Matrix]:
        """Value, gradient and Hessian of F with c/2 ‖x‖²."""
        triples = zip(self.w, self.X, self.y, strict=True)
        both = [(w, twins.softmax_parts(X, y, 3, self.l2, x)) for w, X, y in triples]
        return (
            sum(w * p[0] for w, p in both) + c / 2 * float(x @ x),
            np.asarray(sum(w * p[1] for w, p in both)) + c * x,
            np.asarray(sum(w * p[2] for w, p in both)) + c * np.eye(len(x)),
        )


def classes(seed: int, l2: float, dtype: Any, apart: bool) -> Classes:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 5))
    sizes = rng.integers(2, 9, m)
    y = [np.full(n, i % 3) if apart else rng.integers(0, 3, n) for i, n in enumerate(sizes)]
    X = [(rng.standard_normal((n, 2)) + 1).astype(dtype).astype(np.float64) for n in sizes]
    return Classes(X, y, l2, rng.uniform(0.3, 3, m), dtype)


@settings(derandomize=True, deadline=None, max_examples=9)
@given(
    seed=st.integers(0, 2**32 - 1),
    l2=st.sampled_from([1e-3, 0.1]),
    dtype=st.sampled_from([np.float64, np.float32]),
    apart=st.booleans(),
    rounds=st.sampled_from([1, 6, 25]),
    kind=st.sampled_from(["none", "SquaredL2", "Box"]),
)
def test_softmax_bounds_are_never_below_the_truth(
    seed: int, l2: float, dtype: Any, apart: bool, rounds: int, kind: str
) -> None:
    data = classes(seed, l2, dtype, apart)
    problem, h = data.problem(), regulariser(kind)
    c = 0.7 if kind == "SquaredL2" else 0.0
    start = np.zeros(problem.dimension)
    if kind == "Box":
        found = minimize(
            lambda x: data.parts(x)[:2],
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-0.25, 0.5)] * len(start),
            options={"ftol": 0.0, "gtol": 1e-10, "maxiter": 2000},
        )
        x_star, close = np.asarray(found.x, dtype=np.float64), 1e-5
    else:
        x_star, close = twins.newton(lambda x: data.parts(x, c), start), 1e-9
    lowest = data.parts(x_star, c)[0]
    mu = l2 * float(data.w.sum()) + c
    for name, method in methods(float(problem.smoothness().clients.max())).items():
        if h is not None and name in ("Scaffold", "FedAvg"):
            continue
        if method.exact and rounds > 6 and "auto" not in name:
            continue  # every exact step is a run of a solver
        result = pdmm.solve(
            problem, method, rounds, weights=data.w, regulariser=h, record_every=rounds, threads=1
        )
        certificate, x = result.certificate, result.x.astype(np.float64)
        assert certificate.gap is not None
        assert certificate.distance is not None
        assert certificate.strong_convexity == pytest.approx(mu)
        gap = data.parts(np.clip(x, -0.25, 0.5) if kind == "Box" else x, c)[0] - lowest
        rows = sum(w * np.linalg.norm(X, 2) for w, X in zip(data.w, data.X, strict=True))
        noise = 8 * EPS[problem.dtype] * (float(rows) + mu * float(np.linalg.norm(x)))
        size = certificate.stationarity + noise
        slack = 1e-12 * lowest + (noise if kind == "Box" else 0.0)
        assert gap <= size**2 / (2 * mu) + slack, name
        assert np.linalg.norm(x - x_star) <= size / mu + close * (1 + noise / mu), name
        if kind == "none":
            truth = float(np.linalg.norm(data.parts(x)[1]))
            assert certificate.stationarity == pytest.approx(truth, rel=1e-4, abs=4 * noise)


def test_softmax_without_l2_has_no_bound() -> None:
    data = classes(1, 0.0, np.float64, apart=False)
    result = pdmm.solve(data.problem(), pdmm.AGPDMM(0.1, 3), 5, weights=data.w)
    assert result.certificate.gap is None
    assert result.certificate.distance is None
    truth = float(np.linalg.norm(data.parts(result.x)[1]))
    assert result.certificate.stationarity == pytest.approx(truth, rel=1e-9)


def test_mini_batches_are_certified_on_all_the_data() -> None:
    rng = np.random.default_rng(0)
    X, y = list(rng.standard_normal((3, 8, 2))), [rng.integers(0, 3, 8) for _ in range(3)]
    data = Classes(X, y, 0.1, np.ones(3), np.float64)
    result = pdmm.solve(data.problem(batch_size=3), pdmm.AGPDMM(0.1, 3), 5)
    truth = float(np.linalg.norm(data.parts(result.x)[1]))
    assert result.certificate.stationarity == pytest.approx(truth, rel=1e-9)
    assert result.certificate.gap == pytest.approx(truth**2 / (2 * 0.3), rel=1e-9)


# --- residuals, by hand ----------------------------------------------------------------------

Local = Callable[[int, Vector, Vector, Vector], tuple[Vector, Vector]]


def naive(
    data: Data, h: Any, rho: float, relaxation: float, rounds: int, local: Local
) -> tuple[Vector, float, float]:
    """(x_s, consensus, dual sum) after so many rounds, a client and a multiplier at a time."""
    W = float(data.w.sum())

    def server(z: list[Vector]) -> tuple[Vector, Vector]:
        mean = sum((w * v for w, v in zip(data.w, z, strict=True)), 0 * data.x0) / W
        x_s = mean if h is None else h.prox(mean, 1 / (rho * W))
        return x_s, W * rho * (mean - x_s)  # the prox chooses this subgradient of h at x_s

    z = [data.x0.copy() for _ in data.A]
    own = [data.x0.copy() for _ in data.A]
    x_s, v = server(z)
    apart, total = 0.0, 0 * x_s
    for _ in range(rounds):
        apart, total = 0.0, v
        for i, w in enumerate(data.w):
            lam_s = rho * (z[i] - x_s)
            x_i, own[i] = local(i, x_s, x_s - lam_s / rho, own[i])
            lam_i = rho * (x_s - x_i) - lam_s
            apart += w * float(np.sum((x_i - x_s) ** 2)) / W
            total = total + w * lam_i
            z[i] = z[i] + relaxation * (x_i - lam_i / rho - z[i])
        x_s, v = server(z)
    return x_s, float(np.sqrt(apart)), float(np.linalg.norm(total))


def steps(data: Data, eta: float, K: int, rho: float, start: str, mean: bool) -> Local:
    def local(i: int, x_s: Vector, anchor: Vector, own: Vector) -> tuple[Vector, Vector]:
        x, seen = {"server": x_s, "own": own, "anchor": anchor}[start], []
        for _ in range(K):
            x = x - eta * (data.A[i].T @ (data.A[i] @ x - data.b[i]) + rho * (x - anchor))
            seen.append(x)
        return (np.mean(seen, axis=0) if mean else x), x

    return local


def exact(data: Data, rho: float) -> Local:
    _, prox = twins.least_squares(data.A, data.b)
    return lambda i, x_s, anchor, own: (prox(i, anchor, rho), own)


def family(data: Data) -> dict[str, tuple[Method, float, float, Local]]:
    """Method, rho, relaxation and what its clients do, in plain words."""
    L = data.client_L
    eta, rho = 0.9 / L, L / 3
    inner = 1 / (1 / eta + rho)
    return {
        "PDMM": (pdmm.PDMM(rho), rho, 1.0, exact(data, rho)),
        "PDMM, relaxed": (pdmm.PDMM(rho, 0.6), rho, 0.6, exact(data, rho)),
        "FedSplit": (pdmm.FedSplit(1 / rho, 0.5), rho, 0.5, exact(data, rho)),
        "GPDMM": (
            pdmm.GPDMM(eta, 3, rho, relaxation=0.8),
            rho,
            0.8,
            steps(data, inner, 3, rho, "own", mean=True),
        ),
        "AGPDMM": (
            pdmm.AGPDMM(eta, 4, rho),
            rho,
            1.0,
            steps(data, inner, 4, rho, "server", mean=False),
        ),
        "InexactFedSplit": (
            pdmm.InexactFedSplit(1 / rho, 0.6 / L, 2),
            rho,
            1.0,
            steps(data, 0.6 / L, 2, rho, "anchor", mean=False),
        ),
    }


@pytest.mark.parametrize("name", list(family(least_squares(0, "tall"))))
@pytest.mark.parametrize("kind", ["none", "SquaredL2", "L1", "Box"])
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_consensus_and_dual_sum_by_hand(name: str, kind: str, rounds: int) -> None:
    data, h = least_squares(11, "ragged"), regulariser(kind)
    method, rho, relaxation, local = family(data)[name]
    x_s, consensus, dual_sum = naive(data, h, rho, relaxation, rounds, local)
    result = pdmm.solve(data.problem, method, rounds, x0=data.x0, weights=data.w, regulariser=h)
    np.testing.assert_allclose(result.x, x_s, rtol=1e-10, atol=1e-12)
    assert result.certificate.consensus == pytest.approx(consensus, rel=1e-9)
    assert result.certificate.dual_sum == pytest.approx(dual_sum, rel=1e-8)


@pytest.mark.parametrize("rounds", [1, 3])
def test_fedavg_has_a_consensus_and_no_duals(rounds: int) -> None:
    data = least_squares(11, "ragged")
    eta, W = 0.5 / data.client_L, float(data.w.sum())
    x_s, apart = data.x0, 0.0
    for _ in range(rounds):
        changes = []
        for a, v in zip(data.A, data.b, strict=True):
            x = x_s
            for _ in range(3):
                x = x - eta * (a.T @ (a @ x - v))
            changes.append(x - x_s)
        apart = sum(w * float(c @ c) for w, c in zip(data.w, changes, strict=True)) / W
        x_s = x_s + sum((w * c for w, c in zip(data.w, changes, strict=True)), 0 * x_s) / W
    result = pdmm.solve(data.problem, pdmm.FedAvg(eta, 3), rounds, x0=data.x0, weights=data.w)
    np.testing.assert_allclose(result.x, x_s, rtol=1e-11)
    assert result.certificate.consensus == pytest.approx(np.sqrt(apart), rel=1e-10)
    assert result.certificate.dual_sum is None


def test_gradient_descent_has_neither() -> None:
    data = least_squares(11, "ragged")
    certificate = pdmm.solve(data.problem, pdmm.GradientDescent(1e-3), 3).certificate
    assert certificate.consensus is None
    assert certificate.dual_sum is None
    certificate = pdmm.solve(data.problem, pdmm.Scaffold(1e-3, 2), 3).certificate
    assert certificate.dual_sum is None


@pytest.mark.parametrize("kind", ["none", "SquaredL2", "L1", "Box"])
def test_residuals_vanish_where_a_run_converges(kind: str) -> None:
    data, h = least_squares(12, "tall"), regulariser(kind)
    converging = {
        name: method
        for name, method in methods(data.client_L).items()
        if "PDMM" in name or name in ("FedSplit", "InexactFedSplit, server")
    }
    assert len(converging) == 8
    for name, method in converging.items():
        run = [
            pdmm.solve(
                data.problem, method, n, weights=data.w, regulariser=h, record_every=n, threads=1
            ).certificate
            for n in (3, 250)
        ]
        first, last = run
        for what in ("consensus", "dual_sum", "stationarity"):
            before, after = getattr(first, what), getattr(last, what)
            assert before is not None, (name, what)
            assert after <= 1e-6 * max(before, 1e-2), (name, what, before, after)


def test_a_stall_shows() -> None:
    data = least_squares(12, "tall")
    eta = 0.9 / data.client_L
    stalled = pdmm.solve(data.problem, pdmm.FedAvg(eta, 5), 2000).certificate
    assert stalled.consensus is not None
    assert stalled.consensus > 1e-3
    assert stalled.stationarity > 1e-3


# --- stopping --------------------------------------------------------------------------------


def sizes_by_hand(data: Data, method: Method, rounds: int) -> list[float]:
    """What a tolerance is compared with, at the start and after every round."""
    mu = data.ends[0] if data.ends[0] > 1e-9 else 0.0
    points: list[Any] = [data.x0]
    pdmm.solve(
        data.problem,
        method,
        rounds,
        x0=data.x0,
        weights=data.w,
        callback=lambda r, x: points.append(x.copy()),
    )
    norms = [float(np.linalg.norm(data.gradient(x))) for x in points]
    return [g**2 / (2 * mu) if mu else g for g in norms]


@pytest.mark.parametrize("shape", ["tall", "wide", "flat"])
@pytest.mark.parametrize("check_every", [1, 3, 5])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_stops_at_the_first_check_that_is_good_enough(
    shape: str, check_every: int, tolerance: float
) -> None:
    data = least_squares(5, shape)
    for method in (pdmm.PDMM(data.client_L / 4, 0.7), pdmm.AGPDMM(0.9 / data.client_L, 5)):
        sizes = sizes_by_hand(data, method, 300)
        checks = [r for r in range(1, 301) if r % check_every == 0 or r == 300]
        good = [r for r in checks if sizes[r] <= tolerance * sizes[0]]
        assert good
        result = pdmm.solve(
            data.problem,
            method,
            300,
            x0=data.x0,
            weights=data.w,
            tolerance=tolerance,
            check_every=check_every,
        )
        assert result.rounds == good[0]
        assert result.certificate.round == good[0]
        assert result.history["round"][-1] == good[0]
        assert not result.diverged
        assert result.reason.startswith("certified")
        size = result.certificate.gap
        if shape == "flat":
            assert size is None
            size = result.certificate.stationarity
        assert size == pytest.approx(sizes[good[0]], rel=1e-5)


def test_the_default_is_to_check_every_fifth_round() -> None:
    data = least_squares(5, "tall")
    method = pdmm.PDMM(data.client_L / 4)
    default = pdmm.solve(data.problem, method, 300, tolerance=1e-8)
    fifth = pdmm.solve(data.problem, method, 300, tolerance=1e-8, check_every=5)
    assert default.rounds == fifth.rounds < 300
    assert default.history["vectors_up"][-1] == fifth.history["vectors_up"][-1]


@pytest.mark.parametrize(
    "method",
    [
        pdmm.FedAvg(0.02, 5),  # stalls
        pdmm.InexactFedSplit(0.1, 0.01, 1),  # stalls
        pdmm.GradientDescent(1e-6),  # crawls
        pdmm.AGPDMM(1e-7, 2),
    ],
)
def test_a_run_that_only_slows_down_does_not_stop(method: Method) -> None:
    data = least_squares(5, "tall")
    result = pdmm.solve(data.problem, method, 400, tolerance=1e-8)
    assert result.rounds == 400
    assert result.reason.startswith("all 400 rounds done, tolerance=")


@pytest.mark.parametrize("method", [None, pdmm.AGPDMM(0.1, 2), pdmm.PDMM(1.0), pdmm.FedAvg(0.1, 1)])
def test_an_optimal_start_needs_no_rounds(method: Method | None) -> None:
    problem = pdmm.LeastSquares([np.eye(2), 2 * np.eye(2)], [[1.0, 2.0], [2.0, 4.0]])
    result = pdmm.solve(problem, method, 50, x0=[1.0, 2.0], tolerance=1e-8)
    assert result.rounds == 0
    np.testing.assert_array_equal(result.x, [1.0, 2.0])
    np.testing.assert_array_equal(result.history["round"], [0])
    assert not result.diverged
    assert "optimal" in result.reason
    assert result.certificate.gap == 0
    assert result.certificate.round == 0


def test_an_optimum_found_elsewhere_needs_no_rounds() -> None:
    # Its gradient is not 0 but rounding, of which no round can make less.
    data = least_squares(6, "tall")
    result = pdmm.solve(
        data.problem,
        pdmm.PDMM(data.client_L / 4),
        50,
        x0=optimum(data, "none"),
        weights=data.w,
        tolerance=1e-8,
    )
    assert result.rounds == 0


def test_what_checks_cost() -> None:
    data = least_squares(5, "tall")
    m, d = len(data.A), len(data.x0)
    method = pdmm.AGPDMM(0.9 / data.client_L, 3)
    free = pdmm.solve(data.problem, method, 12)
    paid = pdmm.solve(data.problem, method, 12, tolerance=1e-300, check_every=5)
    np.testing.assert_array_equal(free.x, paid.x)
    rounds = np.arange(13)
    checks = 1 + rounds // 5 + (rounds == 12)  # at the start, every fifth round, at the last
    assert paid.reason.startswith("all 12 rounds done, tolerance=1e-300 not reached")
    np.testing.assert_array_equal(free.history["vectors_up"], m * rounds)
    np.testing.assert_array_equal(free.history["bytes_up"], m * d * 8 * rounds)
    np.testing.assert_array_equal(paid.history["vectors_up"], m * (rounds + checks))
    np.testing.assert_array_equal(paid.history["bytes_up"], m * d * 8 * (rounds + checks))
    np.testing.assert_array_equal(free.history["gradient_calls"], 3 * rounds)
    np.testing.assert_array_equal(paid.history["gradient_calls"], 3 * rounds + checks)
    for column in ("vectors_down", "bytes_down", "objective"):
        np.testing.assert_array_equal(free.history[column], paid.history[column])
    # The last certificate is not part of the history, but says what it cost.
    assert free.certificate.bytes_up == paid.certificate.bytes_up == m * d * 8
    assert free.certificate.stationarity == paid.certificate.stationarity


def test_what_checks_cost_in_float32_when_few_rounds_are_recorded() -> None:
    data = least_squares(5, "tall", np.float32)
    m, d = len(data.A), len(data.x0)
    method = pdmm.AGPDMM(0.9 / data.client_L, 3)
    paid = pdmm.solve(data.problem, method, 12, tolerance=1e-300, check_every=2, record_every=5)
    np.testing.assert_array_equal(paid.history["round"], [0, 5, 10, 12])
    sent = m * d * 4 * np.array([0 + 1, 5 + 3, 10 + 6, 12 + 7])
    np.testing.assert_array_equal(paid.history["bytes_up"], sent)
    assert paid.certificate.bytes_up == m * d * 4


def test_calls_for_certificates_are_the_calls_that_are_made() -> None:
    calls = 0

    def gradient(x: Vector) -> Vector:
        nonlocal calls
        calls += 1
        return x - 1

    problem = pdmm.Functions([lambda x: 0.5 * float((x - 1) @ (x - 1))], [gradient], 2)
    method = pdmm.AGPDMM(0.1, 3, rho=1.0)
    problem.check(np.zeros(2), exact=False)
    before = calls
    result = pdmm.solve(problem, method, 10, tolerance=1e-300, check_every=4)
    assert result.history["gradient_calls"][-1] == 10 * 3 + 1 + 3
    assert calls - before == before + 10 * 3 + 1 + 3


def test_a_callback_that_stops_is_certified_too() -> None:
    data = least_squares(5, "tall")
    method = pdmm.AGPDMM(0.9 / data.client_L, 3)
    for tolerance in (None, 1e-300):
        result = pdmm.solve(
            data.problem, method, 50, callback=lambda r, x: r == 3, tolerance=tolerance
        )
        assert result.rounds == result.certificate.round == 3
        truth = float(np.linalg.norm(np.asarray(sum_gradient(data, result.x))))
        assert result.certificate.stationarity == pytest.approx(truth, rel=1e-8)


def sum_gradient(data: Data, x: Vector) -> Vector:
    """Of the sum without weights."""
    pairs = zip(data.A, data.b, strict=True)
    return np.asarray(sum(a.T @ (a @ x - v) for a, v in pairs))


@pytest.mark.parametrize("value", [0, 0.0, -1e-8, np.nan, np.inf, "small", True, [1e-8]])
def test_a_tolerance_that_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        pdmm.solve(least_squares(5, "tall").problem, pdmm.PDMM(1.0), 3, tolerance=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, 5.0, "5", True, None])
def test_a_check_every_that_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="check_every"):
        pdmm.solve(
            least_squares(5, "tall").problem, pdmm.PDMM(1.0), 3, tolerance=1e-3, check_every=value
        )


def test_a_start_outside_the_box_does_not_count_as_a_first_certificate() -> None:
    # Gradient descent begins at x0 itself, where h is infinite.
    data = least_squares(5, "tall")
    result = pdmm.solve(
        data.problem,
        pdmm.GradientDescent(0.5 / data.client_L),
        400,
        regulariser=pdmm.Box(1.0, 2.0),
        tolerance=1e-8,
        check_every=1,
    )
    assert result.rounds > 1
    assert result.certificate.gap is not None
    assert result.certificate.gap < 1e-8


class Ridge(pdmm.Regulariser):
    """A user's own h, which does not say what its subgradients are."""

    def value(self, x: Any) -> float:
        return 0.5 * float(x @ x)

    def prox(self, v: Any, t: float) -> Any:
        return v / (1 + t)

    def divergence(self, x: Any, y: Any, slope: Any) -> float:
        return self.value(x - y) + float((y - slope) @ (x - y))


@pytest.mark.parametrize("method", [None, pdmm.PDMM(1.0)])
def test_without_subgradients_nothing_is_certified(method: Method | None) -> None:
    data = least_squares(5, "tall")
    result = pdmm.solve(data.problem, method, 40, regulariser=Ridge(), tolerance=1e-8)
    assert not result.reason.startswith("certified")
    assert result.rounds == 40
    assert result.certificate.gap is None
    assert result.certificate.distance is None


# --- a user's own functions ------------------------------------------------------------------


def bowls(**more: Any) -> tuple[pdmm.Functions, Vector]:
    """sqrt(1 + ‖x - c‖²) + ‖x - c‖²/2 about three centres, and the optimum of their sum."""
    centres = np.random.default_rng(4).standard_normal((3, 2))

    def value(x: Vector, c: Vector) -> float:
        return float(np.sqrt(1 + (x - c) @ (x - c)) + 0.5 * (x - c) @ (x - c))

    def gradient(x: Vector, c: Vector) -> Vector:
        return np.asarray((x - c) / np.sqrt(1 + (x - c) @ (x - c)) + (x - c))

    problem = pdmm.Functions(
        [partial(value, c=c) for c in centres],
        [partial(gradient, c=c) for c in centres],
        2,
        **more,
    )
    found = minimize(
        lambda x: (sum(value(x, c) for c in centres), sum(gradient(x, c) for c in centres)),
        np.zeros(2),
        jac=True,
        options={"gtol": 1e-13},
    )
    return problem, np.asarray(found.x, dtype=np.float64)


def test_functions_without_constants_have_no_bound() -> None:
    for more in ({}, {"smoothness": 2.0}, {"strong_convexity": 0.0}):
        problem, _ = bowls(**more)
        certificate = pdmm.solve(problem, pdmm.AGPDMM(0.3, 2), 10).certificate
        assert certificate.gap is None
        assert certificate.distance is None
        assert np.isfinite(certificate.stationarity)


@pytest.mark.parametrize("rounds", [1, 60])
@pytest.mark.parametrize("mu", [1.0, [1.0, 0.5, 0.0]])
def test_a_given_strong_convexity_proves_a_bound(rounds: int, mu: Any) -> None:
    problem, x_star = bowls(strong_convexity=mu)
    result = pdmm.solve(problem, pdmm.AGPDMM(0.3, 2), rounds)
    certificate = result.certificate
    assert certificate.strong_convexity == pytest.approx(float(np.broadcast_to(mu, 3).sum()))
    assert certificate.gap is not None
    assert certificate.distance is not None
    gap = problem.objective(result.x) - problem.objective(x_star)
    assert gap <= certificate.gap + 1e-13
    assert np.linalg.norm(result.x - x_star) <= certificate.distance + 1e-7  # of the reference


def test_a_given_strong_convexity_that_gradients_refute() -> None:
    problem = pdmm.Functions(
        [lambda x: float(x @ x) / 2] * 2, [lambda x: x] * 2, 2, strong_convexity=[1.0, 5.0]
    )
    with pytest.warns(RuntimeWarning, match="strong_convexity of client 1 was given as 5"):
        result = pdmm.solve(problem, pdmm.AGPDMM(0.1, 2), 5, x0=[1.0, 2.0])
    assert result.certificate.gap is None
    assert "client 1" in result.certificate.kind


@pytest.mark.parametrize("tolerance", [None, 1e-6])
@pytest.mark.parametrize("mu", [None, 0.5])
def test_a_function_that_is_not_convex(tolerance: float | None, mu: float | None) -> None:
    problem = pdmm.Functions(
        [lambda x: float(x @ x), lambda x: float(np.cos(x).sum())],
        [lambda x: 2 * x, lambda x: -np.sin(x)],
        2,
        strong_convexity=mu,
    )
    with pytest.warns(RuntimeWarning, match=r"client 1\) is not convex"):
        result = pdmm.solve(
            problem, pdmm.AGPDMM(0.1, 2), 30, x0=[1.0, 0.5], tolerance=tolerance, check_every=1
        )
    assert result.certificate.gap is None
    assert result.certificate.distance is None


@pytest.mark.parametrize("method", [None, pdmm.PDMM(1.0, 0.9)])
@pytest.mark.parametrize("how", ["raises", "is nan"])
def test_functions_with_a_prox_need_no_gradients(method: Method | None, how: str) -> None:
    def gradient(x: Vector) -> Vector:
        if how == "raises":
            raise NotImplementedError
        return np.nan * x

    problem = pdmm.Functions(
        [lambda x: float(np.abs(x - 1).sum())] * 3,
        [gradient] * 3,
        2,
        prox=[lambda v, t: 1 + np.sign(v - 1) * np.maximum(np.abs(v - 1) - t, 0)] * 3,
    )
    result = pdmm.solve(problem, method, 40)
    assert result.certificate.gap is None
    assert not result.reason.startswith("certified")
    np.testing.assert_allclose(result.x, 1.0, atol=0.1)


# --- and all of it again when the run goes wrong ----------------------------------------------


def test_a_diverged_run_has_a_certificate_of_its_last_point() -> None:
    data = least_squares(5, "tall")
    result = pdmm.solve(data.problem, pdmm.GradientDescent(100.0), 2000)
    assert result.diverged
    truth = float(np.linalg.norm(sum_gradient(data, result.x)))
    assert result.certificate.stationarity == pytest.approx(truth, rel=1e-6)


@settings(derandomize=True, deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=0)
def test_certificates_do_not_depend_on_threads_or_on_recording(seed: int) -> None:
    data = least_squares(seed, "ragged")
    method = pdmm.PDMM("auto", 0.9, "anderson")
    found = {
        (c.stationarity, c.gap, c.consensus, c.dual_sum)
        for c in (
            pdmm.solve(data.problem, method, 7, threads=threads, record_every=every).certificate
            for threads, every in ((1, 1), (2, 1), (1, 7))
        )
    }
    assert len(found) == 1


def test_it_prints_as_what_it_says() -> None:
    data = least_squares(5, "tall")
    assert "gap <= " in repr(pdmm.solve(data.problem, pdmm.PDMM(1.0), 3).certificate)
    flat = least_squares(5, "flat")
    assert "no bound" in repr(pdmm.solve(flat.problem, pdmm.PDMM(1.0), 3).certificate)
