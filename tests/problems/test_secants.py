"""What a run's own gradients show of L and mu."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.own_functions import bowl, quadratics, rotated, slope
from pdmm.common.threads import Threads
from pdmm.problems.secants import Secants, secant

Array = npt.NDArray[Any]


@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize(
    "method", [pdmm.AGPDMM(0.05, 4), pdmm.GradientDescent(0.05), pdmm.PDMM(1.0)], ids=repr
)
def test_a_run_watches_its_secants(method: pdmm.Method, threads: int | None) -> None:
    H = [rotated(np.array([1.0, 3.0, 10.0]), 1), rotated(np.array([2.0, 3.0, 5.0]), 2)]
    problem = quadratics(H)
    assert problem.secants() is None
    assert problem.negative_curvature() is None
    pdmm.solve(problem, method, rounds=40, x0=[3.0, 1.0, -2.0], threads=threads)
    found = problem.secants([1.0, 2.0])
    assert found is not None
    L, mu = found
    for i, (low, high) in enumerate([(1, 10), (2, 5)]):
        assert low * (1 - 1e-6) <= mu.clients[i] <= L.clients[i] <= high * (1 + 1e-6)
    assert L.overall == pytest.approx(L.clients[0] + 2 * L.clients[1])
    assert {L.kind, mu.kind, L.overall_kind, mu.overall_kind} == {"estimate"}
    assert problem.negative_curvature() is None
    problem.objective(np.zeros(3))  # not a run
    problem.smoothness()
    again = problem.secants()
    assert again is not None
    np.testing.assert_array_equal(again[0].clients, L.clients)
    with Threads(1) as one:
        problem.prepare(1, 1, False, one)  # as a run begins
    assert problem.secants() is None


def test_watching_changes_no_iterate() -> None:
    problem = quadratics([rotated(np.array([1.0, 4.0])), np.eye(2)])
    x = np.zeros(2)
    for _ in range(20):
        x = x - 0.1 * np.mean([problem.gradient(i, x) for i in range(2)], axis=0)
    result = pdmm.solve(problem, pdmm.GradientDescent(0.1), rounds=20)
    np.testing.assert_allclose(result.x, x, rtol=1e-14)


@pytest.mark.parametrize("method", [pdmm.AGPDMM(0.05, 4), pdmm.GradientDescent(0.05)], ids=repr)
def test_negative_curvature_is_found(method: pdmm.Method) -> None:
    # 3 cos bends down near 0, whatever the first client does.
    problem = pdmm.Functions(
        [lambda x: 0.25 * float(x @ x), lambda x: 3 * float(np.cos(x).sum())],
        [lambda x: 0.5 * x, lambda x: -3 * np.sin(x)],
        dimension=2,
    )
    with pytest.warns(RuntimeWarning, match=r"client 1.* not convex"):
        pdmm.solve(problem, method, rounds=60, x0=[0.1, 0.2])
    found = problem.negative_curvature()
    assert found is not None
    assert found[0] == 1
    assert -3.0001 <= found[1] < -1
    secants = problem.secants()
    assert secants is not None
    assert secants[1].clients[1] == 0
    assert secants[1].clients[0] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e8])
def test_rounding_is_no_negative_curvature(dtype: Any, size: float) -> None:
    # The clients' gradients stay large and cancel: near the end their changes are rounding.
    pull, H = size * np.array([1.0, -1.0, 0.3]), rotated(np.array([1.0, 2.0, 4.0]))

    def value(sign: int, x: Array) -> float:
        return bowl(H, 1.0, x) + sign * float(pull @ x)

    def gradient(sign: int, x: Array) -> Array:
        return np.asarray(slope(H, 1.0, x.astype(dtype)) + sign * pull, dtype)

    problem = pdmm.Functions(
        [partial(value, s) for s in (1, -1)], [partial(gradient, s) for s in (1, -1)], dimension=3
    )
    pdmm.solve(problem, pdmm.GradientDescent(0.2), rounds=200, x0=[5.0, 5.0, 5.0])
    assert problem.negative_curvature() is None
    found = problem.secants()
    if size == 1e8:  # they say nothing, and say so
        assert found is None
    else:
        assert found is not None
        assert (found[0].clients <= 4.5).all()
        if dtype is np.float64:
            assert (found[1].clients >= 0.99).all()


def test_a_run_that_diverges_leaves_finite_secants() -> None:
    problem = quadratics([np.diag([1.0, 4.0])] * 2)
    result = pdmm.solve(problem, pdmm.GradientDescent(50.0), rounds=400)
    assert result.diverged
    found = problem.secants()
    assert found is not None
    np.testing.assert_allclose(found[0].clients, 4, rtol=1e-3)


def test_secants_of_points_that_tell_nothing() -> None:
    x, g = np.ones(2), np.ones(2)
    with np.errstate(all="ignore"):
        assert secant(x, g, x, 2 * g) is None
        assert secant(x, g, x + 1e-10, 2 * g) is None
        assert secant(x, g, 1e200 * x, g) is None
        assert secant(x, g, 2 * x, g + np.inf) is None
        assert secant(x, g, 2 * x, g + np.nan) is None
    assert secant(x, 1e9 * g, 2 * x, 1e9 * g + 1) is None
    steep, bend, doubt = secant(x, g, 2 * x, 4 * g) or (0, 0, 0)
    assert steep == pytest.approx(3)
    assert bend == pytest.approx(3)
    assert 0 < doubt < 1e-5
    watched = Secants(2)
    watched.add(0, x, g)
    assert np.isnan(watched.steepest).all()
    watched.add(0, 2 * x, -g)
    np.testing.assert_allclose(watched.least, [-2, np.nan])
    np.testing.assert_allclose(watched.bent, [-2, np.nan], rtol=1e-5)
    found = watched.ends()
    assert found is not None
    np.testing.assert_allclose(found[1], [0, np.nan])
