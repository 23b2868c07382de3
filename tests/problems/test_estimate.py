"""Estimates of L and mu from gradients alone."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.own_functions import quadratics, rotated, square

Array = npt.NDArray[Any]


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    d=st.integers(1, 16),
    low=st.floats(0.01, 10),
    kappa=st.floats(1, 300),
    centre=st.sampled_from([0.0, 1.0, -50.0]),
    seed=st.integers(0, 99),
)
def test_quadratics_are_estimated_closely(
    d: int, low: float, kappa: float, centre: float, seed: int
) -> None:
    values = np.geomspace(low, low * kappa, d)
    problem = quadratics([rotated(values, seed), 2 * rotated(values, seed)], centre)
    L, mu = problem.smoothness([1.0, 3.0]), problem.strong_convexity([1.0, 3.0])
    np.testing.assert_allclose(L.clients, [values[-1], 2 * values[-1]], rtol=0.1)
    np.testing.assert_allclose(mu.clients, [values[0], 2 * values[0]], rtol=0.1)
    assert L.overall == pytest.approx(L.clients[0] + 3 * L.clients[1])
    assert mu.overall == pytest.approx(mu.clients[0] + 3 * mu.clients[1])
    assert {L.kind, mu.kind, L.overall_kind, mu.overall_kind} == {"estimate"}


def test_larger_quadratics_are_estimated_from_inside() -> None:
    values = np.linspace(1, 100, 200)
    problem = quadratics([rotated(values)])
    assert 90 <= float(problem.smoothness()) <= 100.001
    assert 0.999 <= float(problem.strong_convexity()) <= 5


def test_an_estimate_takes_few_gradients() -> None:
    calls: list[Array] = []

    def gradient(x: Array) -> Array:
        calls.append(x)
        return np.linspace(1, 9, 50) * x

    problem = pdmm.Functions([square], [gradient], 50)
    problem.smoothness()
    problem.strong_convexity([2.0])
    assert len(calls) <= 25
    assert problem.secants() is None  # not a run


def test_curvature_that_is_elsewhere_is_looked_for() -> None:
    quartic = pdmm.Functions([lambda x: float((x**4).sum())], [lambda x: 4 * x**3], 2)
    assert float(quartic.smoothness()) > 10
    assert float(quartic.strong_convexity()) < 0.1


def raises_outside(x: Array) -> Array:
    return np.array([-1 / math.log(1 + v) for v in x])


@pytest.mark.parametrize(
    "gradient",
    [
        lambda x: -1 / np.where(x > 0, x, np.nan),
        raises_outside,
        lambda x: x if np.abs(x).max() < 0.5 else x + np.inf,
        lambda x: 4 * x**3 * np.exp(x**4),
    ],
    ids=["not finite outside", "raises outside", "finite near 0 alone", "overflows"],
)
def test_probes_that_fail_are_left_out(gradient: Callable[[Array], Array]) -> None:
    problem = pdmm.Functions([square], [gradient], 2)
    L, mu = problem.smoothness(), problem.strong_convexity()
    assert 0 <= mu.overall <= L.overall < np.inf
    assert L.overall > 0


def test_functions_without_any_gradient_are_refused_by_name() -> None:
    problem = pdmm.Functions([lambda x: 0.0] * 2, [lambda x: x, lambda x: x + np.nan], dimension=2)
    with pytest.raises(pdmm.ClientError, match=r"client 1 has no finite gradient.*smoothness="):
        problem.smoothness()


def test_linear_functions_have_no_curvature() -> None:
    slope = np.array([1e6, -3.3])
    problem = pdmm.Functions([lambda x: float(slope @ x)], [lambda x: slope], 2)
    assert float(problem.smoothness()) == float(problem.strong_convexity()) == 0
