"""What a researcher cannot ask by a formula, and what the rules against it leave alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.study import FakeTables, hospitals, silos, text_of_refusals
from pdmm.engines import Policy
from pdmm.engines.sites.roster import SiteError, SiteRefusedError, SiteSpentError, SiteTableError
from pdmm.study import evaluate, fit
from pdmm.study.lonely_rows import shares
from pdmm.tables.silos import Options

TABLE = hospitals(rows=250)
VICTIM = 30  # a row of h0, aged as nobody else


def with_victim() -> pd.DataFrame:
    table = TABLE.copy()
    table.loc[VICTIM, "age"] = 103.25
    table.loc[VICTIM, "pressure"] = 171.23
    return table


PLAIN = [
    ("died ~ I(age > 65)", {}),
    ("died ~ log(income)", {}),
    ("died ~ income", {}),
    ("died ~ age + I(age**2)", {}),
    ("died ~ C(sex):age", {}),
    ("died ~ age * sex + C(stage)", {}),
    ("died ~ poly(age, 3, raw=True)", {}),
    ("died ~ bs(age, knots=[50, 60, 70], lower_bound=10, upper_bound=110)", {}),
    ("died ~ 0 + cr(age, knots=[45, 55, 65, 75], lower_bound=10, upper_bound=110)", {}),
    ("died ~ scale(age) + center(log(income))", {}),
    ("died ~ where(age > 65, age - 65, 0) + age", {}),
    ("died ~ clip(age, 30, 90)", {"weights": "often"}),
    ("log(cost) ~ age", {"family": "gaussian"}),
    ("cost ~ age", {"family": "gamma"}),
    ("I(visits > 1) ~ age", {}),
    ("visits ~ age + sex", {"family": "poisson", "offset": "log(years)"}),
    ("Surv(time, event) ~ age + sex", {"family": "cox"}),
]


@pytest.mark.parametrize(("formula", "more"), PLAIN)
def test_ordinary_formulas_are_not_refused(formula: str, more: dict[str, Any]) -> None:
    sites = FakeTables(silos(TABLE, "site"), Policy())
    found = fit(sites, formula, Options(**more))
    assert np.isfinite(found.bse).all()
    assert text_of_refusals(sites).count("the formula is") == 4  # and no refusal


ALONE = [
    ("died ~ I(age == 103.25)", {}),
    ("died ~ I((age > 103) & (age < 104))", {}),
    ("died ~ where(age == 103.25, 1, 0)", {}),
    ("died ~ I(age == 103.25):pressure", {}),
    ("died ~ maximum(age, 103)", {}),
    ("died ~ exp(5 * (age - 103))", {}),
    ("died ~ I((age / 100) ** 200)", {}),
    ("died ~ I(1 / (age - 103.2501))", {}),
    ("died ~ where(age > 103, age, age / 1e9)", {}),
    ("died ~ I(exp(-1e3 * (age - 103.25) ** 2) + 1e-12 * income)", {}),
    ("died ~ pressure + where(age == 103.25, 0, pressure)", {}),
    ("died ~ pressure + where(age == 103.25, pressure + 1e-6, pressure)", {}),
    ("died ~ income + where(age == 103.25, income / 2, income)", {}),
    ("died ~ scale(exp(3 * (age - 103)))", {}),
    ("died ~ C(where(age == 103.25, 'a', sex))", {}),
    ("died ~ bs(age, knots=[60, 103], lower_bound=0, upper_bound=120)", {}),
    ("I(age == 103.25) ~ sex + pressure", {"family": "gaussian"}),
    ("where(age == 103.25, 1, 0) ~ sex + pressure", {"family": "gaussian"}),
    ("exp(3 * (age - 103)) ~ sex + pressure", {"family": "gaussian"}),
    ("where(age == 103.25, 1000, years) ~ sex", {"family": "gamma"}),
    ("Surv(time, where(age == 103.25, 1, 0)) ~ pressure", {"family": "cox"}),
    ("pressure ~ sex", {"family": "gaussian", "offset": "where(age == 103.25, 1, 0)"}),
    ("pressure ~ sex", {"family": "gaussian", "offset": "exp(3 * (age - 103))"}),
    ("pressure ~ sex", {"family": "gaussian", "weights": "where(age == 103.25, 1, 1e-9)"}),
    ("pressure ~ sex", {"family": "gaussian", "weights": "1 - I(age == 103.25)"}),
    ("pressure ~ sex", {"family": "gaussian", "weights": "where(age == 103.25, 0.5, 1)"}),
    ("died ~ log(103 - age)", {"missing": "drop"}),
    ("died ~ I(age == 103.25):sex", {"l2": 1.0}),
]


@pytest.mark.parametrize(("formula", "more"), ALONE)
def test_no_expression_is_about_one_row(formula: str, more: dict[str, Any]) -> None:
    sites = FakeTables(silos(with_victim(), "site"), Policy())
    with pytest.raises(SiteRefusedError, match=r"site h\d refused by policy.*Perhaps") as refused:
        fit(sites, formula, Options(**more))
    for secret in ("103.25", "171.23"):
        assert secret not in str(refused.value)
    assert any(entry.counts for entry in sites.sites["h0"].audit.kept)


FEW = [
    ("died ~ I(age > 101)", {}),
    ("where(age > 101, 1, 0) ~ sex + pressure", {"family": "gaussian"}),
    ("Surv(time, where(age > 101, 1, 0)) ~ pressure", {"family": "cox"}),
    ("pressure ~ sex", {"family": "gaussian", "offset": "where(age > 101, 1, 0)"}),
    ("pressure ~ sex", {"family": "gaussian", "weights": "where(age > 101, 2, 1)"}),
    ("odd ~ sex + pressure", {}),  # an outcome that hardly occurs, though nobody has made it
]


@pytest.mark.parametrize(("formula", "more"), FEW)
def test_no_expression_is_about_a_few_rows(formula: str, more: dict[str, Any]) -> None:
    table = TABLE.assign(odd=TABLE.died)
    table.loc[:249, "odd"] = 0
    table.loc[20:24, ["age", "odd"]] = [[102.0 + k, 1] for k in range(5)]
    sites = FakeTables(silos(table, "site"), Policy())
    with pytest.raises(SiteRefusedError, match="site h0 refused by policy"):
        fit(sites, formula, Options(**more))
    assert "5 rows, and min_rows_per_level is 10" in text_of_refusals(sites)


def test_few_outcomes_among_the_rows_that_are_set_aside() -> None:
    """How many there are of a column of the table is no question that the researcher has made."""
    table = TABLE.assign(died=0)
    table.loc[::125, "died"] = 1
    found = evaluate(
        FakeTables(silos(table, "site"), Policy(evaluation_share=1.0)),
        fit(FakeTables(silos(TABLE, "site"), Policy()), "died ~ age + sex"),
    )
    assert found.measures["observed"] * found.measures["rows"] == pytest.approx(8)


def test_an_error_that_depends_on_a_row_counts_as_a_refusal() -> None:
    for formula, family in (
        ("died ~ I(1 / (age - 103.25))", "binomial"),
        ("where(age == 103.25, 0 - 1, visits) ~ sex", "poisson"),
    ):
        sites = FakeTables(silos(with_victim(), "site"), Policy())
        with pytest.raises(SiteError, match="site h0") as failed:
            fit(sites, formula, Options(family=family))
        assert isinstance(failed.value, SiteTableError)
        assert sites.sites["h0"].audit.refused_today() == 1


def test_a_refusal_of_plain_columns_does_not_count() -> None:
    table = TABLE.copy()
    table.loc[VICTIM, "sex"] = "other"
    sites = FakeTables(silos(table, "site"), Policy())
    with pytest.raises(SiteRefusedError, match="put levels together"):
        fit(sites, "died ~ age + sex")
    assert sites.sites["h0"].audit.refused_today() == 0


def test_refusals_cannot_be_asked_for_without_end() -> None:
    """Whether somebody is 103.25 years old would follow from whether it is refused."""
    sites = FakeTables(silos(with_victim(), "site"), Policy(runs_per_day=1000))
    for k in range(3):
        with pytest.raises(SiteRefusedError):
            fit(sites, f"died ~ I((age == 103.25) & (income > {k}))")
    with pytest.raises(SiteRefusedError, match=r"site h0 .* enough for today"):
        fit(sites, "died ~ sex")


def test_folds_of_other_seeds_are_not_asked_for_without_end() -> None:
    """Which rows a fold has follows from the seed: sums over enough folds would tell each row."""
    sites = FakeTables(silos(TABLE, "site"), Policy(runs_per_day=1000))
    spent = 0
    for seed in range(5):
        options = Options(family="gaussian", l2="cv", folds=10, penalties=2, seed=seed)
        try:
            fit(sites, "pressure ~ age", options)
        except SiteSpentError:
            spent += 1
    assert 0 < spent < 5
    site = sites.sites["h0"]
    assert site.audit.left[""] <= site.policy.max_numbers_out_share * 250 * 2


def test_formulas_are_in_the_audit() -> None:
    sites = FakeTables(silos(TABLE, "site"), Policy())
    fit(sites, "visits ~ age", Options(family="poisson", offset="log(years)"))
    said = text_of_refusals(sites)
    assert "the formula is 'visits ~ age', and 'log(years)'" in said


def test_a_share_does_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(60, 3))
    expected = np.linalg.qr(np.column_stack([np.ones(60), columns]))[0]
    own = shares(columns * [1e-200, 1.0, 1e200])
    np.testing.assert_allclose(own, (expected**2).sum(axis=1), rtol=1e-9)
    doubled = shares(np.column_stack([columns, columns @ [1, 2, 3], np.zeros(60)]))
    np.testing.assert_allclose(doubled, own, rtol=1e-9)


# --- models made by hand --------------------------------------------------------------------------


def made_by_hand(formula: str, x: Any = None, **more: Any) -> Any:
    """A model as somebody may write one, with the coefficients that they like."""
    found = fit(FakeTables(silos(with_victim(), "site")), formula, Options(l2=1.0, **more))
    if x is None:
        return found
    return type(found)(replace(found.stored, x=np.asarray(x, dtype=float)))


@pytest.mark.parametrize(
    ("formula", "x", "more"),
    [
        ("died ~ where(age == 103.25, 1, 0)", [50.0, 0.0], {}),
        ("died ~ I((age == 103.25) * 100 + years / 1e9)", [0.5, 0.0], {}),
        ("died ~ pressure + where(age == 103.25, pressure + 1, pressure)", [-40.0, 40.0, 0.0], {}),
        ("died ~ exp(3 * (age - 103))", [30.0, 0.0], {}),
        ("where(age == 103.25, 1, 0) ~ pressure", None, {"family": "gaussian"}),
        ("died ~ years", [0.0, 0.0], {"offset": "where(age == 103.25, 50, 0)"}),
    ],
)
def test_a_model_made_by_hand_says_nothing_of_the_row_that_it_is_about(
    formula: str, x: Any, more: dict[str, Any]
) -> None:
    """The victim is set aside, and what is told is what would be told without its row."""
    model = made_by_hand(formula, x, **more)
    with_them = with_victim()
    told = []
    for table in (with_them, with_them.drop(index=VICTIM)):
        sites = FakeTables(silos(table, "site"), Policy(evaluation_share=1.0))
        told.append(evaluate(sites, model).measures)
    assert told[0]["rows"] == told[1]["rows"]
    assert told[0] == pytest.approx(told[1], rel=1e-12, nan_ok=True)


def test_a_model_made_by_hand_whose_weights_are_about_one_row_is_refused() -> None:
    model = made_by_hand("died ~ years", weights="where(age == 103.25, 1, 1e-9)")
    sites = FakeTables(silos(with_victim(), "site"), Policy(evaluation_share=1.0))
    with pytest.raises(SiteRefusedError, match="refused by policy"):
        evaluate(sites, model)
    assert sites.sites["h0"].audit.refused_today() == 1
