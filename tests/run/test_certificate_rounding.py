"""Certificates hold in spite of rounding: against rational numbers, to the last digit."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.checkpoints import absolute
from twins import rational

Array = npt.NDArray[Any]


def holds(certificate: pdmm.Certificate, truth: rational.LeastSquares, x: Array) -> None:
    """The bounds are not below the truth."""
    best = truth.minimiser()
    at = rational.exact(x)
    gap = truth.value(at) - truth.value(best)
    assert certificate.gap is not None
    assert certificate.distance is not None
    assert Fraction(certificate.gap) >= gap
    assert Fraction(certificate.distance) ** 2 >= rational.square(at, best)


def ill_conditioned(seed: int, kappa: float, d: int = 3) -> tuple[Array, Array, Array]:
    """Data of three clients, whose A has this condition number, and weights."""
    rng = np.random.default_rng(seed)
    U, _, V = np.linalg.svd(rng.standard_normal((12, d)), full_matrices=False)
    A = (U * np.geomspace(1, kappa, d)) @ V
    return A.reshape(3, 4, d), rng.standard_normal((3, 4)), rng.uniform(0.3, 3, 3)


# --- least squares ----------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_no_bound_is_below_the_truth_however_badly_conditioned(seed: int, kappa: float) -> None:
    A, b, w = ill_conditioned(seed, kappa)
    problem = pdmm.LeastSquares(A, b)
    truth = rational.LeastSquares(list(A), list(b), w)
    best = np.array([float(v) for v in truth.minimiser()])
    for off in (0.0, 1e-15, 1e-9, 1e-2):
        x = best * (1 + off * np.array([1, -1, 0.5]))
        holds(pdmm.certify(problem, x, weights=w), truth, x)
    result = pdmm.solve(problem, weights=w)
    holds(result.certificate, truth, result.x)
    assert result.certificate.gap is not None
    assert result.history["gap"][-1] <= result.certificate.gap


@pytest.mark.parametrize("optimum", [None, False])
def test_a_bound_at_the_optimum_is_small(optimum: bool | None) -> None:
    A, b, _ = ill_conditioned(0, 100.0)
    certificate = pdmm.solve(pdmm.LeastSquares(A, b), optimum=optimum).certificate
    assert certificate.gap is not None
    assert certificate.gap < 1e-10
    assert certificate.distance is not None
    assert certificate.distance < 1e-5


def test_columns_of_very_different_size_are_no_reason_to_prove_nothing() -> None:
    A, b, w = ill_conditioned(1, 3.0)
    A = A * np.array([1e-6, 1.0, 1e6])  # the eigenvalues of A'A are 1e24 apart
    truth = rational.LeastSquares(list(A), list(b), w)
    x = np.array([float(v) for v in truth.minimiser()])
    certificate = pdmm.certify(pdmm.LeastSquares(A, b), x, weights=w)
    holds(certificate, truth, x)
    assert certificate.gap is not None
    assert certificate.gap < 1e-3 * float(truth.value(rational.exact(0 * x)))


@pytest.mark.parametrize("scale", [1e-45, 1e-30, 1e30, 1e45])
def test_a_common_scale_changes_nothing(scale: float) -> None:
    A, b, w = ill_conditioned(2, 10.0)
    x = np.ones(3)
    plain = pdmm.certify(pdmm.LeastSquares(A, b), x, weights=w)
    scaled = pdmm.certify(pdmm.LeastSquares(scale * A, scale * b), x, weights=w)
    assert plain.gap is not None
    assert plain.distance is not None
    assert scaled.gap == pytest.approx(scale * plain.gap * scale, rel=1e-9)
    assert scaled.distance == pytest.approx(plain.distance, rel=1e-9)


# --- float32 ----------------------------------------------------------------------------------


def two_alike(b: float) -> pdmm.LeastSquares:
    return pdmm.LeastSquares([np.ones((1, 1), np.float32)] * 2, [np.array([b], np.float32)] * 2)


def test_l1_of_float32_data_is_certified_and_a_point_beside_is_not_called_optimal() -> None:
    c = 200000.3
    problem = two_alike(c / 2 + 1)
    best = Fraction(float(np.float32(c / 2 + 1))) - Fraction(c) / 2
    result = pdmm.solve(problem, regulariser=pdmm.L1(c))
    assert result.rounds < 30
    assert "certified" in result.reason
    for x in (result.x, np.float32(1.0016) * result.x):
        certificate = pdmm.certify(problem, x, regulariser=pdmm.L1(c))
        off = Fraction(float(x[0])) - best
        assert certificate.gap is not None
        assert certificate.gap >= off * off  # F(x) - F* where x and x* have the same sign
        assert certificate.distance is not None
        assert certificate.distance >= abs(off)


@pytest.mark.parametrize("seed", range(20))
def test_ridge_of_float32_data_has_no_distance_below_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = float(10 ** rng.uniform(-2, 5))
    A = rng.standard_normal((2, 3, 2)).astype(np.float32)
    b = (c * rng.standard_normal((2, 3))).astype(np.float32)
    truth = rational.LeastSquares(list(A), list(b), [1.0, 1.0], c)
    result = pdmm.solve(pdmm.LeastSquares(A, b), regulariser=pdmm.SquaredL2(c))
    holds(result.certificate, truth, result.x)


def test_a_point_near_a_bound_is_not_on_it() -> None:
    problem = pdmm.LeastSquares([np.array([[1e6]], np.float32)], [np.array([0.05], np.float32)])
    start = np.array([2e-7])
    certificate = pdmm.certify(problem, start.astype(np.float32), regulariser=pdmm.Box(0, np.inf))
    assert certificate.gap is not None
    assert certificate.gap > 0.01  # F is 0.011 there, and 0 at 5e-8
    result = pdmm.solve(problem, regulariser=pdmm.Box(0, np.inf), x0=start)
    assert result.rounds > 0
    assert result.x[0] == pytest.approx(5e-8)


@pytest.mark.parametrize("bound", [0.1, 0.7, 1e-9])
def test_a_bound_that_float32_cannot_hold_is_reckoned_with(bound: float) -> None:
    # f falls towards the bound: its slope times the missing digits is what F can still fall.
    problem = pdmm.LeastSquares([np.ones((1, 1), np.float32)], [np.array([3.0], np.float32)])
    x = np.array([bound], np.float32)
    certificate = pdmm.certify(problem, x, regulariser=pdmm.Box(-1.0, bound))
    off = Fraction(bound) - Fraction(float(x[0]))
    assert certificate.gap is not None
    assert certificate.distance is not None
    assert certificate.gap >= off * (3 - Fraction(bound))
    assert certificate.distance >= abs(off)
    assert certificate.gap < 1e-6


# --- users' own functions ---------------------------------------------------------------------


def quadratics(A: Array, b: Array, mu: Any, dtype: Any = np.float64) -> pdmm.Functions:
    """1/2 ‖A_i x - b_i‖², whose gradients are computed in a dtype."""

    data = [(a.astype(dtype), v.astype(dtype)) for a, v in zip(A, b, strict=True)]

    def value(x: Array, i: int) -> float:
        a, v = data[i]
        return 0.5 * float(np.sum((a @ x - v) ** 2))

    def gradient(x: Array, i: int) -> Array:
        a, v = data[i]
        return np.asarray((a @ x.astype(dtype) - v) @ a)

    return pdmm.Functions(
        [partial(value, i=i) for i in range(len(A))],
        [partial(gradient, i=i) for i in range(len(A))],
        A.shape[-1],
        strong_convexity=mu,
    )


def curvatures(A: Array) -> Array:
    return np.array([np.linalg.eigvalsh(a.T @ a)[0] for a in A])


@pytest.mark.parametrize("kappa", [10.0, 1e4])
@pytest.mark.parametrize("seed", range(5))
def test_the_rounding_of_users_functions_is_measured(seed: int, kappa: float) -> None:
    A, b, _ = ill_conditioned(seed, kappa)
    A = A + 0.3 * np.random.default_rng(seed).standard_normal(A.shape)  # each client has a mu > 0
    problem = quadratics(A, b, (1 - 1e-9) * curvatures(A))
    truth = rational.LeastSquares(list(A), list(b), np.ones(3))
    x = np.array([float(v) for v in truth.minimiser()])
    holds(pdmm.certify(problem, x), truth, x)


@pytest.mark.parametrize("seed", range(8))
def test_gradients_in_float32_are_not_called_those_of_a_function_that_is_not_convex(
    seed: int,
) -> None:
    # Every client has its optimum in the same place, so that its own gradient goes to 0.
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 8, 4))
    b = A @ (3 + rng.standard_normal(4))
    problem = quadratics(A, b, 0.5 * curvatures(A), np.float32)
    step = 0.9 / max(float(np.linalg.norm(a, 2)) ** 2 for a in A)
    certificate = pdmm.solve(problem, pdmm.AGPDMM(step, 5), rounds=300).certificate
    assert certificate.kind == "of F, at least sum_i w_i mu_i"
    assert certificate.gap is not None


def test_a_wrong_mu_is_noticed_before_the_first_round_too() -> None:
    A, b, _ = ill_conditioned(3, 5.0)
    A = A + 0.3 * np.random.default_rng(3).standard_normal(A.shape)
    problem = quadratics(A, b, 3 * curvatures(A))
    best = np.linalg.lstsq(A.reshape(-1, 3), b.ravel())[0]
    with pytest.warns(RuntimeWarning, match="its gradients show less"):
        result = pdmm.solve(problem, pdmm.GradientDescent(), 50, x0=best, tolerance=1e-3)
    assert result.certificate.gap is None


def test_a_kink_at_x_is_no_rounding() -> None:
    result = pdmm.solve(absolute(), rounds=5)  # it starts in a kink of client 0
    assert result.rounds == 5
    assert "optimal" not in result.reason


def test_a_function_that_is_not_convex_has_no_bound_by_a_ridge_either() -> None:
    problem = pdmm.Functions([lambda x: 3 * float(np.cos(x).sum())], [lambda x: -3 * np.sin(x)], 2)
    with pytest.warns(RuntimeWarning, match="not convex"):
        result = pdmm.solve(
            problem,
            pdmm.GradientDescent(0.05),
            60,
            x0=[0.1, 0.2],
            regulariser=pdmm.SquaredL2(0.1),
        )
    assert result.certificate.gap is None


# --- softmax regression -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_softmax_is_certified_to_rounding(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((40, 3)).astype(dtype) for _ in range(3)]
    y = [rng.integers(0, 2, 40) for _ in range(3)]
    problem = pdmm.SoftmaxRegression(X, y, 2, l2=0.1)
    certificate = pdmm.solve(problem, rounds=200, tolerance=1e-300).certificate
    assert certificate.gap is not None
    # What is left is what the dtype of x allows, not what a coarse bound of rounding would say.
    assert certificate.gap < (1e-18 if dtype == np.float64 else 1e-10)
