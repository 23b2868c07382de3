"""Sizes that leave no room for squares are refused with a sentence, never run to a false one."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import pdmm
from builders.inputs import quadratics
from builders.samples import DTYPES, labelled, rows_of
from pdmm.common.sizes import LARGEST


def scaled(A: float, b: float, dtype: Any = np.float64, make: Any = None) -> pdmm.LeastSquares:
    """A and b of three clients, times these; the second client's A is the largest."""
    rows, targets = rows_of([9, 9, 9], dtype=np.float64)
    rows[1] *= 2
    given = [(A * part).astype(dtype) for part in rows]
    return pdmm.LeastSquares(
        given if make is None else [make(part) for part in given],
        [(b * part).astype(dtype) for part in targets],
    )


def softmax(X: float, dtype: Any = np.float64) -> pdmm.SoftmaxRegression:
    rows, labels = labelled([9, 8, 7])
    return pdmm.SoftmaxRegression([(X * part).astype(dtype) for part in rows], labels, 4)


F32, F64 = np.float32, np.float64
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "A times 1e80": (lambda: scaled(1e80, 1), r"A\[1\] \(client 1\) .* divide A by 1e81"),
    "A times 1e170": (lambda: scaled(1e170, 1), r"A\[1\] \(client 1\) has entries as large"),
    "A as large as possible": (
        lambda: pdmm.LeastSquares([np.full((2, 2), 1e308)], [np.ones(2)]),
        r"A\[0\] \(client 0\)",
    ),
    "sparse A times 1e80": (lambda: scaled(1e80, 1, make=sparse.csr_array), r"A\[1\] \(client 1\)"),
    "A and b times 1e-80": (lambda: scaled(1e-80, 1e-80), "A has no entry above .*divide A by"),
    "A and b times 1e-90": (lambda: scaled(1e-90, 1e-90), "A has no entry above"),
    "b times 1e-90": (lambda: scaled(1, 1e-90), "b has no entry above"),
    "b times 1e200": (lambda: scaled(1, 1e200), r"b\[\d\] \(client \d\) has entries as large"),
    "float32 A times 1e-30": (lambda: scaled(1e-30, 1, F32), "A has no entry above .*float32"),
    "float32 A times 1e18": (lambda: scaled(1e18, 1, F32), r"A\[1\] \(client 1\) .*float32"),
    "float32 b times 1e30": (lambda: scaled(1, 1e30, F32), r"b\[\d\].*float32"),
    "softmax X times 1e160": (lambda: softmax(1e160), r"X\[\d\] \(client \d\) has entries"),
    "softmax X times 1e200": (lambda: softmax(1e200), r"X\[\d\] \(client \d\) has entries"),
    "softmax X times 1e-90": (lambda: softmax(1e-90), "X has no entry above"),
    "float32 X times 1e20": (lambda: softmax(1e20, F32), r"X\[\d\] .*float32"),
    "H of 1e160": (lambda: pdmm.Quadratic(1e160, np.ones((2, 3))), r"H\[0\] \(client 0\)"),
    "one H of 1e160": (lambda: pdmm.Quadratic(1e160 * np.eye(2), np.ones(2)), "H has entries"),
    "H of 1e-160": (lambda: pdmm.Quadratic(1e-160, np.ones((2, 3))), "H has no entry above"),
    "c of 1e200": (lambda: pdmm.Quadratic(1.0, [[1.0], [1e200]]), r"c\[1\] \(client 1\)"),
    "c of 1e-200": (lambda: pdmm.Quadratic(1.0, [[1e-200], [0.0]]), "c has no entry above"),
    "c far above H": (lambda: pdmm.Quadratic(1e-60, [[1e60]]), "x would have entries .*1e.120"),
    "c far below H": (lambda: pdmm.Quadratic(1e60, [[1e-60]]), "x would have entries .*1e-120"),
    "float32 H of 1e30": (
        lambda: pdmm.Quadratic(np.full((2, 3), 1e30, F32), np.ones((2, 3), F32)),
        r"H\[0\] .*float32",
    ),
    "a of 1e200": (lambda: pdmm.Absolute([[1.0], [1e200]]), r"a\[1\] \(client 1\)"),
    "a of 1e-200": (lambda: pdmm.Absolute([[1e-200], [0.0]]), "a has no entry above"),
    "a Box far away": (lambda: pdmm.Box(1e200, np.inf), "Box allows no x .* 1e.200"),
    "a Box far below": (lambda: pdmm.Box(-np.inf, [0.0, -1e200]), "Box allows no x .* 1e.200"),
    "noise of 1e200": (lambda: pdmm.LeastSquares.random(2, 5, 2, noise=1e200), "noise must"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sizes_without_room_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("weight", [1e160, 1e31, 1e-200, 1e-31, 5e-324])
def test_weights_without_room_are_refused(weight: float) -> None:
    problem = scaled(1, 1)
    message = rf"weights\[1\] \(client 1\) is {re.escape(str(weight))}.*multiply"
    with pytest.raises(ValueError, match=message):
        pdmm.solve(problem, weights=[1.0, weight, 1.0])
    with pytest.raises(ValueError, match=message):
        problem.smoothness(weights=[1.0, weight, 1.0])


@pytest.mark.parametrize(
    ("make", "x0"),
    [
        (lambda: scaled(1, 1), 1e51),
        (lambda: scaled(1e30, 1), 1e25),
        (lambda: scaled(1, 1, F32), 1e13),
        (lambda: softmax(1), 1e60),
        (lambda: softmax(1, F32), 1e13),
        (lambda: pdmm.Quadratic(1e60, np.ones((3, 6))), 1e60),
        (lambda: pdmm.Absolute(np.ones((3, 6))), 1e60),
        (quadratics, 1e60),
    ],
)
def test_starts_without_room_are_refused(make: Callable[[], pdmm.Problem], x0: float) -> None:
    problem = make()
    for method in (None, pdmm.PDMM(1.0, 0.9)):
        with pytest.raises(ValueError, match="x0 is too large"):
            pdmm.solve(problem, method, x0=np.full(problem.dimension, x0))


def test_zeros_and_single_clients_may_be_of_any_small_size() -> None:
    A, b = rows_of([9, 9])
    for tiny in (0.0, 1e-200):
        problem = pdmm.LeastSquares([A[0], tiny * A[1]], [b[0], tiny * b[1]])
        x = np.linalg.lstsq(A[0], b[0])[0]
        np.testing.assert_allclose(pdmm.solve(problem).x, x, rtol=1e-5)
    nothing = pdmm.LeastSquares(np.zeros((2, 3, 2)), np.zeros((2, 3)))
    assert pdmm.solve(nothing, pdmm.PDMM(1.0), 2).x.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_and_the_smallest_are_taken(dtype: Any) -> None:
    most = LARGEST[np.dtype(dtype)]
    for size in (most, 2 / most):
        A = np.array([[[size, 0], [0, size / 2]]]).astype(dtype)
        problem = pdmm.LeastSquares(A, A[:, :, 0])
        np.testing.assert_allclose(pdmm.solve(problem).x, [1, 0], atol=1e-6)
