"""How near the answer is to that on the pooled table, and what it took to get there."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pdmm.tables.page import axes
from pdmm.tables.page.axes import Axis
from pdmm.tables.page.elements import Html, joined, paragraph, section, tag, terms
from pdmm.tables.page.numbers import counted, in_bytes, number
from pdmm.tables.page.words import capital
from pdmm.tables.summary import in_words

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

HEIGHT = 170
FEWEST = 3  # points that make a curve
NEGLIGIBLE = 1e-3  # standard errors: no digit that is reported depends on less


def convergence(fit: "Fit") -> Html:
    """The section."""
    return section(
        "convergence",
        "Convergence and certificate",
        paragraph(in_words(fit), kind="lead"),
        paragraph(_meaning(fit)),
        _run(fit),
        _path(fit),
    )


def _run(fit: "Fit") -> Html:
    plot = _plot(fit)
    if plot is None:
        return terms(_facts(fit))
    return tag("div", plot, terms(_facts(fit), kind="facts stacked"), class_="beside")


def in_short(fit: "Fit") -> str:
    """The certificate, for the top of the page."""
    return in_words(fit)


def _meaning(fit: "Fit") -> str:
    certificate = fit.certificate
    if certificate.gap is None:
        return (
            "Treat the coefficients as unfinished: more rounds, or another method, may move them."
        )
    said = (
        "This is proven from the gradients and curvature of all sites at the answer, rounding "
        "included; it does not rest on how the run looked."
    )
    bound = certificate.standard_errors
    if bound is not None and not fit.stored.penalised and bound < NEGLIGIBLE:
        said += " No digit on this page would differ if all rows were in one table."
    return said


def _facts(fit: "Fit") -> Iterator[tuple[str, Any]]:
    how = fit.stored.how
    up, down = how["bytes_up"], how["bytes_down"]
    yield "Rounds", how["rounds"]
    yield "Sent by the sites", f"{in_bytes(up)} together, {_each(up, how['clients'])}"
    yield "Sent to the sites", f"{in_bytes(down)} together, {_each(down, how['clients'])}"
    yield "Method", tag("code", how["method"])
    if how["choices"]:
        yield "Why this method", f"{capital('; '.join(str(one) for one in how['choices']))}."
    yield "Why it stopped", f"{capital(str(how['reason']))}."


def _each(count: int, clients: int) -> str:
    return f"{in_bytes(count / max(1, clients))} for each"


# --- plots ------------------------------------------------------------------------------------


def _plot(fit: "Fit") -> Html | None:
    how = fit.stored.how
    rounds = [float(r) for r in how["recorded"]]
    decrement = [number(value) for value in how["decrement"] or []]
    points = [(r, v) for r, v in zip(rounds, decrement, strict=False) if v > 0]
    what = "Standard errors still to go, by Newton’s decrement"
    if len(points) < 2:
        objective = [number(value) for value in how["objective"]]
        last = objective[-1] if objective else math.nan
        points = [(r, v - last) for r, v in zip(rounds, objective, strict=False) if v > last]
        what = "The objective, above its last value"
    if len(points) < FEWEST:
        return None
    heights = [math.log10(value) for _, value in points]
    low, high = math.floor(min(heights)), math.ceil(max(heights))
    scale = Axis(low - 0.2, max(high, low + 1) + 0.2)
    shown = [r for r, _ in points]
    across = Axis(min(shown) - 0.3, max(shown) + 0.3)
    places = [(across.place(r), _y(scale, h)) for (r, _), h in zip(points, heights, strict=True)]
    marks = [tag("title", f"{what}, from {points[0][1]:.2g} to {points[-1][1]:.2g}")]
    marks += _levels(scale, low, high)
    marks += _joined_points(places)
    labels = [
        tag("text", f"{k}", x=axes.percent(across.place(k)), y="1em", text_anchor="middle")
        for k in _rounds(int(max(shown)))
        if across.holds(k)
    ]
    return _figure(what, marks, labels, "Rounds")


def _y(scale: Axis, value: float) -> float:
    return round(HEIGHT * (1 - scale.place(value) / 100), 1)


def _levels(scale: Axis, low: int, high: int) -> list[Html]:
    step = max(1, math.ceil((high - low) / 5))
    marks = []
    for k in range(low, high + 1, step):
        y = _y(scale, k)
        marks.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid"))
        words = "1" if k == 0 else f"1e{k}"
        marks.append(tag("text", words, x=-6, y=y, dy="0.32em", text_anchor="end"))
    return marks


def _joined_points(places: list[tuple[float, float]]) -> list[Html]:
    lines = [
        tag("line", x1=axes.percent(a), y1=b, x2=axes.percent(c), y2=d, class_="curve")
        for (a, b), (c, d) in pairwise(places)
    ]
    dots = [tag("circle", cx=axes.percent(x), cy=y, r=3, class_="dot") for x, y in places]
    return lines + (dots if len(places) <= 60 else [])


def _rounds(last: int) -> list[int]:
    step = next(s for s in (10**k * m for k in range(9) for m in (1, 2, 5)) if last / s <= 10)
    return list(range(0, last + 1, step))


def _figure(caption: str, marks: list[Html], labels: list[Html], below: str) -> Html:
    plot = tag("svg", *marks, role="img", height=HEIGHT, class_="open")
    ticks = tag("svg", *labels, class_="ticks", aria_hidden="true")
    return tag(
        "figure",
        tag("figcaption", caption),
        tag("div", plot, ticks, tag("div", below, class_="below"), class_="curves"),
    )


def _path(fit: "Fit") -> Html | None:
    """The loss of cross-validation for each penalty, where it is known."""
    path = fit.path
    if path is None or not {"penalty", "loss"} <= set(path.columns) or len(path) < 2:
        return None
    errors = path["error"] if "error" in path else path["loss"] * 0
    rows = [
        (math.log10(penalty), float(loss), number(error))
        for penalty, loss, error in zip(path["penalty"], path["loss"], errors, strict=True)
        if penalty > 0 and math.isfinite(loss)
    ]
    if len(rows) < 2:
        return None
    rows.sort()
    spread = [0.0 if math.isnan(error) else error for _, _, error in rows]
    ends = [
        loss + sign * e for (_, loss, _), e in zip(rows, spread, strict=True) for sign in (1, -1)
    ]
    scale = axes.spanning(ends, ratio=False)
    across = axes.spanning([at for at, _, _ in rows], ratio=False)
    marks = [tag("title", f"The loss of cross-validation for {len(rows)} penalties")]
    for at, words in scale.ticks:
        y = _y(scale, at)
        marks.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid"))
        marks.append(tag("text", words, x=-6, y=y, dy="0.32em", text_anchor="end"))
    for (at, loss, _), e in zip(rows, spread, strict=True):
        x = axes.percent(across.place(at))
        upper, lower = _y(scale, loss + e), _y(scale, loss - e)
        marks.append(tag("line", x1=x, x2=x, y1=upper, y2=lower, class_="interval"))
    marks += _joined_points([(across.place(at), _y(scale, loss)) for at, loss, _ in rows])
    powers = range(math.ceil(across.low), math.floor(across.high) + 1)
    labels = [
        tag("text", f"1e{k}", x=axes.percent(across.place(k)), y="1em", text_anchor="middle")
        for k in powers
    ]
    best = min(rows, key=lambda row: row[1])
    caption = (
        f"Loss of {counted(len(rows), 'penalty', 'penalties')} on rows that were left out, with "
        f"one standard error; it is smallest at {10 ** best[0]:.3g}"
    )
    return joined([tag("h3", "Cross-validation"), _figure(caption, marks, labels, "Penalty")])
