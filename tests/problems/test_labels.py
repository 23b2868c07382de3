"""Labels of softmax regression: whole numbers, strings, booleans, and what stands for them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import pdmm
from builders.samples import labelled

Array = npt.NDArray[Any]
X, Y = labelled([30, 20, 25], classes=3)
NAMES = np.array(["mild", "none", "severe"])


def problem(y: Any, classes: Any = None) -> pdmm.SoftmaxRegression:
    return pdmm.SoftmaxRegression(X, y, classes, l2=0.1)


NUMBERED = problem(Y, 3)
AT = pdmm.solve(NUMBERED, pdmm.AGPDMM(0.3, 3), 30).x
FORMS: dict[str, Any] = {
    "arrays": lambda y: NAMES[y],
    "objects": lambda y: NAMES[y].astype(object),
    "lists": lambda y: NAMES[y].tolist(),
    "columns": lambda y: pd.Series(NAMES[y]),
    "object columns": lambda y: pd.Series(NAMES[y], dtype=object),
    "categories": lambda y: pd.Series(NAMES[y], dtype="category"),
    "a categorical": lambda y: pd.Categorical(NAMES[y], categories=NAMES[::-1]),
    "one column": lambda y: NAMES[y][:, None],
    "a table": lambda y: pd.DataFrame({"outcome": NAMES[y]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_strings_are_sorted_classes(form: str) -> None:
    named = problem([FORMS[form](y) for y in Y])
    assert named.classes == ("mild", "none", "severe")
    result = pdmm.solve(named, pdmm.AGPDMM(0.3, 3), 30)
    np.testing.assert_array_equal(result.x, AT)
    predicted = named.predict(AT, X[0])
    assert predicted.dtype.kind == "U"
    np.testing.assert_array_equal(predicted, NAMES[NUMBERED.predict(AT, X[0])])
    assert named.accuracy(AT) == NUMBERED.accuracy(AT)
    own = FORMS[form](Y[0])
    assert named.accuracy(AT, X[0], own) == NUMBERED.accuracy(AT, X[0], Y[0])


def test_classes_are_those_of_all_clients() -> None:
    y = [NAMES[np.zeros(30, int)], NAMES[np.full(20, 2)], NAMES[np.ones(25, int)]]
    assert problem(y).classes == ("mild", "none", "severe")
    assert problem(y).dimension == 4 * 3


def test_listed_classes_have_the_given_order_and_may_be_absent() -> None:
    order = ["severe", "none", "mild", "unknown"]
    named = problem([NAMES[y] for y in Y], order)
    assert named.classes == tuple(order)
    assert named.dimension == 4 * 4
    bias = np.zeros(16)
    bias[-1] = 1.0
    assert set(named.predict(bias, X[0])) == {"unknown"}
    assert problem([NAMES[y] for y in Y], 3).classes == ("mild", "none", "severe")


@pytest.mark.parametrize("kind", [bool, object, "boolean"])
def test_booleans(kind: Any) -> None:
    flags = [pd.Series(y > 0, dtype=kind) for y in Y]
    found = problem([part.to_numpy() if kind != "boolean" else part for part in flags])
    assert found.classes == (False, True)
    x = pdmm.solve(found, pdmm.AGPDMM(0.3, 3), 20).x
    same = problem([(y > 0).astype(int) for y in Y], 2)
    np.testing.assert_array_equal(pdmm.solve(same, pdmm.AGPDMM(0.3, 3), 20).x, x)
    predicted = found.predict(x, X[0])
    assert predicted.dtype == bool
    np.testing.assert_array_equal(predicted, same.predict(x, X[0]) == 1)
    assert found.accuracy(x, X, [y > 0 for y in Y]) == same.accuracy(x)
    assert problem([np.ones(len(y), bool) for y in Y]).classes == (False, True)


def test_whole_numbers_stay_as_they_are() -> None:
    assert NUMBERED.classes == 3
    assert NUMBERED.predict(AT, X[0]).dtype == np.int64
    nullable = problem([pd.Series(y, dtype="Int64") for y in Y], 3)
    column = problem([y[:, None] for y in Y], 3)
    for other in (nullable, column):
        assert other.classes == 3
        np.testing.assert_array_equal(pdmm.solve(other, pdmm.AGPDMM(0.3, 3), 30).x, AT)
    odd = problem([2 * y - 1 for y in Y], [-1, 1, 3])
    assert odd.classes == (-1, 1, 3)
    np.testing.assert_array_equal(odd.predict(AT, X[0]), 2 * NUMBERED.predict(AT, X[0]) - 1)
    assert odd.accuracy(AT) == NUMBERED.accuracy(AT)


def replaced(i: int, new: Any) -> list[Any]:
    named = [NAMES[y] for y in Y]
    return [*named[:i], new, *named[i + 1 :]]


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (Y, None, "classes must be given where labels are whole numbers"),
        (
            replaced(1, Y[1]),
            None,
            r"y\[1\] \(client 1\) holds whole numbers, but y\[0\]",
        ),
        (replaced(1, [1.5] * 20), None, r"y\[1\] \(client 1\) must hold whole numbers, strings"),
        (replaced(1, ["mild", 1] * 10), None, r"y\[1\] \(client 1\) must hold .* one kind"),
        (replaced(1, [b"mild"] * 20), None, r"y\[1\] \(client 1\) must hold whole numbers"),
        (
            replaced(1, np.array(["mild", None] * 10, dtype=object)),
            None,
            r"y\[1\] \(client 1\) must hold",
        ),
        (
            replaced(1, pd.Series(["mild", None] * 10)),
            None,
            r"y\[1\] \(client 1\) has no value \(NA\) in row 1",
        ),
        (
            replaced(2, pd.Series([None, *["mild"] * 24], dtype="category")),
            None,
            r"y\[2\] \(client 2\) has no value \(NA\) in row 0",
        ),
        ([pd.Series([1, None] * 15, dtype="Int64"), *Y[1:]], 3, r"y\[0\] .* \(NA\) in row 1"),
        ([pd.Series([True, None] * 15, dtype="boolean"), *Y[1:]], 2, r"y\[0\] .* \(NA\) in row 1"),
        (replaced(0, ["mild"] * 29), None, r"y\[0\] \(client 0\) has shape \(29,\)"),
        (replaced(0, [["mild"] * 2] * 30), None, r"y\[0\] \(client 0\) has shape \(30, 2\)"),
        (replaced(2, ["dead"] * 25), list(NAMES), r"y\[2\] .* 'dead'.* among the classes 'mild'"),
        (replaced(2, ["dead"] * 25), 3, "classes is 3, but y has the 4 labels 'dead', 'mild'"),
        ([["mild"] * len(y) for y in Y], None, "y has the one label 'mild'"),
        (replaced(0, NAMES[Y[0]]), ["mild", "none", "mild"], "classes must list every label once"),
        (replaced(0, NAMES[Y[0]]), ["mild"], "classes must list at least 2"),
        (replaced(0, NAMES[Y[0]]), [0, 1, 2], "classes must list strings"),
        (Y, ["a", "b", "c"], "classes must list whole numbers"),
        (Y, "abc", "classes must be a whole number"),
        (Y, np.ma.array([0, 1, 2], mask=[False, True, False]), "classes has a masked entry"),
    ],
)
def test_labels_that_do_not_fit_are_refused(y: Any, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(y, classes)


def test_accuracy_compares_labels_of_one_kind() -> None:
    named = problem([NAMES[y] for y in Y])
    with pytest.raises(ValueError, match="y must hold a string for each row of X"):
        named.accuracy(AT, X[0], Y[0])
    with pytest.raises(ValueError, match="y must hold a whole number for each row of X"):
        NUMBERED.accuracy(AT, X[0], NAMES[Y[0]])
    assert named.accuracy(AT, X[0], ["dead"] * 30) == 0
