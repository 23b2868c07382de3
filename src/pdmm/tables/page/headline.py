"""The answer in two sentences, for the top of the page."""

from typing import TYPE_CHECKING

from pdmm.tables.page.coefficients import LEVEL
from pdmm.tables.page.estimates import Estimate, estimates
from pdmm.tables.page.numbers import counted, decimals_for, exponential, p_value, written
from pdmm.tables.page.words import ratio_name, why_no_errors

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

MILD = 1e-3  # a logarithm of a ratio closer to 0 than this, or further than its inverse, is not


def headline(fit: "Fit") -> str:
    """The answer in two sentences."""
    rows = [row for row in estimates(fit) if not row.intercept]
    if fit.stored.penalised:
        return _penalised(rows)
    if fit.why_no_errors:
        return why_no_errors(fit)
    if not rows:
        return "The model has an intercept and no other coefficient."
    clear = sum(1 for row in rows if row.p < LEVEL)
    first = max(rows, key=lambda row: abs(row.z))
    if clear == 0:
        return (
            f"No coefficient has p < 0.05. The smallest p-value is {p_value(first.p)}, of "
            f"{first.label}: {_effect(fit, first)}."
        )
    return (
        f"{clear} of {counted(len(rows), 'coefficient')} {'has' if clear == 1 else 'have'} "
        f"p < 0.05. The evidence is strongest for {first.label}: {_effect(fit, first)}."
    )


def _penalised(rows: list[Estimate]) -> str:
    other = sum(1 for row in rows if row.value != 0)
    if other == 0:
        return "The penalty set all coefficients but the intercept to 0."
    verb = "is" if other == 1 else "are"
    return (
        f"{other} of {counted(len(rows), 'coefficient')} {verb} not 0. A penalised fit has no "
        "standard errors or p-values."
    )


def _effect(fit: "Fit", row: Estimate) -> str:
    ratio = ratio_name(fit)
    if ratio is None:
        decimals = decimals_for(row.high - row.low, digits=2)
        inside = f"{written(row.low, decimals)} to {written(row.high, decimals)}"
        return f"coefficient {written(row.value, decimals)} (95% interval {inside})"
    # A ratio of a million, or of 1.000001, is that of a unit which nobody thinks in.
    units = 1.0 if MILD < abs(row.value) < 1 / MILD else row.units
    low, value, high = (exponential(units * end) for end in (row.low, row.value, row.high))
    decimals = max(2, decimals_for(high - low, digits=2))
    inside = f"{written(low, decimals)} to {written(high, decimals)}"
    each = "" if units == 1 else f" for {units:g} units"
    return f"{ratio.lower()}{each} {written(value, decimals)} (95% interval {inside})"
