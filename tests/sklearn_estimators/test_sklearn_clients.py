"""Labels of clients: any kind that tells them apart, one for each row, and none missing."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from pdmm.sklearn import GammaRegressor, LogisticRegression, PoissonRegressor, Ridge
from pdmm.sklearn.silos import split_by

ROWS = 150
BASE = np.arange(ROWS) % 3
WORDS = np.array(["north", "south", "west"])[BASE]
X, Y = load_iris(return_X_y=True)

LABELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "whole numbers": (BASE, (0, 1, 2)),
    "floats": (BASE / 2, (0.0, 0.5, 1.0)),
    "booleans": (BASE == 1, (False, True)),
    "strings": (WORDS, ("north", "south", "west")),
    "a list": (WORDS.tolist(), ("north", "south", "west")),
    "objects": (WORDS.astype(object), ("north", "south", "west")),
    "a mixture": ([("a", 1, "b")[i] for i in BASE], ("a", 1, "b")),
    "a tuple": (tuple(BASE.tolist()), (0, 1, 2)),
    "a Series": (pd.Series(WORDS, index=np.arange(ROWS)[::-1]), ("north", "south", "west")),
    "categories": (pd.Series(WORDS, dtype="category"), ("north", "south", "west")),
    "dates": (
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]))[BASE],
        tuple(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).astype(np.int64)),
    ),
    "dates of Python": (
        [datetime.date(2024, 1, 1 + i) for i in BASE],
        tuple(datetime.date(2024, 1, 1 + i) for i in range(3)),
    ),
}


@pytest.mark.parametrize("kind", LABELS)
def test_any_kind_of_labels(kind: str) -> None:
    labels, names = LABELS[kind]
    model = LogisticRegression().fit(X, Y, clients=labels)
    assert model.clients_ is not None
    if kind != "dates":  # whose unit depends on the version of pandas
        assert model.clients_ == names
    assert len(model.clients_) == len(names)
    alone = LogisticRegression().fit(X, Y)
    assert alone.clients_ is None
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-8)


def test_rows_are_in_the_order_of_their_clients() -> None:
    split = split_by(WORDS, ROWS)
    for i, part in enumerate(split.parts(np.arange(ROWS))):
        np.testing.assert_array_equal(part, np.arange(i, ROWS, 3))
    assert split_by(np.sort(WORDS), ROWS).order is None  # nothing is copied


BAD: list[tuple[Any, str]] = [
    (BASE[:-1], "X has 150 rows and clients has 149 labels"),
    ("hospital", "one label for each row of X.*got 'hospital'"),
    (3, "got 3. clients=None has one client"),
    (BASE[:, None], r"got an array of shape \(150, 1\)"),
    (np.where(BASE == 1, np.nan, BASE), r"no label in 50 of 150 rows \(row 1, 4, 7, \.\.\.\)"),
    ([None, *WORDS[1:].tolist()], r"no label in 1 of 150 rows \(row 0\): leave"),
    (pd.Series(WORDS, dtype="string").where(BASE != 2), "no label in 50 of 150"),
    (pd.Series(BASE, dtype="Int64").mask(BASE == 0), "no label in 50 of 150"),
    (pd.Series(pd.to_datetime([None] * ROWS)), "no label in 150 of 150"),
    (np.array([{"a": 1}] * ROWS, dtype=object), "cannot be told apart"),
]


@pytest.mark.parametrize(("labels", "words"), BAD, ids=[words for _, words in BAD])
def test_other_labels_are_refused(labels: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LogisticRegression().fit(X, Y, clients=labels)


def test_a_client_with_rows_of_weight_0_alone_says_nothing() -> None:
    weight = np.where(WORDS == "south", 0.0, 1.0)
    model = LogisticRegression().fit(X, Y, weight, clients=WORDS)
    there = WORDS != "south"
    without = LogisticRegression().fit(X[there], Y[there], clients=WORDS[there])
    np.testing.assert_allclose(model.coef_, without.coef_, rtol=1e-8)
    assert model.clients_ == ("north", "south", "west")


def test_a_class_with_rows_of_weight_0_alone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"class 2 has rows of weight 0 alone.*leave"):
        LogisticRegression().fit(X, Y, np.where(Y == 2, 0.0, 1.0))


def test_clients_may_have_one_class_or_one_row_each() -> None:
    rows, y = load_breast_cancer(return_X_y=True)
    alone = LogisticRegression().fit(rows[:60, :3], y[:60])
    for labels in (y[:60], np.arange(60)):
        model = LogisticRegression().fit(rows[:60, :3], y[:60], clients=labels)
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-7)


def test_only_one_class_in_all() -> None:
    with pytest.raises(ValueError, match="all clients together have only one class: 0"):
        LogisticRegression().fit(X, np.zeros(ROWS, dtype=int), clients=WORDS)


def test_an_outcome_that_cannot_be_names_its_client() -> None:
    y = Y.astype(float) + 1
    y[4] = -1
    with pytest.raises(ValueError, match=r"y\['south'\] \(client 1\) has -1 in row 1: a count"):
        PoissonRegressor().fit(X, y, clients=WORDS)
    with pytest.raises(ValueError, match=r"y\['south'\] \(client 1\) has -1 in row 1"):
        GammaRegressor().fit(X, y, clients=WORDS)


def test_names_of_columns() -> None:
    table, y = load_iris(return_X_y=True, as_frame=True)
    model = Ridge().fit(table, y, clients=pd.Series(WORDS))
    assert model.feature_names_in_.tolist() == list(table.columns)
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[table.columns[::-1]])
