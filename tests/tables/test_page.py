"""The report: one page for every family, whole, escaped, and with the numbers of the fit."""

import math
import re
import stat
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm
from pdmm.tables import Fit
from pdmm.tables.page import render, write_report
from pdmm.tables.page.axes import Axis, spanning
from pdmm.tables.page.calls import command, python_call
from pdmm.tables.page.estimates import estimates
from pdmm.tables.page.holm import holm
from pdmm.tables.page.numbers import in_bytes, listed, p_value, written
from pdmm.tables.page.own_estimates import Panel
from pdmm.tables.page.penalty_path import penalty_path

SECTIONS = ("asked", "answer", "sites", "diagnostics", "convergence", "privacy", "origins")
VOID = {"meta", "br"}
HOSTILE = "<script>alert(1)</script>"


class Page(HTMLParser):
    """A page that was read: its tags in balance, its ids, links, numbers and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.values: list[float] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        assert len(given) == len(attrs), f"<{tag}> has an attribute twice"
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [str(given[name]) for name in ("src", "href", "data") if name in given]
        if tag == "data":
            self.values.append(float(str(given["value"])))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@cache
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    n = 240
    dose = rng.normal(size=n)
    age = rng.normal(60, 10, n)
    eta = 0.6 * dose + 0.02 * (age - 60)
    return pd.DataFrame(
        {
            "site": np.repeat(["Aa", "Bb", "Cc", "Dd"], n // 4),
            "dose": dose,
            "age": age,
            "arm": rng.choice(["none", "low", "high"], n),
            "ill": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
            "falls": rng.poisson(np.exp(0.4 * dose)),
            "cost": rng.gamma(2.0, np.exp(0.3 * dose) / 2),
            "length": eta + rng.normal(size=n),
            "state": rng.choice(["well", "ill", "dead"], n),
            "days": rng.exponential(np.exp(-0.5 * dose)) + 0.01,
            "event": rng.integers(0, 2, n),
        }
    )


MODELS: dict[str, dict[str, Any]] = {
    "gaussian": {"formula": "length ~ dose + age + C(arm)"},
    "binomial": {"formula": "ill ~ dose + age + C(arm)"},
    "poisson": {"formula": "falls ~ dose + age + C(arm)"},
    "gamma": {"formula": "cost ~ dose + age"},
    "multinomial": {"formula": "state ~ dose + C(arm)"},
    "cox": {"formula": "Surv(days, event) ~ dose + age"},
    "huber": {
        "formula": "length ~ dose + age",
        "family": pdmm.Huber(1.0),
        "covariance": "robust",
    },
    "ridge": {"formula": "ill ~ dose + age", "family": "binomial", "l2": 1.0},
    "lasso": {"formula": "length ~ .", "family": "gaussian", "l1": 20.0, "standardise": True},
    "clustered": {
        "formula": "falls ~ dose",
        "family": "poisson",
        "covariance": "client",
        "scale": "pearson",
    },
}


@cache
def fitted(name: str) -> Fit:
    settings = {"family": name, "client": "site"} | MODELS[name]
    columns = ["site", "length", "dose", "age"]
    data = table()[columns] if name == "lasso" else table()
    fit: Fit = pdmm.fit(data=data, **settings)
    return fit


# --- the page as a whole ----------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_family_has_every_section_and_nothing_is_loaded(name: str) -> None:
    text = render(fitted(name))
    page = Page(text)
    assert [one for one in page.ids if one in SECTIONS] == list(SECTIONS)
    assert len(set(page.ids)) == len(page.ids)
    assert page.links
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not re.search(r"url\(|@import|https?:", text)
    assert "nan" not in re.findall(r"\w+", page.text.lower())
    assert "Zhang" in page.text
    assert "secure sums" in page.text


@pytest.mark.parametrize("name", MODELS)
def test_the_numbers_are_those_of_the_fit(name: str) -> None:
    fit = fitted(name)
    values = np.array(Page(render(fit)).values)
    wanted = [*fit.params]
    if not fit.why_no_errors:
        wanted += [*fit.bse, *fit.tvalues, *fit.pvalues, *fit.conf_int().to_numpy().ravel()]
    wanted += [value for value in (fit.llf, fit.aic, fit.bic, fit.deviance) if np.isfinite(value)]
    for value in wanted:
        assert (values == value).any(), value


@pytest.mark.parametrize("name", ["binomial", "multinomial", "ridge", "huber"])
def test_a_model_that_was_read_back_has_the_same_page(name: str, tmp_path: Path) -> None:
    fit = fitted(name)
    again = pdmm.load(fit.save(tmp_path / "model.pdmm"))
    assert again.result is None
    assert render(again) == render(fit)


def test_ratios_have_the_names_of_their_families() -> None:
    for name, ratio in {
        "binomial": "Odds ratio",
        "poisson": "Rate ratio",
        "gamma": "Ratio of means",
        "cox": "Hazard ratio",
        "multinomial": "Odds ratio",
    }.items():
        fit = fitted(name)
        page = Page(render(fit))
        assert ratio in page.text
        assert math.exp(estimates(fit)[-1].value) in page.values
    assert " ratio" not in Page(render(fitted("gaussian"))).text.lower()


def test_a_penalised_fit_says_why_it_has_no_p_values() -> None:
    page = Page(render(fitted("lasso")))
    assert "a penalty moves coefficients towards 0 on purpose" in page.text
    assert re.search(r"set \d of 2 coefficients to exactly 0", page.text)
    assert "score tests and the sites’ own estimates need a fit without a penalty" in page.text
    assert "the right side is dose + age" in page.text


# --- escaping ---------------------------------------------------------------------------------


def test_names_cannot_become_markup(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 120
    quotes = 'a "b" & c\''
    data = pd.DataFrame(
        {
            HOSTILE: rng.normal(size=n),
            quotes: rng.normal(size=n),
            "y": rng.poisson(2, n),
            "f": rng.choice(["<b>x</b>", "&amp;", "ü " * 60], n),
            "s": rng.choice(["<i>1</i>", "\"2\" & '3'"], n),
        }
    )
    formula = f"y ~ `{HOSTILE}` + `{quotes}` + C(f)"
    fit = pdmm.fit(formula, data, client="s", family="poisson")
    path = fit.report(tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert "<script" not in text
    assert "<b>x" not in text
    assert "<i>" not in text
    assert "&amp;amp;" in text
    for name in (HOSTILE, quotes, "<b>x</b>", "<i>1</i>", formula):
        assert re.sub(r"\s+", " ", name) in page.text


def test_text_that_is_no_valid_unicode_does_not_stop_the_page(tmp_path: Path) -> None:
    data = table().assign(site=table()["site"].replace("Aa", "A\udce9"))
    fit = pdmm.fit("falls ~ dose", data, client="site", family="poisson")
    assert b"A\\udce9" in fit.report(tmp_path / "report.html").read_bytes()


# --- files ------------------------------------------------------------------------------------


def test_the_file_is_written_whole_and_its_path_returned(tmp_path: Path) -> None:
    path = tmp_path / "new" / "Report.HTM"
    assert fitted("gaussian").report(str(path)) == path
    assert path.read_text(encoding="utf-8").endswith("</html>\n")
    assert [one.name for one in path.parent.iterdir()] == ["Report.HTM"]


def test_paths_that_cannot_be_are_refused(tmp_path: Path) -> None:
    fit = fitted("gaussian")
    for name in ("report.pdf", "report", "report.html.txt"):
        with pytest.raises(ValueError, match=r"must end in \.html"):
            fit.report(tmp_path / name)
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        write_report(fit, tmp_path / "folder.html")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written to"):
        fit.report(tmp_path / "file" / "report.html")
    assert stat.S_ISREG((tmp_path / "file").stat().st_mode)


# --- sites ------------------------------------------------------------------------------------


def test_a_site_that_differs_is_named_and_others_are_not() -> None:
    rng = np.random.default_rng(1)
    parts = []
    for k in range(30):
        x = rng.normal(size=60)
        y = x + rng.normal(size=60) + (3.0 if k == 17 else 0.0)
        parts.append(pd.DataFrame({"site": f"S{k:02}", "x": x, "y": y}))
    parts.append(pd.DataFrame({"site": "Empty", "x": [np.nan], "y": [0.0]}))
    fit = pdmm.fit("y ~ x", pd.concat(parts), client="site", family="gaussian", missing="drop")
    page = Page(render(fit))
    assert "of 30 sites differ" in page.text
    assert re.search(r"number of tests: S17 \(p < 0.001\)", page.text)
    assert "1 of 31 sites has no estimate of its own: Empty" in page.text
    assert fit.sites.loc["S03", "pvalue"] in page.values


def test_one_site_has_nothing_to_be_compared_with() -> None:
    fit = pdmm.fit("falls ~ dose", {"all": table()}, family="poisson")
    page = Page(render(fit))
    assert "one site with rows" in page.text
    assert "would have found alone" not in page.text
    assert "pdmm fit all.csv" in page.text


def test_sites_without_estimates_of_their_own_are_listed() -> None:
    fit = pdmm.fit("length ~ dose + C(site)", table(), client="site", family="gaussian")
    page = Page(render(fit))
    assert "4 of 4 sites have no estimate of their own: Aa, Bb, Cc and Dd" in page.text
    assert "Wald tests that all coefficients of a term are 0" in page.text


def test_holm_by_hand() -> None:
    found = holm(np.array([0.01, np.nan, 0.04, 0.03, 0.005]))
    np.testing.assert_allclose(found, [0.03, np.nan, 0.06, 0.06, 0.02])


def test_heterogeneity_by_hand() -> None:
    row = estimates(fitted("gaussian"))[1]
    panel = Panel(row, ["a", "b", "c"], np.array([0.0, 4.0, np.nan]), np.array([1.0, 1.0, np.nan]))
    found = panel.heterogeneity
    assert found is not None
    # Q = (0 - 2)² + (4 - 2)² = 8 with one degree of freedom, and I² = 1 - 1/8.
    assert found[0] == pytest.approx(math.erfc(math.sqrt(8 / 2)))
    assert found[1] == pytest.approx(0.875)


# --- diagnostics and convergence --------------------------------------------------------------


def test_overdispersed_counts_are_said_to_be() -> None:
    data = table().assign(falls=table()["falls"] * 5)
    fit = pdmm.fit("falls ~ dose", data, client="site", family="poisson")
    ratio = fit.pearson_chi2 / fit.df_resid
    said = f"The counts vary {ratio:.3g} times as much as a Poisson model expects"
    assert f"{said}: standard errors" in Page(render(fit)).text
    robust = pdmm.fit("falls ~ dose", data, client="site", family="poisson", covariance="robust")
    assert f"{said}; the standard errors here do not rely" in Page(render(robust)).text
    scaled = pdmm.fit("falls ~ dose", data, client="site", family="poisson", scale="pearson")
    assert (
        f"{said}; the standard errors here are computed with a scale" in Page(render(scaled)).text
    )
    assert "times as much" not in Page(render(fitted("poisson"))).text


def test_few_events_are_said_to_be() -> None:
    data = table().assign(event=np.arange(240) % 20 == 0)
    fit = pdmm.fit("Surv(days, event) ~ dose + age", data, client="site", family="cox")
    assert "There are 6.0 events for each coefficient" in Page(render(fit)).text


def test_the_certificate_is_in_words_with_rounds_and_bytes() -> None:
    fit = fitted("binomial")
    page = Page(render(fit))
    assert "standard errors of the estimate on the pooled table" in page.text
    assert f"{in_bytes(fit.stored.how['bytes_up'])} together" in page.text
    assert f"Rounds {fit.stored.how['rounds']}" in page.text


def test_cross_validation_is_shown_where_the_path_is_known() -> None:
    path = pd.DataFrame(
        {"penalty": [0.0, 0.01, 0.1, 1.0], "loss": [9.0, 2.0, 1.0, 3.0], "error": [0, 1, np.nan, 1]}
    )
    drawn = penalty_path(path)
    assert drawn is not None
    assert "it is smallest at a penalty of 0.1" in Page(drawn).text
    assert penalty_path(path.drop(columns="error")) is not None
    assert penalty_path(path.rename(columns={"loss": "score"})) is None
    assert penalty_path(path[:2]) is None
    assert penalty_path(None) is None


# --- how to make it again ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multinomial", "huber", "clustered", "ridge", "cox"])
def test_the_call_makes_the_same_model(name: str) -> None:
    fit = fitted(name)
    call = python_call(fit).replace('fit.report("report.html")', "")
    names: dict[str, Any] = {"data": table()}
    exec(call, names)
    assert names["fit"].params.equals(fit.params)
    assert names["fit"].scale == fit.scale


def test_the_command_names_what_was_asked() -> None:
    words = command(fitted("clustered"))
    assert words is not None
    assert words.startswith(
        "pdmm fit data.csv \\\n    --client site \\\n    --formula 'falls ~ dose'"
    )
    for option in ("--family poisson", "--covariance client", "--scale pearson"):
        assert option in words
    assert "--missing" not in words


def test_another_reference_class_is_part_of_the_call() -> None:
    fit = pdmm.fit("state ~ dose", table(), client="site", family="multinomial", reference="well")
    assert "reference='well'" in python_call(fit)
    assert "dead, against well" in Page(render(fit)).text


def test_offset_weights_and_notes_are_said() -> None:
    data = table().assign(years=2.0, times=3)
    fit = pdmm.fit(
        "falls ~ dose",
        data,
        client="site",
        family="poisson",
        offset="np.log(years)",
        weights="times",
    )
    page = Page(render(fit))
    assert "np.log(years) , added to the linear predictor" in page.text
    assert "times : how often each row counts" in page.text
    assert "Sum of weights 720" in page.text


# --- axes and numbers -------------------------------------------------------------------------


def test_coefficients_of_very_different_units_share_an_axis() -> None:
    data = table().assign(days_old=table()["age"] * 365.0, share=table()["dose"] / 1000)
    fit = pdmm.fit("ill ~ days_old + share + C(arm)", data, client="site")
    rows = {row.name: row for row in estimates(fit)}
    levels = [row for row in rows.values() if row.level]
    assert len(levels) == 2
    assert all(row.units == 1 for row in levels)
    assert rows["days_old"].units >= 100
    assert rows["share"].units <= 0.01
    most = max(row.reach * row.units for row in rows.values() if not row.intercept)
    assert rows["days_old"].reach * rows["days_old"].units >= 0.01 * most
    assert "×10 is the effect of ten units" in Page(render(fit)).text


@pytest.mark.parametrize(
    ("low", "high"), [(-0.001, 0.002), (-0.5, 0.4), (-1, 2), (-3, 3), (-6, 5), (-40, 90), (5, 5.1)]
)
@pytest.mark.parametrize("ratio", [False, True])
def test_ticks_are_on_the_axis_and_apart(low: float, high: float, ratio: bool) -> None:
    axis = spanning([low, high], ratio)
    ticks = axis.ticks
    assert 2 <= len(ticks) <= 8
    assert all(axis.holds(at) for at, _ in ticks)
    assert len({words for _, words in ticks}) == len(ticks)


def test_places_stay_inside_the_plot() -> None:
    axis = Axis(0.0, 4.0)
    assert [axis.place(value) for value in (-1.0, 1.0, 9.0)] == [0.0, 25.0, 100.0]
    assert spanning([2.0, 2.0], ratio=False).holds(2.0)


def test_numbers_are_written_as_people_write_them() -> None:
    assert written(-0.19693, 4) == "−0.1969"
    assert written(-0.00001, 2) == "0.00"
    assert written(float("nan"), 2) == "–"
    assert written(math.inf) == "∞"
    assert written(1.5e9, 1) == "1.5e+09"
    assert [p_value(p) for p in (0.0, 0.00099, 0.0312, math.nan)] == [
        "<0.001",
        "<0.001",
        "0.031",
        "–",
    ]
    assert [in_bytes(count) for count in (999, 22560, 3.2e6)] == ["999 bytes", "22.6 kB", "3.2 MB"]
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh"), 4) == "a, b, c and 5 more"


@pytest.mark.parametrize("factor", [1e-6, 1e9])
def test_the_headline_is_in_units_that_people_think_in(factor: float) -> None:
    plain = pdmm.fit("ill ~ dose", table(), client="site")
    other = pdmm.fit("ill ~ dose", table().assign(dose=table()["dose"] * factor), client="site")
    ratio = math.exp(plain.params["dose"])
    said = f"odds ratio for {factor:g} units {ratio:.2f} (95% interval"
    assert said in Page(render(other)).text
    assert f"odds ratio {ratio:.2f} (95% interval" in Page(render(plain)).text


def test_what_is_not_certified_is_said_first() -> None:
    with pytest.warns(UserWarning, match="not certified"):
        fit = pdmm.fit("ill ~ dose + age", table(), client="site", rounds=1)
    page = Page(render(fit))
    assert "In short Nothing is certified" in page.text
    assert "Treat the coefficients as unfinished" in page.text
