"""What a GLM reads, what it names, and what it refuses in one sentence."""

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse

import pdmm
from builders.glm import FAMILIES, HUBER, problem, table

Array = npt.NDArray[Any]
X = [np.array([[1.0, 2.0], [3.0, 5.0], [0.5, 1.0]]), np.array([[0.0, 1.0], [2.0, -1.0]])]
BINARY = [np.array([0, 1, 1]), np.array([1, 0])]
TIMES = [np.array([[3.0, 1], [2.0, 0], [5.0, 1]]), np.array([[1.0, 1], [2.0, 1]])]


def said(y: Any, family: Any, **more: Any) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is looked at
        pdmm.GLM(more.pop("X", X), y, family, **more)
    return str(refused.value)


def outcomes(first: Any, second: Any = (1, 1)) -> list[Array]:
    return [np.array(first), np.array(second)]


@pytest.mark.parametrize(
    ("family", "y", "sentence"),
    [
        ("poisson", outcomes([1, 2, 3], [4, -1]), "y[1] (client 1) has -1 in row 1: a count is"),
        ("gamma", outcomes([1.0, 0.0, 2.0]), "y[0] (client 0) has 0 in row 1"),
        ("binomial", outcomes([0.0, 1.0, 0.5], [0.2, 1.2]), "y[1] (client 1) has 1.2 in row 1"),
        ("binomial", outcomes([0, 1, 2]), "y[0] (client 0) has 2 in row 2"),
        ("binomial", outcomes(["a", "b", "c"], ["a", "b"]), "3 labels 'a', 'b', 'c'"),
        ("binomial", outcomes(["a", "a", "a"], ["a", "a"]), "1 labels 'a'"),
        ("binomial", outcomes(["a", "b", "a"], [0, 1]), "y[1] (client 1) holds whole numbers"),
        ("gaussian", outcomes([1.0, np.nan, 2.0]), "y[0] (client 0) has nan in row 1"),
        ("gaussian", outcomes(["1", "x", "2"]), "y[0] (client 0) has '1' in row 0, where a number"),
        ("multinomial", outcomes([1, 1, 1]), "y has the one class 1 at all clients"),
        ("multinomial", outcomes([0.5, 1, 1]), "y[0] (client 0) has 0.5 in row 0: labels are"),
        ("multinomial", outcomes([0, 1, np.nan]), "y[0] (client 0) has nan in row 2: labels are"),
        ("multinomial", outcomes([0, np.inf, 1]), "y[0] (client 0) has inf in row 1: labels are"),
        ("multinomial", [["a", "b", "a"], ["b", None]], "(client 1) has None in row 1: labels are"),
        ("multinomial", [["a", 1, "a"], ["b", "a"]], "(client 0) has 1 in row 1: labels are"),
        ("multinomial", outcomes([1j, 0, 1]), "y[0] (client 0) holds complex128: labels are"),
        ("binomial", [["a", "b", "a"], ["b", None]], "(client 1) has None in row 1: labels are"),
        ("binomial", [[0.5, "b", 1], [0, 1]], "y[0] (client 0) has 'b' in row 1, where a number"),
        ("gaussian", [[0.5, 1, 1], [0.5, "b"]], "y[1] (client 1) has 'b' in row 1, where a number"),
        ("gaussian", outcomes([1.0, 1e80, 1.0]), "y[0] (client 0) has entries as large as 1e+80"),
        ("gamma", outcomes([1.0, 1e80, 1.0]), "y[0] (client 0) has entries as large as 1e+80"),
        ("cox", [np.array([[1.0, 1], [0.0, 1], [2, 1]]), TIMES[1]], "has the time 0.0 in row 1"),
        ("cox", [TIMES[0], np.array([[1.0, 1], [2.0, 2]])], "(client 1) has the event 2.0 in row"),
        ("cox", BINARY, "cox needs the columns time and event"),
        ("gaussian", outcomes([1.0, 2.0]), "y[0] (client 0) has shape (2,), but client 0 has 3"),
        ("gaussian", [np.zeros(3)], "X has 2 clients and y has 1"),
    ],
)
def test_outcomes_that_cannot_be(family: str, y: Any, sentence: str) -> None:
    assert sentence in said(y, family)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("time", np.nan, "y[0] (client 0), time, has nan in row 1"),
        ("time", "long", "y[0] (client 0), time, has 'long' in row 1, where a number must be"),
        ("event", "dead", "y[0] (client 0), event, has 'dead' in row 1, where a number must be"),
    ],
)
def test_cox_tables_name_column_and_row(column: str, value: Any, sentence: str) -> None:
    own: dict[str, list[Any]] = {"time": [1.0, 2.0, 3.0], "event": [1, 0, 1]}
    own[column][1] = value
    assert sentence in said([pd.DataFrame(own), TIMES[1]], "cox")


def test_cox_tables_need_both_columns() -> None:
    y = [pd.DataFrame({"time": [1.0, 2, 3], "dead": [1, 0, 1]})] * 2
    assert "has no column 'event'" in said(y, "cox")


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"offset": [np.zeros(3), np.zeros(3)]}, "offset[1] (client 1) has shape (3,)"),
        ({"offset": [np.zeros(3)]}, "X has 2 clients and offset has 1"),
        ({"offset": [np.array([0, np.inf, 0]), np.zeros(2)]}, "offset[0] (client 0) has inf in"),
        ({"sample_weight": [np.ones(3), np.array([1, -2])]}, "(client 1) has -2 in row 1"),
        ({"sample_weight": [np.ones(3), np.zeros(2)]}, "sample_weight[1] (client 1) adds up to 0"),
        ({"reference": 1}, "reference is a class of the family 'multinomial'"),
        ({"ties": "exact"}, "ties must be 'efron' or 'breslow'"),
        ({"intercept": "yes"}, "intercept must be True or False"),
        ({"X": [X[0], X[1][:, :1]]}, "X[1] (client 1) has 1 columns"),
        ({"X": [X[0].astype(str), X[1]]}, "X[0] (client 0) has '1.0' in row 0, column 0, where a"),
        ({"X": [X[0], [[1.0, 2.0], [3.0, "m"]]]}, "X[1] (client 1) has 'm' in row 1, column 1"),
        ({"X": [X[0], [[1.0, 2.0], [3.0]]]}, "X[1] (client 1) is not an array of numbers"),
        ({"X": np.array([[["1", "f"]]])}, "X[0] (client 0) has '1' in row 0, column 0, where a"),
        ({"offset": [[0, 1, 2], [0.0, "b"]]}, "offset[1] (client 1) has 'b' in row 1, where a"),
        ({"X": [np.zeros((3, 0)), np.zeros((2, 0))]}, "is empty"),
    ],
)
def test_the_other_arguments(more: dict[str, Any], sentence: str) -> None:
    assert sentence in said(BINARY, "binomial", **more)


def test_a_category_in_a_table_is_named() -> None:
    tables = [pd.DataFrame({"age": [1.0, 2, 3], "sex": [0, "f", "m"]}), X[1]]
    where = "X[0] (client 0), column 'sex', has 'f' in row 1, where a number must be"
    assert where in said(BINARY, "binomial", X=tables)
    tables[0]["sex"] = pd.Categorical(["m", "f", "m"])
    assert "column 'sex', has 'm' in row 0, where" in said(BINARY, "binomial", X=tables)
    tables[0]["sex"] = pd.date_range("2020", periods=3)
    assert "X[0] (client 0), column 'sex', holds datetime" in said(BINARY, "binomial", X=tables)


@pytest.mark.parametrize("family", ["normal", None, 3, pdmm.Huber])
def test_families_that_there_are_not(family: Any) -> None:
    assert "family must be 'gaussian', 'binomial'" in said(BINARY, family)


def test_multinomial_has_its_own_arguments() -> None:
    y = outcomes([0, 1, 2], [0, 1])
    assert "takes no offset" in said(y, "multinomial", offset=[np.zeros(3), np.zeros(2)])
    assert "reference is 7, which is not among" in said(y, "multinomial", reference=7)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.inf, "1"])
def test_huber_needs_a_delta_above_0(delta: Any) -> None:
    with pytest.raises(ValueError, match="delta must be"):
        pdmm.Huber(delta)


def test_a_huber_loss_has_no_likelihood() -> None:
    glm = problem(HUBER)
    with pytest.raises(ValueError, match="no likelihood"):
        glm.log_likelihood(np.zeros(4))


def test_counts_that_are_not_whole_are_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match=r"y\[1\] \(client 1\) has 0.5 in row 1, which is no"):
        pdmm.GLM(X, outcomes([1, 2, 3], [1, 0.5]), "poisson")


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (BINARY, (0, 1)),
        ([y.astype(float) for y in BINARY], (0, 1)),
        ([y.astype(bool) for y in BINARY], (False, True)),
        ([np.array(["no", "yes"])[y] for y in BINARY], ("no", "yes")),
        ([pd.Series(np.array(["no", "yes"])[y], dtype="category") for y in BINARY], ("no", "yes")),
    ],
)
def test_two_classes_in_any_form(y: Any, classes: tuple[Any, ...]) -> None:
    glm = pdmm.GLM(X, y)
    assert glm.classes == classes
    x = np.array([0.1, 0.2, -0.3])
    assert glm.objective(x) == pytest.approx(pdmm.GLM(X, BINARY).objective(x), rel=1e-15)
    rows = np.array([[10.0, 10.0], [-10.0, -10.0]])
    assert glm.predict(x, rows).tolist() == [classes[1], classes[0]]
    np.testing.assert_allclose(glm.predict_mean(x, rows), 1 / (1 + np.exp([-2.7, 3.3])))


def test_a_client_may_lack_a_class() -> None:
    y = [np.array(["no", "yes", "no"]), np.array(["yes", "yes"])]
    assert pdmm.GLM(X, y).classes == ("no", "yes")
    three = [np.array(["a", "b", "c"]), np.array(["a", "a"])]
    glm = pdmm.GLM(X, three, "multinomial", reference="b")
    assert glm.classes == ("a", "b", "c")
    assert glm.names[-2:] == ("intercept:a", "intercept:c")
    assert glm.intercepts is not None
    assert glm.intercepts.tolist() == [4, 5, 4, 5, 4, 5]
    P = glm.predict_mean(np.arange(6) / 10, X[0])
    np.testing.assert_allclose(P.sum(1), 1)
    assert glm.predict(np.arange(6) / 10, X[0]).tolist() == ["c", "c", "c"]
    all_classes = pdmm.GLM(X, three, "multinomial", reference=False)
    assert all_classes.dimension == 9


def test_tables_and_sites() -> None:
    y = {"north": pd.Series(BINARY[0]), "south": pd.Series(BINARY[1])}
    tables = {
        "south": pd.DataFrame({"b": X[1][:, 1], "a": X[1][:, 0]}),
        "north": pd.DataFrame({"a": X[0][:, 0], "b": X[0][:, 1]}),
    }
    glm = pdmm.GLM(tables, y, sample_weight={"north": [1, 2, 1], "south": [1, 1]})
    assert glm.names == ("b", "a", "intercept")
    assert glm.intercepts is not None
    assert glm.intercepts.tolist() == [2, 2, 2]
    plain = pdmm.GLM(X, BINARY, sample_weight=[[1, 2, 1], [1, 1]])
    x = np.array([0.2, 0.1, -0.3])
    assert glm.objective(x) == pytest.approx(plain.objective(x[[1, 0, 2]]), rel=1e-14)
    new = pd.DataFrame({"a": [1.0], "b": [2.0]})
    np.testing.assert_allclose(glm.predict_mean(x, new), 1 / (1 + np.exp(-0.2)))
    assert "other columns" in _refused(lambda: glm.predict(x, new.rename(columns={"a": "c"})))
    assert "(rows, 2)" in _refused(lambda: glm.predict(x, np.zeros((1, 3))))
    gone = new.assign(b=np.nan).to_numpy()
    assert "X cannot be predicted in row 0" in _refused(lambda: glm.predict(x, gone))
    assert "offset has shape (2,)" in _refused(lambda: glm.predict(x, new, offset=[1.0, 2.0]))


def _refused(call: Any) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the sentence is looked at
        call()
    return str(refused.value)


def test_survival_tables() -> None:
    y = [pd.DataFrame({"event": own[:, 1].astype(bool), "time": own[:, 0]}) for own in TIMES]
    x = np.array([0.3, -0.2])
    glm = pdmm.GLM(X, y, "cox")
    assert glm.objective(x) == pytest.approx(pdmm.GLM(X, TIMES, "cox").objective(x), rel=1e-15)
    assert glm.names == ("x0", "x1")
    assert glm.intercepts is None


def test_float32_data_are_widened() -> None:
    narrow = [rows.astype(np.float32) for rows in X]
    glm = pdmm.GLM(narrow, BINARY)
    assert glm.dtype == np.float64
    mixed = pdmm.GLM([narrow[0], X[1]], BINARY)
    assert pdmm.solve(mixed, pdmm.PDMM(rho=1.0), rounds=3).x.dtype == np.float64


def test_a_change_of_the_data_is_noticed() -> None:
    own = [rows.copy() for rows in X]
    glm = pdmm.GLM(own, BINARY)
    own[1][0, 0] = 7.0
    with pytest.raises(ValueError, match=r"X\[1\] \(client 1\) was changed"):
        glm.objective(np.zeros(3))


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_copy_in_another_process(family: Any) -> None:
    glm = problem(family)
    again = pickle.loads(pickle.dumps(glm))
    x = np.linspace(-0.5, 0.5, glm.dimension)
    assert again.objective(x) == glm.objective(x)
    assert again.alike == glm.alike


@pytest.mark.parametrize("family", ["binomial", "multinomial", "cox"])
def test_rows_of_weight_0_are_as_good_as_absent(family: Any) -> None:
    own = table(family, (10, 12))
    w = [np.where(np.arange(len(v)) % 3 == 1, 0.0, v) for v in own.w]
    kept = [v > 0 for v in w]
    less = own._replace(
        X=[a[k] for a, k in zip(own.X, kept, strict=True)],
        y=[a[k] for a, k in zip(own.y, kept, strict=True)],
        w=[a[k] for a, k in zip(w, kept, strict=True)],
        offset=[a[k] for a, k in zip(own.offset, kept, strict=True)],
    )
    x = np.linspace(-0.5, 0.5, problem(family, own).dimension)
    for T in (None, np.eye(len(x))):
        some = problem(family, own._replace(w=w)).at(slice(0, 2)).curvature(x, T)
        few = problem(family, less).at(slice(0, 2)).curvature(x, T)
        for name in ("value", "gradient", "hessian", "unsettled"):
            a, b = getattr(some, name), getattr(few, name)
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_sparse_rows_are_predicted_too() -> None:
    glm = pdmm.GLM(X, BINARY)
    x = np.array([0.1, 0.2, -0.3])
    thin = sparse.csr_matrix(X[0])
    np.testing.assert_allclose(glm.predict_mean(x, thin), glm.predict_mean(x, X[0]), rtol=1e-14)


def test_a_column_called_intercept_is_refused_beside_another() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "intercept": [1.0, 1.0, 1.0]})
    with pytest.raises(ValueError, match="a column called 'intercept', and intercept=True adds"):
        pdmm.GLM([frame], [[0, 1, 0]])
    assert pdmm.GLM([frame], [[0, 1, 0]], intercept=False).names == ("age", "intercept")


def test_true_is_no_class_of_whole_numbers() -> None:
    X = [np.arange(6.0)[:, None]]
    with pytest.raises(ValueError, match="reference is True, which is not among the classes"):
        pdmm.GLM(X, [[0, 1, 2, 0, 1, 2]], "multinomial", reference=True)
    truth = pdmm.GLM(X, [[True, False, True, False, True, False]], "multinomial", reference=True)
    assert truth.names[0] == "x0:False"


def test_a_hessian_that_fits_into_no_memory_is_refused() -> None:
    problem = pdmm.GLM([sparse.csr_array((3, 100_000))], [[0, 1, 1]])
    with pytest.raises(ValueError, match=r"100,001 by 100,001 numbers would take 80 GB"):
        problem.hessian(np.zeros(100_001))
