"""What clients agree on: a fit as of the pooled table, or a sentence that says what is wrong."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm


def patients(n: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 90, n).round(1)
    sex = rng.choice(["f", "m"], n)
    stage = rng.integers(1, 4, n)
    bmi = rng.normal(26, 4, n).round(1)
    eta = 0.03 * (age - 55) + 0.5 * (sex == "m") - 0.3 * (stage == 2) + 0.05 * (bmi - 26)
    died = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    ward = rng.choice(["east", "north", "west"], n)
    columns = {"age": age, "sex": sex, "stage": stage, "bmi": bmi, "died": died, "ward": ward}
    return pd.DataFrame(columns)


FORMULA = "died ~ age + sex + C(stage) + bmi"


def silos(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    groups = frame.groupby("ward")
    return {str(name): own.drop(columns="ward").copy() for name, own in groups}


def same(one: Any, other: Any) -> None:
    pd.testing.assert_series_equal(one.params, other.params, rtol=1e-9, atol=1e-12)
    pd.testing.assert_series_equal(one.bse, other.bse, rtol=1e-9)


def pooled(frame: pd.DataFrame, formula: str = FORMULA, **more: Any) -> Any:
    return pdmm.fit(formula, frame, **more)


def test_a_table_with_a_column_a_dict_and_one_table_give_the_same() -> None:
    frame = patients()
    split = pdmm.fit(FORMULA, frame, client="ward")
    same(split, pooled(frame))
    same(split, pdmm.fit(FORMULA, silos(frame)))
    assert list(split.params.index) == [
        *("Intercept", "age", "sex[T.m]", "C(stage)[T.2]", "C(stage)[T.3]", "bmi"),
    ]
    assert split.levels == {"sex": ("f", "m"), "C(stage)": (1, 2, 3)}


def test_columns_may_stand_in_any_order_and_beside_others() -> None:
    frame = patients()
    own = silos(frame)
    own["west"] = own["west"][["bmi", "died", "stage", "sex", "age"]].assign(unused="x")
    same(pdmm.fit(FORMULA, own), pooled(frame))


def test_a_level_of_one_client_alone_counts_for_all() -> None:
    frame = patients()
    frame.loc[(frame.ward == "east") & (frame.stage == 2), "stage"] = 1
    frame.loc[(frame.ward == "north") & (frame.stage == 2), "stage"] = 3
    fit = pdmm.fit(FORMULA, frame, client="ward")
    assert fit.levels["C(stage)"] == (1, 2, 3)
    same(fit, pooled(frame))


def test_numbers_that_are_text_at_one_client_are_numbers() -> None:
    frame = patients()
    own = silos(frame)
    own["east"] = own["east"].assign(
        stage=own["east"].stage.astype(str), age=own["east"].age.astype(str)
    )
    fit = pdmm.fit(FORMULA, own)
    np.testing.assert_allclose(fit.params, pooled(frame).params, rtol=1e-9)
    assert "column 'age' is text at client 'east', and was read as numbers" in fit.notes


def test_words_at_one_client_and_numbers_at_another_are_refused() -> None:
    own = silos(patients())
    own["north"] = own["north"].assign(age="old")
    with pytest.raises(ValueError, match="column 'age' holds words at client 'north' and numbers"):
        pdmm.fit(FORMULA, own)


def test_a_column_that_one_client_lacks_is_named_with_it() -> None:
    own = silos(patients())
    del own["north"]["bmi"]
    with pytest.raises(ValueError, match="client 'north' has no column 'bmi'"):
        pdmm.fit(FORMULA, own)
    del own["west"]["bmi"]
    with pytest.raises(ValueError, match="clients 'north' and 'west' have no column 'bmi'"):
        pdmm.fit(FORMULA, own)
    with pytest.raises(ValueError, match="no table has a column 'weight'"):
        pdmm.fit("died ~ weight", own)


def test_dates_and_mixtures_are_refused_with_their_client() -> None:
    own = silos(patients())
    own["west"] = own["west"].assign(age=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="column 'age' of client 'west' holds dates"):
        pdmm.fit(FORMULA, own)


def test_two_clients_of_one_name_are_refused(tmp_path: Any) -> None:
    frame = patients()
    with pytest.raises(ValueError, match="two clients have the name '1'"):
        pdmm.fit(FORMULA, {1: frame, "1": frame})
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        frame.to_csv(tmp_path / folder / "site.csv", index=False)
    with pytest.raises(ValueError, match="two clients have the name 'site'"):
        pdmm.fit(FORMULA, [tmp_path / "a" / "site.csv", tmp_path / "b" / "site.csv"])


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    gaps = frame.copy()
    gaps.loc[gaps.index[3:40:5], "age"] = np.nan
    gaps.loc[gaps.index[60:64], "sex"] = None
    gaps.loc[gaps.index[100], "died"] = np.nan
    return gaps


def test_missing_entries_are_refused_with_client_column_and_count() -> None:
    frame = with_gaps(patients())
    first = str(frame.ward[frame.isna().any(axis=1)].min())
    with pytest.raises(ValueError, match=f"rows of client '{first}' have no 'died|age|sex'"):
        pdmm.fit(FORMULA, frame, client="ward")


def test_dropped_rows_are_counted_and_the_rest_is_the_pooled_fit() -> None:
    frame = with_gaps(patients())
    fit = pdmm.fit(FORMULA, frame, client="ward", missing="drop")
    whole = frame.dropna()
    same(fit, pooled(whole.astype({"died": int})))
    assert fit.sites["dropped"].sum() == len(frame) - len(whole)
    assert fit.sites["rows"].sum() == fit.nobs == len(whole)


def test_the_mean_over_all_clients_takes_the_place_of_a_missing_number() -> None:
    frame = with_gaps(patients())
    fit = pdmm.fit(FORMULA, frame, client="ward", missing="mean")
    filled = frame.assign(age=frame.age.fillna(frame.age.mean())).dropna()
    same(fit, pooled(filled.astype({"died": int})))
    new = frame[["age", "sex", "stage", "bmi"]].iloc[[3]]  # its age is missing
    assert fit.predict(new).notna().all()


def test_a_client_without_a_complete_row_adds_nothing() -> None:
    frame = patients()
    frame.loc[frame.ward == "west", "bmi"] = np.nan
    fit = pdmm.fit(FORMULA, frame, client="ward", missing="drop")
    same(fit, pooled(frame[frame.ward != "west"]))
    assert fit.sites.loc["west", "rows"] == 0
    assert fit.sites.loc["west", "dropped"] == (frame.ward == "west").sum()


def test_rows_without_a_client_are_as_missing_says() -> None:
    frame = patients()
    frame.loc[:9, "ward"] = None
    with pytest.raises(ValueError, match="10 of the 240 rows have no 'ward'"):
        pdmm.fit(FORMULA, frame, client="ward")
    same(pdmm.fit(FORMULA, frame, client="ward", missing="drop"), pooled(frame[10:]))


def test_the_client_may_stand_in_the_formula() -> None:
    frame = patients()
    formula = FORMULA + " + C(ward)"
    expected = pooled(frame, formula)
    same(pdmm.fit(formula, frame, client="ward"), expected)
    same(pdmm.fit(formula, silos(frame), client="ward"), expected)


def test_levels_that_no_complete_row_has_are_no_columns() -> None:
    frame = patients()
    frame["stage"] = pd.Categorical(frame.stage, categories=[3, 2, 1, 9])
    fit = pdmm.fit("died ~ stage", frame, client="ward")
    assert fit.levels == {"stage": (3, 2, 1)}  # in the order of the category, without 9


def test_center_and_scale_are_agreed_by_sums() -> None:
    frame = patients()
    formula = "died ~ center(age) + scale(np.log(bmi)) + I(standardize(age)**2)"
    fit = pdmm.fit(formula, frame, "ward")
    x = np.log(frame.bmi)
    by_hand = frame.assign(
        a=frame.age - frame.age.mean(),
        b=(x - x.mean()) / x.std(),
        c=((frame.age - frame.age.mean()) / frame.age.std(ddof=0)) ** 2,
    )
    expected = pooled(by_hand, "died ~ a + b + c").params
    np.testing.assert_allclose(fit.params, expected, rtol=1e-8)
    few = frame[:5]
    np.testing.assert_allclose(fit.predict(few), fit.predict(frame)[:5])  # by the agreed means


def test_columns_with_any_name() -> None:
    frame = patients().rename(columns={"age": "age at entry", "bmi": "kg/m^2"})
    fit = pdmm.fit("died ~ `age at entry` + np.log(`kg/m^2`)", frame, client="ward")
    assert list(fit.params.index) == ["Intercept", "age at entry", "np.log(`kg/m^2`)"]
    plain = frame.rename(columns={"age at entry": "a", "kg/m^2": "b"})
    np.testing.assert_allclose(fit.params, pooled(plain, "died ~ a + np.log(b)").params, rtol=1e-9)
    np.testing.assert_allclose(
        fit.predict(frame), pooled(plain, "died ~ a + np.log(b)").predict(plain), rtol=1e-9
    )


def test_a_dot_stands_for_all_other_columns() -> None:
    frame = patients()
    fit = pdmm.fit("died ~ .", frame, client="ward")
    assert list(fit.params.index) == ["Intercept", "age", "sex[T.m]", "stage", "bmi"]


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("died ~ bs(age, df=4)", "knots by the quantiles of all rows"),
        ("died ~ poly(age, 2)", "orthogonal over all rows"),
        ("died ~ I(age - np.mean(age))", "np.mean"),
        ("died ~ age.max()", "age.max"),
        ("died ~ lag(age)", "lag"),
        ("died ~ age[0]", "something that no formula may have"),
        ("died ~ open('/etc/passwd')", "open"),
        ("died ~ np.load('x')", "np.load"),
        ("died ~ offset(age)", "give offset="),
        ("C(died) ~ age", "needs no C"),
        ("died + age ~ bmi", "one outcome"),
        ("died age", "one ~"),
        ("died ~ age +", "cannot be read"),
        ("died ~ 0", "nothing on the right"),
    ],
)
def test_what_a_formula_may_not_have_is_refused_by_name(formula: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        pdmm.fit(formula, patients(), client="ward")


def test_splines_with_given_knots_are_those_of_the_pooled_table() -> None:
    frame = patients()
    formula = "died ~ bs(age, knots=[40, 60], lower_bound=20, upper_bound=90)"
    same(pdmm.fit(formula, frame, client="ward"), pooled(frame, formula))
    with pytest.raises(ValueError, match="client"):
        pdmm.fit(formula.replace("90", "50"), frame, client="ward")


def test_what_is_infinite_is_refused_with_its_client() -> None:
    frame = patients()
    frame.loc[frame.ward == "north", "bmi"] = 0.0
    with pytest.raises(
        ValueError, match=r"'np.log\(bmi\)' is infinite in some rows of client 'nor"
    ):
        pdmm.fit("died ~ np.log(bmi)", frame, client="ward", missing="drop")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"client": "clinic"}, "client='clinic' is no column of data"),
        ({"client": 3}, "client must be the name of a column"),
        ({"missing": "ignore"}, "missing must be 'error'"),
        ({"covariance": "HC3"}, "covariance must be 'model'"),
        ({"l2": -1.0}, "l2 must not be negative"),
        ({"l1": "auto"}, "l1 must be a number"),
        ({"family": "normal"}, "family must be"),
        ({"family": "cox"}, "go together"),
        ({"offset": "nothing"}, "no table has a column 'nothing'"),
        ({"weights": "sex"}, "'sex' must be numbers"),
        ({"standardise": "yes"}, "standardise must be True or False"),
    ],
)
def test_arguments_are_refused_by_name(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        pdmm.fit(FORMULA, patients(), **({"client": "ward"} | more))


def test_data_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="data must be a DataFrame"):
        pdmm.fit(FORMULA, [1, 2])
    with pytest.raises(ValueError, match="data has no rows"):
        pdmm.fit(FORMULA, patients()[:0])
    with pytest.raises(ValueError, match=r"data\['a'\] \(client 'a'\) must be a DataFrame"):
        pdmm.fit(FORMULA, {"a": 3})
    with pytest.raises(ValueError, match="two columns 'age'"):
        pdmm.fit(FORMULA, pd.concat([patients(), patients()[["age"]]], axis=1))


def test_a_formula_of_plain_numbers_makes_the_matrix_that_formulaic_makes() -> None:
    frame = patients().assign(ill=lambda rows: rows.stage > 1)
    for formula in ("died ~ age + bmi + stage", "died ~ bmi + ill - 1", "died ~ 1"):
        fit = pdmm.fit(formula, frame, client="ward")
        encoding = fit.stored.encoding
        expected = np.asarray(encoding._matrix(encoding.read(frame)), dtype=float)
        np.testing.assert_array_equal(encoding.matrix(encoding.read(frame)), expected)
        assert encoding._numbers_alone() is not None
    assert pdmm.fit("died ~ age + sex", frame, "ward").stored.encoding._numbers_alone() is None
