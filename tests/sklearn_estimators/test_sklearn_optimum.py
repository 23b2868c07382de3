"""The optimum is scikit-learn's on the pooled table, however the rows are split over clients."""

from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import pdmm.sklearn as ours

INFINITY = float("inf")


def clients_of(y: Any, count: int) -> Any:
    """So many clients of very different sizes, the first of which have a single class."""
    order = np.argsort(y, kind="stable")
    sizes = np.arange(1, count + 1) ** 2
    ends = np.cumsum(sizes) * len(y) // sizes.sum()
    labels = np.empty(len(y), dtype=int)
    labels[order] = np.searchsorted(ends, np.arange(len(y)), side="right")
    return labels


def weights_of(y: Any) -> Any:
    return np.random.default_rng(0).integers(0, 4, size=len(y)) * 0.5 + 0.25


def assert_same(model: Any, reference: Any, rtol: float = 1e-6) -> None:
    scale = np.abs(reference.coef_).max()
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=rtol, atol=1e-3 * rtol * scale)
    np.testing.assert_allclose(
        model.intercept_, reference.intercept_, rtol=rtol, atol=1e-2 * rtol * scale
    )
    assert np.shape(model.coef_) == np.shape(reference.coef_)
    assert np.shape(model.intercept_) == np.shape(reference.intercept_)


# --- logistic regression ------------------------------------------------------------------


def breast_cancer() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X[:, :10]), y


def wine() -> tuple[Any, Any]:
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["red", "rosé", "white"])[y]


def reference_logistic(X: Any, y: Any, w: Any, **parameters: Any) -> Any:
    """Scikit-learn's, as precise as its solvers get."""
    solver = "newton-cholesky"
    if parameters.get("l1_ratio", 0.0) > 0 and parameters.get("C", 1.0) < INFINITY:
        solver = "saga"
    elif parameters.get("C") == INFINITY and len(np.unique(y)) > 2:
        solver = "lbfgs"  # Newton's Hessian is singular there
    tol = 1e-9 if solver == "lbfgs" else 1e-13
    model = theirs.LogisticRegression(
        solver=solver, tol=tol, max_iter=100_000, random_state=0, **parameters
    )
    return model.fit(X, y, sample_weight=w)


LOGISTIC: list[dict[str, Any]] = [
    {},
    {"C": 0.03},
    {"C": 100.0, "fit_intercept": False},
    {"class_weight": "balanced"},
    {"l1_ratio": 1.0, "C": 0.2},
    {"l1_ratio": 0.4, "C": 0.3},
    {"l1_ratio": 0.4, "C": 0.3, "fit_intercept": False, "class_weight": "balanced"},
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parameters", LOGISTIC, ids=str)
@pytest.mark.parametrize("table", [breast_cancer, wine])
def test_logistic_regression(table: Any, parameters: dict[str, Any], weighted: bool) -> None:
    X, y = table()
    w = weights_of(y) if weighted else None
    reference = reference_logistic(X, y, w, **parameters)
    for count in (1, 5):
        model = ours.LogisticRegression(**parameters)
        model.fit(X, y, w, clients=clients_of(y, count))
        assert_same(model, reference)
        assert model.classes_.tolist() == reference.classes_.tolist()
        np.testing.assert_allclose(
            model.predict_proba(X), reference.predict_proba(X), rtol=1e-6, atol=1e-9
        )
        assert (model.predict(X) == reference.predict(X)).all()


def test_columns_as_they_come() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    reference = theirs.LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y)
    model = ours.LogisticRegression().fit(X, y, clients=clients_of(y, 7))
    assert_same(model, reference)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_a_penalty(fit_intercept: bool) -> None:
    X, y = breast_cancer()
    parameters: dict[str, Any] = {"C": INFINITY, "fit_intercept": fit_intercept}
    reference = reference_logistic(X[:, :4], y, None, **parameters)
    model = ours.LogisticRegression(**parameters, l1_ratio=0.3)  # which then says nothing
    model.fit(X[:, :4], y, clients=clients_of(y, 4))
    assert_same(model, reference)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_several_classes_without_a_penalty_are_centred(fit_intercept: bool) -> None:
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(len(y)) % 7 == 0, (y + 1) % 3, y)  # nothing is separated
    parameters: dict[str, Any] = {"C": INFINITY, "fit_intercept": fit_intercept}
    reference = reference_logistic(X, y, None, **parameters)
    model = ours.LogisticRegression(**parameters).fit(X, y, clients=clients_of(y, 3))
    assert_same(model, reference, rtol=1e-3)  # theirs ends at 1e-4 of ours
    np.testing.assert_allclose(model.coef_.sum(0), 0, atol=1e-10)
    np.testing.assert_allclose(model.intercept_.sum(), 0, atol=1e-10)
    assert model.certificate_.standard_errors < 1e-6


def test_class_weights_of_a_dict() -> None:
    X, y = wine()
    weights = {"red": 3.0, "rosé": 0.5}
    reference = reference_logistic(X, y, None, class_weight=weights)
    model = ours.LogisticRegression(class_weight=weights).fit(X, y, clients=clients_of(y, 6))
    assert_same(model, reference)


# --- regression ---------------------------------------------------------------------------


REGRESSIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Ridge", {"alpha": 0.3}, {"solver": "cholesky"}),
    ("Ridge", {"alpha": 20.0, "fit_intercept": False}, {"solver": "cholesky"}),
    ("Lasso", {"alpha": 0.05}, {}),
    ("Lasso", {"alpha": 1.0, "fit_intercept": False}, {}),
    ("ElasticNet", {"alpha": 0.02}, {}),
    ("ElasticNet", {"alpha": 0.5, "l1_ratio": 0.9, "fit_intercept": False}, {}),
    ("PoissonRegressor", {"alpha": 0.1}, {"solver": "newton-cholesky"}),
    ("PoissonRegressor", {"alpha": 0.0}, {"solver": "newton-cholesky"}),
    ("GammaRegressor", {"alpha": 0.01}, {"solver": "newton-cholesky"}),
    ("GammaRegressor", {"alpha": 2.0, "fit_intercept": False}, {"solver": "newton-cholesky"}),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "parameters", "theirs_alone"), REGRESSIONS, ids=str)
def test_regression(
    name: str, parameters: dict[str, Any], theirs_alone: dict[str, Any], weighted: bool
) -> None:
    X, y = load_diabetes(return_X_y=True)
    w = weights_of(y) if weighted else None
    reference = getattr(theirs, name)(tol=1e-14, max_iter=100_000, **parameters, **theirs_alone)
    reference.fit(X, y, sample_weight=w)
    for count in (1, 7):
        model = getattr(ours, name)(**parameters)
        model.fit(X, y, w, clients=clients_of(y, count))
        assert_same(model, reference)
        np.testing.assert_allclose(model.predict(X), reference.predict(X), rtol=1e-6)
        assert model.score(X, y, w) == pytest.approx(reference.score(X, y, w), abs=1e-8)
        assert model.certificate_.gap is not None


def test_ridge_of_several_targets() -> None:
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, y**2, -y])
    reference = theirs.Ridge(alpha=0.5, solver="cholesky").fit(X, Y)
    model = ours.Ridge(alpha=0.5).fit(X, Y, clients=clients_of(y, 3))
    assert_same(model, reference)
    np.testing.assert_allclose(model.predict(X), reference.predict(X))
    assert len(model.result_) == len(model.certificate_) == 3
    column = ours.Ridge().fit(X, Y[:, :1])
    np.testing.assert_allclose(column.coef_, theirs.Ridge().fit(X, Y[:, :1]).coef_, rtol=1e-8)
    assert column.predict(X).shape == (len(y),)


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 100))
    y = X[:, :5].sum(1) + rng.normal(size=40)
    reference = theirs.Lasso(alpha=0.1, tol=1e-14, max_iter=100_000).fit(X, y)
    model = ours.Lasso(alpha=0.1).fit(X, y, clients=clients_of(y, 4))
    assert_same(model, reference)
    assert ((model.coef_ == 0) == (reference.coef_ == 0)).all()
    ridge = theirs.Ridge(solver="cholesky").fit(X, y)
    assert_same(ours.Ridge().fit(X, y, clients=clients_of(y, 4)), ridge)


# --- forms of X ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
@pytest.mark.parametrize("name", ["LogisticRegression", "Ridge", "Lasso", "PoissonRegressor"])
def test_sparse_rows(form: Any, name: str) -> None:
    X, y = load_wine(return_X_y=True)
    X = (np.median(X, axis=0) < X).astype(np.float64)
    labels = clients_of(y, 3)
    dense = getattr(ours, name)().fit(X, y, clients=labels)
    model = getattr(ours, name)().fit(form(X), y, clients=labels)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.predict(form(X)), dense.predict(X))


def test_float32_rows_are_fitted_in_float64() -> None:
    X, y = breast_cancer()
    narrow = X.astype(np.float32)
    model = ours.LogisticRegression().fit(narrow, y, clients=clients_of(y, 3))
    wide = ours.LogisticRegression().fit(narrow.astype(np.float64), y, clients=clients_of(y, 3))
    assert model.coef_.dtype == np.float64
    np.testing.assert_array_equal(model.coef_, wide.coef_)
