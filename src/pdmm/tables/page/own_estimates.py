"""What each site would have found alone: one small forest plot for each coefficient."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from pdmm.tables.page import axes
from pdmm.tables.page.axes import Axis
from pdmm.tables.page.between_sites import between_sites
from pdmm.tables.page.elements import Html, joined, paragraph, scrolled, table, tag
from pdmm.tables.page.estimates import Estimate, estimates
from pdmm.tables.page.numbers import counted, decimals_for, listed, p_words, written
from pdmm.tables.page.words import ratio_name

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

Vector = npt.NDArray[np.float64]

REACH = float(stats.norm.ppf(0.975))
AT_FIRST = 12  # panels; more of them are folded away
FARTHEST = 20  # standard errors from the joint estimate: what lies beyond is cut
FEW = 20  # sites; with more, their rows are closer together
ROW = {True: 18, False: 13}  # the height of a row in pixels: of few sites, of many


@dataclass(frozen=True)
class Panel:
    """A coefficient as all sites together and each alone see it."""

    joint: Estimate
    names: list[str]
    values: Vector
    errors: Vector

    @property
    def heterogeneity(self) -> tuple[float, float] | None:
        """Cochran's Q as a p-value, and I²: the share of the spread that is more than chance."""
        known = np.isfinite(self.values) & np.isfinite(self.errors) & (self.errors > 0)
        if known.sum() < 2:
            return None
        values = self.values[known]
        weights = self.errors[known] ** -2.0
        mean = float(weights @ values / weights.sum())
        q = float(weights @ (values - mean) ** 2)
        free = int(known.sum()) - 1
        share = max(0.0, 1 - free / q) if q > 0 else 0.0
        return float(stats.chi2.sf(q, free)), share


def own_estimates(fit: "Fit", found: pd.DataFrame, differing: set[Any]) -> Html | None:
    """The part of the section on sites."""
    if fit.why_no_errors or len(found) < 2:
        return None
    rows = estimates(fit)
    first = found.get(f"own {rows[0].label}")
    if first is None:
        return None
    known = first.notna().to_numpy()
    if not known.any() and _never_asked(fit):
        return None
    if not known.any():
        return joined([_heading(), paragraph(_absent(fit, found, known))])
    kept = found[known]
    names = [str(name) for name in kept.index]
    panels = [
        Panel(row, names, _column(kept, f"own {row.label}"), _column(kept, f"own se {row.label}"))
        for row in rows
        if len(rows) == 1 or not row.intercept
    ]
    marked = {str(name) for name in differing}
    ratio = ratio_name(fit)
    drawn = [_panel(one, ratio, marked) for one in panels]
    return joined(
        [
            _heading(),
            paragraph(_reading(fit, ratio, marked)),
            None if known.all() else paragraph(_absent(fit, found, known), kind="note"),
            tag("div", *drawn[:AT_FIRST], class_="panels"),
            _folded(drawn[AT_FIRST:]),
            _numbers(kept, rows),
        ]
    )


def has_own_estimates(fit: "Fit") -> bool:
    """Whether the page shows estimates of single sites."""
    if fit.why_no_errors or len(fit.sites) < 2:
        return False
    return bool(fit.sites.filter(like="own ").notna().to_numpy().any())


def _never_asked(fit: "Fit") -> bool:
    """Whether sites of a study were not asked for estimates: without score tests they are not."""
    return between_sites(fit.stored) is not None and fit.family == "huber"


def _column(found: pd.DataFrame, name: str) -> Vector:
    return np.asarray(found[name], dtype=np.float64)


def _heading() -> Html:
    return tag("h3", "What each site would have found alone")


def _reading(fit: "Fit", ratio: str | None, marked: set[str]) -> str:
    with_errors = fit.family != "huber"
    axis = f"{ratio}s on logarithmic axes" if ratio else "Coefficients"
    errors = "with 95% intervals from the model" if with_errors else "without intervals"
    said = [
        f"{axis}, {errors}: the diamond and the band are the joint estimate, the dots those of "
        "fits to one site’s rows alone. Each plot has an axis of its own, and arrows mark what "
        "lies beyond it."
    ]
    if marked:
        said.append("Sites that differ by their score test are orange and bold.")
    if with_errors:
        said.append(
            "I² is the share of the spread between sites that is more than chance, with the "
            "p-value of Cochran’s Q, not adjusted for the number of plots."
        )
    return " ".join(said)


def _absent(fit: "Fit", found: pd.DataFrame, known: npt.NDArray[np.bool_]) -> str:
    names = [str(name) for name in found.index[~known]]
    several = len(names) > 1
    whose = "their" if several else "its"
    who = f"{len(names)} of {len(found)} sites {'have' if several else 'has'}"
    return (
        f"{who} no estimate of {whose} own: {listed(names, 20)}. The rows of such a site alone do "
        "not determine all coefficients: there are too few, a column does not vary there, or the "
        "outcome is separated. They count in the joint estimate all the same."
    )


# --- a panel ----------------------------------------------------------------------------------


def _panel(panel: Panel, ratio: str | None, marked: set[str]) -> Html:
    axis = _axis(panel, ratio is not None)
    height = ROW[len(panel.names) <= FEW]
    total = height * (len(panel.names) + 1)
    style = f"--row:{height}px"
    labels = [tag("span", "All sites", class_="joint")]
    labels += [
        tag("span", name, class_="differs" if name in marked else None) for name in panel.names
    ]
    plot = tag("svg", *_marks(panel, axis, height, marked), role="img", height=total)
    ticks = tag("svg", *axes.tick_labels(axis), class_="ticks", aria_hidden="true")
    return tag(
        "figure",
        tag("figcaption", tag("b", panel.joint.label), _spread(panel)),
        tag("div", tag("div", *labels, class_="names"), tag("div", plot, ticks), class_="small"),
        style=style,
    )


def _spread(panel: Panel) -> Html | None:
    found = panel.heterogeneity
    if found is None:
        return None
    p, share = found
    return tag("span", f"I² {share:.0%}, {p_words(p)}")


def _axis(panel: Panel, ratio: bool) -> Axis:
    """An axis for the joint interval and the sites', of which the widest are cut."""
    errors = np.where(np.isfinite(panel.errors), panel.errors, 0.0)
    joint = panel.joint
    typical = float(np.median(errors)) if errors.any() else float(np.std(panel.values))
    farthest = FARTHEST * max(typical, joint.error)
    low = panel.values - REACH * errors
    high = panel.values + REACH * errors
    if len(low) > FEW:
        # Of many sites, small ones have intervals so wide that the others would look like points.
        away = np.abs(panel.values - joint.value) > 3 * errors
        low = np.append(low[away], np.quantile(low, 0.1))
        high = np.append(high[away], np.quantile(high, 0.9))
    ends = np.clip(np.append(low, high), joint.value - farthest, joint.value + farthest)
    return axes.spanning([joint.low, joint.high, *ends.tolist()], ratio)


def _marks(panel: Panel, axis: Axis, height: int, marked: set[str]) -> list[Html | None]:
    joint = panel.joint
    left = axis.place(joint.low)
    band = tag(
        "rect",
        x=axes.percent(left),
        width=axes.percent(round(axis.place(joint.high) - left, 2)),
        y=0,
        height="100%",
        class_="band",
    )
    marks: list[Html | None] = [
        tag("title", f"{joint.label}: the joint estimate and those of {len(panel.names)} sites"),
        *axes.grid(axis),
        band,
        axes.line_at(axis, 0.0, "none"),
        _diamond(axis, joint.value, height / 2),
    ]
    each = zip(panel.names, panel.values.tolist(), panel.errors.tolist(), strict=True)
    for k, (name, value, error) in enumerate(each):
        y = f"{(k + 1.5) * height:g}"
        kind = "differs" if name in marked else None
        reach = REACH * error
        marks.append(
            tag(
                "g",
                tag("title", _in_words(name, value, reach)),
                *axes.interval(axis, value - reach, value + reach, y),
                *axes.point(axis, value, y, size=3 if height > 15 else 2.4),
                class_=kind,
            )
        )
    return marks


def _diamond(axis: Axis, value: float, y: float) -> Html:
    """A square on its corner, in an inner drawing whose origin is the estimate."""
    shape = tag("path", d="M-5 0L0 -5L5 0L0 5Z", class_="diamond")
    return tag("svg", shape, x=axes.percent(axis.place(value)), y=y, overflow="visible")


def _in_words(name: str, value: float, reach: float) -> str:
    if not math.isfinite(reach):
        return f"{name}: {written(value)}"
    return f"{name}: {written(value)} ({written(value - reach)} to {written(value + reach)})"


def _folded(panels: Sequence[Html]) -> Html | None:
    if not panels:
        return None
    words = counted(len(panels), "more coefficient")
    return tag("details", tag("summary", words), tag("div", *panels, class_="panels"))


def _numbers(kept: pd.DataFrame, rows: Sequence[Estimate]) -> Html:
    heads = ["Site", *(row.label for row in rows)]
    body: list[list[Any]] = [
        [str(name), *(_number(own, row.label) for row in rows)] for name, own in kept.iterrows()
    ]
    caption = "Estimates of each site alone, with standard errors in brackets"
    shown = scrolled(table(caption, heads, body, kind="plain"), caption)
    return tag("details", tag("summary", "The numbers behind these plots"), shown)


def _number(own: Any, label: str) -> str:
    value = float(own[f"own {label}"])
    error = float(own[f"own se {label}"])
    if math.isnan(error):
        return written(value)
    decimals = decimals_for(error, digits=2)
    return f"{written(value, decimals)} ({written(error, decimals)})"
