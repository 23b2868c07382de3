"""What a fit says of new rows and of its clients, and its tests."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from test_agreement import FORMULA, patients
from test_table_references import survival

import pdmm
from pdmm.tables.evaluation import concordance


def test_files_of_every_kind_give_the_same(tmp_path: Path) -> None:
    table = patients()
    expected = pdmm.fit(FORMULA, table, client="ward")
    table.to_csv(tmp_path / "all.csv", index=False)
    table.to_csv(tmp_path / "all.csv.gz", index=False)
    table.to_csv(tmp_path / "all.tsv", index=False, sep="\t")
    table.to_parquet(tmp_path / "all.parquet")
    for name in ("all.csv", "all.csv.gz", "all.tsv", "all.parquet"):
        found = pdmm.fit(FORMULA, tmp_path / name, client="ward")
        pd.testing.assert_series_equal(found.params, expected.params, rtol=1e-12)
        assert list(found.sites.index) == ["east", "north", "west"]
    paths = []
    for ward, own in table.groupby("ward"):
        paths.append(str(tmp_path / f"{ward}.csv"))
        own.drop(columns="ward").to_csv(paths[-1], index=False)
    found = pdmm.fit(FORMULA, paths)
    pd.testing.assert_series_equal(found.params, expected.params, rtol=1e-9)
    assert list(found.sites.index) == ["east", "north", "west"]
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match=r"bad.parquet cannot be read"):
        pdmm.fit(FORMULA, tmp_path / "bad.parquet", client="ward")
    with pytest.raises(ValueError, match="a table must be one of"):
        pdmm.fit(FORMULA, tmp_path / "table.xlsx", client="ward")


def test_predictions_keep_the_index_and_what_is_missing() -> None:
    table = patients()
    fit = pdmm.fit(FORMULA, table, client="ward")
    new = table[["age", "sex", "stage", "bmi"]].iloc[10:16].copy()
    new.index = pd.Index(list("abcdef"))
    new.loc["c", "age"] = np.nan
    new.loc["e", "sex"] = None
    found = fit.predict(new)
    assert list(found.index) == list("abcdef")
    assert found.isna().tolist() == [False, False, True, False, True, False]
    whole = fit.predict(table).iloc[[10, 11, 13, 15]]
    np.testing.assert_allclose(found.dropna(), whole, rtol=1e-13)
    P = fit.predict_proba(new)
    assert list(P.columns) == [0, 1]
    np.testing.assert_allclose(P[1], found)
    assert fit.predict_class(new).iloc[2] is None
    assert set(fit.predict_class(new.drop(["c", "e"]))) <= {0, 1}


def test_unknown_levels_and_columns_are_named() -> None:
    fit = pdmm.fit(FORMULA, patients(), client="ward")
    new = patients()[:3]
    with pytest.raises(ValueError, match=r"'C\(stage\)' has the level 7 .* it knows 1, 2, 3"):
        fit.predict(new.assign(stage=7))
    with pytest.raises(ValueError, match="no column 'age', 'bmi'"):
        fit.predict(new[["sex", "stage"]])
    with pytest.raises(ValueError, match="is for outcomes that are classes"):
        pdmm.fit("bmi ~ age", patients(), "ward", "gaussian").predict_proba(new)


def test_words_as_outcomes() -> None:
    table = patients().assign(died=lambda f: np.where(f.died == 1, "yes", "no"))
    fit = pdmm.fit(FORMULA, table, client="ward")
    assert fit.classes == ("no", "yes")
    number = pdmm.fit(FORMULA, patients(), client="ward")
    pd.testing.assert_series_equal(fit.params, number.params)
    assert set(fit.predict_class(table)) == {"no", "yes"}
    assert "Modelled are the odds of died = yes." in fit.summary()
    with pytest.raises(ValueError, match="must have two classes, and there are 3"):
        pdmm.fit("kind ~ age", patients().assign(kind=lambda f: "s" + f.stage.astype(str)), "ward")
    truth = pdmm.fit(FORMULA, patients().assign(died=lambda f: f.died == 1), client="ward")
    pd.testing.assert_series_equal(truth.params, number.params)


def test_collinear_columns_are_named() -> None:
    table = patients().assign(pounds=lambda f: 2.2 * f.bmi, one=1.0)
    with pytest.raises(ValueError, match="'pounds' is a combination of 'bmi'"):
        pdmm.fit("died ~ age + bmi + pounds", table, client="ward")
    with pytest.raises(ValueError, match="'one' is a combination of 'Intercept'"):
        pdmm.fit("died ~ age + one", table, client="ward")
    assert pdmm.fit("died ~ age + bmi + pounds", table, client="ward", l2=1.0).certificate.gap


def test_a_model_of_the_intercept_alone() -> None:
    table = patients()
    fit = pdmm.fit("died ~ 1", table, client="ward")
    p = table.died.mean()
    assert fit.params["Intercept"] == pytest.approx(np.log(p / (1 - p)), rel=1e-9)
    large = pdmm.fit("died ~ age", table, client="ward")
    theirs = smf.glm("died ~ age", table, family=sm.families.Binomial()).fit(tol=1e-14)
    statistic = large.compare_lr_test(fit).statistic
    assert statistic == pytest.approx(theirs.null_deviance - theirs.deviance, rel=1e-8)
    assert fit.predict(table[:3]).tolist() == pytest.approx([p] * 3)


def test_separated_outcomes_have_no_estimate() -> None:
    table = patients().assign(died=lambda f: (f.age > 50).astype(int))
    with pytest.raises(ValueError, match="there is no estimate: the outcomes are separated"):
        pdmm.fit("died ~ age", table, client="ward")
    assert pdmm.fit("died ~ age", table, client="ward", l2=0.1).params["age"] > 0


def test_nested_fits_are_compared() -> None:
    table = patients()
    large = pdmm.fit(FORMULA, table, client="ward")
    small = pdmm.fit("died ~ age + bmi", table, client="ward")
    theirs = [
        smf.glm(formula, table, family=sm.families.Binomial()).fit(tol=1e-14)
        for formula in (FORMULA, "died ~ age + bmi")
    ]
    test = large.compare_lr_test(small)
    statistic = 2 * (theirs[0].llf - theirs[1].llf)
    assert test.statistic == pytest.approx(statistic, rel=1e-9)
    assert test.df == 3
    assert test.pvalue == pytest.approx(stats.chi2.sf(statistic, 3), rel=1e-8)
    names = ["sex[T.m]", "C(stage)[T.2]", "C(stage)[T.3]"]
    wald = theirs[0].wald_test(", ".join(f"{name} = 0" for name in names), scalar=True)
    assert large.compare_wald_test(small).statistic == pytest.approx(wald.statistic, rel=1e-7)
    assert large.wald_test("C(stage)").df == 2
    with pytest.raises(ValueError, match="is not nested in"):
        small.compare_lr_test(large)
    with pytest.raises(ValueError, match="they must have the same ones"):
        large.compare_lr_test(pdmm.fit("died ~ age + bmi", table[:200], client="ward"))
    with pytest.raises(ValueError, match="are no coefficients"):
        large.wald_test("height")


def test_each_site_beside_the_others() -> None:
    table = patients(600)
    fit = pdmm.fit("died ~ age + sex", table, client="ward")
    for ward, row in fit.sites.iterrows():
        own = table[table.ward == ward]
        alone = pdmm.fit("died ~ age + sex", own)
        found = row[[f"own {name}" for name in alone.params.index]].to_numpy(dtype=float)
        np.testing.assert_allclose(found, alone.params, rtol=1e-6, atol=1e-8)
        errors = row[[f"own se {name}" for name in alone.params.index]].to_numpy(dtype=float)
        np.testing.assert_allclose(errors, alone.bse, rtol=1e-6)
        assert row["rows"] == len(own)
        assert row["events"] == own.died.sum()
        # The score test of a coefficient of one's own for this ward, for each column.
        inside = (table.ward == ward).astype(float)
        wide = table.assign(i=inside, a=inside * table.age, s=inside * (table.sex == "m"))
        null = smf.glm("died ~ age + sex", wide, family=sm.families.Binomial()).fit(tol=1e-14)
        extra = wide[["i", "a", "s"]].to_numpy()
        statistic, pvalue = null.score_test(exog_extra=extra)[:2]
        assert row["df"] == 3
        assert row["score"] == pytest.approx(float(np.squeeze(statistic)), rel=1e-6)
        assert row["pvalue"] == pytest.approx(float(np.squeeze(pvalue)), rel=1e-5)


def test_a_site_that_differs_is_found() -> None:
    table = patients(900)
    changed = table.assign(died=np.where(table.ward == "west", 1 - table.died, table.died))
    sites = pdmm.fit("died ~ age + sex", changed, client="ward").sites
    assert sites.loc["west", "pvalue"] < 1e-6


def test_sites_too_small_for_an_estimate_have_none() -> None:
    table = patients()
    table.loc[:1, "ward"] = "tiny"
    sites = pdmm.fit(FORMULA, table, client="ward").sites
    assert sites.loc["tiny"].filter(like="own ").isna().all()
    assert sites.loc["east"].filter(like="own ").notna().all()
    assert sites.loc["tiny", "df"] <= 2


def test_few_clusters_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="3 clusters for 6 parameters"):
        pdmm.fit(FORMULA, patients(), client="ward", covariance="client")
    with pytest.raises(ValueError, match="needs at least two clients"):
        pdmm.fit(FORMULA, patients(), covariance="client")


def test_evaluation_is_that_of_scikit_learn() -> None:
    table = patients(500)
    fit = pdmm.fit(FORMULA, table[:300], client="ward")
    rest = table[300:]
    found = fit.evaluate(rest)
    assert list(found.index) == ["all", "east", "north", "west"]
    for name, own in [("all", rest), *((str(n), o) for n, o in rest.groupby("ward"))]:
        p = fit.predict(own)
        assert found.loc[name, "AUC"] == pytest.approx(roc_auc_score(own.died, p))
        assert found.loc[name, "Brier"] == pytest.approx(brier_score_loss(own.died, p))
        assert found.loc[name, "log-loss"] == pytest.approx(log_loss(own.died, p))
        eta = sm.add_constant(fit.predict_linear(own))
        recalibrated = sm.Logit(own.died, eta).fit(disp=0, tol=1e-12).params
        assert found.loc[name, "calibration slope"] == pytest.approx(recalibrated.iloc[1], rel=1e-6)
    seen = fit.evaluate(table[:300]).loc["all"]
    assert seen["calibration slope"] == pytest.approx(1.0, abs=1e-6)
    assert seen["calibration in the large"] == pytest.approx(0.0, abs=1e-6)
    groups = fit.calibration(rest)
    assert groups["rows"].sum() == len(rest)
    assert groups["expected"].is_monotonic_increasing
    with pytest.raises(ValueError, match="no column 'died'"):
        fit.evaluate(rest.drop(columns="died"))


def test_evaluation_of_other_families() -> None:
    table = patients(400)
    linear = pdmm.fit("bmi ~ age + sex", table, "ward", "gaussian")
    theirs = smf.ols("bmi ~ age + sex", table).fit()
    assert linear.evaluate(table).loc["all", "R²"] == pytest.approx(theirs.rsquared)
    counts = pdmm.fit("stage ~ age + sex", table, "ward", "poisson")
    assert counts.evaluate(table).loc["all", "D²"] > 0
    classes = pdmm.fit("stage ~ age + sex", table, "ward", "multinomial")
    found = classes.evaluate(table).loc["all"]
    right = (classes.predict_class(table) == table.stage).mean()
    assert found["accuracy"] == pytest.approx(right)
    loss = log_loss(table.stage, classes.predict_proba(table))
    assert found["log-loss"] == pytest.approx(loss)
    people = survival()
    cox = pdmm.fit("Surv(days, status == 2) ~ age + C(dose)", people, "clinic", "cox")
    found = cox.evaluate(people)
    assert 0.55 < found.loc["all", "concordance"] < 0.9
    assert found.index[0] == "all"


def test_concordance_counts_pairs() -> None:
    rng = np.random.default_rng(0)
    time, event = rng.integers(1, 8, 30).astype(float), rng.integers(0, 2, 30).astype(float)
    eta = rng.integers(0, 5, 30).astype(float)
    agreed = known = 0.0
    for i in range(30):
        for j in range(30):
            earlier = time[i] < time[j] or (time[i] == time[j] and event[j] == 0)
            if event[i] and earlier and i != j:
                known += 1
                agreed += float(eta[i] > eta[j]) + 0.5 * float(eta[i] == eta[j])
    assert concordance(time, event, eta) == pytest.approx(agreed / known)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        (FORMULA, "binomial"),
        ("died ~ age + sex - 1", "binomial"),
        ("stage ~ age + sex", "multinomial"),
        ("sex ~ age", "multinomial"),
        ("bmi ~ age + C(stage)", "gaussian"),
        ("stage ~ age + sex", "poisson"),
        ("bmi ~ age", "gamma"),
    ],
)
def test_a_pipeline_of_scikit_learn_predicts_the_same(formula: str, family: str) -> None:
    table = patients()
    fit = pdmm.fit(formula, table, client="ward", family=family)
    pipeline = fit.to_sklearn()
    if family in ("binomial", "multinomial"):
        np.testing.assert_allclose(pipeline.predict_proba(table), fit.predict_proba(table))
        np.testing.assert_array_equal(pipeline.predict(table), fit.predict_class(table))
    else:
        expected: Any = fit.predict(table)
        np.testing.assert_allclose(pipeline.predict(table), expected)


def test_what_scikit_learn_lacks_is_said() -> None:
    cox = pdmm.fit("Surv(days, status == 2) ~ age", survival(), "clinic", "cox")
    with pytest.raises(ValueError, match="no model of the family 'cox'"):
        cox.to_sklearn()
    table = patients()
    offset = pdmm.fit("stage ~ age", table, "ward", "poisson", offset="np.log(bmi)")
    with pytest.raises(ValueError, match="take no offset"):
        offset.to_sklearn()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_proven_error_is_in_standard_errors_whatever_the_unit(unit: float) -> None:
    table = patients().assign(bmi=lambda frame: unit * frame.bmi)
    fit = pdmm.fit("bmi ~ age + sex", table, "ward", "gaussian")
    X = np.column_stack([np.ones(len(table)), table.age, table.sex == "m"]).astype(float)
    exact = np.linalg.lstsq(X, table.bmi / unit)[0] * unit
    assert fit.error_bound is not None
    assert fit.error_bound < 1e-9
    found = float((np.abs(fit.params - exact) / fit.bse).max())
    assert found < 1e-9
    scaled = pdmm.fit("bmi ~ age + sex", table, "ward", "gaussian", scale=4.0 * fit.scale)
    assert scaled.error_bound == pytest.approx(fit.error_bound / 2, rel=1e-9)


def test_numbers_do_not_depend_on_the_split() -> None:
    table = patients()
    rng = np.random.default_rng(1)
    whole = pdmm.fit(FORMULA, table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for clients in (2, 7, 40):
            split = table.assign(ward=rng.integers(0, clients, len(table)))
            found = pdmm.fit(FORMULA, split, client="ward", covariance="robust")
            np.testing.assert_allclose(found.params, whole.params, rtol=1e-7)
            robust = pdmm.fit(FORMULA, table, covariance="robust")
            np.testing.assert_allclose(found.bse, robust.bse, rtol=1e-8)


def test_pdmm_fit_is_loaded_when_it_is_used() -> None:
    assert "fit" in dir(pdmm)
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = pdmm.fitt
