"""The answer: coefficients with their intervals, beside a forest plot."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from pdmm.tables.page import axes
from pdmm.tables.page.axes import Axis
from pdmm.tables.page.elements import (
    Html,
    captioned,
    joined,
    paragraph,
    scrolled,
    section,
    table,
    tag,
)
from pdmm.tables.page.estimates import Estimate, estimates
from pdmm.tables.page.numbers import (
    NOTHING,
    counted,
    decimals_for,
    exact,
    exponential,
    p_value,
    written,
)
from pdmm.tables.page.words import ratio_name, reference_class, why_no_errors
from pdmm.tables.summary import COVARIANCES

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

LEVEL = 0.05


def coefficients(fit: "Fit") -> Html:
    """The section."""
    rows = estimates(fit)
    return section(
        "answer",
        "The answer",
        _why_no_errors(fit, rows),
        scrolled(_table(fit, rows), "Coefficients"),
        *(paragraph(words, kind="note") for words in _reading(fit, rows)),
        _whole_terms(fit),
    )


def _why_no_errors(fit: "Fit", rows: Sequence[Estimate]) -> Html | None:
    if not fit.why_no_errors:
        return None
    said = why_no_errors(fit)
    zeros = sum(1 for row in rows if row.value == 0 and not row.intercept)
    if fit.stored.l1 > 0:
        total = sum(1 for row in rows if not row.intercept)
        said += f" The penalty set {zeros} of {counted(total, 'coefficient')} to exactly 0."
    return paragraph(said, kind="remark")


# --- the table --------------------------------------------------------------------------------


def _table(fit: "Fit", rows: Sequence[Estimate]) -> Html:
    ratio = ratio_name(fit)
    axis = _axis(rows, ratio is not None)
    with_errors = not fit.why_no_errors
    heads = _heads(ratio, with_errors, axis)
    bodies = [
        tag("tbody", _group(fit, name, len(heads)), *(_row(row, ratio, axis) for row in group))
        for name, group in groupby(rows, key=lambda row: row.group)
    ]
    caption = "Coefficients"
    if with_errors:
        errors = COVARIANCES[fit.stored.covariance]
        caption += f", with 95% intervals; standard errors {errors}"
    return tag(
        "table",
        captioned(caption),
        tag("thead", tag("tr", *heads)),
        *bodies,
        class_="forest",
        style=f"--name:{_name_width(rows)}rem;--units:{_units_width(rows)}em",
    )


def _name_width(rows: Sequence[Estimate]) -> float:
    """Room for names, in letters' heights; very long ones are broken."""
    return round(min(0.55 * max(len(row.name) for row in rows), 16), 1)


def _units_width(rows: Sequence[Estimate]) -> float:
    """Room beside the plot for "×10", where a row needs that."""
    widest = max((len(f"×{row.units:g}") for row in rows if row.units != 1), default=0)
    return round(0.5 * widest + 0.4, 1) if widest else 0


def _axis(rows: Sequence[Estimate], ratio: bool) -> Axis:
    """An axis for all rows but intercepts; a level that goes far beyond the others is cut."""
    shown = [row for row in rows if not row.intercept]
    ends = [
        end * row.units
        for row in shown
        for end in (row.value, row.low, row.high)
        if math.isfinite(end)
    ]
    typical = float(np.median([row.reach * row.units for row in shown])) if shown else 1.0
    limit = 12 * typical if typical > 0 else math.inf
    return axes.spanning([0.0, *(min(max(end, -limit), limit) for end in ends)], ratio)


def _heads(ratio: str | None, with_errors: bool, axis: Axis) -> list[Html]:
    ticks = tag("svg", *axes.tick_labels(axis), aria_hidden="true", class_="ticks")
    what = f"{ratio}, logarithmic axis" if ratio else "Coefficient"
    heads = [tag("th", tag("span", "Coefficient", class_="unseen"), scope="col")]
    heads.append(tag("th", tag("span", what), ticks, scope="col", class_="plot"))
    if ratio:
        heads.append(_head(ratio))
    if ratio and with_errors:
        heads.append(_head("95% interval"))
    heads.append(_head("Coefficient"))
    if with_errors:
        heads += [_head(words) for words in ("Std. error", "95% interval", "z", "p")]
    return heads


def _head(words: str) -> Html:
    return tag("th", words, scope="col")


def _group(fit: "Fit", name: str, columns: int) -> Html | None:
    if not name:
        return None
    against = reference_class(fit)
    words = f"{name}, against {against}" if against else name
    return tag("tr", tag("th", words, scope="rowgroup", colspan=columns, class_="group"))


def _row(row: Estimate, ratio: str | None, axis: Axis) -> Html:
    cells = [tag("th", row.name, scope="row"), _plot(row, ratio, axis)]
    if ratio:
        cells += _ratio_cells(row)
    decimals = decimals_for(row.error)
    with_errors = not math.isnan(row.error)
    shown = written(row.value, decimals) if with_errors else written(row.value)
    cells.append(tag("td", exact(row.value, shown)))
    if with_errors:
        cells += [
            tag("td", exact(row.error, written(row.error, decimals))),
            tag("td", _between(row.low, row.high, decimals), class_="wide"),
            tag("td", exact(row.z, written(row.z, 2))),
            tag("td", exact(row.p, p_value(row.p)), class_="clear" if row.p < LEVEL else None),
        ]
    return tag("tr", *cells)


def _ratio_cells(row: Estimate) -> list[Html]:
    with_errors = not math.isnan(row.error)
    if row.intercept:
        # exp(intercept) is a mean, odds or a rate, but no ratio.
        return [tag("td", NOTHING) for _ in range(1 + with_errors)]
    value = exponential(row.value)
    if not with_errors:
        return [tag("td", exact(value, written(value)), class_="main")]
    low = exponential(row.low)
    high = exponential(row.high)
    decimals = max(2, decimals_for(high - low, digits=2))
    return [
        tag("td", exact(value, written(value, decimals)), class_="main"),
        tag("td", _between(low, high, decimals), class_="wide main"),
    ]


def _between(low: float, high: float, decimals: int) -> Html:
    return joined(
        [exact(low, written(low, decimals)), " to ", exact(high, written(high, decimals))]
    )


def _plot(row: Estimate, ratio: str | None, axis: Axis) -> Html:
    if row.intercept:
        return tag("td", class_="plot")
    low, value, high = (row.units * end for end in (row.low, row.value, row.high))
    marks = [
        tag("title", _in_words(row, ratio)),
        *axes.grid(axis),
        axes.line_at(axis, 0.0, "none"),
        *axes.interval(axis, low, high, "50%"),
        *axes.point(axis, value, "50%"),
    ]
    kind = "clear" if row.p < LEVEL else None
    return tag("td", tag("svg", *marks, role="img", class_=kind), _units(row), class_="plot")


def _units(row: Estimate) -> Html | None:
    return None if row.units == 1 else tag("span", f"×{row.units:g}", class_="units")


def _in_words(row: Estimate, ratio: str | None) -> str:
    words = f"{row.label}: coefficient {written(row.value)}"
    if not math.isnan(row.low):
        words += f", 95% interval {written(row.low)} to {written(row.high)}"
    if ratio:
        words += f"; {ratio.lower()} {written(exponential(row.value))}"
    return words


# --- how to read it ---------------------------------------------------------------------------


def _reading(fit: "Fit", rows: Sequence[Estimate]) -> Iterator[str]:
    ratio = ratio_name(fit)
    if ratio:
        name = ratio.lower()
        yield (
            f"A{'n' if name[0] in 'aeiou' else ''} {name} is exp(coefficient): the factor by which "
            f"{_multiplied(fit.family)} are multiplied for one more unit of a column, or for a "
            "level instead of the reference, with the other columns held fixed. The vertical line "
            "is at 1, no effect."
        )
    else:
        yield (
            "A coefficient is what is added to the mean for one more unit of a column, or for a "
            "level instead of the reference, with the other columns held fixed. The vertical line "
            "is at 0, no effect."
        )
    if any(row.units != 1 for row in rows):
        yield (
            "Coefficients depend on the units of their columns, so that on one axis some would be "
            "too small or too large to see. The plot shows such rows for more or fewer units: ×10 "
            "is the effect of ten units. The numbers in the table are for one unit."
        )
    if not fit.why_no_errors:
        yield (
            "Filled dots have p < 0.05. Each p-value is a two-sided test of its coefficient alone "
            "by the normal distribution; they are not adjusted for how many there are."
        )


def _multiplied(family: str) -> str:
    return {
        "binomial": "the odds",
        "multinomial": "the odds",
        "poisson": "expected counts",
        "gamma": "expected values",
        "cox": "hazards",
    }[family]


def _whole_terms(fit: "Fit") -> Html | None:
    """Tests of terms that have several coefficients, which no single p-value is about."""
    if fit.why_no_errors:
        return None
    rows: list[list[Any]] = []
    classes = max(1, len(fit.stored.layout.classes))
    for term, columns in fit.stored.encoding.terms.items():
        if len(columns) * classes == 1:
            continue
        try:
            test = fit.wald_test(term)
        except (ValueError, np.linalg.LinAlgError):
            continue
        shown = exact(test.statistic, written(test.statistic, 2))
        rows.append([term, shown, test.df, exact(test.pvalue, p_value(test.pvalue))])
    if not rows:
        return None
    caption = "Wald tests that all coefficients of a term are 0"
    heads = ["Term", "chi²", "df", "p"]
    return scrolled(table(caption, heads, rows, kind="plain"), caption)
