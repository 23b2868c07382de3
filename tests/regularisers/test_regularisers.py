"""Regularisers: the proximal step against brute force, values and divergences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import pdmm
from builders.inputs import inf, nan

numbers = st.floats(-5, 5, allow_subnormal=False)
positive = st.floats(0.01, 10)


def brute(h: Callable[[float], float], v: float, t: float, lo: float, hi: float) -> float:
    """argmin over a scalar of h(x) + (x - v)²/(2 t), found without its formula."""
    found = minimize_scalar(
        lambda x: h(x) + (x - v) ** 2 / (2 * t),
        bounds=(lo, hi),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    v=st.lists(numbers, min_size=1, max_size=4),
    t=positive,
    c=st.floats(0, 3),
    a=numbers,
    b=numbers,
)
def test_prox_is_the_minimum_that_brute_force_finds(
    v: list[float], t: float, c: float, a: float, b: float
) -> None:
    lo, hi = min(a, b), max(a, b) + 0.01
    point = np.array(v)
    cases: list[tuple[pdmm.Regulariser, Callable[[float], float], float, float]] = [
        (pdmm.L1(c), lambda x: c * abs(x), -6, 6),
        (pdmm.SquaredL2(c), lambda x: c / 2 * x * x, -6, 6),
        (pdmm.Box(lo, hi), lambda x: 0.0, lo, hi),
    ]
    for h, scalar, left, right in cases:
        expected = [brute(scalar, entry, t, left, right) for entry in v]
        np.testing.assert_allclose(h.prox(point, t), expected, atol=2e-5)
        np.testing.assert_array_equal(point, v)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    x=st.lists(numbers, min_size=3, max_size=3),
    y=st.lists(numbers, min_size=3, max_size=3),
    slope=st.lists(numbers, min_size=3, max_size=3),
    c=st.floats(0, 3),
)
def test_value_and_divergence_of_regularisers(
    x: list[float], y: list[float], slope: list[float], c: float
) -> None:
    a, b, s = np.array(x), np.array(y), np.array(slope)
    assert pdmm.L1(c).value(a) == pytest.approx(c * sum(abs(e) for e in x))
    assert pdmm.SquaredL2(c).value(a) == pytest.approx(c / 2 * sum(e * e for e in x))
    assert pdmm.Box(-6, 6).value(a) == 0
    outside = pdmm.Box([-6, -6, 1.01 * abs(x[2]) + 1], np.inf)
    assert outside.value(a) == np.inf
    for h in (pdmm.L1(c), pdmm.SquaredL2(c), pdmm.Box(-6, 6)):
        plain = h.value(a) - h.value(b) - float(s @ (a - b))
        assert h.divergence(a, b, s) == pytest.approx(plain, abs=1e-12)


def test_divergence_of_regularisers_without_cancellation() -> None:
    y = np.array([1.0, -2.0, 0.0])
    x = y + 1e-12 * np.array([1.0, -1.0, 0.5])
    d = x - y
    ridge = pdmm.SquaredL2(3.0)
    assert ridge.divergence(x, y, 3.0 * y) == pytest.approx(1.5 * float(d @ d), rel=1e-12)
    # With the slope of a minimiser only the entry at the kink counts: c |x| - slope x.
    slope = np.array([2.0, -2.0, 1.5])
    assert pdmm.L1(2.0).divergence(x, y, slope) == pytest.approx(0.5 * d[2], rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.Box(1.0, 0.0), "lo must not be above hi"),
        (lambda: pdmm.Box([0.0, 2.0], [1.0, 1.0]), "lo must not be above hi"),
        (lambda: pdmm.Box(inf, inf), "lo must not be above hi"),
        (lambda: pdmm.Box([0.0, 0.0], [1.0] * 3), "lo and hi have different shapes"),
        (lambda: pdmm.Box(nan, 1.0), "Box's lo"),
        (lambda: pdmm.Box(0.0, np.zeros((2, 2))), "Box's hi"),
        (lambda: pdmm.Box(0.0, "one"), "Box's hi"),
        (lambda: pdmm.Box([], 1.0), "Box's lo must be a number or an array"),
        (lambda: pdmm.Box(0.0, ()), "Box's hi must be a number or an array"),
        (lambda: pdmm.L1(-1.0), "L1's c must not be negative"),
        (lambda: pdmm.L1(nan), "L1's c must be finite"),
        (lambda: pdmm.SquaredL2(-1.0), "SquaredL2's c must not be negative"),
        (lambda: pdmm.SquaredL2("1"), "SquaredL2's c must be a number"),
    ],
)
def test_regularisers_that_make_no_sense(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
