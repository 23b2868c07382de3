"""Theory as numbers: closed forms, brute force; and bad input, refused for people."""

import doctest
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from pdmm import theory

sometimes = settings(derandomize=True, deadline=None, max_examples=25)
logs = st.floats(-3, 3)


# --- Theorem 1 as numbers -----------------------------------------------------------------------


def beta_of(theta: Any, phi: Any, L: float, mu: float, eta: float, rho: float) -> Any:
    """Theorem 1's beta, written down as in the paper; 1 where theta, phi are not allowed."""
    gamma1 = np.minimum((1 - theta) / (2 * L * eta**2), (1 / eta - L) / 2)
    gamma2 = np.minimum(theta * mu * phi / (2 * rho**2), gamma1 * eta**2 / 2)
    first = (1 / (4 * rho) - gamma2 / 2) / (1 / (4 * rho))
    beta = np.maximum(first, (1 / eta - theta * mu) / (1 / eta - theta * mu * phi))
    return np.where(theta * mu * phi < rho, beta, 1.0)


@pytest.mark.filterwarnings("ignore:Theorem 1 promises next to nothing")
@pytest.mark.parametrize("top", [-149.0, -100.0, 0.0, 100.0, 149.0])
@pytest.mark.parametrize("apart", [0.0, 10.0, 155.0, 298.0])
def test_constants_of_any_size_have_a_rate(top: float, apart: float) -> None:
    """Never a division by zero, an overflow, or a number that is none."""
    L, mu = 10.0**top, max(10.0 ** (top - apart), 1e-150)
    assert math.log10(theory.best_rho(L, mu)) == pytest.approx((top + math.log10(mu)) / 2, abs=1e-2)
    promises: list[Callable[[], Any]] = [
        lambda: theory.best_gpdmm(L, mu),
        lambda: theory.best_gpdmm(L, mu, 0.9 / L),
        lambda: theory.gpdmm_rate(L, mu, 0.9 / L, 1e150),
        lambda: theory.pdmm_rate(L, mu, theory.best_rho(L, mu)),
        lambda: theory.pdmm_rate(L, mu, 1e-150),
        lambda: theory.pdmm_rate(L, mu, 1e150),
    ]
    for promise in promises:
        found = promise()
        assert 0 < found.decrease <= 1
        assert found.rounds(1e-6) >= 1


@pytest.mark.parametrize(
    ("L", "mu"), [(5.9532e19, 1.5194), (797088.5254587574, 6.793078184897538e-22), (1e40, 1.0)]
)
def test_the_best_step_may_be_close_to_one_over_L(L: float, mu: float) -> None:
    """Then 1 - L eta has few digits, and must be that of the step size that is returned."""
    best = theory.best_gpdmm(L, mu)
    slack = 1 - Fraction(L) * Fraction(best.step_size)
    assert slack > 0
    assert best.decrease <= best.rho * best.step_size * float(slack) / 2 * (1 + 1e-12)
    assert best.decrease == pytest.approx(mu / L, rel=1e-9)


def test_best_gpdmm_scales() -> None:
    plain = theory.best_gpdmm(1e10, 1.0)
    large = theory.best_gpdmm(1e150, 1e140)
    assert large.decrease == pytest.approx(plain.decrease, rel=1e-9)
    assert large.rho == pytest.approx(1e140 * plain.rho, rel=1e-6)


@sometimes
@given(logs, st.floats(-3, 0), st.floats(0.05, 0.99), st.floats(-2.5, 2.5))
def test_no_theta_and_phi_are_better_than_the_closed_form(
    scale: float, mu: float, fraction: float, rho: float
) -> None:
    L = 10**scale
    constants = (L, L * 10**mu, fraction / L, L * 10**rho)
    best = theory.gpdmm_rate(*constants)
    inside = np.linspace(0, 1, 302)[1:-1]
    near = np.linspace(0.8, 1.2, 81)
    theta = np.concatenate([inside, best.theta * near])
    phi = np.concatenate([inside, np.logspace(-6, -0.01, 200), best.phi * near])
    grid = beta_of(theta[theta < 1][:, None], phi[phi < 1][None], *constants)
    assert grid.min() >= best.beta - 1e-14
    assert 1 - grid.min() == pytest.approx(best.decrease, rel=1e-5)
    assert 0 < best.theta < 1
    assert 0 < best.phi < 1
    assert float(beta_of(best.theta, best.phi, *constants)) == pytest.approx(best.beta, abs=1e-13)
    gamma1 = min((1 - best.theta) / (2 * L * best.step_size**2), (1 / best.step_size - L) / 2)
    assert gamma1 == pytest.approx(best.gamma1, rel=1e-6)
    assert best.gamma2 == pytest.approx(best.gamma1 * best.step_size**2 / 2, rel=1e-12)


@pytest.mark.parametrize("kappa", [1.0, 7.0, 100.0, 1e4])
def test_best_gpdmm_is_best(kappa: float) -> None:
    best = theory.best_gpdmm(kappa, 1.0)
    found = max(
        theory.gpdmm_rate(kappa, 1.0, 1 / (kappa * (1 + p)), rho).decrease
        for p in math.sqrt(2 / kappa) * np.logspace(-1, 1, 81)
        for rho in math.sqrt(2 * kappa) * np.logspace(-1, 1, 81)
    )
    assert found <= best.decrease * (1 + 1e-9)
    assert found == pytest.approx(best.decrease, rel=5e-3)
    given_step = theory.best_gpdmm(kappa, 1.0, best.step_size)
    assert given_step.decrease == pytest.approx(best.decrease, rel=1e-6)


def test_a_rate_within_rounding_of_one_still_has_its_rounds() -> None:
    theorem = theory.best_gpdmm(1e11, 1.0)
    assert theorem.decrease == pytest.approx(1e-11, rel=1e-4)
    assert theorem.rounds(1e-6) == pytest.approx(math.log(1e6) / theorem.decrease, rel=1e-9)
    tiny = theory.pdmm_rate(1.0, 1e-20, 1.0)
    assert tiny.delta == 1.0
    assert tiny.decrease == pytest.approx(2e-20)
    assert tiny.rounds(0.5) == pytest.approx(math.log(2) / 2e-20)


@sometimes
@given(logs, st.floats(-3, 0), st.floats(0.1, 0.95), st.floats(-2, 2), st.floats(-10, -0.01))
def test_the_promised_round_is_the_first(
    scale: float, mu: float, fraction: float, rho: float, accuracy: float
) -> None:
    L, part = 10**scale, 10**accuracy
    theorem = theory.gpdmm_rate(L, L * 10**mu, fraction / L, L * 10**rho)
    R = theorem.rounds(part)
    assert isinstance(R, int)
    assert (R - 1) * math.log1p(-theorem.decrease) <= math.log(part) * (1 - 1e-12)
    assert (R - 2) * math.log1p(-theorem.decrease) > math.log(part) * (1 + 1e-12)


def test_exact_rates() -> None:
    assert theory.best_rho(16.0, 1.0) == 4.0
    exact = theory.pdmm_rate(16.0, 1.0, 4.0)
    assert exact.delta == exact.rate == pytest.approx(1 - 2 / (4 + 1))
    assert exact.decrease == pytest.approx(0.4)
    relaxed = theory.pdmm_rate(16.0, 1.0, 4.0, relaxation=0.5)
    assert relaxed.rate == pytest.approx(0.5 + 0.5 * 0.6)
    assert relaxed.delta == exact.delta
    assert relaxed.decrease == pytest.approx(0.2)
    at_once = theory.pdmm_rate(3.0, 3.0, 3.0)
    assert at_once.rate == 0
    assert at_once.rounds(1e-9) == 1
    rates = [theory.pdmm_rate(16.0, 1.0, rho).rate for rho in np.logspace(-2, 3, 200)]
    assert min(rates) >= exact.rate


def test_bounds_in_closed_form() -> None:
    kappa, r = 25.0, np.arange(1, 9)
    bound = theory.fedsplit_bound(50.0, 2.0, 6.0, 0.1, rounds=8, clients=9)
    np.testing.assert_allclose(bound, (1 - 2 / 6) ** r * 6 / 3 + (math.sqrt(kappa) + 1) * 0.1)
    same = theory.fedsplit_bound(50.0, 2.0, 6.0, 0.1, rounds=8, clients=9, gamma=0.1)
    np.testing.assert_allclose(bound, same)
    other = theory.fedsplit_bound(50.0, 2.0, 6.0, 0.1, rounds=8, clients=9, gamma=1.0)
    delta = theory.pdmm_rate(50.0, 2.0, 1.0).delta
    np.testing.assert_allclose(other, delta**r * 2 + 0.2 / (1 - delta))
    right = theory.theorem2_bound(2.0, 3.0, 5.0, 0.25, 4, 0.5, rounds=8)
    np.testing.assert_allclose(right, (3 / (2 * 0.25 * 4) + 5 / (4 * 0.5)) / r)


def test_bounds_that_a_float_holds_are_right_whatever_their_parts() -> None:
    """The sum of all that is divided by R may be too large for a float where its R-th is not."""
    far = theory.theorem2_bound(2.0, 1.5e308, 1.5e308, 0.125, 2, 0.25, rounds=4)
    assert far[0] == math.inf
    assert far[3] == pytest.approx(1.125e308)
    near = theory.theorem2_bound(1e-150, 1e-300, 0.0, 9e149, 1, 1.0, rounds=1)
    assert near[0] == 0  # truly 6e-451
    offset = theory.fedsplit_bound(9.0, 9.0, 0.0, 1.2e308, rounds=1, clients=1)
    assert offset[0] == math.inf
    halved = theory.fedsplit_bound(9.0, 9.0, 0.0, 0.8e308, rounds=1, clients=1)
    assert halved[0] == pytest.approx(1.6e308)
    with pytest.raises(ValueError, match="rho must be from 1e-150"):
        theory.theorem2_bound(2.0, 3.0, 5.0, 0.25, 4, 2.2e-308, rounds=8)


# --- bad input ----------------------------------------------------------------------------------

rate, exact = theory.gpdmm_rate, theory.pdmm_rate
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: rate(7.0, 0.0, 0.1, 1.0), "strong_convexity must be positive.*theorem2_bound"),
    (lambda: rate(1.0, 7.0, 0.1, 1.0), "strong_convexity=7.0 must not exceed smoothness=1.0"),
    (lambda: rate(7.0, -1.0, 0.1, 1.0), "strong_convexity must not be negative, got -1.0"),
    (lambda: rate(0.0, 0.0, 0.1, 1.0), "smoothness must be positive, got 0.0"),
    (lambda: rate(math.inf, 1.0, 0.1, 1.0), "smoothness must be finite, got inf"),
    (lambda: rate(4.0, 1.0, 0.25, 1.0), r"step_size must be below 1/L = 0.25.*try step_size=0.225"),
    (lambda: rate(4.0, 1.0, 0.0, 1.0), "step_size must be positive, got 0.0"),
    (lambda: rate(4.0, 1.0, 0.1, 0.0), "rho must be positive, got 0.0"),
    (lambda: rate(4.0, 1.0, 0.1, math.nan), "rho must be finite, got nan"),
    (lambda: rate(4.0, 1.0, 0.1, "much"), "rho must be a number, got 'much'"),  # type: ignore[arg-type]
    (lambda: rate(1e150, 1e-150, 1e-150, 1e-150), "step_size must be below"),
    (lambda: rate(1e151, 1.0, 1e-150, 1.0), r"smoothness must be from 1e-150 to 1e\+150"),
    (lambda: rate(4.0, 1e-151, 0.1, 1.0), "strong_convexity must be from 1e-150 to"),
    (lambda: rate(4.0, 1.0, 5e-324, 1.0), "step_size must be from 1e-150 to"),
    (lambda: exact(4.0, 1.0, 5e-324), "rho must be from 1e-150 to"),
    (lambda: rate(4.0, 1.0, 0.1, 1.0).rounds(0.0), "accuracy must be between 0 and 1, got 0.0"),
    (lambda: rate(4.0, 1.0, 0.1, 1.0).rounds(1.0), "accuracy must be between 0 and 1, got 1.0"),
    (lambda: exact(4.0, 1.0, 1.0).rounds(2.0), "accuracy must be between 0 and 1, got 2.0"),
    (lambda: exact(4.0, 0.0, 1.0), "strong_convexity must be positive"),
    (lambda: exact(4.0, 1.0, -1.0), "rho must be positive, got -1.0"),
    (lambda: exact(4.0, 1.0, 1.0, 1.5), r"relaxation must be in \(0, 1\], got 1.5"),
    (lambda: theory.best_rho(1.0, 2.0), "were the two swapped"),
    (lambda: theory.best_gpdmm(4.0, 1.0, 0.3), r"below 1/L = 0.25"),
    (lambda: theory.fedsplit_bound(4.0, 0.0, 1.0, 0.0, 5, 2), "strong_convexity must be positive"),
    (lambda: theory.fedsplit_bound(4.0, 1.0, -1.0, 0.0, 5, 2), "distance must not be negative"),
    (lambda: theory.fedsplit_bound(4.0, 1.0, 1.0, -0.1, 5, 2), "inner_error must not be negative"),
    (lambda: theory.fedsplit_bound(4.0, 1.0, 1.0, 0.0, 0, 2), "rounds must be at least 1"),
    (lambda: theory.fedsplit_bound(4.0, 1.0, 1.0, 0.0, 5, 2, 0.0), "gamma must be positive"),
    (lambda: theory.theorem2_bound(4.0, 1.0, 1.0, 0.3, 1, 1.0, 5), r"below 1/L = 0.25"),
    (lambda: theory.theorem2_bound(4.0, -1.0, 1.0, 0.1, 1, 1.0, 5), "start must not be negative"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_numbers_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_rho_that_promises_nothing_is_named_with_a_better_one() -> None:
    with pytest.warns(RuntimeWarning, match=r"next to nothing for rho=1e\+20.*is rho=8.8") as seen:
        theorem = theory.gpdmm_rate(7.0, 1.0, 0.9 / 7, 1e20)
    assert seen[0].filename == __file__
    assert theorem.decrease == pytest.approx(1e-20)
    assert theorem.beta == 1
    assert theorem.theta < 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theory.gpdmm_rate(7.0, 1.0, 0.9 / 7, 1e10)


def two_clients() -> pdmm.LeastSquares:
    return pdmm.LeastSquares([np.diag([1.0, 2.0]), np.eye(2)], [np.ones(2), np.zeros(2)])


def quadratics() -> pdmm.Functions:
    def value(c: Any, x: Any) -> float:
        return 0.5 * float((x - c) @ (x - c))

    def gradient(c: Any, x: Any) -> Any:
        return x - c

    centres = [np.zeros(2), np.array([2.0, 4.0])]
    return pdmm.Functions(
        [partial(value, c) for c in centres], [partial(gradient, c) for c in centres], 2
    )


def test_bad_runs_are_refused() -> None:
    P, L_mu = two_clients(), {"smoothness": 4.0, "strong_convexity": 1.0}
    good = pdmm.GPDMM(0.2, 3)
    first, second = theory.trace_theorem1, theory.trace_theorem2
    softmax = pdmm.SoftmaxRegression(
        [np.ones((4, 1))] * 2, [np.array([0, 1, 0, 1])] * 2, 2, batch_size=2, l2=0.1
    )
    unknown = {"smoothness": 1.0, "strong_convexity": 1.0}
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: first(P, pdmm.AGPDMM(0.2, 3), 5, **L_mu), "method must be pdmm.GPDMM"),  # type: ignore[arg-type]
        (lambda: first(P, pdmm.GPDMM(0.2, 3, iterate="last"), 5, **L_mu), 'iterate="mean"'),
        (lambda: second(P, pdmm.GPDMM(0.2, 3, relaxation=0.5), 5, smoothness=4.0), "relaxation=1"),
        (lambda: first(P, pdmm.GPDMM(0.25, 3), 5, **L_mu), r"below 1/L = 0.25"),
        (lambda: first(P, pdmm.GPDMM("auto", 3), 5, **L_mu), "step_size is 'auto'"),
        (lambda: first(P, pdmm.GPDMM(0.2, 3, acceleration="anderson"), 5, **L_mu), "acceleration"),
        (lambda: first(P, good, 0, **L_mu), "rounds must be at least 1, got 0"),
        (lambda: first(3, good, 5, **L_mu), "problem must be a pdmm problem"),  # type: ignore[arg-type]
        (lambda: first(P, good, 5, x0=[1.0], **L_mu), r"x0 must have shape \(2,\)"),
        (lambda: first(P, good, 5, x_star=[1.0, 9.0], **L_mu), "x_star must minimise"),
        (lambda: first(quadratics(), good, 5, **unknown), "x_star must be given for Functions"),
        (lambda: first(softmax, good, 5, x_star=np.zeros(4), **L_mu), "batch_size=2"),
        (
            lambda: theory.trace_pdmm(P, good, 5, **L_mu),  # type: ignore[arg-type]
            "method must be PDMM or FedSplit",
        ),
        (
            lambda: theory.trace_fedsplit(P, good, 5, **L_mu),  # type: ignore[arg-type]
            "method must be InexactFedSplit",
        ),
        (
            lambda: first(P, pdmm.GPDMM(30.0, 3), 400, smoothness=0.01, strong_convexity=0.01),
            "diverged in round .*smoothness is too small",
        ),
    ]
    for call, message in cases:
        with np.errstate(all="ignore"), pytest.raises(ValueError, match=message):
            call()


def test_the_constants_are_the_problems_own_unless_given() -> None:
    P, method = two_clients(), pdmm.GPDMM(0.2, 3)
    given = theory.trace_theorem1(P, method, 5, smoothness=4.0, strong_convexity=1.0)
    own = theory.trace_theorem1(P, method, 5)
    np.testing.assert_allclose(own.bound, given.bound, rtol=1e-9)
    x_star = np.array([1.0, 2.0])
    with pytest.warns(RuntimeWarning, match="smoothness of this Functions is an estimate") as seen:
        theory.trace_theorem2(quadratics(), method, 5, x_star=x_star)
    assert seen[0].filename == __file__


def test_every_example_of_the_page_prints_what_it_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "theory.md"
    assert doctest.testfile(str(page), module_relative=False, encoding="utf-8").failed == 0
