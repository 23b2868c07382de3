"""What a page calls things, family by family."""

from typing import TYPE_CHECKING

from pdmm.tables.summary import title

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

RATIOS = {
    "binomial": "Odds ratio",
    "poisson": "Rate ratio",
    "gamma": "Ratio of means",
    "multinomial": "Odds ratio",
    "cox": "Hazard ratio",
}

MODELS = {
    "gaussian": "linear regression: the mean of the outcome is a sum of effects",
    "binomial": "logistic regression: the logarithm of the odds is a sum of effects",
    "poisson": "Poisson regression: the logarithm of the expected count is a sum of effects",
    "gamma": "gamma regression: the logarithm of the mean is a sum of effects, and the standard "
    "deviation is proportional to the mean",
    "multinomial": "multinomial logistic regression: the logarithms of the odds between classes "
    "are sums of effects",
    "cox": "Cox's proportional hazards: the logarithm of the hazard is a sum of effects, and each "
    "site has a baseline hazard of its own",
    "huber": "robust linear regression with Huber's loss, on which rows far from the rest have a "
    "bounded influence",
}


def outcome(fit: "Fit") -> str:
    """The left side of the formula."""
    return fit.formula.split("~")[0].strip()


def heading(fit: "Fit") -> str:
    """What the page is about."""
    kind = title(fit.family).split(",")[0]
    return f"{kind} of {outcome(fit)}"


def reference_class(fit: "Fit") -> str | None:
    """Of a multinomial model, the class that others are compared with."""
    absent = [label for label in fit.classes or () if label not in fit.stored.layout.classes]
    if fit.family != "multinomial" or not absent:
        return None
    return str(absent[0])


def ratio_name(fit: "Fit") -> str | None:
    """What exp(coefficient) is called; None where it means nothing."""
    if fit.family == "multinomial" and reference_class(fit) is None:
        return None
    return RATIOS.get(fit.family)


def why_no_errors(fit: "Fit") -> str:
    """Why there are no standard errors, in sentences; empty where there are."""
    kept = fit.stored.no_errors
    if not fit.stored.penalised:
        return f"There are no standard errors, intervals or p-values: {kept}." if kept else ""
    said = (
        "A penalised fit has no standard errors or p-values: a penalty moves coefficients towards "
        "0 on purpose, and the usual formulas do not know of that."
    )
    if kept:
        return f"{said} A fit without a penalty would have none here either: {kept}."
    return f"{said} Fit without l1 and l2 for them."


def modelled(fit: "Fit") -> str:
    """The outcome in words, with the class whose odds are modelled."""
    left = outcome(fit)
    classes = fit.classes
    if fit.family == "binomial":
        event = f"{left} = {classes[1]}" if classes is not None else f"{left} = 1"
        other = f"{left} = {classes[0]}" if classes is not None else f"{left} = 0"
        return f"the odds of {event} against {other}"
    if fit.family == "multinomial" and classes is not None:
        reference = reference_class(fit)
        words = ", ".join(str(label) for label in classes)
        against = f"each compared with {reference}" if reference else "each with coefficients"
        return f"the classes {words} of {left}; {against}"
    if fit.family == "cox":
        time, event = fit.stored.formula.outcome
        return f"the time {time} until the event {event}"
    if fit.family in ("poisson", "gamma"):
        return f"the logarithm of the mean of {left}"
    return f"the mean of {left}"


def capital(text: str) -> str:
    """A sentence begins with a capital letter."""
    return text[:1].upper() + text[1:]
