"""Odd tables at one of the sites: the right model, or a sentence with the site and the column."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm
from builders.study import FakeTables, hospitals, silos
from pdmm.engines import Policy
from pdmm.engines.sites.roster import SiteTableError
from pdmm.study import TableSite, fit
from pdmm.tables.silos import Options

TABLES = silos(hospitals(rows=300), "site")
Change = Callable[[pd.DataFrame], pd.DataFrame]


def at_one(change: Change) -> dict[str, pd.DataFrame]:
    return {name: change(own) if name == "h1" else own for name, own in TABLES.items()}


def everywhere(change: Change) -> dict[str, pd.DataFrame]:
    return {name: change(own) for name, own in TABLES.items()}


def assert_same_as_in_one_process(
    tables: dict[str, pd.DataFrame], formula: str, **more: Any
) -> None:
    found = fit(FakeTables(tables, Policy()), formula, Options(**more))
    expected = pdmm.fit(formula, tables, **more)
    assert found.params.index.equals(expected.params.index)
    assert (abs(found.params - expected.params) / expected.bse).max() < 1e-6
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-6)


ONE_SITE: list[tuple[Change, str, dict[str, Any]]] = [
    (lambda t: t.assign(age=60.0), "died ~ age + sex", {}),
    (lambda t: t.assign(age=60.0), "died ~ age", {}),
    (lambda t: t.assign(sex="male"), "died ~ sex", {}),
    (lambda t: t.assign(stage=2), "died ~ C(stage)", {}),
    (lambda t: t.assign(age=np.nan), "died ~ age + sex", {"missing": "mean"}),
    (lambda t: t.assign(died=0), "died ~ age", {}),
    (lambda t: t.assign(visits=0), "visits ~ age", {"family": "poisson"}),
    (lambda t: t.assign(event=0), "Surv(time, event) ~ age", {"family": "cox"}),
    (lambda t: t.assign(health="poor"), "health ~ age", {"family": "multinomial"}),
    (lambda t: t.assign(died=t.died.astype(bool)), "died ~ age", {}),
    (lambda t: t.assign(age=t.age.astype(str)), "died ~ age", {}),
    (lambda t: t.assign(stage=t.stage.astype(str)), "died ~ C(stage)", {}),
    (lambda t: t[(t.sex != "male") | (t.stage != 2)], "died ~ C(sex) * C(stage)", {}),
    (lambda t: t.astype({"stage": "Int64", "age": "Float64"}), "died ~ age + stage", {}),
]


@pytest.mark.parametrize(("change", "formula", "more"), ONE_SITE)
def test_a_site_unlike_the_others(change: Change, formula: str, more: dict[str, Any]) -> None:
    assert_same_as_in_one_process(at_one(change), formula, **more)


ALL_SITES: list[tuple[Change, str, dict[str, Any]]] = [
    (lambda t: t.rename(columns={"age": "Ålder"}), "died ~ Ålder", {}),
    (lambda t: t.rename(columns={"age": "年齢"}), "died ~ log(年齢)", {}),
    (lambda t: t.rename(columns={"age": "age at entry"}), "died ~ `age at entry` + sex", {}),
    (lambda t: t.rename(columns={"age": "at entry"}), "died ~ I(`at entry` > 65)", {}),
    (lambda t: t.rename(columns={"ward": "the ward"}), "died ~ C(`the ward`)", {}),
    (lambda t: t.rename(columns={"died": "died of it"}), "`died of it` ~ age", {}),
    (lambda t: t.rename(columns={"often": "how often"}), "died ~ age", {"weights": "`how often`"}),
    (lambda t: t.rename(columns={"age": "class"}), "died ~ Q('class')", {}),
    (lambda t: t.assign(died=np.where(t.died == 1, "yes", "no")), "died ~ age", {}),
    (lambda t: t.assign(income=t.income.astype("int64") * 10**9), "died ~ income", {}),
    (lambda t: t.assign(stage=t.stage.astype("category")), "died ~ stage", {}),
    (lambda t: t.astype({"age": "double[pyarrow]", "sex": "string[pyarrow]"}), "died ~ age", {}),
    (lambda t: t.astype({"died": "boolean", "sex": "string"}), "died ~ age + sex", {}),
    (
        lambda t: t.assign(health=pd.Categorical(t.health, ["poor", "fair", "good"], ordered=True)),
        "died ~ health",
        {},
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "formula", "more"), ALL_SITES)
def test_columns_of_every_kind_and_name(change: Change, formula: str, more: dict[str, Any]) -> None:
    assert_same_as_in_one_process(everywhere(change), formula, **more)


UNFIT: list[tuple[Change, str, dict[str, Any], str]] = [
    (lambda t: t.assign(age=np.nan), "died ~ age", {}, "some rows have no 'age'"),
    (lambda t: t.assign(age=np.nan), "died ~ age", {"missing": "drop"}, "no row has all entries"),
    (lambda t: t.assign(sex=1), "died ~ sex", {}, "column 'sex' holds numbers, and words at"),
    (lambda t: t.assign(age=["x", *t.age[1:]]), "died ~ age", {}, "'age' holds entries of several"),
    (
        lambda t: t.assign(age=["x", *t.age.astype(str)[1:]]),
        "died ~ age",
        {},
        "column 'age' holds words, and numbers at",
    ),
    (lambda t: t.assign(age=[np.inf, *t.age[1:]]), "died ~ age", {}, "'age' is infinite"),
    (lambda t: t.assign(often=-1), "died ~ age", {"weights": "often"}, "do not suit the family"),
    (lambda t: t[:0], "died ~ age", {}, "its table has no rows"),
    (lambda t: pd.concat([t, t[["age"]]], axis=1), "died ~ age", {}, "has two columns 'age'"),
]


@pytest.mark.parametrize(("change", "formula", "more", "said"), UNFIT)
def test_what_does_not_fit_is_named(
    change: Change, formula: str, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(SiteTableError, match=r"^site h1: ") as unfit:
        fit(FakeTables(at_one(change), Policy()), formula, Options(**more))
    assert said in str(unfit.value)


@pytest.mark.parametrize(
    ("formula", "more", "said"),
    [
        ("died ~ agee", {}, "no table has a column 'agee'"),
        ("dead ~ age", {}, "no table has a column 'dead'"),
        ("died ~ age + C(sexx)", {}, "no table has a column 'sexx'"),
        ("died ~ age", {"weights": "oftn"}, "no table has a column 'oftn'"),
        ("died ~ lgo(age)", {}, "calls 'lgo', which is none of the functions of a formula"),
        ("died ~ 0", {}, "has nothing on the right"),
        ("died ~ seen", {}, "column 'seen' holds dates: make it numbers or text"),
        ("health ~ age", {"family": "multinomial", "offset": "age"}, "takes no offset"),
        ("died ~ age", {"family": "binominal"}, "family must be 'gaussian'"),
    ],
)
def test_a_mistake_of_the_formula(formula: str, more: dict[str, Any], said: str) -> None:
    tables = everywhere(lambda t: t.assign(seen=pd.Timestamp("2020-01-01")))
    with pytest.raises(ValueError, match=re.escape(said)):
        fit(FakeTables(tables, Policy()), formula, Options(**more))


# --- files ----------------------------------------------------------------------------------------


def of_file(path: Path, **more: Any) -> FakeTables:
    return FakeTables(TABLES | {"h1": path}, Policy(), **more)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "its file cannot be read as a table"),
        ("a.csv", "died,age\n", "its table has no rows"),
        ("a.parquet", "no parquet", "its file cannot be read as a table"),
        ("a.xlsx", "no table", "its file cannot be read as a table"),
        ("a.csv", None, "its file cannot be read as a table"),
    ],
)
def test_a_file_that_is_no_table(name: str, text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(SiteTableError, match=r"^site h1: ") as unfit:
        fit(of_file(path), "died ~ age")
    assert said in str(unfit.value)
    assert str(tmp_path) not in str(unfit.value)


def test_columns_that_a_file_does_not_have_or_has_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("died,age,age\n" + "0,50,1\n1,60,2\n" * 40)
    with pytest.raises(ValueError, match="two columns 'age'"):
        pdmm.fit("died ~ age", path)
    with pytest.raises(SiteTableError, match="site h1: its file cannot be read as a table"):
        fit(of_file(path, columns=["died", "age"]), "died ~ age")
    path.write_text("died,age\n" + "0,50\n1,60\n" * 40)
    others = everywhere(lambda t: t.assign(bmi=t.age))
    columns = ["died", "age", "bmi"]
    sites = FakeTables(others | {"h1": path}, Policy(), columns=columns)
    with pytest.raises(SiteTableError, match=r"site h1: .* no column 'bmi', which --columns names"):
        fit(sites, "died ~ age")


def test_what_is_wrong_with_a_table_is_in_the_error_for_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site's own error log is the traceback of what the server hears only the end of."""
    raised: list[Exception] = []
    answer = TableSite.answer

    def kept(self: TableSite, verb: str, payload: Any) -> Any:
        try:
            return answer(self, verb, payload)
        except Exception as error:
            raised.append(error)
            raise

    monkeypatch.setattr(TableSite, "answer", kept)
    sites = FakeTables(at_one(lambda t: t.assign(died=[7, *t.died[1:]])), Policy())
    with pytest.raises(SiteTableError, match="site h1: its rows do not suit") as heard:
        fit(sites, "died ~ age")
    assert "7" not in str(heard.value)
    assert "has 7 in row 0" in "".join(traceback.format_exception(raised.pop()))
    with pytest.raises(SiteTableError, match="site h1: its file cannot be read as a table"):
        fit(of_file(tmp_path / "none.csv"), "died ~ age")
    told = "".join(traceback.format_exception(raised.pop()))
    assert f"there is no file {tmp_path / 'none.csv'}" in told


def test_parquet_with_types_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "h1.parquet"
    types = {"stage": "Int64", "age": "Float64", "sex": "category", "died": "boolean"}
    TABLES["h1"].astype(types).to_parquet(path)
    found = fit(of_file(path), "died ~ age + sex + stage")
    expected = pdmm.fit("died ~ age + sex + stage", TABLES)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
