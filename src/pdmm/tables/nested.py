"""Tests of coefficients, and of a smaller model against a larger one."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from pdmm.tables.inference import SCALED, Test, wald_test

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit


def wald(fit: "Fit", names: Any) -> Test:
    """Whether all of these coefficients may be 0."""
    index = fit.stored.layout.index
    chosen = [position for position, name in enumerate(index) if _is_meant(name, names)]
    unknown = [one for one in names if not any(_is_meant(name, [one]) for name in index)]
    if unknown or not chosen:
        raise ValueError(f"{unknown!r} are no coefficients of the model")
    covariance = fit.cov_params().to_numpy()[np.ix_(chosen, chosen)]
    return wald_test(fit.params.to_numpy()[chosen], covariance)


def _is_meant(name: Any, wanted: Any) -> bool:
    """Whether a coefficient is meant; of a multinomial model its name stands for all classes."""
    if name in wanted:
        return True
    return isinstance(name, tuple) and name[1] in wanted


def likelihood_ratio(fit: "Fit", restricted: "Fit") -> Test:
    """Whether a smaller model on the same rows explains them as well."""
    df = len(extra(fit, restricted))
    if fit.stored.penalised or restricted.stored.penalised:
        raise ValueError("a likelihood-ratio test needs fits without a penalty")
    statistic = 2 * (fit.llf - restricted.llf)
    if fit.family in SCALED or fit.scale != 1:
        # As an analysis of deviance: the scale is that of the larger model.
        statistic = (restricted.deviance - fit.deviance) / fit.scale
    return Test(statistic, df, float(stats.chi2.sf(statistic, df)))


def extra(fit: "Fit", restricted: "Fit") -> list[Any]:
    """The coefficients that a smaller model lacks."""
    if not hasattr(restricted, "stored"):
        raise ValueError(f"restricted must be a fit, got {type(restricted).__name__}")
    mine = list(fit.params.index)
    theirs = list(restricted.params.index)
    lacking = [name for name in theirs if name not in mine]
    more = [name for name in mine if name not in theirs]
    if lacking or not more or fit.family != restricted.family:
        raise ValueError(
            f"{restricted.formula!r} is not nested in {fit.formula!r}: the smaller model must have "
            "the same family and a part of the coefficients"
        )
    if _explained(fit) != _explained(restricted):
        raise ValueError(
            f"{restricted.formula!r} is not nested in {fit.formula!r}: the outcome, the offset and "
            "the weights must be the same"
        )
    if not np.isclose(fit.nobs, restricted.nobs, rtol=1e-12):
        raise ValueError(
            f"the models were fitted to {fit.nobs:g} and {restricted.nobs:g} rows: they must have "
            "the same ones"
        )
    return more


def _explained(fit: "Fit") -> tuple[Any, ...]:
    """What a model explains, and what it takes as given."""
    stored = fit.stored
    return (stored.formula.outcome, fit.classes, stored.offset, stored.weights)
