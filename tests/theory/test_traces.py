"""Runs beside the theory: they keep what is promised."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from pdmm import theory

Vector = npt.NDArray[np.float64]
sometimes = settings(derandomize=True, deadline=None, max_examples=25)


@dataclass
class Case:
    """A problem, its constants, its minimiser if it must be told, and a start."""

    problem: pdmm.Problem
    L: float
    mu: float
    x0: Vector
    x_star: Vector | None = None

    @property
    def given(self) -> dict[str, Any]:
        return {"x0": self.x0, "x_star": self.x_star, "smoothness": self.L}


def least_squares(seed: int, m: int, d: int, n: int, spread: float) -> Case:
    rng = np.random.default_rng(seed)
    scales = np.exp(spread * rng.standard_normal(m)) / math.sqrt(n)
    A = [s * rng.standard_normal((n, d)) for s in scales]
    b: list[Any] = [rng.standard_normal(n) for _ in range(m)]
    e = np.concatenate([np.linalg.eigvalsh(a.T @ a) for a in A])
    problem = pdmm.LeastSquares(A, b)
    return Case(problem, float(e.max()), float(e.min()), rng.standard_normal(d))


def log_cosh(seed: int, m: int, d: int, n: int, spread: float) -> Case:
    """f_i(x) = sum_j log cosh(a_ij·x - b_ij) + l2/2 ‖x‖²: not quadratic, L and mu known."""
    rng = np.random.default_rng(seed)
    scales = np.exp(spread * rng.standard_normal(m)) / math.sqrt(n)
    A: list[Any] = [s * rng.standard_normal((n, d)) for s in scales]
    b: list[Any] = [rng.standard_normal(n) for _ in range(m)]
    top = max(float(np.linalg.eigvalsh(a.T @ a).max()) for a in A)
    l2 = 0.2 * top

    def value(i: int, x: Any) -> float:
        t = np.abs(A[i] @ x - b[i])
        return float((t + np.log1p(np.exp(-2 * t)) - math.log(2)).sum() + l2 / 2 * (x @ x))

    def gradient(i: int, x: Any) -> Any:
        return np.tanh(A[i] @ x - b[i]) @ A[i] + l2 * x

    x = np.zeros(d)
    for _ in range(60):  # Newton; the sum is strongly convex and nearly quadratic
        slopes = [1 - np.tanh(a @ x - v) ** 2 for a, v in zip(A, b, strict=True)]
        H = m * l2 * np.eye(d) + sum((a.T * s) @ a for a, s in zip(A, slopes, strict=True))
        x = x - np.linalg.solve(H, sum(gradient(i, x) for i in range(m)))
    problem = pdmm.Functions(
        [partial(value, i) for i in range(m)], [partial(gradient, i) for i in range(m)], d
    )
    return Case(problem, top + l2, l2, rng.standard_normal(d), x)


def softmax(seed: int, m: int, d: int, n: int, spread: float) -> Case:
    """Three classes with l2 > 0, whose minimiser gradient descent finds to rounding."""
    rng = np.random.default_rng(seed)
    X: list[Any] = [rng.standard_normal((n, d)) + spread for _ in range(m)]
    y: list[Any] = [rng.integers(0, 3, n) for _ in range(m)]
    l2 = 0.5
    problem = pdmm.SoftmaxRegression(X, y, classes=3, l2=l2)
    L = float(problem.smoothness().clients.max())
    descent = pdmm.solve(problem, pdmm.GradientDescent(1 / L), 1500, record_every=1500, threads=1)
    return Case(problem, L, l2, rng.standard_normal(problem.dimension), descent.x)


def cases(make: Callable[..., Case], tall: bool) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda seed, m, d, n, spread: make(seed, m, d, 3 * d + n if tall else n, spread),
        seed=st.integers(0, 2**32 - 1),
        m=st.integers(1, 5),
        d=st.integers(1, 6),
        n=st.integers(1, 8),
        spread=st.floats(0, 1),
    )


tall = cases(least_squares, tall=True)
wide = cases(least_squares, tall=False)
curved = cases(log_cosh, tall=False)
fractions, factors, counts = st.floats(0.3, 0.97), st.floats(0.1, 10), st.integers(1, 8)


def keeps(measured: Vector, proven: Vector, rounding: float) -> None:
    """Measured is below proven, but for rounding: a part of the first value."""
    assert len(measured) == len(proven)
    assert np.isfinite(measured).all()
    assert (measured <= proven * (1 + 1e-9) + rounding * proven[0]).all()


def keeps_theorem_1(case: Case, K: int, fraction: float, factor: float) -> None:
    method = pdmm.GPDMM(fraction / case.L, K, factor * math.sqrt(case.L * case.mu))
    trace = theory.trace_theorem1(case.problem, method, 40, strong_convexity=case.mu, **case.given)
    assert trace.theorem.beta < 1
    assert trace.bound[0] == trace.Q[0] > 0
    keeps(trace.Q, trace.bound, 1e-20)
    keeps(trace.Q[1:], trace.theorem.beta * trace.Q[:-1], 1e-20)


@sometimes
@given(st.one_of(tall, curved), counts, fractions, factors)
def test_theorem_1_for_gpdmm(case: Case, K: int, fraction: float, factor: float) -> None:
    keeps_theorem_1(case, K, fraction, factor)


@pytest.mark.parametrize("seed", range(3))
def test_the_theorems_on_softmax_regression(seed: int) -> None:
    case = softmax(seed, 3, 2, 12, 0.3 * seed)
    keeps_theorem_1(case, 4, 0.9, 1.0)
    method = pdmm.GPDMM(0.8 / case.L, 3)
    trace = theory.trace_theorem2(case.problem, method, 40, **case.given)
    keeps(trace.left, trace.right, 1e-20)


@sometimes
@given(st.one_of(wide, curved), counts, fractions, factors)
def test_theorem_2_for_gpdmm(case: Case, K: int, fraction: float, factor: float) -> None:
    method = pdmm.GPDMM(fraction / case.L, K, factor * case.L)
    trace = theory.trace_theorem2(case.problem, method, 40, **case.given)
    keeps(trace.left, trace.right, 1e-20)
    assert (trace.dual >= 0).all()
    assert (trace.gap >= -1e-12 * trace.right[0]).all()
    np.testing.assert_allclose(trace.right * np.arange(1, 41), trace.right[0])


@sometimes
@given(tall, factors, st.sampled_from([1.0, 0.7, 0.5]), st.booleans())
def test_exact_pdmm_keeps_its_rate(
    case: Case, factor: float, relaxation: float, split: bool
) -> None:
    rho = factor * theory.best_rho(case.L, case.mu)
    method = pdmm.FedSplit(1 / rho, relaxation) if split else pdmm.PDMM(rho, relaxation)
    trace = theory.trace_pdmm(case.problem, method, 40, strong_convexity=case.mu, **case.given)
    assert (trace.distance <= trace.bound).all()
    assert (trace.rounding <= 1e-6 * (trace.distance[0] + 1)).all()
    keeps(trace.distance[1:], trace.exact.rate * trace.distance[:-1], 1e-12)


@settings(sometimes, max_examples=15)
@given(st.one_of(tall, curved), counts, factors, st.sampled_from(["anchor", "server"]))
def test_inexact_fedsplit_keeps_its_corrected_bound(
    case: Case, K: int, factor: float, start: Any
) -> None:
    rho = theory.best_rho(case.L, case.mu) * (factor if factor > 1 else 1)
    method = pdmm.InexactFedSplit(1 / rho, 1 / (case.L + rho), K, start)
    trace = theory.trace_fedsplit(case.problem, method, 12, strong_convexity=case.mu, **case.given)
    assert (trace.distance <= trace.bound).all()
    assert (trace.rounding <= 1e-6 * (trace.start + 1)).all()
    assert trace.offset <= trace.bound[-1]
    assert trace.errors.shape == trace.distance.shape


def test_the_bound_of_inexact_fedsplit_as_printed_is_false() -> None:
    case = least_squares(3, 4, 3, 20, 0.5)
    rho = theory.best_rho(case.L, case.mu)
    nearly_exact = pdmm.InexactFedSplit(1 / rho, 1 / (case.L + rho), 400)
    with_x_star = {"smoothness": case.L, "strong_convexity": case.mu}
    x_star = pdmm.solve(case.problem, pdmm.PDMM(rho), 300).x
    trace = theory.trace_fedsplit(case.problem, nearly_exact, 20, x0=x_star, **with_x_star)
    printed = 0 + trace.offset  # its first term is c^r ‖x0 - x*‖/sqrt(m)
    assert (trace.distance[:8] > 1e3 * printed).all()
    keeps(trace.distance, trace.bound, 1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 20])
def test_with_kappa_1_all_that_is_left_is_rounding(d: int, dtype: Any) -> None:
    """One exact step leads to x*, and theory promises 0: what rounding leaves is more than that."""
    rng = np.random.default_rng(d)
    A = [np.linalg.qr(rng.standard_normal((d, d)))[0].astype(dtype) for _ in range(4)]
    problem = pdmm.LeastSquares(A, [(100 * rng.standard_normal(d)).astype(dtype) for _ in range(4)])
    constants = {"smoothness": 1.0, "strong_convexity": 1.0}
    exact = theory.trace_fedsplit(problem, pdmm.InexactFedSplit(1.0, 0.5, 3), 30, **constants)
    assert (exact.distance <= exact.bound).all()
    assert (exact.bound < 1e5 * np.finfo(dtype).eps * exact.start).all()
    assert (exact.proven == exact.offset).all()
    assert (exact.rounding > 0).all()
    pdmm_too = theory.trace_pdmm(problem, pdmm.PDMM(1.0), 30, **constants)
    assert pdmm_too.exact.rate == 0
    assert (pdmm_too.distance <= pdmm_too.bound).all()
    assert (pdmm_too.bound[1:] < 1e5 * np.finfo(dtype).eps * pdmm_too.bound[0]).all()


def test_with_kappa_1_errors_are_not_taken_for_rounding() -> None:
    """Half a step leaves an error b, and the bound is (sqrt(kappa) + 1) b."""
    problem = pdmm.Quadratic(1.0, np.array([[3.0, 1.0], [-1.0, 4.0]]))
    trace = theory.trace_fedsplit(
        problem,
        pdmm.InexactFedSplit(1.0, 0.25, 1),
        5,
        smoothness=1.0,
        strong_convexity=1.0,
        x_star=[1.0, 2.5],
    )
    assert trace.offset == pytest.approx(2 * trace.errors.max(), rel=1e-12)
    np.testing.assert_allclose(trace.bound, trace.offset, rtol=1e-9)
    assert (trace.distance <= trace.bound).all()


@pytest.mark.parametrize("K", [1, 4])
def test_both_theorems_are_what_the_paper_writes(K: int) -> None:
    # Alg. 1, Q^r and both sides of Theorem 2, literally, client by client.
    rng = np.random.default_rng(5)
    m, d, rounds = 3, 4, 6
    A, b, x0 = rng.standard_normal((m, 9, d)), rng.standard_normal((m, 9)), rng.standard_normal(d)
    x_star = np.linalg.lstsq(np.concatenate(A), np.concatenate(b))[0]
    lam_star = [A[i].T @ (A[i] @ x_star - b[i]) for i in range(m)]
    e = np.linalg.eigvalsh(A.swapaxes(1, 2) @ A)
    L, mu = float(e.max()), float(e.min())
    eta, rho = 0.7 / L, 1.3 * math.sqrt(L * mu)
    t = theory.gpdmm_rate(L, mu, eta, rho)
    gamma1 = min((1 - t.theta) / (2 * L * eta**2), (1 / eta - L) / 2)
    gamma2 = min(t.theta * mu * t.phi / (2 * rho**2), gamma1 * eta**2 / 2)
    dual_weight = min(1 / (2 * L * eta**2), (1 / eta - L) / 2) * eta**2 / 2

    x_s, own, lam_s = x0, np.tile(x0, (m, 1)), np.zeros((m, d))
    x_bar, lam, x_sum, lam_sum = np.zeros((4, m, d))
    Q, left, right = np.zeros((3, rounds))
    for R in range(1, rounds + 1):
        for i in range(m):
            x, steps = own[i], []
            for _ in range(K):
                g = A[i].T @ (A[i] @ x - b[i])
                x = x - (g + rho * (x - x_s) + lam_s[i]) / (1 / eta + rho)
                steps.append(x)
            x_bar[i] = sum(steps) / K
            lam[i] = rho * (x_s - x_bar[i]) - lam_s[i]
            far = ((own[i] - x_star) ** 2).sum()
            both = ((rho * (x_bar[i] - x_star) + lam[i] - lam_star[i]) ** 2).sum()
            Q[R - 1] += (1 / eta - t.theta * mu) / (2 * K) * far
            Q[R - 1] += (1 / (4 * rho) - gamma2 / 2) * both
            if R == 1:
                right += (far / (2 * eta * K) + both / (4 * rho)) / np.arange(1, rounds + 1)
            x_sum[i] += x_bar[i]
            lam_sum[i] += lam[i]
            mean = x_sum[i] / R
            f, f_star = (0.5 * ((A[i] @ y - b[i]) ** 2).sum() for y in (mean, x_star))
            left[R - 1] += f - f_star - lam_star[i] @ (mean - x_star)
            left[R - 1] += dual_weight * ((lam_sum[i] / R - lam_star[i]) ** 2).sum()
            own[i] = x
        x_s = (x_bar - lam / rho).mean(0)
        lam_s = rho * (x_bar - x_s) - lam

    problem, method = pdmm.LeastSquares(A, b), pdmm.GPDMM(eta, K, rho)
    one = theory.trace_theorem1(problem, method, rounds, x0=x0)
    two = theory.trace_theorem2(problem, method, rounds, x0=x0)
    np.testing.assert_allclose(one.Q, Q, rtol=1e-9)
    np.testing.assert_allclose(two.left, left, rtol=1e-9)
    np.testing.assert_allclose(two.right, right, rtol=1e-9)


def test_the_errors_of_inexact_fedsplit_are_the_distances_to_the_exact_steps() -> None:
    case = least_squares(1, 3, 4, 20, 0.5)
    gamma, eta = 0.7 / case.L, 0.4 / case.L
    method = pdmm.InexactFedSplit(gamma, eta, 2)
    trace = theory.trace_fedsplit(case.problem, method, 1, strong_convexity=case.mu, **case.given)
    errors = []
    for i in range(3):  # in the first round every anchor is x0
        f = case.problem.client(i)
        exact = f.prox(case.x0, 1 / gamma, case.x0)
        x = case.x0
        for _ in range(2):
            x = x - eta * (f.gradient(x) + (x - case.x0) / gamma)
        errors.append(float(np.linalg.norm(x - exact)))
    assert trace.errors[0] == pytest.approx(max(errors), rel=1e-9)


def test_float32_problems_keep_the_theorem_to_their_rounding() -> None:
    problem = pdmm.LeastSquares.random(5, 60, 8, seed=0, dtype=np.float32)
    step = 0.8 / float(problem.smoothness().clients.max())
    trace = theory.trace_theorem1(problem, pdmm.GPDMM(step, 3), 40)
    keeps(trace.Q, trace.bound, 1e-11)


def test_the_run_that_is_watched_is_the_run_of_solve() -> None:
    case = least_squares(0, 5, 4, 20, 0.5)
    rho = theory.best_rho(case.L, case.mu)
    method = pdmm.InexactFedSplit(1 / rho, 1 / (case.L + rho), 2)
    result = pdmm.solve(case.problem, method, 15, x0=case.x0)
    trace = theory.trace_fedsplit(case.problem, method, 15, strong_convexity=case.mu, **case.given)
    total = pdmm.solve(case.problem, pdmm.PDMM(rho), 300).x
    assert trace.distance[-1] == pytest.approx(float(np.linalg.norm(result.x - total)), rel=1e-9)
