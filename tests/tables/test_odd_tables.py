"""Formulas and tables as strangers bring them: each fit beside the pooled one, or a sentence."""

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
