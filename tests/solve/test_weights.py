"""Weights of clients."""

import numpy as np
import pytest

import pdmm
from builders.runs import METHODS, REGULARISED, rows_of, softmax, tall


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["least squares", "wide", "softmax", "batches"])
def test_integer_weights_are_repeated_clients(name: str, kind: str) -> None:
    counts = [1, 3, 2]

    def of(clients: list[int]) -> pdmm.Problem:
        if kind in ("least squares", "wide"):
            A, b = rows_of([9, 5, 12], 4 if kind == "least squares" else 40)
            return pdmm.LeastSquares([A[i] for i in clients], [b[i] for i in clients])
        base = softmax([9, 5, 12])
        return pdmm.SoftmaxRegression(
            [base.X[i] for i in clients],
            [base.y[i] for i in clients],
            classes=3,
            l2=0.1,
            batch_size=2 if kind == "batches" else None,
        )

    repeated = [i for i, count in enumerate(counts) for _ in range(count)]
    h = pdmm.L1(0.3) if name in REGULARISED else None
    weighted = pdmm.solve(of([0, 1, 2]), METHODS[name], 8, weights=counts, regulariser=h)
    several = pdmm.solve(of(repeated), METHODS[name], 8, regulariser=h)
    # The exact steps of softmax are solved to 1e-10 only.
    solved = METHODS[name].exact and kind in ("softmax", "batches")
    np.testing.assert_allclose(weighted.x, several.x, rtol=0, atol=1e-8 if solved else 1e-12)
    np.testing.assert_allclose(
        weighted.history["objective"], several.history["objective"], rtol=1e-8 if solved else 1e-11
    )


def test_equal_weights_scale_the_objective_alone() -> None:
    for name, method in METHODS.items():
        plain = pdmm.solve(tall(), method, 8)
        double = pdmm.solve(tall(), method, 8, weights=np.full(6, 2.0))
        np.testing.assert_allclose(double.x, plain.x, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(
            double.history["gap"], 2 * plain.history["gap"], rtol=1e-6, atol=1e-20
        )


def test_weights_move_the_optimum() -> None:
    A, b = rows_of([12, 9, 5])
    w = np.array([0.2, 5.0, 1.0])
    roots = np.sqrt(w)
    rows = np.concatenate([r * a for r, a in zip(roots, A, strict=True)])
    right = np.concatenate([r * v for r, v in zip(roots, b, strict=True)])
    x_star = np.linalg.lstsq(rows, right)[0]
    for name in ("PDMM", "AGPDMM", "GPDMM, mean", "Scaffold"):
        result = pdmm.solve(pdmm.LeastSquares(A, b), METHODS[name], 400, weights=w)
        np.testing.assert_allclose(result.x, x_star, atol=1e-8, err_msg=name)
