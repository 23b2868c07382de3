"""Tables and columns of pandas: names are compared, missing values refused, kinds understood."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import pdmm

Array = npt.NDArray[Any]
NAMES = ["age", "dose", "weight"]
rng = np.random.default_rng(0)
ROWS = [rng.standard_normal((8, 3)) * [1, 5, 20] for _ in range(3)]
TARGETS = [rows @ [1.0, -2.0, 0.5] + rng.standard_normal(8) for rows in ROWS]
LABELS = [np.where(target > 0, "ill", "well") for target in TARGETS]


def tables() -> list[pd.DataFrame]:
    return [pd.DataFrame(rows, columns=NAMES) for rows in ROWS]


def columns() -> list[pd.Series]:
    return [pd.Series(target) for target in TARGETS]


def with_table(i: int, table: Any) -> list[Any]:
    return [*tables()[:i], table, *tables()[i + 1 :]]


def answer(A: Any, b: Any) -> Array:
    return pdmm.solve(pdmm.LeastSquares(A, b)).x


EXPECTED = answer(ROWS, TARGETS)


def test_tables_and_columns_are_their_numbers() -> None:
    np.testing.assert_allclose(answer(tables(), columns()), EXPECTED, rtol=1e-12)
    framed = [column.to_frame("outcome") for column in columns()]
    np.testing.assert_allclose(answer(tables(), framed), EXPECTED, rtol=1e-12)
    assert pdmm.LeastSquares(tables(), columns()).columns == tuple(NAMES)
    assert pdmm.LeastSquares(ROWS, TARGETS).columns is None


def test_columns_in_another_order_are_aligned_by_name() -> None:
    turned = with_table(1, tables()[1][["weight", "age", "dose"]])
    np.testing.assert_allclose(answer(turned, columns()), EXPECTED, rtol=1e-12)
    # All are in the order of the first table.
    first = with_table(0, tables()[0][["weight", "age", "dose"]])
    problem = pdmm.LeastSquares(first, columns())
    assert problem.columns == ("weight", "age", "dose")
    np.testing.assert_allclose(pdmm.solve(problem).x, EXPECTED[[2, 0, 1]], rtol=1e-12)
    straight, crossed = (pdmm.SoftmaxRegression(X, LABELS, l2=0.1) for X in (tables(), turned))
    x = np.arange(8.0)
    np.testing.assert_allclose(crossed.client(1).gradient(x), straight.client(1).gradient(x))


def test_numbers_are_names_too() -> None:
    plain = [pd.DataFrame(rows) for rows in ROWS]
    turned = [plain[0], plain[1][[2, 0, 1]], plain[2]]
    np.testing.assert_allclose(answer(turned, TARGETS), EXPECTED, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda table: table.rename(columns={"dose": "age"}),
            r"A\[1\] \(client 1\) has more than one column 'age'",
        ),
        (
            lambda table: table.rename(columns={"dose": "height"}),
            r"A\[1\] \(client 1\) .* A\[0\] \(client 0\): it lacks 'dose' and has 'height'",
        ),
        (
            lambda table: table.drop(columns="dose"),
            r"A\[1\] \(client 1\) .* A\[0\] \(client 0\): it lacks 'dose'\.",
        ),
        (lambda table: table.assign(more=1.0), r"A\[1\] .* it has 'more' in addition"),
        (lambda table: pd.DataFrame(table.to_numpy()), r"A\[1\] .* lacks 'age', 'dose'"),
        (
            lambda table: table.assign(dose="high"),
            r"A\[1\] \(client 1\), column 'dose', holds (str|object), not numbers",
        ),
        (
            lambda table: table.assign(dose=pd.Categorical(["high"] * 8)),
            r"A\[1\] \(client 1\), column 'dose', holds category, not numbers",
        ),
        (
            lambda table: table.assign(dose=pd.Timestamp("2020-01-01")),
            r"A\[1\] \(client 1\), column 'dose', holds datetime64",
        ),
        (
            lambda table: table.where(table.index.to_series() != 5),
            r"A\[1\] \(client 1\), column 'age', has nan in row 5",
        ),
        (
            lambda table: table.assign(dose=pd.array([1, 2, 3, None] * 2, dtype="Int64")),
            r"A\[1\] \(client 1\), column 'dose', has no value \(NA\) in row 3",
        ),
        (
            lambda table: table.assign(dose=pd.array([True, None] * 4, dtype="boolean")),
            r"A\[1\] \(client 1\), column 'dose', has no value \(NA\) in row 1",
        ),
        (lambda table: table.iloc[::-1], r"A\[1\] \(client 1\) and b\[1\] .* row labels"),
        (lambda table: table.set_index(table.index + 1), "row labels"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.LeastSquares(with_table(1, change(tables()[1])), columns())


def test_arrays_beside_tables() -> None:
    mixed = with_table(0, ROWS[0])
    np.testing.assert_allclose(answer(mixed, columns()), EXPECTED, rtol=1e-12)
    mixed[2] = mixed[2][["weight", "age", "dose"]]
    with pytest.raises(
        ValueError, match=r"A\[2\] \(client 2\) .* A\[1\] \(client 1\), and A\[0\] \(client 0\)"
    ):
        pdmm.LeastSquares(mixed, columns())


def test_rows_are_compared_only_where_both_have_labels() -> None:
    moved = [table.set_index(table.index + 100) for table in tables()]
    np.testing.assert_allclose(answer(moved, TARGETS), EXPECTED, rtol=1e-12)
    same = [column.set_axis(column.index + 100) for column in columns()]
    np.testing.assert_allclose(answer(moved, same), EXPECTED, rtol=1e-12)


def test_nullable_columns_without_missing_values() -> None:
    whole = [np.round(rows).astype(int) for rows in ROWS]
    expected = answer([rows.astype(float) for rows in whole], TARGETS)
    nullable = [pd.DataFrame(rows, columns=NAMES).astype("Int64") for rows in whole]
    nullable[1]["dose"] = nullable[1]["dose"].astype("Float64")
    found = answer(nullable, [column.astype("Float64") for column in columns()])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    flags = [rows > 0 for rows in ROWS]
    expected = answer([part.astype(float) for part in flags], TARGETS)
    for kind in ("boolean", "bool"):
        mixed = [pd.DataFrame(part, columns=NAMES).astype(kind) for part in flags]
        mixed[0]["age"] = mixed[0]["age"].astype("float64")  # beside what is true or false
        np.testing.assert_allclose(answer(mixed, columns()), expected, rtol=1e-12)


def test_missing_targets_weights_and_starts() -> None:
    missing = pd.Series([1.0, None, 2.0], dtype="Float64")
    with pytest.raises(ValueError, match=r"b\[0\] \(client 0\) has no value \(NA\) in row 1"):
        pdmm.LeastSquares([np.eye(3)], [missing])
    problem = pdmm.LeastSquares([np.eye(3)] * 3, [np.ones(3)] * 3)
    for name in ("weights", "x0"):
        with pytest.raises(ValueError, match=rf"{name} has no value \(NA\) in row 1"):
            pdmm.solve(problem, pdmm.PDMM(1.0), 2, **{name: missing})
    weights = pd.Series([1, 2, 3], dtype="Int64")
    found = pdmm.solve(problem, pdmm.PDMM(1.0), 2, weights=weights, x0=weights)
    expected = pdmm.solve(problem, pdmm.PDMM(1.0), 2, weights=[1, 2, 3], x0=[1, 2, 3])
    np.testing.assert_array_equal(found.x, expected.x)


# --- predictions ------------------------------------------------------------------------------


def test_predictions_compare_names() -> None:
    problem = pdmm.SoftmaxRegression(tables(), [pd.Series(y) for y in LABELS], l2=0.1)
    x = pdmm.solve(problem).x
    expected = problem.predict(x, ROWS[0])
    turned = tables()[0][["dose", "weight", "age"]]
    np.testing.assert_array_equal(problem.predict(x, turned), expected)
    assert problem.accuracy(x, turned, LABELS[0]) == problem.accuracy(x, ROWS[0], LABELS[0])
    assert problem.accuracy(x, with_table(0, turned), LABELS) == problem.accuracy(x)
    with pytest.raises(ValueError, match="X has other columns than the problem: it lacks 'age'"):
        problem.predict(x, turned.drop(columns="age"))
    with pytest.raises(ValueError, match=r"X\[1\] \(client 1\) has other columns"):
        problem.accuracy(x, with_table(1, turned.assign(more=1)), LABELS)
    with pytest.raises(ValueError, match="X and y have different row labels"):
        problem.accuracy(x, turned, pd.Series(LABELS[0], index=range(1, 9)))
    without_names = pdmm.SoftmaxRegression(ROWS, LABELS, l2=0.1)
    np.testing.assert_array_equal(without_names.predict(x, tables()[0]), expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_has_no_class(bad: float) -> None:
    problem = pdmm.SoftmaxRegression(tables(), LABELS, l2=0.1)
    x = pdmm.solve(problem).x
    rows = ROWS[0].copy()
    rows[3, 1] = bad
    with pytest.raises(ValueError, match="X has no class in row 3: there is a NaN"):
        problem.predict(x, rows)
    with pytest.raises(ValueError, match=r"X\[0\] \(client 0\) has no class in row 3"):
        problem.accuracy(x, [rows], LABELS[:1])
    with pytest.raises(ValueError, match=rf"X, column 'dose', has {bad} in row 3"):
        problem.predict(x, pd.DataFrame(rows, columns=NAMES))
    with pytest.raises(ValueError, match="x has nan"):
        problem.predict(np.full_like(x, np.nan), ROWS[0])
    missing = tables()[0].astype("Float64")
    missing.loc[2, "weight"] = pd.NA
    with pytest.raises(ValueError, match=r"X, column 'weight', has no value \(NA\) in row 2"):
        problem.predict(x, missing)
    with pytest.raises(ValueError, match="X must hold numbers, got <U1"):
        problem.predict(x, np.full((2, 3), "a"))
