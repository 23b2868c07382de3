"""Evaluations on the rows that sites set aside: against sklearn on these very rows."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import pdmm
from builders.study import FakeTables, hospitals, silos
from pdmm.engines import Policy
from pdmm.engines.sites.roster import SiteTableError
from pdmm.study import HeldTable, evaluate, fit
from pdmm.study.connected import Way
from pdmm.study.evaluation_questions import EvaluationQuestions
from pdmm.tables.silos import Options

TABLE = hospitals(rows=500)
TABLES = silos(TABLE, "site")
SHARE = 0.4
POLICY = Policy(evaluation_share=SHARE)


def parts(which: str) -> pd.DataFrame:
    """The rows of all sites that fits are about, or those that are set aside."""
    held = {name: HeldTable(table, None, SHARE) for name, table in TABLES.items()}
    return pd.concat([getattr(own, which).assign(site=name) for name, own in held.items()])


@cache
def model(formula: str, **more: Any) -> Any:
    return fit(FakeTables(TABLES, POLICY), formula, Options(**more))


def test_no_fit_sees_the_rows_that_are_set_aside() -> None:
    found = model("died ~ age + sex")
    expected = pdmm.fit("died ~ age + sex", parts("for_fits"), client="site")
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-7)
    assert found.nobs == len(parts("for_fits"))
    together = len(parts("for_fits")) + len(parts("for_evaluation"))
    assert together == len(TABLE)
    assert len(parts("for_evaluation")) == pytest.approx(SHARE * len(TABLE), rel=0.1)


def test_rows_stay_aside_when_others_come() -> None:
    before = HeldTable(TABLES["h0"], None, SHARE).for_evaluation
    more = pd.concat([TABLES["h1"], TABLES["h0"]], ignore_index=True)
    after = HeldTable(more, None, SHARE).for_evaluation
    assert set(before.age.astype(str) + before.cost.astype(str)) <= set(
        after.age.astype(str) + after.cost.astype(str)
    )


def test_a_logistic_model() -> None:
    fitted = model("died ~ age + sex + ward")
    found = evaluate(FakeTables(TABLES, POLICY), fitted)
    aside = parts("for_evaluation")
    p = fitted.predict(aside).to_numpy()
    y = aside["died"].to_numpy()
    said = found.measures
    assert said["rows"] == len(aside)
    assert said["Brier"] == pytest.approx(metrics.brier_score_loss(y, p), rel=1e-9)
    assert said["log-loss"] == pytest.approx(metrics.log_loss(y, p), rel=1e-9)
    assert abs(said["AUC"] - metrics.roc_auc_score(y, p)) <= found.auc_width
    assert 0 < found.auc_width < 0.02
    own = fitted.evaluate(aside).loc["all"]
    for name in ("calibration slope", "calibration in the large", "observed", "expected"):
        assert said[name] == pytest.approx(own[name], rel=1e-6, abs=1e-8)


def test_the_calibration_table_adds_up_to_the_rows() -> None:
    fitted = model("died ~ age + sex + ward")
    table = evaluate(FakeTables(TABLES, POLICY), fitted).calibration
    aside = parts("for_evaluation")
    assert table is not None
    assert table["rows"].sum() == len(aside)
    assert len(table) >= 5
    assert table["rows"] @ table["observed"] == pytest.approx(aside["died"].sum())
    assert table["rows"] @ table["expected"] == pytest.approx(fitted.predict(aside).sum())
    assert table["expected"].is_monotonic_increasing


def test_no_bin_has_few_rows() -> None:
    """Whatever a site says of a bin is about none of its rows, or about enough of them."""
    seen: list[np.ndarray[Any, Any]] = []
    in_bins = EvaluationQuestions._in_bins

    def spy(self: EvaluationQuestions, edges: Any, **columns: Any) -> Any:
        found = in_bins(self, edges, **columns)
        seen.append(found["rows"])
        return found

    fitted = model("died ~ age + sex + ward")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EvaluationQuestions, "_in_bins", spy)
        evaluate(FakeTables(TABLES, POLICY), fitted)
    assert len(seen) == 8  # two questions to each of four sites
    for rows in seen:
        assert ((rows == 0) | (rows >= POLICY.min_rows_per_cell)).all()
        assert rows.max() < rows.sum() / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "more"),
    [
        ("pressure ~ age + sex", {"family": "gaussian"}),
        ("pressure ~ age", {"family": pdmm.Huber(10.0), "covariance": "robust"}),
        ("visits ~ age", {"family": "poisson", "offset": "log(years)"}),
        ("cost ~ age + sex", {"family": "gamma"}),
        ("health ~ age + sex", {"family": "multinomial"}),
        ("died ~ age", {"weights": "often"}),
    ],
)
def test_other_models_are_measured_as_in_one_process(formula: str, more: dict[str, Any]) -> None:
    families = ("gaussian", "binomial", "poisson", "gamma", "multinomial", "huber")
    # Huber's loss is straight far from the middle, as all rows are where its fit begins.
    fewest = 0.0 if isinstance(more.get("family"), pdmm.Huber) else 10.0
    policy = Policy(evaluation_share=SHARE, families=families, min_effective_rows=fewest)
    fitted = fit(FakeTables(TABLES, policy), formula, Options(**more))
    found = evaluate(FakeTables(TABLES, policy), fitted).measures
    expected = fitted.evaluate(parts("for_evaluation")).loc["all"]
    for name in expected.index.drop("AUC", errors="ignore"):
        assert found[name] == pytest.approx(expected[name], rel=1e-6, abs=1e-8), name
    assert found.keys() - {"AUC width"} == set(expected.index)


def test_concordance_is_of_pairs_within_sites() -> None:
    fitted = model("Surv(time, event) ~ age + sex", family="cox")
    found = evaluate(FakeTables(TABLES, POLICY), fitted).measures
    from pdmm.tables.evaluation import concordant

    pairs = []
    for _, own in parts("for_evaluation").groupby("site"):
        eta = fitted.predict_linear(own).to_numpy()
        pairs.append(concordant(own.time.to_numpy(), own.event.to_numpy(), eta))
    agreed, known = np.sum(pairs, axis=0)
    assert found["concordance"] == pytest.approx(agreed / known)
    assert found["events"] == parts("for_evaluation").event.sum()


def test_rows_that_cannot_be_judged_are_counted() -> None:
    tables = {name: table.copy() for name, table in TABLES.items()}
    fitted = model("died ~ age + ward")
    aside = HeldTable(tables["h1"], None, SHARE).for_evaluation.index
    tables["h1"].loc[aside[:3], "ward"] = "Xanadu"
    aside = HeldTable(tables["h1"], None, SHARE).for_evaluation
    unknown = int((aside.ward == "Xanadu").sum())
    every = sum(len(HeldTable(t, None, SHARE).for_evaluation) for t in tables.values())
    found = evaluate(FakeTables(tables, POLICY), fitted)
    assert found.measures["rows"] == every - unknown
    note = next(text for text in found.choices if "were left out" in text)
    assert note.startswith(f"{unknown} of {every:,} rows that are set aside were left out")
    assert "Xanadu" not in "".join(found.choices)


def test_each_site_only_where_all_policies_allow_it() -> None:
    fitted = model("died ~ age + sex")
    assert evaluate(FakeTables(TABLES, POLICY), fitted).sites is None
    telling = Policy(evaluation_share=SHARE, per_site_results=True)
    one_not = {name: POLICY if name == "h2" else telling for name in TABLES}
    assert evaluate(FakeTables(TABLES, one_not), fitted).sites is None
    found = evaluate(FakeTables(TABLES, telling), fitted).sites
    expected = fitted.evaluate(parts("for_evaluation"), client="site").drop(index="all")
    assert found is not None
    pd.testing.assert_frame_equal(
        found[expected.columns].sort_index(), expected, check_names=False, check_dtype=False
    )


def test_a_site_without_rows_for_it_is_named() -> None:
    fitted = model("died ~ age + sex")
    one_not = {name: Policy() if name == "h2" else POLICY for name in TABLES}
    with pytest.raises(SiteTableError, match=r"site h2: no rows are set aside .* for example 0.2"):
        evaluate(FakeTables(TABLES, one_not), fitted)
    found = evaluate(FakeTables(TABLES, one_not), fitted, Way(leave_out=True))
    assert found.measures["rows"] == (parts("for_evaluation").site != "h2").sum()
    assert any(text.startswith("site h2 was left out") for text in found.choices)


def test_a_model_that_says_nearly_the_same_of_all_rows() -> None:
    """A penalty that leaves next to nothing: its calibration has no slope, and that is said."""
    fitted = model("died ~ age + sex", l2=1e9)
    found = evaluate(FakeTables(TABLES, POLICY), fitted).measures
    assert np.isnan(found["calibration slope"]) or abs(found["calibration slope"]) <= 100
    assert found["calibration in the large"] == pytest.approx(0, abs=0.3)
    assert 0 <= found["AUC"] <= 1


def test_what_is_told_of_another_model_counts_as_new() -> None:
    """Its calibration begins with the same question, and has another answer."""
    sites = FakeTables(TABLES, Policy(evaluation_share=SHARE, max_numbers_out_share=10.0))
    audit = sites.sites["h0"].audit
    evaluate(sites, model("died ~ age + sex"))
    first = audit.left["evaluation"]
    evaluate(sites, model("died ~ age + sex"))
    assert audit.left["evaluation"] == first
    evaluate(sites, model("died ~ age + ward"))
    assert audit.left["evaluation"] >= 1.9 * first


def test_a_column_that_a_site_does_not_have() -> None:
    fitted = model("died ~ age + sex")
    tables = TABLES | {"h3": TABLES["h3"].drop(columns="sex")}
    with pytest.raises(SiteTableError, match="site h3: the table has no column 'sex'"):
        evaluate(FakeTables(tables, POLICY), fitted)
