"""What a fit says of itself: certificate, rounds, tolerance, and a warning where there is none."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import pdmm
from pdmm.sklearn import Lasso, LogisticRegression, PoissonRegressor, Ridge

X, Y = load_breast_cancer(return_X_y=True)
IRIS, SPECIES = load_iris(return_X_y=True)


def test_certificate_and_result() -> None:
    model = LogisticRegression().fit(X, Y, clients=Y)
    assert model.certificate_.standard_errors < 1e-8
    assert isinstance(model.result_, pdmm.Result)
    assert model.certificate_ is model.result_.certificate
    assert model.n_iter_ == model.result_.rounds


def test_several_classes_are_certified_although_intercepts_can_move_together() -> None:
    model = LogisticRegression().fit(IRIS, SPECIES, clients=np.arange(150) % 4)
    assert model.certificate_.standard_errors < 1e-8
    assert abs(model.intercept_.sum()) < 1e-10
    # The anchor costs nothing: F is what it is without, at the centred intercepts.
    problem = pdmm.GLM([IRIS], [SPECIES], "multinomial", reference=False)
    x = np.vstack([model.coef_.T, model.intercept_]).ravel()
    F = problem.objective(x) + float((model.coef_**2).sum()) / 2
    assert model.result_.history["objective"][-1] == pytest.approx(F, rel=1e-13)


def test_tol_is_the_share_of_the_way_that_may_be_left() -> None:
    exact = LogisticRegression(tol=0.0).fit(X[:, :5], Y)
    way = np.linalg.norm(exact.coef_)
    rounds = []
    for tol in (1e-1, 1e-3, 1e-6, 1e-10):
        model = LogisticRegression(tol=tol).fit(X[:, :5], Y)
        assert np.linalg.norm(model.coef_ - exact.coef_) <= 10 * tol * way
        assert model.certificate_.gap is not None
        rounds.append(model.n_iter_)
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1] <= exact.n_iter_


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_units_do_not_matter(factor: float) -> None:
    rows, y = load_diabetes(return_X_y=True)
    plain = Lasso(alpha=1.0).fit(rows, y, clients=y > 100)
    model = Lasso(alpha=factor).fit(rows, factor * y, clients=y > 100)
    np.testing.assert_allclose(model.coef_, factor * plain.coef_, rtol=1e-8)
    weighed = PoissonRegressor().fit(rows, y, np.full(len(y), factor))
    np.testing.assert_allclose(weighed.coef_, PoissonRegressor().fit(rows, y).coef_, rtol=1e-7)


def test_too_few_rounds_are_said() -> None:
    with pytest.warns(ConvergenceWarning, match="no certificate at tol=1e-10: all 2 rounds done"):
        model = LogisticRegression(max_iter=2).fit(X, Y)
    assert model.n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="give more than max_iter=2, or a tol above 1e-10"):
        LogisticRegression(max_iter=2).fit(X, Y)


def test_separated_classes_without_a_penalty_are_said() -> None:
    with pytest.warns(ConvergenceWarning, match="outcomes are separated.*a penalty"):
        LogisticRegression(C=float("inf")).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="outcomes are separated.*a penalty"):
        LogisticRegression(C=float("inf")).fit(IRIS[:, 2:], np.minimum(SPECIES, 1))


@pytest.mark.parametrize("estimator", [Ridge(alpha=0.0), Lasso(alpha=0.1)])
def test_one_of_many_minimisers_is_no_reason_to_warn(estimator: Any) -> None:
    rows, y = load_diabetes(return_X_y=True)
    twice = np.column_stack([rows, rows[:, :2]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = estimator.fit(twice, y, clients=y > 100)
        alone = Ridge(alpha=0.0) if isinstance(estimator, Ridge) else Lasso(alpha=0.1)
        alone.fit(rows, y)
    np.testing.assert_allclose(model.predict(twice), alone.predict(rows), rtol=1e-6)
    assert model.certificate_.gap is None
    assert "not determined" in model.result_.reason


def test_l1_of_several_classes_takes_few_rounds() -> None:
    rows = StandardScaler().fit_transform(IRIS)
    for ratio in (0.5, 1.0):
        model = LogisticRegression(l1_ratio=ratio, C=0.5).fit(rows, SPECIES, clients=SPECIES)
        assert model.n_iter_ <= 12


def test_wide_tables_are_fitted_without_hessians(monkeypatch: pytest.MonkeyPatch) -> None:
    precise = LogisticRegression(C=0.1).fit(X[:, :4], Y, clients=Y)
    monkeypatch.setattr("pdmm.sklearn.federated.LARGEST_HESSIAN", 2)
    monkeypatch.setattr("pdmm.run.choice.LARGEST_FULL", 2)
    model = LogisticRegression(C=0.1, tol=1e-7, max_iter=400).fit(X[:, :4], Y, clients=Y)
    np.testing.assert_allclose(model.coef_, precise.coef_, rtol=1e-4)


def test_log_probabilities_are_finite() -> None:
    model = LogisticRegression().fit(X, Y)
    far = 1e4 * X[:3]
    assert np.isfinite(model.predict_log_proba(far)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    three = LogisticRegression().fit(IRIS, SPECIES)
    np.testing.assert_allclose(np.exp(three.predict_log_proba(IRIS)), three.predict_proba(IRIS))
