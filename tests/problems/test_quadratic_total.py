"""The minimum of a sum of quadratics, against direct solvers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.samples import SHAPES, rows_of, scaled_rows, two_labelled
from pdmm.common.threads import Threads

Array = npt.NDArray[Any]


def stacked(A: Sequence[Array], b: Sequence[Array], w: Array, l2: float) -> tuple[Array, Array]:
    """The rows whose plain least-squares solution is the weighted, regularised one."""
    d = A[0].shape[1]
    rows = [np.sqrt(wi) * a.astype(np.float64) for wi, a in zip(w, A, strict=True)]
    right = [np.sqrt(wi) * v.astype(np.float64) for wi, v in zip(w, b, strict=True)]
    if l2:
        rows, right = [*rows, np.sqrt(l2) * np.eye(d)], [*right, np.zeros(d)]
    return np.concatenate(rows), np.concatenate(right)


MINIMA: dict[str, list[int]] = SHAPES | {"fewer samples than features": [1, 2, 1]}


@pytest.mark.parametrize("shape", MINIMA)
@pytest.mark.parametrize("l2", [0.0, 0.3, 1e-9])
@pytest.mark.parametrize("problem_of", ["given", "deficient", "float32", "badly scaled"])
def test_minimiser_is_the_least_squares_solution(shape: str, l2: float, problem_of: str) -> None:
    A, b = rows_of(MINIMA[shape], dtype=np.float32 if problem_of == "float32" else np.float64)
    if problem_of == "deficient":
        for a in A:
            a[:, 3] = a[:, 1] - a[:, 2]
    if problem_of == "badly scaled":
        for a in A:
            a *= np.logspace(-3, 3, 6)
    w = np.random.default_rng(1).uniform(0.5, 3, len(A))
    rows, right = stacked(A, b, w, l2)
    reference = np.linalg.lstsq(rows, right)[0]

    def f(x: Array) -> float:
        return 0.5 * float(((rows @ x - right) ** 2).sum())

    with Threads(1) as threads:
        total = pdmm.LeastSquares(A, b).total(w, threads)
        x = total.minimiser(l2)
        assert x is not None
        assert x.dtype == np.float64
        # A minimiser leaves nothing to gain, to rounding in F.
        assert f(x) - f(reference) <= 1e-13 * f(np.zeros(6))
        if problem_of in ("given", "float32") and (l2 != 1e-9 or len(rows) - 6 >= 6):
            np.testing.assert_allclose(x, reference, atol=1e-9 * (1 + np.abs(reference).max()))
        value = total.value(x) + l2 / 2 * float(x @ x)
        assert value == pytest.approx(f(x), rel=1e-10, abs=1e-13 * f(np.zeros(6)))
        np.testing.assert_allclose(
            total.gradient(x) + l2 * x,
            rows.T @ (rows @ x - right),
            atol=1e-10 * float(np.linalg.norm(rows, 2) * np.linalg.norm(right)),
        )
        if shape == "fewer samples than features" and l2 == 0:
            assert value == pytest.approx(0, abs=1e-13 * f(np.zeros(6)))


@pytest.mark.parametrize("c", [0.0, 2.0])
def test_solve_finds_its_own_optimum_with_weights_and_ridge(c: float) -> None:
    A, b = rows_of(SHAPES["ragged, tall"])
    w = np.array([1.0, 3.0, 0.5])
    rows, right = stacked(A, b, w, c)
    reference = np.linalg.lstsq(rows, right)[0]
    f_star = 0.5 * float(((rows @ reference - right) ** 2).sum())
    result = pdmm.solve(
        pdmm.LeastSquares(A, b),
        pdmm.PDMM(10.0),
        rounds=150,
        weights=w,
        regulariser=pdmm.SquaredL2(c),
    )
    assert result.optimum == pytest.approx(f_star, rel=1e-12)
    np.testing.assert_allclose(result.x, reference, atol=1e-12)
    assert 0 <= result.history["gap"][-1] < 1e-20


def test_ridge_on_repeated_samples_has_a_minimum_however_small_it_is() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 10))
    A, b = np.concatenate([rows, rows])[None], np.ones((1, 6))
    with Threads(1) as threads:
        x = pdmm.LeastSquares(A, b).total(np.ones(1), threads).minimiser(1e-17)
    assert x is not None
    np.testing.assert_allclose(A[0] @ x, 1, atol=1e-9)


def test_the_total_knows_its_extremes() -> None:
    for samples, d in (([30, 20], 7), ([2, 3], 9)):
        A, b = scaled_rows(samples, d)
        problem = pdmm.LeastSquares(A, b)
        w = np.array([2.0, 0.5])
        with Threads() as threads:
            total = problem.total(w, threads)
        assert total.extremes() is total.extremes()
        assert total.extremes() == (
            problem.strong_convexity(w).overall,
            float(problem.smoothness(w)),
        )
    X, y = two_labelled(30, 4, 3)
    softmax = pdmm.SoftmaxRegression(X, y, 3)
    with Threads() as threads:
        assert softmax.total(np.ones(2), threads) is None
