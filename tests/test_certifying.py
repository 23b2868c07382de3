"""``pdmm.certify``: a certificate of any point, for a stranger to check."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.certified import least_squares, regulariser

X32 = np.array([0.1, 0.2], np.float32)


@pytest.mark.parametrize("kind", ["none", "SquaredL2", "L1", "Box"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_says_what_the_result_says(kind: str, dtype: Any) -> None:
    data = least_squares(4, "tall", dtype)
    h = regulariser(kind)
    result = pdmm.solve(data.problem, pdmm.PDMM("auto"), 7, weights=data.w, regulariser=h)
    own = result.certificate
    again = pdmm.certify(data.problem, result.x, weights=data.w, regulariser=h)
    assert (again.gap, again.distance) == (own.gap, own.distance)
    assert (again.stationarity, again.kind) == (own.stationarity, own.kind)
    assert again.round == 0
    assert (again.consensus, again.dual_sum) == (None, None)


def test_it_says_what_the_result_says_of_softmax_and_of_own_functions() -> None:
    rng = np.random.default_rng(0)
    softmax = pdmm.SoftmaxRegression(rng.standard_normal((3, 9, 2)), [[0, 1, 1] * 3] * 3, 2, l2=0.1)
    own = pdmm.Functions(
        [lambda x: float(x @ x), lambda x: float((x - 1) @ (x - 1))],
        [lambda x: 2 * x, lambda x: 2 * (x - 1)],
        2,
        strong_convexity=2.0,
    )
    for problem in (softmax, own):
        result = pdmm.solve(problem, pdmm.PDMM("auto"), 4)
        assert pdmm.certify(problem, result.x).gap == result.certificate.gap is not None


def test_it_needs_no_run_and_changes_no_run() -> None:
    data = least_squares(4, "tall")
    fresh = pdmm.certify(data.problem, np.zeros(len(data.x0)))
    assert fresh.gap is not None
    assert fresh.gap >= data.problem.objective(0 * data.x0) - pdmm.solve(data.problem).optimum  # type: ignore[operator]
    problem = data.problem
    before = pdmm.solve(problem, pdmm.AGPDMM("auto", 3), 9).x
    pdmm.certify(problem, before)
    np.testing.assert_array_equal(pdmm.solve(problem, pdmm.AGPDMM("auto", 3), 9).x, before)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"x": [1.0]}, r"x must have shape \(2,\)"),
        ({"x": [1.0, np.nan]}, "x .*finite"),
        ({"x": [0.1, 0.2]}, r"x must be of float32 numbers.*x\.astype\(np\.float32\)"),
        ({"x": X32, "weights": [1.0]}, "weights"),
        ({"x": X32, "weights": [1.0, 0.0]}, "weights"),
        ({"x": X32, "regulariser": 3}, "regulariser must be L1, SquaredL2, ElasticNet or Box"),
        ({"x": X32, "regulariser": pdmm.Box([0] * 3, 1)}, r"Box's lo .*shape \(2,\)"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], says: str) -> None:
    problem = pdmm.LeastSquares(np.ones((2, 3, 2), np.float32), np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match=says):
        pdmm.certify(problem, **arguments)


def test_what_is_no_problem_and_what_is_lazy_is_refused() -> None:
    with pytest.raises(ValueError, match="problem must be a pdmm problem"):
        pdmm.certify("A", [1.0])  # type: ignore[arg-type]
    lazy = pdmm.Lazy(3, lambda i: pdmm.Quadratic(1.0, [1.0 * i]))
    with pytest.raises(ValueError, match="not those of a Lazy problem"):
        pdmm.certify(lazy, [1.0])


def test_a_point_outside_a_box_has_no_bound() -> None:
    certificate = pdmm.certify(
        pdmm.Quadratic(1.0, np.ones((2, 2))), [3.0, 0.0], regulariser=pdmm.Box(-1, 1)
    )
    assert certificate.gap is None
    assert np.isnan(certificate.stationarity)
