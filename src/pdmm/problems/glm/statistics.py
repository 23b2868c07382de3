"""What a client says of its rows at the fitted x, from which a statistician's numbers are made.

Every number is a sum over the client's rows, so that those of all clients only have to be added.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from pdmm.common.matrices import Matrix, dense
from pdmm.problems.glm.families import Binomial, Family, Gamma, Gaussian, Huber, Poisson
from pdmm.problems.glm.models import Look, RowModel, gram

if TYPE_CHECKING:
    from pdmm.problems.glm.problem import GLM

Vector = npt.NDArray[np.float64]
CHUNK = 4096  # rows whose products of scores are held at a time


class Statistics(NamedTuple):
    """Sums over one client's rows, or over all of them."""

    n: float
    """The sum of the sample weights."""
    events: float
    """The sum of the outcomes, of a binomial model; the number of events, of Cox's; else 0."""
    gradient: Vector
    """(d,): of f_i, which is minus the score."""
    hessian: Vector
    """(d, d): the observed information."""
    expected: Vector
    """(d, d): the expected information; the observed one where both are the same, or it is none."""
    squares: Vector
    """(d, d): the sum over rows of score times score'; zeros where it was not asked for."""
    deviance: float
    pearson: float
    """Pearson's chi²; NaN where there is none."""
    likelihood: Vector
    """What the log-likelihood is made of: itself, or the sums of ``log_likelihood`` below."""

    def plus(self, other: "Statistics") -> "Statistics":
        """Those of two clients together."""
        pairs: Any = zip(self, other, strict=True)
        return Statistics(*(mine + yours for mine, yours in pairs))


def statistics(problem: "GLM", x: Vector, i: int, robust: bool) -> Statistics:
    """What the i-th client says at x.

    Args:
        problem: the model and all its rows.
        x: where.
        i: which client.
        robust: whether ``squares`` is asked for.
    """
    block = problem.at(slice(i, i + 1))
    eta = block.design.eta(x)
    with np.errstate(over="ignore", invalid="ignore"):
        look = block.model.look(eta)
        hessian = block._hessian(look)[0]
    A = block.design.A[0]
    w = block.model.w
    y = problem._rows.y[problem._rows_of(np.array([i]))]
    d = problem.dimension
    squares = np.zeros((d, d))
    if robust and problem.family == "cox":
        squares = _cox_squares(dense(A), y, w, eta)
    elif robust:
        squares = _squares(A, look.slope.reshape(len(w), -1), w)
    return Statistics(
        n=float(w.sum()),
        events=_events(problem.family, y, w),
        gradient=block.design.gradient(look.slope)[0],
        hessian=hessian,
        expected=_expected(block.model, A, look, hessian),
        squares=squares,
        deviance=_deviance(problem._rowwise, eta, y, w, look),
        pearson=_pearson(problem._rowwise, eta, y, w),
        likelihood=_likelihood(problem._rowwise, eta, y, w, look),
    )


def _events(family: str, y: Vector, w: Vector) -> float:
    if family == "cox":
        return float(w @ y[:, 1])
    return float(w @ y) if family == "binomial" else 0.0


def _expected(model: object, A: Matrix, look: Look, hessian: Vector) -> Vector:
    """Of gamma, whose link is not the canonical one, the curvature that is expected is 1."""
    if isinstance(model, RowModel) and isinstance(model.family, Gamma):
        return gram(A, model.w)
    return hessian


def _squares(A: Matrix, slope: Vector, w: Vector) -> Vector:
    """The sum of s s' over rows, each counted as often as its weight says."""
    counted = w > 0
    root = np.where(counted, 1 / np.sqrt(np.where(counted, w, 1.0)), 0.0)
    if slope.shape[1] == 1:
        return gram(A, (slope[:, 0] * root) ** 2)
    d = A.shape[1] * slope.shape[1]
    total = np.zeros((d, d))
    for start in range(0, len(w), CHUNK):
        rows = slice(start, start + CHUNK)
        own = dense(A[rows])[:, :, None] * (slope[rows] * root[rows, None])[:, None, :]
        scores = own.reshape(len(own), d)
        total += scores.T @ scores
    return total


def _cox_squares(X: Vector, y: Vector, w: Vector, eta: Vector) -> Vector:
    """The same for Cox's model: rows' scores with Breslow's hazard (Lin and Wei, 1989)."""
    time, event = y[:, 0], y[:, 1]
    risk = w * np.exp(eta - eta.max(initial=0.0))
    late = np.argsort(-time, kind="stable")
    at = np.unique(time[(event > 0) & (w > 0)])
    if not at.size:
        return np.zeros((X.shape[1], X.shape[1]))
    # The rows at risk at each of these times are the first of `late`.
    ends = np.searchsorted(-time[late], -at, side="right")
    total = np.append(0.0, np.cumsum(risk[late]))[ends]
    moved = np.vstack([np.zeros(X.shape[1]), np.cumsum(risk[late, None] * X[late], axis=0)])[ends]
    mean = moved / total[:, None]
    deaths = np.bincount(np.searchsorted(at, time[event > 0]), w[event > 0], minlength=at.size)
    hazard = deaths / total
    until = np.searchsorted(at, time, side="right")
    gone = np.append(0.0, np.cumsum(hazard))[until]
    gone_mean = np.vstack([np.zeros(X.shape[1]), np.cumsum(hazard[:, None] * mean, axis=0)])[until]
    own = mean[np.minimum(np.searchsorted(at, time), at.size - 1)]
    relative = np.exp(eta - eta.max(initial=0.0))
    scores = event[:, None] * (X - own) - relative[:, None] * (X * gone[:, None] - gone_mean)
    return np.asarray((scores * w[:, None]).T @ scores)


def _deviance(family: Family | None, eta: Vector, y: Vector, w: Vector, look: Look) -> float:
    """Twice what the log-likelihood of a model with a parameter for each row is larger by."""
    if family is None:
        return 2 * float(look.value[0])
    return 2 * float(look.value[0] + w @ saturated(family, y))


def saturated(family: Family | None, y: Vector) -> Vector:
    """(N,): minus the smallest loss that each row could have, from which deviances count."""
    if isinstance(family, Binomial):
        return np.asarray(xlogy(y, y) + xlogy(1 - y, 1 - y))
    if isinstance(family, Poisson):
        return np.asarray(xlogy(y, y) - y)
    if isinstance(family, Gamma):
        return np.asarray(-np.log(y) - 1)
    return np.zeros(len(y))  # gaussian and Huber; classes and survival have no constant either


def constants(problem: "GLM") -> Vector:
    """(N,): what each row adds to half the deviance beside its loss."""
    return problem.rows.w * saturated(problem._rowwise, problem.rows.y)


def _pearson(family: Family | None, eta: Vector, y: Vector, w: Vector) -> float:
    if family is None or isinstance(family, Huber):
        return np.nan
    mu = family.mean(eta)
    if isinstance(family, Binomial):
        variance = mu * family.mean(-eta)
    elif isinstance(family, Poisson):
        variance = mu
    elif isinstance(family, Gamma):
        variance = mu * mu
    else:
        variance = np.ones_like(mu)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(w > 0, w * (y - mu) ** 2 / variance, 0.0)
    return float(each.sum())


def _likelihood(family: Family | None, eta: Vector, y: Vector, w: Vector, look: Look) -> Vector:
    """Sums from which the log-likelihood of all rows is made, whatever the scale will be."""
    if family is None:
        return np.array([-float(look.value[0])])
    if isinstance(family, Huber):
        return np.array([np.nan])
    if isinstance(family, Gaussian):
        return np.array([float(w @ (y - eta) ** 2)])
    if isinstance(family, Gamma):
        ratio = y * np.exp(-eta)
        return np.array([w @ np.log(ratio), w @ ratio, w @ np.log(y)], dtype=np.float64)
    if isinstance(family, Binomial) and np.isin(y, (0.0, 1.0)).all():
        return np.array([-float(look.value[0])])  # all constants are 0
    return np.array([family.likelihood(eta, y, w, 0.0)])
