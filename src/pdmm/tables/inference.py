"""What a statistician expects of a fit: covariance, scale, likelihood, and tests, from sums."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.linalg import cho_factor, cho_solve
from scipy.special import gammaln

from pdmm.problems.glm.statistics import Statistics
from pdmm.tables.silos import Totals

Vector = npt.NDArray[np.float64]

SCALED = ("gaussian", "gamma")
"""Families whose scale is estimated."""


class Inference(NamedTuple):
    """The numbers of a fit beside its coefficients."""

    n: float
    scale: float
    covariance: Vector | None
    """(d, d) in the order of x; None where there is none."""
    spread: Vector | None
    """(d,): the roots of the diagonal of the inverse Hessian, in which certificates measure."""
    log_likelihood: float
    deviance: float
    pearson: float


class Test(NamedTuple):
    """A statistic, its degrees of freedom and its p-value by the chi² distribution."""

    statistic: float
    df: int
    pvalue: float


def infer(
    totals: Totals, family: str, covariance: str, scale: Any, errors: bool = True
) -> Inference:
    """Put together what the clients' sums say.

    Args:
        totals: of all clients.
        family: its name.
        covariance: "model", "robust" or "client".
        scale: None for the family's own, "pearson" for chi²/(n - p), or a number.
        errors: whether there is a covariance; a penalised fit has none.
    """
    total = totals.sums
    d = len(total.gradient)
    free = total.n - d
    phi = 1.0
    if scale == "pearson" or (scale is None and family in SCALED):
        phi = total.pearson / free if free > 0 else np.nan
    elif scale is not None:
        phi = float(scale)
    shown = Inference(
        n=total.n,
        scale=phi,
        covariance=None,
        spread=None,
        log_likelihood=log_likelihood(total, family, phi),
        deviance=total.deviance,
        pearson=total.pearson,
    )
    if not errors:
        return shown
    model = phi * inverse(total.expected)
    return shown._replace(
        spread=np.sqrt(np.diag(inverse(total.hessian))),
        covariance=model if covariance == "model" else _sandwich(totals, family, covariance),
    )


def _sandwich(totals: Totals, family: str, covariance: str) -> Vector:
    """I⁻¹ (sum of squared scores) I⁻¹, over rows or over clients."""
    total = totals.sums
    bread = inverse(total.hessian)
    if covariance == "robust":
        return np.asarray(bread @ total.squares @ bread)
    assert totals.scores is not None
    G, d = totals.clients, len(total.gradient)
    # The correction for few clusters that sm.GLM makes; PHReg and R make none for Cox's model.
    factor = 1.0 if family == "cox" else G / (G - 1) * (total.n - 1) / (total.n - d)
    return np.asarray(factor * bread @ totals.scores @ bread)


def log_likelihood(total: Statistics, family: str, scale: float) -> float:
    """With its constants, as ``GLM.log_likelihood``, at a scale, as ``sm.GLM`` has it."""
    n = total.n
    if family == "gaussian":
        return -n / 2 * (float(np.log(2 * np.pi * total.likelihood[0] / n)) + 1)
    if family == "poisson":
        return float(total.likelihood[0]) / scale
    if family != "gamma":
        return float(total.likelihood[0])
    logs, ratios, outcomes = total.likelihood
    inside = (logs - n * np.log(scale) - ratios) / scale
    return float(inside - n * gammaln(1 / scale) - outcomes)


def inverse(information: Vector) -> Vector:
    """The inverse of a positive definite matrix whose entries may differ by many powers of ten."""
    root = np.sqrt(np.diag(information))
    factor = cho_factor(information / np.outer(root, root), check_finite=False)
    found = cho_solve(factor, np.eye(len(root)), check_finite=False)
    return np.asarray((found + found.T) / 2 / np.outer(root, root))


def score_test(own: Statistics, information: Vector, scale: float) -> Test:
    """Whether this client differs from the rest.

    T = g'(H - H I⁻¹ H)⁺ g/phi, chi² with the rank of that matrix as degrees of freedom.

    Args:
        own: of the client, at the joint optimum.
        information: I⁻¹ of all clients together.
        scale: phi.
    """
    H, g = own.hessian, own.gradient
    spread = H - H @ information @ H
    size = np.sqrt(np.maximum(np.diag(H), 0.0))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh((spread + spread.T) / 2 / np.outer(size, size))
    kept = values > 1e-9 * len(values)
    rank = int(kept.sum())
    if rank == 0:
        return Test(np.nan, 0, np.nan)
    along = vectors[:, kept].T @ (g / size)
    statistic = float((along**2 / values[kept]).sum()) / scale
    return Test(statistic, rank, float(stats.chi2.sf(statistic, rank)))


def wald_test(estimate: Vector, covariance: Vector) -> Test:
    """Whether all of these coefficients may be 0."""
    statistic = float(estimate @ np.linalg.solve(covariance, estimate))
    return Test(statistic, len(estimate), float(stats.chi2.sf(statistic, len(estimate))))


def dependent(information: Vector, names: Sequence[str], nothing: str) -> list[str]:
    """Which columns are combinations of those before them, in words.

    Args:
        information: X'WX in the order of the names.
        names: of the columns.
        nothing: what is said of a column that has no part in it.
    """
    size = np.sqrt(np.maximum(np.diag(information), 0.0))
    found = [f"{names[j]!r} {nothing}" for j in np.flatnonzero(size == 0).tolist()]
    C = information / np.outer(np.where(size > 0, size, 1.0), np.where(size > 0, size, 1.0))
    kept: list[int] = []
    for j in np.flatnonzero(size > 0).tolist():
        if kept:
            part = np.linalg.lstsq(C[np.ix_(kept, kept)], C[kept, j], rcond=1e-12)[0]
            if 1 - C[kept, j] @ part < 1e-8:
                others = [names[k] for k, c in zip(kept, part, strict=True) if abs(c) > 1e-5]
                words = " and ".join(repr(name) for name in others)
                found.append(f"{names[j]!r} is a combination of {words}")
                continue
        kept.append(j)
    return found
