"""Pipelines, searches and cross-validation, which pass the labels of the clients on."""

from collections.abc import Iterator

import numpy as np
import pytest
import sklearn
import sklearn.linear_model as theirs
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pdmm.sklearn import Lasso, LogisticRegression

X, Y = load_breast_cancer(return_X_y=True)
X = X[:, :6]
SITES = np.array(["north", "south", "west"])[np.arange(len(Y)) % 3]


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_a_pipeline_by_the_name_of_its_step() -> None:
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    pipeline.fit(X, Y, logisticregression__clients=SITES)
    assert pipeline[-1].clients_ == ("north", "south", "west")
    reference = make_pipeline(StandardScaler(), theirs.LogisticRegression(tol=1e-10)).fit(X, Y)
    np.testing.assert_allclose(pipeline.predict_proba(X), reference.predict_proba(X), rtol=1e-5)


def test_a_search_takes_labels_apart_as_it_does_rows() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0], "l1_ratio": [0.0, 1.0]}, cv=3)
    search.fit(X, Y, clients=SITES)
    assert search.best_estimator_.clients_ == ("north", "south", "west")
    with pytest.raises(TypeError, match="no argument solver"):
        GridSearchCV(LogisticRegression(), {"solver": ["saga"]}, cv=3).fit(X, Y)


@pytest.mark.usefixtures("routing")
def test_routed_through_a_pipeline_and_a_search() -> None:
    model = LogisticRegression().set_fit_request(clients=True, sample_weight=True)
    model.set_score_request(sample_weight=True)
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline[0].set_fit_request(sample_weight=False)
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 10.0]}, cv=3)
    search.fit(X, Y, clients=SITES, sample_weight=np.ones(len(Y)))
    assert search.best_estimator_[-1].clients_ == ("north", "south", "west")


@pytest.mark.usefixtures("routing")
def test_cross_validation_over_sites() -> None:
    model = LogisticRegression().set_fit_request(clients=True)
    scores = cross_val_score(
        model, X, Y, cv=LeaveOneGroupOut(), params={"clients": SITES, "groups": SITES}
    )
    assert len(scores) == 3
    assert (scores > 0.8).all()


@pytest.mark.usefixtures("routing")
def test_labels_that_nobody_asked_for_are_refused_by_scikit_learn() -> None:
    with pytest.raises(ValueError, match="clients"):
        cross_val_score(Lasso(), X, Y, cv=3, params={"clients": SITES}, error_score="raise")
