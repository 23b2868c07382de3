"""What is known of the clients' functions when a method's parameters are chosen."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from pdmm.methods.balance import balanced_rho

FLATTEST = 1e-4  # mu/L below this does not lower the first rho any further
FLAT = 0.04  # what stands for mu/L where mu = 0: directions without curvature need no rho


class Constant(Protocol):
    """L or mu of every f_i and of their weighted sum, and how far it can be trusted."""

    @property
    def clients(self) -> npt.NDArray[np.float64]:
        """That of every f_i, shape (m,)."""

    @property
    def overall(self) -> float:
        """That of F = sum_i w_i f_i."""

    @property
    def kind(self) -> str:
        """Exact, a bound, an estimate, or given by the user."""

    @property
    def overall_kind(self) -> str:
        """The same of ``overall``."""


@dataclass(frozen=True)
class Known:
    """L and mu as a method needs them, and how they are said.

    Args:
        smoothness: the L of the clients.
        strong_convexity: their mu.
        weight: the sum of the clients' weights.
        valley: estimates of L and mu where each client's own function is lowest, NaN where no
            such point was found; None where L is no estimate.
        weights: of the clients; None if they are all alike.
    """

    smoothness: Constant
    strong_convexity: Constant
    weight: float
    valley: tuple[Constant, Constant] | None = None
    weights: npt.NDArray[np.float64] | None = None

    def in_the_valley(self) -> "Known":
        """What is known where the clients' own functions are lowest; the same where nothing is.

        A run ends nearer to those points than to x0. For a method whose steps need not be short
        enough for the steepest place on the way, these are the better L and mu.
        """
        if self.valley is None or np.isnan(self.valley[0].clients).all():
            return self
        L, mu = self.valley
        return Known(L, mu, self.weight)

    @property
    def L(self) -> float:
        """The largest L of a client; 1 where all functions are constant and any L will do."""
        return float(np.nanmax(self.smoothness.clients)) or 1.0

    @property
    def mu(self) -> float:
        """The smallest mu of a client."""
        return float(np.nanmin(self.strong_convexity.clients))

    @property
    def flat(self) -> bool:
        """Whether no client's function is known to bend in every direction."""
        return not np.nanmax(self.strong_convexity.clients) > 0

    @property
    def estimated(self) -> bool:
        """Whether L is an estimate, which proves nothing."""
        return self.smoothness.kind == "estimate"

    @property
    def safe_L(self) -> float:
        """An L to take steps by: twice as large where it is an estimate."""
        return 2 * self.L if self.estimated else self.L

    @property
    def halved(self) -> str:
        """What is said of a step size where L is an estimate."""
        return ", halved because L is an estimate" if self.estimated else ""

    def __str__(self) -> str:
        return (
            f"L = {self.L:.3g} ({self.smoothness.kind}), "
            f"mu = {self.mu:.3g} ({self.strong_convexity.kind})"
        )

    def first_rho(self) -> float:
        """The square root of L mu of the mean client, mu taken as not much smaller than L."""
        L = float(np.nanmean(self.smoothness.clients))
        mu = float(np.nanmean(self.strong_convexity.clients))
        if L <= 0:
            return 1.0
        share = max(mu / L, FLATTEST) if mu > 0 else FLAT
        return L * math.sqrt(share)

    @property
    def mean_mu(self) -> float | None:
        """The mu of the weighted mean of the f_i; None unless it is known exactly, and not 0."""
        mu = self.strong_convexity
        if mu.overall_kind != "exact" or not mu.overall > 0:
            return None
        return mu.overall / self.weight

    def balanced_rho(self, mean_mu: float) -> float:
        """The rho at which x_s and the duals are equally slow; see :mod:`pdmm.methods.balance`."""
        L = self.smoothness.clients
        weights = np.ones(len(L)) if self.weights is None else self.weights
        mean = float(weights @ L) / float(weights.sum())
        return balanced_rho(L, weights, max(mean_mu, FLATTEST * mean))

    def step_of_mean(self) -> float:
        """2/(L + mu) of the mean of the f_i; half of it where that is an estimate."""
        both = self.smoothness.overall + self.strong_convexity.overall
        if both <= 0:
            return 1.0
        return self.weight * (1 if self.estimated else 2) / both
