"""The sites: what each brought, and which of them differ from the rest."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.tables.page.between_sites import between_sites, tells_of_each
from pdmm.tables.page.elements import Html, captioned, paragraph, scrolled, section, tag
from pdmm.tables.page.holm import holm
from pdmm.tables.page.numbers import (
    NOTHING,
    counted,
    exact,
    listed,
    p_value,
    p_words,
    whole,
    written,
)
from pdmm.tables.page.own_estimates import own_estimates

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

LEVEL = 0.05

Vector = npt.NDArray[np.float64]


def sites(fit: "Fit") -> Html:
    """The section."""
    if not tells_of_each(fit.stored):
        return section("sites", "The sites", *_untold(fit))
    found = numbers_of_sites(fit)
    adjusted = holm(found["pvalue"].to_numpy())
    differing = {name for name, p in zip(found.index, adjusted, strict=True) if p < LEVEL}
    return section(
        "sites",
        "The sites",
        *(paragraph(words) for words in _in_words(fit, found, adjusted)),
        scrolled(_table(fit, found, adjusted), "Sites"),
        own_estimates(fit, found, differing),
    )


def _untold(fit: "Fit") -> Iterator[Html]:
    """Why nothing is said of single sites, and who they are."""
    yield paragraph(
        "Nothing is said of single sites: how many rows each has, whether it differs from the "
        "others and what it would have found alone appear only where the policies of all sites "
        "allow it (",
        tag("code", "per_site_results = true"),
        "), and here some do not.",
    )
    study = between_sites(fit.stored)
    if study is not None:
        yield tag("h3", f"{study.counted} took part")
        yield tag("ul", *(tag("li", name) for name in study.names), class_="who")


def numbers_of_sites(fit: "Fit") -> pd.DataFrame:
    """``fit.sites`` in numbers: what a model file has no number for is NaN, and not None."""
    table = fit.sites
    table = table.loc[:, ~table.columns.duplicated()]
    found = table.apply(pd.to_numeric, errors="coerce").astype(np.float64)
    absent = [name for name in ("score", "df", "pvalue") if name not in found]
    return found.assign(**dict.fromkeys(absent, np.nan))


def _in_words(fit: "Fit", found: pd.DataFrame, adjusted: Vector) -> Iterator[str]:
    yield which_differ(fit, found, adjusted)
    if np.isnan(adjusted).all():
        return
    tests = int((~np.isnan(adjusted)).sum())
    yield (
        "Each score test asks whether a site’s rows agree with the coefficients of all sites "
        "together; a small p-value says that the site’s own coefficients differ, and not why. With "
        f"{counted(tests, 'test')} at the 5% level, chance alone makes about "
        f"{_about(0.05 * tests)} of them significant where no site differs: the column “p, "
        "adjusted” is Holm’s, by which one false alarm among all of them has a probability of at "
        "most 5%."
    )
    if tests == 2:
        yield "Of two sites, each is all that the other is compared with: both tests are the same."
    if fit.stored.covariance != "model":
        yield (
            "The score tests trust the variance of the family, although the standard errors of the "
            "coefficients do not."
        )


def _about(count: float) -> str:
    return f"{count:.1g}" if count < 1 else f"{count:.0f}"


def which_differ(fit: "Fit", found: pd.DataFrame, adjusted: Vector) -> str:
    """Which sites differ from the others, in a sentence."""
    if np.isnan(adjusted).all():
        return _why_no_tests(fit, found)
    tests = int((~np.isnan(adjusted)).sum())
    p = found["pvalue"].to_numpy()
    order = [i for i in np.argsort(p, kind="stable").tolist() if not math.isnan(p[i])]
    named = [str(name) for name in found.index]
    differing = [i for i in order if adjusted[i] < LEVEL]
    if not differing:
        smallest = order[0]
        return (
            "No site differs from the others at the 5% level once the number of tests is allowed "
            f"for. The smallest of {counted(tests, 'p-value')} is {p_value(p[smallest])}, of "
            f"site {named[smallest]}; adjusted, {p_value(adjusted[smallest])}."
        )
    verb = "differs" if len(differing) == 1 else "differ"
    return (
        f"{len(differing)} of {counted(tests, 'site')} {verb} from the others at the 5% level, "
        "with p-values adjusted for the number of tests: "
        f"{_named(sorted(differing), named, adjusted)}."
    )


def _named(differing: list[int], names: list[str], adjusted: Vector) -> str:
    """Sites with their p-values, which are said once where all are tiny."""
    if max(adjusted[i] for i in differing) < 0.001:
        each = " each" if len(differing) > 1 else ""
        return f"{listed([names[i] for i in differing], 20)} ({p_words(0.0)}{each})"
    return listed([f"{names[i]} ({p_words(adjusted[i])})" for i in differing], 12)


def _why_no_tests(fit: "Fit", found: pd.DataFrame) -> str:
    if (found["rows"] > 0).sum() < 2:
        return "There is one site with rows, and no other to compare it with."
    if fit.stored.penalised:
        return (
            "Sites are not compared: score tests and the sites’ own estimates need a fit without a "
            "penalty."
        )
    if fit.stored.no_errors:
        return f"Sites are not compared by score tests: {fit.stored.no_errors}."
    if fit.family == "huber":
        return "Sites are not compared by score tests: Huber’s loss is no likelihood."
    return "There is no score test of a site."


def in_short(fit: "Fit") -> str | None:
    """Which sites differ, for the top of the page; None where nothing is said of each."""
    if not tells_of_each(fit.stored):
        return None
    found = numbers_of_sites(fit)
    return which_differ(fit, found, holm(found["pvalue"].to_numpy()))


# --- the table --------------------------------------------------------------------------------


def _table(fit: "Fit", found: pd.DataFrame, adjusted: Vector) -> Html:
    tested = not np.isnan(adjusted).all()
    heads = ["Site", "Rows", "Left out"]
    if "events" in found:
        heads.append("Events")
    if tested:
        heads += ["Score chi²", "df", "p", "p, adjusted", "Differs?"]
    rows = [
        _row(str(name), row, p, tested)
        for (name, row), p in zip(found.iterrows(), adjusted, strict=True)
    ]
    return tag(
        "table",
        captioned(_caption(fit, tested)),
        tag("thead", tag("tr", *(tag("th", words, scope="col") for words in heads))),
        tag("tbody", *rows),
        tag("tfoot", _total(found, len(heads))),
        class_="sites" if len(rows) <= 20 else "sites dense",
    )


def _caption(fit: "Fit", tested: bool) -> str:
    unlabelled = fit.stored.unlabelled
    more = f", and {counted(unlabelled, 'row')} without a site left out" if unlabelled else ""
    test = " and its score test against the others" if tested else ""
    return f"Rows of each site{test}{more}"


def _row(name: str, row: Any, adjusted: float, tested: bool) -> Html:
    differs = adjusted < LEVEL
    cells = [whole(row["rows"]), whole(row["dropped"])]
    if "events" in row:
        cells.append(whole(row["events"]))
    if tested:
        cells += [
            exact(row["score"], written(row["score"], 2)),
            whole(row["df"]) if row["df"] > 0 else NOTHING,
            exact(row["pvalue"], p_value(row["pvalue"])),
            exact(adjusted, p_value(adjusted)),
            "yes" if differs else "",
        ]
    return tag(
        "tr",
        tag("th", name, scope="row"),
        *(tag("td", cell) for cell in cells),
        class_="differs" if differs else None,
    )


def _total(found: pd.DataFrame, columns: int) -> Html:
    cells = [whole(float(found["rows"].sum())), whole(float(found["dropped"].sum()))]
    if "events" in found:
        cells.append(whole(float(found["events"].sum())))
    rest = [tag("td") for _ in range(columns - len(cells) - 1)]
    return tag("tr", tag("th", "All", scope="row"), *(tag("td", cell) for cell in cells), *rest)
