"""How well the family suits the data, as far as sums over rows can tell."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pdmm.tables.inference import SCALED
from pdmm.tables.page.between_sites import between_sites
from pdmm.tables.page.elements import Html, paragraph, section, terms
from pdmm.tables.page.numbers import exact, whole, written

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

MORE = 1.2  # chi²/df above which variation is called more than the family's
LESS = 0.8
EVENTS = 10  # for each coefficient: with fewer, estimates and intervals are known to be poor


def diagnostics(fit: "Fit") -> Html:
    """The section."""
    return section(
        "diagnostics",
        "Diagnostics",
        *(paragraph(words) for words in _sentences(fit)),
        terms(_facts(fit), kind="facts figures"),
        paragraph(
            "These are sums over rows. Residuals and plots of single rows would reveal rows and "
            "are not part of this page: look at them inside each site.",
            kind="note",
        ),
    )


def dispersion(fit: "Fit") -> float:
    """Pearson's chi² for each degree of freedom, about 1 where the family's variance is right."""
    free = fit.df_resid
    return fit.pearson_chi2 / free if free > 0 else math.nan


def in_short(fit: "Fit") -> str | None:
    """What a reader must not miss; None where there is nothing."""
    return warning(fit)


def warning(fit: "Fit") -> str | None:
    """What speaks against the numbers of the page; None where nothing does."""
    if fit.stored.penalised:
        return None
    if _has_counts(fit) and dispersion(fit) > MORE and not fit.why_no_errors:
        return _overdispersed(fit)
    few = _few_events(fit)
    return few if few else None


def _has_counts(fit: "Fit") -> bool:
    """Whether chi²/df measures dispersion: of single rows of zeros and ones it does not."""
    if fit.family == "poisson":
        return True
    return fit.family == "binomial" and fit.classes is None and fit.stored.weights is not None


def _overdispersed(fit: "Fit") -> str:
    what = "counts" if fit.family == "poisson" else "proportions"
    model = "a Poisson model" if fit.family == "poisson" else "a binomial model"
    said = f"The {what} vary {dispersion(fit):.3g} times as much as {model} expects"
    if fit.stored.covariance != "model":
        return f"{said}; the standard errors here do not rely on that variance."
    if fit.scale > 1:
        return f"{said}; the standard errors here are computed with a scale of {fit.scale:.3g}."
    return (
        f"{said}: standard errors, p-values and score tests are too optimistic. Consider "
        "scale='pearson' or covariance='robust'."
    )


def _few_events(fit: "Fit") -> str | None:
    events = _fewer(fit)
    coefficients = fit.df_model
    if events is None or coefficients == 0 or events >= EVENTS * coefficients:
        return None
    what = "events" if fit.family == "cox" else "rows of the rarer class"
    return (
        f"There are {events / coefficients:.1f} {what} for each coefficient: with fewer than "
        f"{EVENTS}, estimates tend to be too far from 0 and intervals unreliable."
    )


def _fewer(fit: "Fit") -> float | None:
    """Events, or what has none if that is rarer."""
    if fit.family not in ("binomial", "cox"):
        return None
    events = fit.stored.counts.events
    return events if fit.family == "cox" else min(events, fit.nobs - events)


def _sentences(fit: "Fit") -> Iterator[str]:
    said = warning(fit)
    if said is not None:
        yield said
    ratio = dispersion(fit)
    if _has_counts(fit) and said is None and math.isfinite(ratio):
        verb = _compared(ratio)
        family = "a Poisson" if fit.family == "poisson" else "a binomial"
        yield f"The outcomes vary {verb} {family} model expects: chi²/df is {ratio:.3g}."
    if fit.family == "binomial" and not _has_counts(fit):
        yield (
            "For outcomes of two classes, row by row, deviance and Pearson’s chi² do not measure "
            "how well the model fits; compare nested models by likelihood-ratio tests, and look at "
            f"calibration {_on_new_rows(fit)}."
        )
    if fit.family == "gaussian" and fit.scale > 0:
        yield (
            "The standard deviation of the residuals is about "
            f"{written(math.sqrt(fit.scale))}, in units of the outcome."
        )
    if fit.family == "gamma" and fit.scale > 0:
        yield (
            f"Outcomes vary by about {math.sqrt(fit.scale):.0%} of their mean (the coefficient of "
            "variation, the square root of the scale)."
        )
    if fit.family == "cox":
        yield (
            "Each site has a baseline hazard of its own, so that differences of level between "
            "sites are allowed for, and not estimated. Whether hazards are proportional cannot be "
            "seen from these sums: check it inside each site."
        )
    if fit.family == "huber":
        yield "Huber’s loss is no likelihood: there is no log-likelihood, AIC or BIC."
    if fit.stored.penalised:
        yield (
            "Log-likelihood, deviance and criteria are those of the penalised coefficients; AIC "
            "and BIC count every coefficient in full, so that they do not compare penalised fits."
        )


def _compared(ratio: float) -> str:
    """How much outcomes vary, beside what the family expects."""
    if ratio > MORE:
        return "more than"
    return "less than" if ratio < LESS else "about as much as"


def _on_new_rows(fit: "Fit") -> str:
    if between_sites(fit.stored) is None:
        return "on new rows with fit.evaluate"
    return "on rows that sites set aside, with pdmm federate evaluate"


def _facts(fit: "Fit") -> Iterator[tuple[str, Any]]:
    yield "Rows" if fit.stored.weights is None else "Sum of weights", whole(fit.nobs)
    events = _fewer(fit)
    if events is not None:
        word = "Events" if fit.family == "cox" else "Rarer class"
        yield word, whole(events)
    yield "Coefficients", whole(len(fit.stored.x))
    likelihood = "Partial log-likelihood" if fit.family == "cox" else "Log-likelihood"
    loss = "Loss, twice" if fit.family == "huber" else "Deviance"
    values = {
        likelihood: fit.llf,
        "AIC": fit.aic,
        "BIC": fit.bic,
        loss: fit.deviance,
        "Pearson chi²": fit.pearson_chi2,
    }
    if _has_counts(fit):
        values["chi²/df"] = dispersion(fit)
    if fit.family in SCALED or fit.scale != 1:
        values["Scale"] = fit.scale
    for name, value in values.items():
        if math.isfinite(value):
            yield name, exact(value, written(value, decimals=_decimals(value)))


def _decimals(value: float) -> int:
    return 1 if abs(value) >= 1000 else 3
