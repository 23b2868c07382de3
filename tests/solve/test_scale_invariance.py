"""Data and weights times powers of two: the same bits, as far as sizes have room.

Such factors change no digit of a number. So F(A s, b t, w u) has its minimum at x t/s, and every
run that chooses its own parameters does the same steps, unless something over- or underflows or
is compared with a number that has no unit.
"""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.samples import rows_of

METHODS: list[pdmm.Method | None] = [
    None,
    pdmm.PDMM(),
    pdmm.AGPDMM(rho="auto", acceleration="anderson"),
    pdmm.GPDMM(),
    pdmm.Scaffold(),
    pdmm.GradientDescent(),
    pdmm.FedSplit(),
]
LARGE = {np.float64: 163, np.float32: 37}  # A and b between 1e±50 and 1e±12
WEIGHT = 95  # 1e±30


def run(shape: list[int], dtype: Any, method: Any, A: int, b: int, w: int) -> pdmm.Result:
    rows, targets = rows_of(shape, d=4, dtype=dtype)
    two = np.dtype(dtype).type(2)
    problem = pdmm.LeastSquares([two**A * part for part in rows], [two**b * t for t in targets])
    return pdmm.solve(problem, method, 30, weights=2.0**w * np.array([1.0, 3.0, 2.0]))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [[20, 20, 20], [2, 1, 2]], ids=["tall", "wide"])
@pytest.mark.parametrize(
    ("A", "b", "w"), [(1, 1, 1), (-1, -1, -1), (1, -1, 0), (-1, 1, 0), (0, 1, 0), (0, -1, 0)]
)
def test_a_run_has_no_unit(
    shape: list[int], dtype: Any, method: Any, A: int, b: int, w: int
) -> None:
    most = LARGE[dtype]
    plain = run(shape, dtype, method, 0, 0, 0)
    scaled = run(shape, dtype, method, A * most, b * most, w * WEIGHT)
    unit = 2.0 ** ((b - A) * most)
    x = scaled.x.astype(np.float64) / unit
    np.testing.assert_allclose(x, plain.x, rtol=1e-13)
    assert scaled.rounds == plain.rounds
    assert not scaled.diverged
    objective = scaled.history["objective"] / 2.0 ** (2 * b * most + w * WEIGHT)
    np.testing.assert_allclose(objective, plain.history["objective"], rtol=1e-12)


@pytest.mark.parametrize("optimum", [None, False])
def test_a_large_x_is_no_divergence(optimum: bool | None) -> None:
    """A times 1e-30: x is about 1e30, whatever the method, and whatever is known of it."""
    rows, targets = rows_of([20, 20, 20], d=4)
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets))[0]
    problem = pdmm.LeastSquares([1e-30 * part for part in rows], [1e20 * t for t in targets])
    for method in METHODS:
        result = pdmm.solve(problem, method, 200, optimum=optimum)
        assert not result.diverged
        np.testing.assert_allclose(result.x / 1e50, expected, rtol=1e-6)


def test_a_run_that_diverges_from_a_large_x_is_seen() -> None:
    rows, targets = rows_of([20, 20, 20], d=4)
    problem = pdmm.LeastSquares([1e-30 * part for part in rows], targets)
    safe = 1 / float(problem.smoothness().clients.max())
    result = pdmm.solve(problem, pdmm.FedAvg(4 * safe, 3), 400)
    assert result.diverged
    assert "diverged in round" in result.reason
    assert result.rounds < 200
