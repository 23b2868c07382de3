"""What was asked: the model, its outcome, and how rows were treated."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pdmm.tables.page.between_sites import about_sums, between_sites
from pdmm.tables.page.elements import Html, joined, paragraph, section, tag, terms
from pdmm.tables.page.numbers import counted, listed
from pdmm.tables.page.words import MODELS, capital, modelled

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

MISSING = {
    "error": "refused: no row that was used has a missing entry",
    "drop": "rows with a missing entry are left out",
    "mean": "a missing number is replaced by the mean over all sites; rows with other missing "
    "entries are left out",
}

COVARIANCES = {
    "model": "from the model, which trusts the variance of the family",
    "robust": "robust (HC0), which do not trust the variance of the family",
    "client": "clustered by site, which allow rows of a site to depend on each other",
}


def asked(fit: "Fit") -> Html:
    """The section."""
    return section("asked", "What was asked", terms(_facts(fit)), _dot(fit), _notes(fit))


def _facts(fit: "Fit") -> Iterator[tuple[str, Any]]:
    stored = fit.stored
    yield "Formula", tag("code", fit.formula)
    yield "Model", f"{capital(MODELS[fit.family])}."
    yield "Outcome", f"{capital(modelled(fit))}."
    if fit.family == "cox":
        yield "Tied times", f"{capital(stored.ties)}’s method."
    if stored.delta is not None:
        yield "Huber’s delta", f"{stored.delta:g}, in units of the outcome."
    if stored.offset is not None:
        yield "Offset", joined([tag("code", stored.offset), ", added to the linear predictor."])
    if stored.weights is not None:
        yield "Weights", joined([tag("code", stored.weights), ": how often each row counts."])
    if stored.penalised:
        yield "Penalty", _penalty(fit)
    absent = _absent(fit)
    if absent:
        yield capital(listed(absent)), "None."
    yield "Missing values", f"{capital(MISSING[stored.missing])}.{_left_out(fit)}"
    yield "Reference levels", _levels(fit)
    if not fit.why_no_errors:
        yield "Standard errors", f"{capital(COVARIANCES[stored.covariance])}."
    if stored.client is not None:
        yield "Sites", _named_by(fit, tag("code", stored.client))


def _named_by(fit: "Fit", column: Html) -> Html:
    if between_sites(fit.stored) is None:
        return joined(["Told apart by the column ", column, "."])
    return joined(["The column ", column, " holds their names."])


def _absent(fit: "Fit") -> list[str]:
    """What a model may have, and this one has not."""
    stored = fit.stored
    there = {
        "offset": stored.offset is not None,
        "weights": stored.weights is not None,
        "penalty": stored.penalised,
    }
    return [name for name, has in there.items() if not has]


def _penalty(fit: "Fit") -> str:
    stored = fit.stored
    parts = []
    if stored.l1 > 0:
        parts.append(f"l1 = {stored.l1:.6g}, the weight of the sum of the absolute coefficients")
    if stored.l2 > 0:
        parts.append(
            f"l2 = {stored.l2:.6g}, the weight of half the sum of the squared coefficients"
        )
    said = f"{'; '.join(parts)}."
    if stored.standardise:
        said += " Columns are penalised as if their standard deviation were 1."
    if fit.path is not None:
        said += " It was chosen by cross-validation."
    return f"{said} The intercept is not penalised."


def _left_out(fit: "Fit") -> str:
    dropped = fit.stored.counts.dropped - fit.stored.unlabelled
    said = []
    if dropped:
        said.append(f" {counted(dropped, 'row was', 'rows were')} left out.")
    if fit.stored.unlabelled:
        count = counted(fit.stored.unlabelled, "row without a site was", "rows without a site were")
        said.append(f" {count} left out.")
    return "".join(said)


def _levels(fit: "Fit") -> Any:
    if not fit.levels:
        return "The formula has no categories."
    each = [_level(factor, levels) for factor, levels in fit.levels.items()]
    return joined(each, by="; ")


def _level(factor: str, levels: tuple[Any, ...]) -> Html:
    others = listed([str(level) for level in levels[1:]])
    against = f" (against {others})" if others else ""
    return joined([tag("code", factor), ": ", tag("b", levels[0]), against])


def _dot(fit: "Fit") -> Html | None:
    """The columns that a dot of the formula stands for."""
    if not re.search(r"~.*(?<![\w.])\.(?![\w.])", fit.formula):
        return None
    right = fit.stored.formula.right.removeprefix("1 + ")
    return paragraph(
        "With the dot written out, the right side is ", tag("code", right), ".", kind="after"
    )


def _notes(fit: "Fit") -> Html | None:
    notes = [note for note in fit.notes if not about_sums(note)]
    if not notes:
        return None
    each = [tag("li", f"{capital(note)}.") for note in notes]
    return joined([tag("h3", "Notes on how the data were read"), tag("ul", *each)])
