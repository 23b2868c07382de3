"""The checks of scikit-learn itself, and the parameters that it would take and pdmm does not."""

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model as theirs
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.utils.estimator_checks import parametrize_with_checks

import pdmm.sklearn as ours

ESTIMATORS = [getattr(ours, name) for name in ours.__all__]


@pytest.mark.filterwarnings(
    "ignore:.*x goes to infinity:sklearn.exceptions.ConvergenceWarning",  # weights of 0
    "ignore:.*SCIPY_ARRAY_API is not set:sklearn.exceptions.SkipTestWarning",
)
@parametrize_with_checks([estimator() for estimator in ESTIMATORS])  # type: ignore[untyped-decorator]
def test_check_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_called_as_there(estimator: Any) -> None:
    reference = getattr(theirs, estimator.__name__)()
    own = estimator().get_params()
    assert set(own) <= set(reference.get_params())
    there = reference.get_params()
    same = {name for name in own if name != "tol" and own[name] == there[name]}
    assert same == set(own) - {"tol"}  # and the defaults are those of scikit-learn
    assert own["tol"] == 1e-10


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_other_argument_of_scikit_learn_is_refused_by_name(estimator: Any) -> None:
    reference = getattr(theirs, estimator.__name__)
    others = set(inspect.signature(reference).parameters) - set(estimator().get_params())
    assert others
    for name in others:
        with pytest.raises(TypeError, match=rf"{estimator.__name__} has no argument {name} "):
            estimator(**{name: None})
        with pytest.raises(TypeError, match=f"has no argument {name} .*: .*[a-z]"):
            estimator().set_params(**{name: None})


def test_the_sentence_says_what_to_do() -> None:
    estimator: Any = ours.LogisticRegression
    with pytest.raises(TypeError, match=r"solver \(got solver='saga'\): pdmm takes Newton's"):
        estimator(solver="saga")
    with pytest.raises(TypeError, match=r"penalty='l1'.*l1_ratio=1 is 'l1'"):
        estimator(penalty="l1")
    with pytest.raises(TypeError, match=r"no argument c \(got c=1\): it takes C, class_weight"):
        estimator(c=1)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        estimator().set_params(c=1)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("LogisticRegression", {"C": 0}, "C must be above 0, and inf for no penalty, got 0"),
    ("LogisticRegression", {"C": "1"}, "C must be a number, got '1'"),
    ("LogisticRegression", {"l1_ratio": 1.5}, "l1_ratio must be from 0 .* got 1.5"),
    ("LogisticRegression", {"l1_ratio": None}, "l1_ratio must be a number, got None"),
    ("LogisticRegression", {"fit_intercept": 1}, "fit_intercept must be True or False, got 1"),
    ("LogisticRegression", {"class_weight": "even"}, "class_weight must be 'balanced', a dict"),
    ("LogisticRegression", {"class_weight": {7: 1.0}}, "not in class_weight"),
    ("Ridge", {"alpha": -1.0}, "alpha must not be negative, got -1.0"),
    ("Ridge", {"alpha": [1.0, 2.0]}, "alpha must be a number"),
    ("Lasso", {"max_iter": 0}, "max_iter must be at least 1, got 0"),
    ("ElasticNet", {"tol": -1}, "tol must not be negative, got -1"),
    ("PoissonRegressor", {"alpha": float("nan")}, "alpha must be finite, got nan"),
]


@pytest.mark.parametrize(("name", "parameters", "words"), BAD, ids=str)
def test_bad_values_are_refused_in_fit(name: str, parameters: dict[str, Any], words: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match=words):
        getattr(ours, name)(**parameters).fit(X[:, :2], y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fitted_model_is_cloned_and_pickled(estimator: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = estimator().fit(X[:, :3], y + 1, clients=y)
    assert not hasattr(clone(model), "coef_")
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X[:, :3]), model.predict(X[:, :3]))
    assert again.certificate_ == model.certificate_
