"""Families whose rows each have one linear predictor eta: a row's loss and its derivatives."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import entr, gammaln

from pdmm.common.checks import positive
from pdmm.common.rounding import UNIT

Vector = npt.NDArray[np.float64]

EVALUATED = 16 * UNIT  # the relative error of exp, a quotient and a few sums


class Terms(NamedTuple):
    """A loss of each row, and its first two derivatives in eta."""

    loss: Vector
    slope: Vector
    bend: Vector


class Family(ABC):
    """What a row with the outcome y adds to f_i, as a function of its linear predictor eta."""

    name: str
    smooth = True
    """Whether the second derivative is bounded."""
    steepest = 1.0
    """Its largest value, where it is bounded."""

    @abstractmethod
    def terms(self, eta: Vector, y: Vector) -> Terms:
        """Loss and derivatives; infinite where exp overflows."""

    def majorant(self, eta: Vector, y: Vector) -> Vector:
        """A second derivative that means something around eta too, for metrics."""
        return self.terms(eta, y).bend

    @abstractmethod
    def loss(self, eta: Vector, y: Vector) -> Vector:
        """The loss alone; eta may have more axes than y, in front."""

    def least(self, y: Vector) -> Vector:
        """The least loss that any eta gives."""
        return np.zeros_like(y)

    @abstractmethod
    def divergence(self, eta: Vector, t: Vector, y: Vector) -> Vector:
        """loss(eta + t) - loss(eta) - loss'(eta) t, without cancellation."""

    @abstractmethod
    def mean(self, eta: Vector) -> Vector:
        """The expected outcome."""

    @abstractmethod
    def start(self, y: Vector, w: Vector) -> tuple[Vector, Terms]:
        """Where to begin: an eta of each row's own, and the quadratic there."""

    def slope_doubt(self, terms: Terms, y: Vector, doubt: Vector) -> Vector:
        """How far the slope can be off where eta is off by at most ``doubt``.

        These losses have |third derivative| <= second derivative: within a distance t the second
        changes by a factor of at most e^t.
        """
        own = EVALUATED * (np.abs(terms.slope) + self.evaluated(terms, y))
        return np.asarray(1.01 * terms.bend * np.expm1(doubt) + own)

    def evaluated(self, terms: Terms, y: Vector) -> Vector:
        """The size of what cancels in the slope."""
        return np.abs(y)

    def reach(self, squares: Vector, eta: Vector, y: Vector) -> Vector:
        """R² of each row, whose rows have these squared norms."""
        return squares

    def sides(self, y: Vector) -> Vector | None:
        """+1 or -1 for rows whose outcome is on one side, 0 for others; None if none has."""
        return None

    def likelihood(self, eta: Vector, y: Vector, w: Vector, free: float) -> float:
        """The log-likelihood with its constants.

        Args:
            eta: linear predictors.
            y: outcomes.
            w: weights, which count rows.
            free: how many parameters there are.
        """
        raise NotImplementedError


class Gaussian(Family):
    """Least squares."""

    name = "gaussian"

    def terms(self, eta: Vector, y: Vector) -> Terms:
        r = eta - y
        return Terms(r * r / 2, r, np.ones_like(r))

    def loss(self, eta: Vector, y: Vector) -> Vector:
        r = eta - y
        return r * r / 2

    def divergence(self, eta: Vector, t: Vector, y: Vector) -> Vector:
        return t * t / 2

    def mean(self, eta: Vector) -> Vector:
        return eta

    def start(self, y: Vector, w: Vector) -> tuple[Vector, Terms]:
        return y, Terms(np.zeros_like(y), np.zeros_like(y), np.ones_like(y))

    def slope_doubt(self, terms: Terms, y: Vector, doubt: Vector) -> Vector:
        return np.asarray(doubt + EVALUATED * np.abs(terms.slope))

    def reach(self, squares: Vector, eta: Vector, y: Vector) -> Vector:
        return np.zeros_like(squares)

    def likelihood(self, eta: Vector, y: Vector, w: Vector, free: float) -> float:
        n = float(w.sum())
        scale = float(w @ (y - eta) ** 2) / n
        return -n / 2 * (float(np.log(2 * np.pi * scale)) + 1)


@dataclass(frozen=True)
class Huber(Gaussian):
    """Robust regression: squares of residuals up to delta, and straight lines beyond.

    Args:
        delta: how large a residual may be before it counts less than its square.

    Example:
        >>> import numpy as np, pdmm
        >>> X = [np.zeros((3, 1)), np.zeros((2, 1))]
        >>> y = [np.array([1.0, 2.0, 3.0]), np.array([2.0, 1000.0])]
        >>> pdmm.GLM(X, y, pdmm.Huber(1.0)).objective([0.0, 2.0])
        998.5
    """

    delta: float
    name = "huber"

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", positive("delta", self.delta))

    def terms(self, eta: Vector, y: Vector) -> Terms:
        r = eta - y
        c = np.clip(r, -self.delta, self.delta)
        return Terms(c * (r - c / 2), c, (np.abs(r) <= self.delta).astype(np.float64))

    def majorant(self, eta: Vector, y: Vector) -> Vector:
        # The second derivative is 0 beyond delta. This is that of the parabola which touches the
        # loss at eta and is nowhere below it: the weight of iteratively reweighted least squares.
        return np.asarray(self.delta / np.maximum(np.abs(eta - y), self.delta))

    def loss(self, eta: Vector, y: Vector) -> Vector:
        r = eta - y
        c = np.clip(r, -self.delta, self.delta)
        return np.asarray(c * (r - c / 2))

    def divergence(self, eta: Vector, t: Vector, y: Vector) -> Vector:
        # The integral of the change of the slope, which is the residual clipped, on the way.
        before = eta - y
        after = before + t
        a = np.clip(before, -self.delta, self.delta)
        b = np.clip(after, -self.delta, self.delta)
        inside = (a == before) & (b == after)
        return np.where(inside, t * t / 2, (b - a) ** 2 / 2 + (b - a) * (after - b))

    def reach(self, squares: Vector, eta: Vector, y: Vector) -> Vector:
        # Within this distance no residual passes delta, and the function is a quadratic.
        apart = np.abs(np.abs(eta - y) - self.delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(squares == 0, 0.0, squares / apart**2)

    def likelihood(self, eta: Vector, y: Vector, w: Vector, free: float) -> float:
        raise ValueError("a Huber loss has no likelihood: problem.objective(x) is its sum")


class Binomial(Family):
    """Logistic regression."""

    name = "binomial"
    steepest = 0.25

    def terms(self, eta: Vector, y: Vector) -> Terms:
        e = np.exp(-np.abs(eta))
        above = 1 / (1 + e)  # of p and 1 - p, the larger
        below = e * above
        right = eta >= 0
        p = np.where(right, above, below)
        rest = np.where(right, below, above)
        loss = np.log1p(e) + (np.maximum(eta, 0.0) - y * eta)
        return Terms(loss, (1 - y) * p - y * rest, above * below)

    def loss(self, eta: Vector, y: Vector) -> Vector:
        return np.asarray(np.log1p(np.exp(-np.abs(eta))) + (np.maximum(eta, 0.0) - y * eta))

    def least(self, y: Vector) -> Vector:
        return np.asarray(entr(y) + entr(1 - y))

    def divergence(self, eta: Vector, t: Vector, y: Vector) -> Vector:
        # With m = p t: log(p e^(t - m) + (1 - p) e^-m) = log1p(p r(t - m) + (1 - p) r(-m)), where
        # r(s) = e^s - 1 - s.
        p = self.mean(eta)
        rest = self.mean(-eta)
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.log1p(p * exp_remainder(rest * t) + rest * exp_remainder(-p * t))
            rare = np.log1p(p * np.expm1(t)) - p * t
            often = np.log1p(rest * np.expm1(-t)) + rest * t
        far = np.where(p < 0.5, rare, often)
        beyond = np.logaddexp(0.0, eta + t) - np.logaddexp(0.0, eta) - p * t
        far = np.where(np.isfinite(far), far, beyond)
        return np.where(np.abs(t) < 1, near, far)

    def mean(self, eta: Vector) -> Vector:
        e = np.exp(-np.abs(eta))
        return np.where(eta >= 0, 1 / (1 + e), e / (1 + e))

    def start(self, y: Vector, w: Vector) -> tuple[Vector, Terms]:
        mu = (w * y + 0.5) / (w + 1)
        eta = np.log(mu / (1 - mu))
        return eta, self.terms(eta, y)

    def evaluated(self, terms: Terms, y: Vector) -> Vector:
        # (1 - y) p and y (1 - p) cancel where y is a fraction; neither is more than 4 of this.
        return np.where((y == 0) | (y == 1), 0.0, 1.0)

    def sides(self, y: Vector) -> Vector:
        return np.where(y == 1, 1.0, np.where(y == 0, -1.0, 0.0))

    def likelihood(self, eta: Vector, y: Vector, w: Vector, free: float) -> float:
        constants = -gammaln(y + 1) - gammaln(2 - y)  # 0 where y is 0 or 1
        return float(w @ (constants - self.loss(eta, y)))


class Poisson(Family):
    """Counts with a logarithmic link."""

    name = "poisson"
    smooth = False

    def terms(self, eta: Vector, y: Vector) -> Terms:
        mu = np.exp(eta)
        return Terms(mu - y * eta, mu - y, mu)

    def loss(self, eta: Vector, y: Vector) -> Vector:
        return np.asarray(np.exp(eta) - y * eta)

    def least(self, y: Vector) -> Vector:
        return np.asarray(y + entr(y))

    def divergence(self, eta: Vector, t: Vector, y: Vector) -> Vector:
        return np.asarray(np.exp(eta) * exp_remainder(t))

    def mean(self, eta: Vector) -> Vector:
        return np.asarray(np.exp(eta))

    def start(self, y: Vector, w: Vector) -> tuple[Vector, Terms]:
        eta = np.log(y + 0.1)
        return eta, self.terms(eta, y)

    def evaluated(self, terms: Terms, y: Vector) -> Vector:
        return terms.bend

    def sides(self, y: Vector) -> Vector:
        # exp(eta) alone falls for ever as eta does; with a count above 0 there is a least loss.
        return np.where(y == 0, -1.0, 0.0)

    def likelihood(self, eta: Vector, y: Vector, w: Vector, free: float) -> float:
        return float(w @ (-gammaln(y + 1) - self.loss(eta, y)))


class Gamma(Family):
    """Positive outcomes whose standard deviation is proportional to their mean."""

    name = "gamma"
    smooth = False

    def terms(self, eta: Vector, y: Vector) -> Terms:
        ratio = y * np.exp(-eta)
        return Terms(ratio + eta, 1 - ratio, ratio)

    def loss(self, eta: Vector, y: Vector) -> Vector:
        return np.asarray(y * np.exp(-eta) + eta)

    def least(self, y: Vector) -> Vector:
        return 1 + np.log(y)

    def divergence(self, eta: Vector, t: Vector, y: Vector) -> Vector:
        return np.asarray(y * np.exp(-eta) * exp_remainder(-t))

    def mean(self, eta: Vector) -> Vector:
        return np.asarray(np.exp(eta))

    def start(self, y: Vector, w: Vector) -> tuple[Vector, Terms]:
        eta = np.log(y)  # no outcome is 0: it need not be moved, and no unit of y is special
        return eta, self.terms(eta, y)

    def evaluated(self, terms: Terms, y: Vector) -> Vector:
        return terms.bend

    def likelihood(self, eta: Vector, y: Vector, w: Vector, free: float) -> float:
        ratio = y * np.exp(-eta)
        n = float(w.sum())
        if n <= free:
            raise ValueError(
                f"the log-likelihood of a gamma model needs more rows than the {free:g} "
                f"parameters, for its scale, and there are {n:g}"
            )
        scale = float(w @ (ratio - 1) ** 2) / (n - free)
        each = (np.log(ratio / scale) - ratio) / scale - gammaln(1 / scale) - np.log(y)
        return float(w @ each)


def exp_remainder(t: Any) -> Vector:
    """exp(t) - 1 - t, to full relative accuracy also for small t."""
    series = np.zeros_like(t)
    for k in range(12, 2, -1):
        series = (series + 1) * t / k
    series = (series + 1) * t * t / 2
    with np.errstate(over="ignore"):
        return np.asarray(np.where(np.abs(t) < 0.25, series, np.expm1(t) - t))
