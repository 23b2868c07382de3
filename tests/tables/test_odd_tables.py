"""Formulas and tables as strangers bring them: each fit beside the pooled one, or a sentence."""

import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from test_agreement import patients

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
