"""What a site's policy says about studies of its table, and what the researcher hears of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm
from builders.study import FakeTables, hospitals, silos, text_of_refusals
from pdmm.engines import Policy
from pdmm.engines.sites.roster import (
    SiteForgotError,
    SiteRefusedError,
    SiteSpentError,
    SiteTableError,
)
from pdmm.study import describe, evaluate, fit
from pdmm.study.connected import Way
from pdmm.tables.silos import Options

TABLE = hospitals(rows=250)
TABLES = silos(TABLE, "site")
FORMULA = "died ~ age + sex"


def policies(**odd: Any) -> dict[str, Policy]:
    """Policies of all sites, the second of which has keys of its own."""
    return {name: Policy(**(odd if name == "h1" else {})) for name in TABLES}


def refusal(policy: Any, formula: str = FORMULA, tables: Any = None, **more: Any) -> str:
    """What the researcher hears, and nothing of why."""
    way = more.pop("way", Way())
    sites = FakeTables(TABLES if tables is None else tables, policy)
    with pytest.raises(SiteRefusedError) as refused:
        fit(sites, formula, Options(**more), way)
    said = str(refused.value)
    assert said.startswith("site h1 refused by policy: what its policy does not allow is in its")
    own = [e.reason for e in sites.sites["h1"].audit.kept if e.outcome == "refused"]
    assert not any(reason in said for reason in own)
    return own[-1]


def test_a_fit_within_the_default_policies() -> None:
    sites = FakeTables(TABLES, Policy())
    found = fit(sites, FORMULA)
    expected = pdmm.fit(FORMULA, TABLE, client="site")
    assert (abs(found.params - expected.params) / expected.bse).max() < 1e-6
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-6)
    assert found.why_no_errors == ""
    # Nothing is said of a site alone.
    assert list(found.sites.index) == ["h0", "h1", "h2", "h3"]
    assert found.sites.shape == (4, 0)
    asked = {verb for _, verb, _ in sites.asked}
    assert "alone" not in asked


def test_a_site_that_keeps_its_hessians() -> None:
    with pytest.warns(UserWarning, match="the estimate is not certified: stopped after round"):
        found = fit(FakeTables(TABLES, policies(hessians="never")), FORMULA)
    expected = pdmm.fit(FORMULA, TABLE, client="site")
    assert (abs(found.params - expected.params) / expected.bse).max() < 1e-4
    said = " ".join(str(found.summary()).replace("\n", " ").split())
    assert 'site h1 has hessians = "never" in the policy' in said
    assert 'site h1 has hessians = "never"' in found.why_no_errors
    with pytest.raises(ValueError, match="site h1"):
        _ = found.bse
    with pytest.raises(ValueError, match="site h1"):
        found.conf_int()


def test_no_hessian_leaves_a_site_that_keeps_it() -> None:
    sites = FakeTables(TABLES, policies(hessians="never"))
    with pytest.warns(UserWarning, match="not certified"):
        fit(sites, FORMULA)
    for name, verb, payload in sites.asked:
        if verb == "statistics":
            assert payload["hessians"] is False, name


def test_hessians_in_the_open_where_sums_are_not_secure() -> None:
    two = {name: TABLES[name] for name in ("h0", "h1")}
    kept = {name: Policy(min_organisations=2, secure_sums="optional") for name in two}
    with pytest.warns(UserWarning, match="not certified"):
        found = fit(FakeTables(two, kept), FORMULA)
    assert "the sums are not secure" in found.why_no_errors
    assert "sites h0 and h1 let leave in secure sums alone" in found.why_no_errors
    free = {
        name: Policy(min_organisations=2, secure_sums="optional", hessians="allowed")
        for name in two
    }
    found = fit(FakeTables(two, free), FORMULA)
    assert np.isfinite(found.bse).all()


@pytest.mark.parametrize(
    ("keys", "formula", "more", "why"),
    [
        ({"columns": ("died", "age")}, FORMULA, {}, "columns does not allow sex"),
        ({"columns": ("died", "age", "sex")}, "died ~ age", {"weights": "often"}, "allow often"),
        ({"columns": ("died", "age")}, "died ~ age + I(income > 5)", {}, "allow income"),
        ({"families": ("gaussian",)}, FORMULA, {}, "the family is binomial"),
        ({"min_rows": 251}, FORMULA, {}, "250 rows, and min_rows is 251"),
        ({"max_parameters_per_row": 0.005}, FORMULA, {}, "max_parameters_per_row"),
        ({"min_rows_per_level": 200}, FORMULA, {}, "levels that stand in fewer than 200 rows"),
        ({"min_rows_per_level": 99}, "died ~ stage", {}, "min_rows_per_level is 99"),
        ({"min_rows_per_cell": 100}, FORMULA + "+ C(stage)", {}, "min_rows_per_cell is 100"),
        ({"max_row_share": 0.01}, FORMULA, {}, "max_row_share is 0.01"),
        ({"min_organisations": 5}, FORMULA, {}, "min_organisations is 5"),
        ({"studies": ("statins",)}, FORMULA, {}, "the study has no name"),
        ({"secure_sums": "always"}, FORMULA, {"way": Way(secure=False)}, 'secure_sums is "always"'),
        ({}, FORMULA, {"way": Way(secure=False)}, 'secure_sums is "auto"'),
        ({"partners": ("00",)}, FORMULA, {}, "partners does not allow"),
        ({"runs_per_day": 0}, FORMULA, {}, "runs_per_day is 0"),
        ({"regularisers": ()}, FORMULA, {"l2": 1.0}, "the regulariser is ElasticNet"),
    ],
)
def test_what_one_policy_refuses(
    keys: dict[str, Any], formula: str, more: dict[str, Any], why: str
) -> None:
    policy = policies(**keys)
    if "way" in more:
        policy = {name: policy[name] if name == "h1" else Policy.open() for name in policy}
    assert why in refusal(policy, formula, **more)


def test_a_study_that_is_consented_to_by_name() -> None:
    sites = FakeTables(TABLES, policies(studies=("statins",)))
    with pytest.raises(SiteRefusedError, match="site h1"):
        fit(sites, FORMULA, way=Way(study="aspirin"))
    assert fit(sites, FORMULA, way=Way(study="statins")).nobs == len(TABLE)
    with pytest.raises(SiteRefusedError, match="site h1"):
        describe(sites)
    assert describe(sites, Way(study="statins")).rows == len(TABLE)


def rare() -> dict[str, pd.DataFrame]:
    tables = silos(hospitals(rows=500), "site")
    tables["h1"].loc[:11, "ward"] = ["tower"] * 7 + ["cellar"] * 5
    return tables


def test_rare_levels_are_refused_or_merged() -> None:
    formula = "died ~ age + ward"
    why = refusal(Policy(), formula, rare())
    assert "stand in fewer than 10 rows, and rare_levels is 'refuse'" in why
    found = fit(FakeTables(rare(), policies(rare_levels="merge")), formula)
    assert found.levels["ward"] == ("(other)", "east", "south", "west")
    table = pd.concat([own.assign(site=name) for name, own in rare().items()])
    merged = table.replace({"ward": {"tower": "(other)", "cellar": "(other)"}})
    expected = pdmm.fit(formula, merged, client="site")
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6)


def test_as_many_numbers_as_the_policy_allows() -> None:
    with pytest.raises(SiteSpentError, match="site h1 allows no more answers about its table"):
        fit(FakeTables(TABLES, policies(max_numbers_out_share=0.01)), FORMULA)


def test_a_study_may_be_repeated_without_end() -> None:
    sites = FakeTables(TABLES, Policy(max_numbers_out_share=0.5))
    first = fit(sites, FORMULA)
    left = dict(sites.sites["h0"].audit.left)
    for _ in range(3):
        again = fit(sites, FORMULA)
    pd.testing.assert_series_equal(again.params, first.params, rtol=1e-8)
    assert dict(sites.sites["h0"].audit.left) == left


# --- sites that do not fit ------------------------------------------------------------------------


def unlike(change: Any) -> dict[str, pd.DataFrame]:
    return {name: change(table) if name == "h1" else table for name, table in TABLES.items()}


UNFIT = [
    (lambda t: t.drop(columns="age"), "its table has no column 'age', which the model needs"),
    (lambda t: t.assign(age="old"), "column 'age' holds words, and numbers at site h0"),
    (lambda t: t.assign(sex=1.5), "column 'sex' holds numbers, and words at site h0"),
    (lambda t: t.assign(age=pd.Timestamp("2020-01-01")), "column 'age' holds dates"),
    (lambda t: t.assign(died=2), "its rows do not suit the family 'binomial'"),
]


@pytest.mark.parametrize(("change", "said"), UNFIT)
def test_a_site_whose_table_does_not_fit_is_named_with_the_column(change: Any, said: str) -> None:
    tables = unlike(change)
    with pytest.raises(SiteTableError, match="site h1: ") as unfit:
        fit(FakeTables(tables, Policy()), FORMULA)
    assert said in str(unfit.value)
    found = fit(FakeTables(tables, Policy()), FORMULA, way=Way(leave_out=True))
    assert list(found.sites.index) == ["h0", "h2", "h3"]
    note = next(note for note in found.notes if note.startswith("site h1 was left out: "))
    assert note.removeprefix("site h1 was left out: ") in said
    expected = pdmm.fit(FORMULA, TABLE[TABLE.site != "h1"], client="site")
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6)


def test_the_report_says_at_the_top_who_was_left_out(tmp_path: Path) -> None:
    tables = unlike(lambda t: t.drop(columns="age"))
    found = fit(FakeTables(tables, Policy()), FORMULA, way=Way(leave_out=True))
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    said = "left out: its table has no column"
    assert said.removeprefix("left out: ") in page
    assert page.index("1 site was left out") < page.index("In short")
    assert said in str(found.summary())


def test_a_site_that_refuses_can_be_left_out_too() -> None:
    found = fit(
        FakeTables(TABLES, policies(columns=("died", "age"))), FORMULA, way=Way(leave_out=True)
    )
    assert "site h1 was left out: refused by policy" in found.notes


def test_too_few_organisations_are_left() -> None:
    """Whoever is left out must not leave two sites, of which each knows the other's part."""
    tables = unlike(lambda t: t.drop(columns="age"))
    tables["h2"] = tables["h2"].drop(columns="age")
    with pytest.raises(SiteRefusedError, match=r"site h\d refused by policy"):
        fit(FakeTables(tables, Policy()), FORMULA, way=Way(leave_out=True))


def test_a_site_is_not_left_out_once_rounds_have_begun() -> None:
    """Its part would be the difference of the sums with it and without it."""
    sites = FakeTables(TABLES, policies(max_numbers_out_share=0.2))
    with pytest.raises(SiteSpentError, match="site h1 allows no more answers"):
        fit(sites, FORMULA, way=Way(leave_out=True))
    verbs = [verb for name, verb, _ in sites.asked if name == "h0"]
    assert verbs.count("survey") == 1
    assert "round" in verbs


def test_a_site_is_not_left_out_once_its_sums_are_known() -> None:
    model = fit(FakeTables(TABLES, Policy()), FORMULA)
    odd = {name: Policy(evaluation_share=0.5) for name in TABLES}
    odd["h1"] = Policy(evaluation_share=0.5, max_numbers_out_share=0.05)
    sites = FakeTables(TABLES, odd)
    with pytest.raises(SiteSpentError, match="site h1 allows no more answers"):
        evaluate(sites, model, Way(leave_out=True))
    assert [verb for name, verb, _ in sites.asked if name == "h0"].count("survey") == 1


@pytest.mark.parametrize(
    "verb", ["kinds", "count", "encode", "hello", "open", "round", "statistics", "columns_total"]
)
def test_a_site_that_loses_its_process_has_the_study_begin_again(verb: str) -> None:
    """The error is none that trying again does not remove: a federation does so by itself."""
    lost: list[str] = []

    def fault(site: str, asked: str, payload: Any) -> None:
        if (site, asked) == ("h1", verb) and not lost:
            lost.append(verb)
            sites.restart("h1")

    sites = FakeTables(TABLES, Policy(), fault)
    with pytest.raises(SiteForgotError, match=r"site h1 has lost its part of the .*begin"):
        fit(sites, FORMULA, Options(l2=1.0, standardise=True), Way(patience=5.0, timeout=1.0))
    assert fit(sites, FORMULA).nobs == len(TABLE)


def test_secure_sums_change_nothing() -> None:
    secure = fit(FakeTables(TABLES), FORMULA)
    plain = fit(FakeTables(TABLES), FORMULA, way=Way(secure=False))
    np.testing.assert_allclose(secure.params, plain.params, rtol=1e-10)
    np.testing.assert_allclose(secure.bse, plain.bse, rtol=1e-10)
    assert any("sums are not secure, as was asked for" in note for note in plain.notes)
    two = FakeTables({name: TABLES[name] for name in ("h0", "h1")})
    with pytest.raises(ValueError, match=r"secure=True: .* and 2 take part"):
        fit(two, FORMULA, way=Way(secure=True))


# --- descriptions ---------------------------------------------------------------------------------


def test_describe() -> None:
    tables = {name: table.copy() for name, table in TABLES.items()}
    tables["h0"].loc[:24, "age"] = np.nan
    tables["h0"]["shoe"] = 43
    tables["h1"].loc[:2, "ward"] = "Xanadu"
    found = describe(FakeTables(tables, Policy()))
    assert found.sites == ("h0", "h1", "h2", "h3")
    assert found.rows == 1000
    assert found.columns.loc["age", "missing"] == pytest.approx(0.025)
    assert found.columns.loc["sex", "levels"] == "female, male"
    assert found.columns.loc["ward", "levels"] == "east, south, west and rare ones"
    assert found.columns.loc["stage", "kind"] == "whole number"
    assert found.elsewhere == {"shoe": ("h0",)}
    assert "Xanadu" not in repr(found) + found.columns.to_string()


def test_describe_says_what_policies_allow() -> None:
    found = describe(FakeTables(TABLES, policies(describes=("columns",))))
    assert found.rows is None
    assert "missing" not in found.columns
    found = describe(FakeTables(TABLES, policies(describes=("columns", "rows"))))
    assert found.rows == 1000
    assert "missing" not in found.columns
    found = describe(FakeTables(TABLES, policies(columns=("age", "sex"))))
    assert list(found.columns.index) == ["age", "sex"]
    found = describe(FakeTables(TABLES, policies(describes=())))
    assert len(found.columns) == 0


def test_describe_stands_in_the_audit() -> None:
    sites = FakeTables(TABLES, Policy())
    describe(sites)
    verbs = [entry.verb for entry in sites.sites["h2"].audit.kept]
    assert {"survey", "describe", "rows"} <= set(verbs)


# --- files ----------------------------------------------------------------------------------------


def test_a_file_is_read_once_in_a_study_and_may_change_between(tmp_path: Path) -> None:
    paths = {}
    for name, own in TABLES.items():
        paths[name] = tmp_path / f"{name}.csv"
        own.to_csv(paths[name], index=False)
    changed = TABLES["h1"].assign(age=TABLES["h1"].age + 1)

    def change(site: str, verb: str, payload: Any) -> None:
        if verb == "encode":  # in the midst of a study
            changed.to_csv(paths["h1"], index=False)

    sites = FakeTables(paths, Policy(), change)
    first = fit(sites, FORMULA)
    expected = pdmm.fit(FORMULA, TABLE, client="site")
    np.testing.assert_allclose(first.params, expected.params, rtol=1e-6)
    second = fit(sites, FORMULA)
    tables = pd.concat([own.assign(site=name) for name, own in (TABLES | {"h1": changed}).items()])
    expected = pdmm.fit(FORMULA, tables, client="site")
    np.testing.assert_allclose(second.params, expected.params, rtol=1e-6)
    for name, many in (("h0", 1), ("h1", 2)):
        notes = [e.reason for e in sites.sites[name].audit.kept if "SHA-256" in e.reason]
        assert len(notes) == 2
        assert len(set(notes)) == many


def test_no_refusal_and_no_error_tells_a_value() -> None:
    """Values that stand in one row alone, in a table with everything wrong."""
    table = TABLES["h1"].copy()
    table["age"] = table["age"].astype(object)
    table.loc[3, "sex"] = "Zebulon"
    table.loc[4, "died"] = 987654
    table.loc[5, "income"] = -123456.75
    table.loc[6, "visits"] = -777
    table.loc[7, "ward"] = "Xanadu"
    tables = TABLES | {"h1": table}
    heard = []
    asked: list[tuple[str, dict[str, Any]]] = [
        ("died ~ age + sex", {}),
        ("died ~ age", {}),
        ("stage ~ log(income)", {"family": "gaussian"}),
        ("visits ~ age", {"family": "poisson"}),
        ("event ~ ward", {}),
        ("event ~ C(ward, Treatment('Xanadu'))", {}),
        ("cost ~ 1", {"weights": "income", "family": "gamma"}),
        ("Surv(visits + 1, event) ~ age", {"family": "cox"}),
        ("sex ~ age", {"family": "multinomial"}),
        ("sex ~ age", {}),
        ("income ~ age", {"family": "gamma"}),
    ]
    for formula, more in asked:
        sites = FakeTables(tables, Policy())
        with pytest.raises(ValueError, match=r"h1|determined") as wrong:
            fit(sites, formula, Options(**more))
        heard.append(str(wrong.value))
    for secret in ("Zebulon", "987654", "123456", "777", "Xanadu"):
        said = [text for text in heard if secret in text]
        assert not [t for t in said if "Treatment" not in t], said


def test_an_evaluation_is_in_the_audit_and_within_the_policy() -> None:
    model = fit(FakeTables(TABLES, Policy()), FORMULA)
    sites = FakeTables(TABLES, Policy(evaluation_share=0.5))
    evaluate(sites, model)
    kept = sites.sites["h0"].audit.kept
    assert {"evaluation", "evaluation_more", "calibration"} <= {entry.verb for entry in kept}
    assert {e.part for e in kept if e.verb == "evaluation"} == {"evaluation"}
    for keys in ({"columns": ("died", "age")}, {"families": ("gaussian",)}, {"studies": ("a",)}):
        odd = {name: Policy(evaluation_share=0.5) for name in TABLES}
        odd["h1"] = Policy(evaluation_share=0.5, **keys)
        with pytest.raises(SiteRefusedError, match="site h1"):
            evaluate(FakeTables(TABLES, odd), model)
    assert "SHA" not in text_of_refusals(sites)
