"""Fits over sites with secure sums are those of one table, whatever the formula."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import pdmm
from builders.study import FakeTables, hospitals, silos, with_gaps
from pdmm.study import fit
from pdmm.tables import Fit
from pdmm.tables.silos import Options
from pdmm.tables.stored import Together

TABLE = hospitals()
SECURE = "sums are secure: the server read sums over 4 organisations alone"


def joint(formula: str, table: pd.DataFrame = TABLE, label: str | None = None, **more: Any) -> Fit:
    """The fit over four sites in this process."""
    return fit(FakeTables(silos(table, "site")), formula, Options(**more), label=label)


def together(found: Fit) -> Together:
    assert found.stored.together is not None
    return found.stored.together


def assert_same(found: Any, params: Any, errors: Any) -> None:
    """Estimates to 1e-6 standard errors, and standard errors to 1e-6 of themselves."""
    off = np.abs(np.asarray(found.params) - np.asarray(params)) / np.asarray(errors)
    assert off.max() < 1e-6
    np.testing.assert_allclose(found.bse, errors, rtol=1e-6)


FORMULAS = [
    ("died ~ age + C(sex) + ward", {}),
    ("died ~ age + income + marker", {}),
    ("died ~ age * sex + C(stage)", {"covariance": "robust"}),
    ("died ~ log(income) + I(age > 65) + C(sex):age", {}),
    ("died ~ poly(age, 3, raw=True) + sqrt(income)", {}),
    ("died ~ bs(age, knots=[50, 60, 70], lower_bound=10, upper_bound=110)", {}),
    ("died ~ scale(age) + center(log(income)) + C(ward, Sum)", {}),
    ("died ~ age + sex", {"weights": "often"}),
    ("died ~ age + I(age**2)", {"covariance": "client"}),
    ("died ~ .", {}),
    ("pressure ~ age + income + marker + sex * ward", {"family": "gaussian"}),
    ("pressure ~ age + sex", {"family": "gaussian", "weights": "often", "covariance": "robust"}),
    ("pressure ~ age + sex", {"family": pdmm.Huber(10.0), "covariance": "robust"}),
    ("visits ~ age + sex", {"family": "poisson", "offset": "np.log(years)"}),
    ("visits ~ age + sex", {"family": "poisson", "scale": "pearson"}),
    ("cost ~ age + ward", {"family": "gamma"}),
    ("health ~ age + sex", {"family": "multinomial", "reference": "good"}),
    ("Surv(time, event) ~ age + sex", {"family": "cox"}),
    ("Surv(time, event) ~ age + log(income)", {"family": "cox", "ties": "breslow"}),
]


@pytest.mark.parametrize(("formula", "more"), FORMULAS)
def test_every_model_is_that_of_one_process(formula: str, more: dict[str, Any]) -> None:
    table = TABLE
    if formula.endswith("."):
        table = TABLE[["site", "died", "age", "sex", "income"]]
    found = joint(formula, table, **more)
    expected = pdmm.fit(formula, table, client="site", **more)
    assert found.params.index.equals(expected.params.index)
    assert_same(found, expected.params, expected.bse)
    assert found.nobs == expected.nobs
    assert found.llf == pytest.approx(expected.llf, rel=1e-9, nan_ok=True)
    assert found.deviance == pytest.approx(expected.deviance, rel=1e-8)
    assert SECURE in found.notes


REFERENCES = [
    ("died ~ age + C(sex) + ward", "binomial", sm.families.Binomial()),
    ("died ~ age + income + marker", "binomial", sm.families.Binomial()),
    ("pressure ~ age * sex + np.log(income)", "gaussian", sm.families.Gaussian()),
    ("visits ~ age + I(age > 65)", "poisson", sm.families.Poisson()),
    ("cost ~ age + ward", "gamma", sm.families.Gamma(sm.families.links.Log())),
]


@pytest.mark.parametrize(("formula", "family", "theirs"), REFERENCES)
def test_it_is_the_pooled_fit_of_statsmodels(formula: str, family: str, theirs: Any) -> None:
    found = joint(formula, family=family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = smf.glm(formula, TABLE, family=theirs).fit(tol=1e-14, maxiter=200)
    # Scales of 1e6 and 1e-6 cost statsmodels digits, which a scaled table does not.
    order = [name.replace("[T.True]", "") for name in expected.params.index]
    assert sorted(order) == sorted(found.params.index)
    theirs_now = pd.Series(expected.params.to_numpy(), order)[found.params.index]
    errors = pd.Series(expected.bse.to_numpy(), order)[found.params.index]
    assert_same(found, theirs_now, errors)


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_missing_values(missing: Any) -> None:
    table = with_gaps(TABLE)
    if missing == "mean":
        table["sex"] = TABLE["sex"]
    formula = "died ~ age + sex + log(income)"
    found = joint(formula, table, missing=missing)
    expected = pdmm.fit(formula, table, client="site", missing=missing)
    assert_same(found, expected.params, expected.bse)
    dropped = together(found).dropped
    assert dropped == together(expected).dropped
    assert (dropped > 0) == (missing == "drop")


def test_missing_values_are_refused_by_the_column() -> None:
    with pytest.raises(ValueError, match=r"site h\d: some rows have no 'age': give missing='drop'"):
        joint("died ~ age", with_gaps(TABLE))


@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_a_column_of_the_site_can_stand_in_the_formula(missing: Any) -> None:
    found = joint("died ~ age + C(site)", TABLE, label="site", missing=missing)
    expected = pdmm.fit("died ~ age + C(site)", TABLE, client="site", missing=missing)
    assert_same(found, expected.params, expected.bse)


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{"l2": 3.0}, {"l1": 2.0, "standardise": True}, {"l1": 1, "l2": 1}]
)
@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_penalties_that_are_given(more: dict[str, Any], family: str) -> None:
    formula = "died ~ age + sex + ward + log(income)"
    found = joint(formula, family=family, **more)
    expected = pdmm.fit(formula, TABLE, client="site", family=family, **more)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6, atol=1e-9)


def test_the_sites_are_compared_where_all_policies_allow_it() -> None:
    found = joint("died ~ age + sex")
    expected = pdmm.fit("died ~ age + sex", TABLE, client="site")
    pd.testing.assert_frame_equal(
        found.sites.sort_index(),
        expected.sites.sort_index(),
        check_dtype=False,
        check_like=True,
        check_names=False,
        rtol=1e-6,
    )


def test_a_model_file_and_a_report_are_made(tmp_path: Any) -> None:
    found = joint("died ~ age + sex")
    again = pdmm.load(found.save(tmp_path / "model.pdmm"))
    pd.testing.assert_series_equal(again.params, found.params)
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "4 organisations" in page
