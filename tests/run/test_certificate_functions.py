"""Certificates of a user's functions, and of runs that go wrong."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pdmm
from builders.certified import least_squares, sum_gradient
from pdmm.methods import Method
from twins.methods import Vector

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
