"""The penalties of scikit-learn, as docs/regularisers.md translates them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn import linear_model

import pdmm

Vector = npt.NDArray[np.float64]
n, d = 60, 4
RNG = np.random.default_rng(2)
X = RNG.normal(size=(n, d))
ETA = X @ np.array([1.0, -0.5, 0.0, 0.1]) + 0.3
LINEAR = ETA + 0.3 * RNG.normal(size=n)
BINARY = (RNG.random(n) < 1 / (1 + np.exp(-ETA))).astype(float)
COUNTS = RNG.poisson(np.exp(ETA)).astype(float)
TIMES = RNG.gamma(2.0, np.exp(ETA) / 2)


def gaussian(eta: Vector) -> tuple[Vector, Vector]:
    """The slope and the curvature of the loss of each row."""
    return eta - LINEAR, np.ones(n)


def binomial(eta: Vector) -> tuple[Vector, Vector]:
    p = 1 / (1 + np.exp(-eta))
    return p - BINARY, p * (1 - p)


def poisson(eta: Vector) -> tuple[Vector, Vector]:
    mean = np.exp(eta)
    return mean - COUNTS, mean


def gamma(eta: Vector) -> tuple[Vector, Vector]:
    ratio = TIMES * np.exp(-eta)
    return 1 - ratio, ratio


def fitted(rows: Callable[[Vector], tuple[Vector, Vector]], h: pdmm.Regulariser) -> Vector:
    """Newton with prox_in, on all rows in one place; the intercept is last, and free."""
    Z = np.column_stack([X, np.ones(n)])
    spared = h.for_problem(d + 1, np.array([d]))
    x = np.zeros(d + 1)
    for _ in range(60):
        slope, curvature = rows(Z @ x)
        H = (Z.T * curvature) @ Z
        step = spared.prox_in(x - np.linalg.solve(H, Z.T @ slope), H) - x
        x = x + step * min(1.0, 1 / float(np.abs(Z @ step).max() + 1e-300))
    return x


a, r, C = 0.05, 0.3, 0.7
TIGHT: dict[str, Any] = {"tol": 1e-12, "max_iter": 100_000}
CASES = [
    (linear_model.Ridge(3.0), LINEAR, gaussian, pdmm.SquaredL2(3.0)),
    (linear_model.Lasso(a, **TIGHT), LINEAR, gaussian, pdmm.L1(n * a)),
    (
        linear_model.ElasticNet(a, l1_ratio=r, **TIGHT),
        LINEAR,
        gaussian,
        pdmm.ElasticNet(n * a * r, n * a * (1 - r)),
    ),
    (linear_model.LogisticRegression(C=C, **TIGHT), BINARY, binomial, pdmm.SquaredL2(1 / C)),
    (
        linear_model.LogisticRegression(C=C, solver="saga", l1_ratio=r, **TIGHT),
        BINARY,
        binomial,
        pdmm.ElasticNet(r / C, (1 - r) / C),
    ),
    (linear_model.PoissonRegressor(alpha=a, **TIGHT), COUNTS, poisson, pdmm.SquaredL2(n * a)),
    (linear_model.GammaRegressor(alpha=a, **TIGHT), TIMES, gamma, pdmm.SquaredL2(n * a)),
]


@pytest.mark.parametrize(("model", "y", "rows", "h"), CASES)
def test_the_optimum_is_that_of_scikit_learn(
    model: Any, y: Vector, rows: Callable[[Vector], tuple[Vector, Vector]], h: pdmm.Regulariser
) -> None:
    model.fit(X, y)
    theirs = np.append(model.coef_, model.intercept_)
    ours = fitted(rows, h)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(ours == 0, theirs == 0)
