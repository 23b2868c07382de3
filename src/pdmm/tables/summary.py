"""A fit as text, in the order in which statisticians read it."""

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

WIDTH = 78

COVARIANCES = {
    "model": "from the model",
    "robust": "robust (HC0)",
    "client": "clustered by client",
}


class Summary(str):
    """Text that a notebook or a prompt shows as it is printed."""

    def __repr__(self) -> str:
        return str(self)


def summarise(fit: "Fit") -> Summary:
    """The fit as text."""
    stored = fit.stored
    lines = [
        *textwrap.wrap(f"{title(stored.family)}: {fit.formula}", WIDTH, subsequent_indent="    "),
        "=" * WIDTH,
        *_facts(fit),
        "-" * WIDTH,
        *_coefficients(fit),
        "-" * WIDTH,
        *_paragraphs(fit),
    ]
    return Summary("\n".join(lines))


def title(family: str) -> str:
    """A family in words."""
    return {
        "gaussian": "Linear model",
        "binomial": "Logistic model",
        "poisson": "Poisson model",
        "gamma": "Gamma model, logarithmic link",
        "multinomial": "Multinomial logistic model",
        "cox": "Cox model, stratified by client",
        "huber": "Robust linear model (Huber)",
    }[family]


def _facts(fit: "Fit") -> list[str]:
    stored = fit.stored
    left = {
        "Clients": f"{stored.counts.clients:,}",
        "Rows": f"{fit.nobs:,.10g}",
        "Rows left out": f"{stored.counts.dropped:,}",
        "Rounds": f"{stored.how['rounds']}",
    }
    right = {
        "Log-likelihood": _number(fit.llf),
        "AIC": _number(fit.aic),
        "Deviance": _number(fit.deviance),
        "Scale": _number(fit.scale),
    }
    pairs = zip(left.items(), right.items(), strict=True)
    return [f"{a:<16}{b:>18}        {c:<16}{d:>20}" for (a, b), (c, d) in pairs]


def _number(value: float) -> str:
    return "-" if not np.isfinite(value) else f"{value:.6g}"


def _coefficients(fit: "Fit") -> list[str]:
    params = fit.params
    labels = fit.stored.layout.labels
    if fit.why_no_errors:
        wide = max(20, *(len(label) for label in labels))
        head = f"{'':<{wide}}{'coef':>14}"
        return [head, *(f"{n:<{wide}}{c:>14.6g}" for n, c in zip(labels, params, strict=True))]
    wide = max(12, *(len(label) for label in labels))
    inside = fit.conf_int()
    head = (
        f"{'':<{wide}}{'coef':>12}{'std err':>11}{'z':>9}{'P>|z|':>9}{'[0.025':>12}{'0.975]':>12}"
    )
    rows = zip(labels, params, fit.bse, fit.tvalues, fit.pvalues, inside[0], inside[1], strict=True)
    return [head, *(_row(wide, *row) for row in rows)]


def _row(wide: int, name: str, c: float, se: float, z: float, p: float, a: float, b: float) -> str:
    return f"{name:<{wide}}{c:>12.5g}{se:>11.4g}{z:>9.3f}{_p(p):>9}{a:>12.5g}{b:>12.5g}"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _paragraphs(fit: "Fit") -> list[str]:
    stored = fit.stored
    said = [*(_about_classes(fit)), *_about_levels(fit), _about_errors(fit), in_words(fit)]
    said += [f"Note: {note}." for note in stored.notes]
    return [line for text in said if text for line in textwrap.wrap(text, WIDTH)]


def _about_classes(fit: "Fit") -> list[str]:
    outcome = fit.stored.formula.outcome[0]
    if fit.family == "binomial" and fit.classes is not None:
        return [f"Modelled are the odds of {outcome} = {fit.classes[1]}."]
    if fit.family == "multinomial" and fit.classes is not None:
        others = [label for label in fit.classes if label not in fit.stored.layout.classes]
        if others:
            return [f"Classes are compared with {outcome} = {others[0]}."]
    return []


def _about_levels(fit: "Fit") -> list[str]:
    each = [f"{factor}: {levels[0]}" for factor, levels in fit.levels.items()]
    return [f"Reference levels: {', '.join(each)}."] if each else []


def _about_errors(fit: "Fit") -> str:
    if fit.stored.no_errors:
        return (
            f"Standard errors: none. {fit.stored.no_errors[0].upper()}{fit.stored.no_errors[1:]}."
        )
    if fit.why_no_errors:
        penalty = f"l1 = {fit.stored.l1:g}, l2 = {fit.stored.l2:g}. "
        return f"Penalty: {penalty}{fit.why_no_errors[0].upper()}{fit.why_no_errors[1:]}."
    return f"Standard errors: {COVARIANCES[fit.stored.covariance]}."


def in_words(fit: Any) -> str:
    """What the certificate proves."""
    certificate = fit.certificate
    if certificate.gap is None:
        return f"Nothing is certified: {fit.stored.how['reason']}."
    if fit.error_bound is not None:
        return (
            f"Certified: each coefficient is within {ceiling(fit.error_bound)} standard errors of "
            "the estimate on the pooled table."
        )
    return (
        "Certified: the objective is within "
        f"{ceiling(certificate.gap)} of its minimum on the pooled table."
    )


def ceiling(value: float) -> str:
    """A bound with two digits, rounded up so that it stays one."""
    if value == 0:
        return "0"
    text = f"{value:.1e}"
    if float(text) < value:
        exponent = int(np.floor(np.log10(value)))
        text = f"{float(text) + 10.0 ** (exponent - 1):.1e}"
    return f"{float(text):.2g}"
