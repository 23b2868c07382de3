"""Formulas and tables as strangers bring them: each fit beside the pooled one, or a sentence."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from test_agreement import patients, same, silos

import pdmm


@pytest.mark.parametrize(
    "right", ["0 + age", "age - 1", "-1 + sex + age", "0 + C(stage):age", "bmi + sex - 1"]
)
def test_a_formula_without_an_intercept_has_none(right: str) -> None:
    table = patients()
    fit = pdmm.fit(f"died ~ {right}", table, client="ward")
    theirs = smf.glm(f"died ~ {right}", table, family=sm.families.Binomial()).fit(tol=1e-12)
    assert "Intercept" not in fit.params
    expected = theirs.params[fit.params.index]
    pd.testing.assert_series_equal(fit.params, expected, rtol=1e-7)
    pd.testing.assert_series_equal(fit.bse, theirs.bse[fit.params.index], rtol=1e-7)
    assert fit.llf == pytest.approx(theirs.llf, rel=1e-10)
    pd.testing.assert_series_equal(
        fit.predict(table), theirs.predict(table), rtol=1e-7, check_names=False
    )


@pytest.mark.parametrize("ward", ["east", "north", "west"])
@pytest.mark.parametrize("formula", ["died ~ age + C(smokes)", "died ~ smokes", "smokes ~ age"])
def test_true_and_false_with_a_missing_entry_at_one_client(formula: str, ward: str) -> None:
    table = patients().assign(smokes=lambda f: f.bmi > 26)
    own = silos(table)
    first = own[ward].index[0]
    own[ward]["smokes"] = own[ward]["smokes"].astype(object)
    own[ward].loc[first, "smokes"] = None
    fit = pdmm.fit(formula, own, missing="drop")
    complete = table.drop(index=first)
    expected = pdmm.fit(formula, complete, client="ward")
    same(fit, expected)
    lacking = table.assign(smokes=table.smokes.astype(object).where(table.index != first))
    found = fit.predict(lacking).drop(index=first)
    np.testing.assert_allclose(found, expected.predict(complete), rtol=1e-9)


def test_new_rows_may_be_fractions_of_whole_numbers() -> None:
    fit = pdmm.fit("died ~ stage + smokes", patients().assign(smokes=lambda f: f.bmi > 26))
    new = pd.DataFrame({"stage": [1.0, 1.5, 2.0], "smokes": [0.5, 0.5, 0.5]})
    eta = fit.predict_linear(new)
    assert eta[1] == pytest.approx((eta[0] + eta[2]) / 2)
    by_hand = fit.params["Intercept"] + 1.5 * fit.params["stage"] + 0.5 * fit.params["smokes"]
    assert eta[1] == pytest.approx(by_hand)


def test_a_category_of_numbers_is_never_a_mean() -> None:
    table = patients()
    lacking = table.assign(stage=table.stage.where(table.index != 7))
    fit = pdmm.fit("died ~ age + C(stage)", lacking, client="ward", missing="mean")
    same(fit, pdmm.fit("died ~ age + C(stage)", lacking, client="ward", missing="drop"))


def test_new_rows_of_another_kind_are_refused() -> None:
    table = patients()
    fit = pdmm.fit("died ~ age + sex", table, client="ward")
    for age, words in (("old", "words"), (pd.Timestamp("2020-01-01"), "dates")):
        new = table.assign(age=age)
        for ask in (fit.predict, fit.evaluate):
            with pytest.raises(ValueError, match=f"column 'age' of the table holds {words}"):
                ask(new)
    with pytest.raises(ValueError, match="column 'age' of the table holds words"):
        fit.predict(table.assign(age=pd.Categorical(["old"] * len(table))))
    with pytest.raises(ValueError, match="column 'sex' of the table holds dates"):
        fit.predict(table.assign(sex=pd.Timestamp("2020-01-01")))
    text = fit.predict(table.assign(age=table.age.map(str)))
    np.testing.assert_allclose(text, fit.predict(table))


@pytest.mark.parametrize("name", ["Treatment", "Sum", "C", "np", "scale", "exp"])
def test_columns_may_have_the_names_of_functions(name: str) -> None:
    table = patients()
    expected = pdmm.fit("died ~ age + bmi", table, client="ward", weights="stage")
    renamed = table.rename(columns={"age": name})
    found = pdmm.fit(f"died ~ {name} + bmi", renamed, client="ward", weights="stage")
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-10)
    weighted = table.rename(columns={"stage": name})
    found = pdmm.fit("died ~ age + bmi", weighted, client="ward", weights=name)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-10)


def test_a_coding_without_a_call_is_no_column() -> None:
    table = patients()
    plain = pdmm.fit("died ~ C(stage, Sum())", table, client="ward")
    for right in ("C(stage, Sum)", "C(stage, contrasts=Sum)"):
        fit = pdmm.fit(f"died ~ {right}", table, client="ward")
        np.testing.assert_allclose(fit.params, plain.params, rtol=1e-10)


SENTENCES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "a word of Python": ("died ~ `class`", {"class": 1.0}, {}, r"write Q\('class'\)"),
    "Intercept": ("died ~ Intercept", {"Intercept": 1.0}, {}, "'Intercept' .* rename it"),
    "Treatment": ("died ~ C(stage, Treatment)", {}, {}, "Treatment without a reference level"),
    "outcome": ("stage ~ age", {}, {}, "^the outcome 'stage' of client 'east' has [23] in row"),
    "negative": ("died ~ age", {"n": -1}, {"weights": "n"}, "^the weight of client 'east' has -1"),
    "array": ("died ~ age", {}, {"weights": np.ones(240)}, "weights must be the name .* ndarray"),
    "number": ("died ~ age", {}, {"offset": 3}, "offset must be the name of a column"),
    "absent": ("died ~ age", {}, {"offset": "x"}, "a column 'x', which the model needs"),
    "events": ("Surv(age, died) ~ bmi", {"died": 0}, {"family": "cox"}, "has the event 'died'"),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_sentences_name_what_the_user_gave(case: str) -> None:
    formula, columns, options, words = SENTENCES[case]
    with pytest.raises(ValueError, match=words):
        pdmm.fit(formula, patients().assign(**columns), client="ward", **options)


def test_a_file_with_another_separator_is_said_to_lack_columns(tmp_path: Path) -> None:
    patients().to_csv(tmp_path / "all.csv", sep=";", index=False)
    with pytest.raises(
        ValueError, match=r"none of the columns 'died', 'age', 'ward': it has 'age;"
    ):
        pdmm.fit("died ~ age", tmp_path / "all.csv", client="ward")


@pytest.mark.parametrize("version", [1, True, -3, None])
def test_a_file_that_is_no_model_is_refused_whatever_its_head(tmp_path: Path, version: Any) -> None:
    head = {
        "format": "pdmm model",
        "version": version,
        "sha256": hashlib.sha256(b"{}").hexdigest(),
    }
    (tmp_path / "no.pdmm").write_text(json.dumps(head) + "\n{}\n")
    with pytest.raises(ValueError, match=r"no.pdmm is no model file of pdmm"):
        pdmm.load(tmp_path / "no.pdmm")


def test_tests_are_of_coefficients_and_of_the_same_outcome() -> None:
    table = patients().assign(ill=lambda f: (f.bmi > 26).astype(int))
    large = pdmm.fit("died ~ age + sex", table, client="ward")
    with pytest.raises(ValueError, match=r"\['agee'\] are no coefficients"):
        large.wald_test(["age", "agee"])
    for small in (
        pdmm.fit("ill ~ age", table, client="ward"),
        pdmm.fit("died ~ age", table, client="ward", offset="bmi / 100"),
    ):
        for test in (large.compare_lr_test, large.compare_wald_test):
            with pytest.raises(ValueError, match="the outcome, the offset and the weights must"):
                test(small)


def test_clients_have_one_name_in_all_tables() -> None:
    table = patients().assign(ward=lambda f: f.ward.map({"east": 1.0, "north": 2.0, "west": 3.0}))
    fit = pdmm.fit("died ~ age", table, client="ward")
    assert list(fit.sites.index) == ["1", "2", "3"]
    assert list(fit.evaluate(table).index) == ["all", "1", "2", "3"]


def test_an_intercept_alone_has_no_pipeline() -> None:
    fit = pdmm.fit("died ~ 1", patients(), client="ward")
    with pytest.raises(ValueError, match="has an intercept alone"):
        fit.to_sklearn()


def test_predictions_are_of_tables() -> None:
    fit = pdmm.fit("died ~ age", patients(), client="ward")
    with pytest.raises(ValueError, match="predictions need a DataFrame, got dict"):
        fit.predict({"age": 3})


def test_rows_of_weight_0_are_as_good_as_absent() -> None:
    table = patients().assign(n=lambda f: np.where(f.ward == "west", 0, 1 + f.stage % 2))
    table.loc[table.index[:5], ["n", "sex"]] = [0, "unknown"]
    fit = pdmm.fit("died ~ age + sex", table, client="ward", weights="n")
    same(fit, pdmm.fit("died ~ age + sex", table[table.n > 0], client="ward", weights="n"))
    assert fit.levels == {"sex": ("f", "m")}
    assert fit.sites.loc["west", ["rows", "dropped"]].tolist() == [0, 0]
    assert fit.nobs == table.n.sum()


def test_what_all_rows_of_a_stratum_share_has_no_effect() -> None:
    table = patients().assign(days=lambda f: f.age, ward=lambda f: f.ward)
    with pytest.raises(ValueError, match="is constant within every client"):
        pdmm.fit("Surv(days, died) ~ bmi + C(ward)", table, client="ward", family="cox")


def test_intervals_need_a_number() -> None:
    fit = pdmm.fit("died ~ age", patients(), client="ward")
    with pytest.raises(ValueError, match="alpha must be a number"):
        fit.conf_int("a")  # type: ignore[arg-type]
