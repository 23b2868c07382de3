"""Least squares against plain NumPy formulas."""

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.formulas import (
    literal_steps,
    numeric_gradient,
    whole,
)
from builders.samples import (
    DTYPES,
    SHAPES,
    frozen,
    rows_of,
)
from pdmm.common.threads import Threads
from pdmm.problems.sums import SumOfBlocks


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factorised", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_value_and_gradient(shape: str, factorised: bool, dtype: Any) -> None:
    A, b = rows_of(SHAPES[shape], dtype=dtype)
    problem = pdmm.LeastSquares(A, b)
    if factorised:
        problem.factorise()
    f, rng = whole(problem), np.random.default_rng(1)
    tight = 1e-12 if dtype is np.float64 else 1e-5
    for x in (rng.standard_normal(6), rng.standard_normal((len(A), 6))):
        x = x.astype(dtype)
        rows = np.broadcast_to(x, (len(A), 6)).astype(np.float64)
        residuals = [a.astype(np.float64) @ r - v for a, v, r in zip(A, b, rows, strict=True)]
        gradients = np.array(
            [a.T.astype(np.float64) @ r for a, r in zip(A, residuals, strict=True)]
        )
        size = 1 + max(float(v @ v) for v in b)
        np.testing.assert_allclose(
            f.value(x), [0.5 * r @ r for r in residuals], rtol=tight, atol=tight * size
        )
        assert f.value(x).dtype == np.float64
        gradient = f.gradient(x)
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, gradients, atol=tight * np.abs(gradients).max())
    if dtype is np.float64:
        x = rng.standard_normal(6)
        for i in range(len(A)):
            one = problem.client(i)
            slope = numeric_gradient(lambda p, i=i: float(f.value(p)[i]), x)  # type: ignore[misc]
            np.testing.assert_allclose(one.gradient(x), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("distance", [1.0, 1e-10])
def test_least_squares_divergence_is_relatively_accurate(shape: str, distance: float) -> None:
    A, b = rows_of(SHAPES[shape])
    rng = np.random.default_rng(2)
    y = rng.standard_normal(6)
    x = y + distance * rng.standard_normal(6)
    v = x.astype(np.longdouble) - y.astype(np.longdouble)
    exact = [0.5 * ((a.astype(np.longdouble) @ v) ** 2).sum() for a in A]
    assert max(exact) < (1e3 if distance == 1 else 1e-17)
    problem = pdmm.LeastSquares(A, b)
    np.testing.assert_allclose(whole(problem).divergence(x, y), exact, rtol=1e-11)
    if distance == 1:
        f = whole(problem)
        plain = f.value(x) - f.value(y) - f.gradient(y) @ (x - y)
        np.testing.assert_allclose(f.divergence(x, y), plain, rtol=1e-10, atol=1e-10)
    w = rng.uniform(0.5, 2, len(A))
    with Threads(1) as threads:
        for total in (problem.total(w, threads), SumOfBlocks(problem, problem, w, threads)):
            sum_exact = float(sum(wi * e for wi, e in zip(w, exact, strict=True)))
            assert total.divergence(x, y) == pytest.approx(sum_exact, rel=1e-11)


# --- steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factorised", [False, True])
def test_steps_of_the_chosen_form_follow_the_loop(shape: str, factorised: bool) -> None:
    A, b = rows_of(SHAPES[shape])
    problem = pdmm.LeastSquares(A, b)
    if factorised:
        problem.factorise()
    rng, m = np.random.default_rng(7), len(A)
    start, shift, anchor = (rng.standard_normal((m, 6)) for _ in range(3))
    last, mean = whole(problem).steps(
        start, step=0.01, count=4, shift=shift, anchor=anchor, rho=2.0, average=True
    )
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        expected = literal_steps(
            lambda x, _, a=a, v=v: a.T @ (a @ x - v),  # type: ignore[misc]
            *(start[i], 0.01, 4, shift[i], anchor[i], 2.0),
        )
        np.testing.assert_allclose(last[i], expected[0], atol=1e-12)
        np.testing.assert_allclose(mean[i], expected[1], atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_runs_agree_whatever_the_form(shape: str) -> None:
    method = pdmm.GPDMM(0.01, 5, rho=3.0)
    x = pdmm.solve(pdmm.LeastSquares(*rows_of(SHAPES[shape])), method, rounds=10).x
    factorised = pdmm.LeastSquares(*rows_of(SHAPES[shape])).factorise()
    np.testing.assert_allclose(pdmm.solve(factorised, method, rounds=10).x, x, atol=1e-12)


def test_one_client_works_on_plain_vectors() -> None:
    A, b = rows_of(SHAPES["ragged, wide"])
    problem = pdmm.LeastSquares(A, b)
    rng = np.random.default_rng(5)
    start, anchor = rng.standard_normal(6), rng.standard_normal(6)
    expected = literal_steps(
        lambda x, _: A[1].T @ (A[1] @ x - b[1]), start, 0.01, 3, None, anchor, 2.0
    )
    last, mean = problem.client(1).steps(
        start, step=0.01, count=3, anchor=anchor, rho=2.0, average=True
    )
    assert last.shape == mean.shape == (6,)
    np.testing.assert_allclose(last, expected[0], atol=1e-13)
    np.testing.assert_allclose(mean, expected[1], atol=1e-13)
    exact = problem.factorise().client(1).prox(anchor, 2.0, start)
    solved = np.linalg.solve(A[1].T @ A[1] + 2 * np.eye(6), A[1].T @ b[1] + 2 * anchor)
    np.testing.assert_allclose(exact, solved, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_prox_is_the_linear_solve(shape: str, rho: float, dtype: Any) -> None:
    A, b = rows_of(SHAPES[shape], dtype=dtype)
    if shape == "tall":
        A[0][:, 0] = 0  # a zero eigenvalue
    anchor = np.random.default_rng(4).standard_normal((len(A), 6)).astype(dtype)
    f = whole(pdmm.LeastSquares(A, b).factorise())
    x = f.prox(anchor, rho, np.zeros(6, dtype))
    assert x.dtype == dtype
    assert f.tally.exact == len(A)
    assert f.tally.error == 0
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        a, v = a.astype(np.float64), v.astype(np.float64)
        H = a.T @ a + rho * np.eye(6)
        solved = np.linalg.solve(H, a.T @ v + rho * anchor[i])
        # Where H is nearly singular only the slope can be small, not the distance.
        eps = float(np.finfo(dtype).eps)
        slope = H @ (x[i] - solved)
        scale = np.linalg.norm(H, 2) * np.abs(solved).max()
        assert np.linalg.norm(slope) <= 50 * eps * scale
        if rho >= 1:
            np.testing.assert_allclose(x[i], solved, atol=50 * eps * (1 + np.abs(solved).max()) * 6)


# --- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["tall", "wide", "ragged, wide"])
@pytest.mark.parametrize("as_one", [False, True])
def test_data_are_not_changed(shape: str, as_one: bool) -> None:
    # Writing to a frozen array raises: runs that finish have not changed the data.
    A, b = (frozen(part) for part in rows_of(SHAPES[shape]))
    if as_one and shape != "ragged, wide":
        problem = pdmm.LeastSquares(frozen([np.stack(A)])[0], frozen([np.stack(b)])[0])
    else:
        problem = pdmm.LeastSquares(A, b)
    x0, w = frozen([np.ones(6)])[0], frozen([np.ones(len(A))])[0]
    methods: list[pdmm.Method] = [pdmm.PDMM(1.0), pdmm.GPDMM(0.01, 3), pdmm.Scaffold(0.01, 3)]
    for method in methods:
        result = pdmm.solve(problem, method, rounds=3, x0=x0, weights=w)
        assert not np.shares_memory(result.x, x0)
        assert result.rounds == 3


@pytest.mark.parametrize("dtype", DTYPES)
def test_data_are_not_copied(dtype: Any) -> None:
    A = [np.ones((1000, 500), dtype) for _ in range(2)]
    b = [np.ones(1000, dtype) for _ in range(2)]
    y = [np.zeros(1000, np.int64) for _ in range(2)]
    tracemalloc.start()
    try:
        problems = [
            pdmm.LeastSquares(A, b),
            pdmm.LeastSquares(A[0].reshape(2, 500, 500), b[0].reshape(2, 500)),
            pdmm.SoftmaxRegression(A, y, classes=2),
        ]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(problems) == 3
    assert peak < A[0].nbytes / 10


@pytest.mark.parametrize("seed", range(12))
def test_exactly_dependent_columns_have_a_right_objective_and_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [rng.integers(0, 3, 60) for _ in range(5)]
    A = [np.column_stack([np.ones(60), np.eye(3)[g]]) for g in groups]
    b = [rng.standard_normal(60) for _ in groups]
    result = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.PDMM(40.0), rounds=200)
    true = sum(0.5 * float(((a @ result.x - v) ** 2).sum()) for a, v in zip(A, b, strict=True))
    assert result.history["objective"][-1] == pytest.approx(true, rel=1e-12)
    assert 0 <= result.history["gap"][-1] < 1e-20
    assert (result.history["gap"] >= 0).all()


def test_values_come_from_residuals_not_from_large_terms_that_cancel() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 20, 4)).astype(np.float32)
    b = (1000 * A.sum(-1) + rng.standard_normal((3, 20))).astype(np.float32)
    problem, x = pdmm.LeastSquares(A, b), np.full(4, 1000, np.float32)
    true = 0.5 * float(((A.astype(float) @ x - b) ** 2).sum())
    assert problem.objective(x) == pytest.approx(true, rel=1e-12)
    start = pdmm.solve(problem, pdmm.PDMM(9.0), 1, x0=x, optimum=False).history["objective"][0]
    assert start == pytest.approx(true, rel=1e-12)


def test_a_used_problem_can_be_copied() -> None:
    problem = pdmm.LeastSquares(*(np.array(part) for part in rows_of([9] * 3)))
    first = pdmm.solve(problem, pdmm.PDMM(2.0), 5).x
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        np.testing.assert_array_equal(pdmm.solve(twin, pdmm.PDMM(2.0), 5).x, first)
