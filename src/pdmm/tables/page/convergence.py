"""How near the answer is to that on the pooled table, and what it took to get there."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pdmm.tables.page.axes import Axis
from pdmm.tables.page.between_sites import about_sums
from pdmm.tables.page.curves import curve, figure, levels_of, power, ticks_of
from pdmm.tables.page.elements import Html, paragraph, section, tag, terms
from pdmm.tables.page.numbers import in_bytes, number
from pdmm.tables.page.penalty_path import penalty_path
from pdmm.tables.page.words import capital
from pdmm.tables.summary import in_words

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

FEWEST = 3  # points that make a curve
NEGLIGIBLE = 1e-5  # standard errors, of which the table shows no less than 1e-3


def convergence(fit: "Fit") -> Html:
    """The section."""
    return section(
        "convergence",
        "Convergence and certificate",
        paragraph(in_words(fit), kind="lead"),
        paragraph(_meaning(fit)),
        _run(fit),
        penalty_path(fit.path),
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
        return _unproven(fit)
    bounded = certificate.standard_errors is None
    known = "gradients and the least curvature" if bounded else "gradients and curvature"
    said = (
        f"This is proven from the {known} of all sites at the answer, rounding included; it does "
        "not rest on how the run looked."
    )
    if certificate.proviso:
        said += f" It holds {certificate.proviso}: no proof knows more of the data than sites say."
    bound = certificate.standard_errors
    if bound is not None and not fit.stored.penalised and bound < NEGLIGIBLE:
        said += " That is far below the last digit that the table of coefficients shows."
    return said


def _unproven(fit: "Fit") -> str:
    said = "Treat the coefficients as unfinished: more rounds, or another method, may move them."
    if not fit.stored.no_errors:
        return said
    return (
        f"{said} How far they are from the answer on the pooled table cannot be proven from "
        "gradients alone: a proof needs the sites’ Hessians, as standard errors do."
    )


def _facts(fit: "Fit") -> Iterator[tuple[str, Any]]:
    how = fit.stored.how
    up, down = how["bytes_up"], how["bytes_down"]
    yield "Rounds", how["rounds"]
    if fit.path is not None:
        yield "Rounds of cross-validation", fit.path.attrs["rounds"]
    yield "Sent by the sites", f"{in_bytes(up)} together, {_each(up, how['clients'])}"
    yield "Sent to the sites", f"{in_bytes(down)} together, {_each(down, how['clients'])}"
    yield "Method", tag("code", how["method"])
    choices = [str(one) for one in how["choices"] if not about_sums(one)]
    if choices:
        yield "Why this method", f"{capital('; '.join(choices))}."
    yield "Why it stopped", f"{capital(str(how['reason']))}."


def _each(count: int, clients: int) -> str:
    return f"{in_bytes(count / max(1, clients))} for each"


# --- the plot ---------------------------------------------------------------------------------


def _plot(fit: "Fit") -> Html | None:
    """How far there was to go after each round, on a logarithmic axis."""
    points, what = _remaining(fit)
    if len(points) < FEWEST:
        return None
    exponents = [math.log10(value) for _, value in points]
    low = math.floor(min(exponents))
    high = max(math.ceil(max(exponents)), low + 1)
    up = Axis(low - 0.2, high + 0.2)
    last = points[-1][0]
    across = Axis(points[0][0] - 0.3, last + 0.3)
    step = max(1, math.ceil((high - low) / 5))
    levels = [(float(k), power(k)) for k in range(low, high + 1, step)]
    rounds = [(float(k), f"{k}") for k in _rounds(int(last)) if across.holds(k)]
    places = [(r, e) for (r, _), e in zip(points, exponents, strict=True)]
    return figure(
        caption=what,
        title=f"{what}: from {points[0][1]:.2g} to {points[-1][1]:.2g}",
        marks=[*levels_of(up, levels), *curve(across, up, places)],
        ticks=ticks_of(across, rounds),
        below="Rounds",
    )


def _remaining(fit: "Fit") -> tuple[list[tuple[float, float]], str]:
    """Rounds and how far there was to go, and what that is."""
    how = fit.stored.how
    rounds = [float(r) for r in how["recorded"]]
    decrement = [number(value) for value in how["decrement"] or []]
    points = [(r, v) for r, v in zip(rounds, decrement, strict=False) if v > 0]
    if len(points) > 1:
        if fit.stored.penalised:
            return points, "Newton’s decrement after each round"
        return points, "Standard errors still to go, by Newton’s decrement"
    objective = [number(value) for value in how["objective"]]
    lowest = min((v for v in objective if math.isfinite(v)), default=math.nan)
    points = [(r, v - lowest) for r, v in zip(rounds, objective, strict=False) if v > lowest]
    return points, "The objective, above its smallest value"


def _rounds(last: int) -> list[int]:
    """Round numbers from 0 to the last one, at most eleven."""
    steps = (10**k * m for k in range(9) for m in (1, 2, 5))
    step = next(step for step in steps if last / step <= 10)
    return list(range(0, last + 1, step))
