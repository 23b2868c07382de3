"""Certified bounds: never below the true gap, and not far above it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pdmm
from builders.certified import Data, least_squares, methods, optimum, regulariser
from twins import methods as twins
from twins.methods import Matrix, Vector

EPS = {np.dtype(t): float(np.finfo(t).eps) for t in (np.float64, np.float32)}


def true_gap(data: Data, kind: str, x: Vector, x_star: Vector) -> float:
    """F(x) - F*: without cancellation where h is quadratic, so that it is right when it is tiny."""
    v = x - x_star
    if kind in ("none", "SquaredL2"):
        c = 0.7 if kind == "SquaredL2" else 0.0
        return 0.5 * float(v @ data.H @ v + c * v @ v)
    h = regulariser(kind)
    return data.value(x) + float(h.value(x)) - data.value(x_star) - float(h.value(x_star))


# --- least squares: never below the truth, and not far above it ------------------------------


@pytest.mark.slow
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


@pytest.mark.slow
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
