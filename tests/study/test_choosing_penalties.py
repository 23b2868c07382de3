"""Cross-validation over sites: the penalties that one process would choose."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm
from builders.study import FakeTables, hospitals, silos
from pdmm.engines import Policy
from pdmm.engines.sites.roster import SiteRefusedError
from pdmm.study import fit
from pdmm.tables.silos import Options

TABLE = hospitals(rows=150)
TABLES = silos(TABLE, "site")
FORMULA = "died ~ age + sex + log(income) + C(stage)"


@pytest.mark.parametrize(
    "more",
    [
        {"l2": "cv"},
        {"l1": "cv", "standardise": True},
        {"l2": "cv", "folds": "client"},
        {"l1": "cv", "family": "gaussian"},
        pytest.param({"l2": "cv", "family": "gaussian", "folds": "client"}, marks=pytest.mark.slow),
        pytest.param(
            {"l2": "cv", "folds": 3, "seed": 7, "weights": "often"}, marks=pytest.mark.slow
        ),
    ],
)
def test_the_choice_is_that_of_one_process(more: dict[str, Any]) -> None:
    """Sites draw their folds by the seed and their names, as clients do."""
    more = {"penalties": 8} | more
    found = fit(FakeTables(TABLES), FORMULA, Options(**more))
    expected = pdmm.fit(FORMULA, TABLE, client="site", **more)
    assert found.penalty == pytest.approx(expected.penalty, rel=1e-6)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-5, atol=1e-8)
    assert found.path is not None
    assert expected.path is not None
    pd.testing.assert_series_equal(found.path["loss"], expected.path["loss"], rtol=1e-6)
    assert found.path["nonzero"].equals(expected.path["nonzero"])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "outcome"), [("poisson", "visits"), ("gamma", "cost")])
def test_other_families(family: str, outcome: str) -> None:
    more: dict[str, Any] = {"l2": "cv", "penalties": 5, "folds": 3, "family": family}
    found = fit(FakeTables(TABLES), f"{outcome} ~ age + sex", Options(**more))
    expected = pdmm.fit(f"{outcome} ~ age + sex", TABLE, client="site", **more)
    assert found.penalty == pytest.approx(expected.penalty, rel=1e-6)


@pytest.mark.slow
def test_cox() -> None:
    more: dict[str, Any] = {"l2": "cv", "penalties": 5, "folds": 3, "family": "cox"}
    formula = "Surv(time, event) ~ age + sex"
    found = fit(FakeTables(TABLES), formula, Options(**more))
    expected = pdmm.fit(formula, TABLE, client="site", **more)
    assert found.penalty == pytest.approx(expected.penalty, rel=1e-6)


def test_leaving_out_a_site_needs_all_policies() -> None:
    telling: dict[str, Any] = {"per_site_results": True, "max_numbers_out_share": 50.0}
    policy = {name: Policy(**telling) for name in TABLES}
    more = Options(l2="cv", penalties=4, folds="client")
    assert "leave-one-client-out" in " ".join(fit(FakeTables(TABLES, policy), FORMULA, more).notes)
    policy["h2"] = Policy(max_numbers_out_share=50.0)
    with pytest.raises(ValueError, match=r"folds='client' .* give a number of folds"):
        fit(FakeTables(TABLES, policy), FORMULA, more)


def test_folds_with_few_rows_are_refused_with_advice() -> None:
    with pytest.raises(SiteRefusedError, match=r"Perhaps .*fewer folds"):
        fit(FakeTables(TABLES, Policy()), FORMULA, Options(l2="cv", folds=16, penalties=4))


def test_a_site_that_keeps_its_hessians() -> None:
    policy = {name: Policy(hessians="never" if name == "h1" else "secure") for name in TABLES}
    with pytest.raises(ValueError, match=r"h1"):
        fit(FakeTables(TABLES, policy), FORMULA, Options(l2="cv", penalties=4))
