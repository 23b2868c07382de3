"""Theorem 1 as a number: how fast GPDMM converges at least."""

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from pdmm.common.checks import moderate
from pdmm.theory.conditions import curvatures, rounds_to, step_below

NOTHING = 1e-12  # a decrease per round below this is no promise that anyone can wait for
CLOSEST = 1e-12  # to 1 that the best 1/(L eta) comes


@dataclass(frozen=True)
class Theorem1:
    """What Theorem 1 promises of GPDMM, with its free theta and phi chosen best.

    In every round, Q^{r+1} <= beta Q^r, where::

        Q^r = sum_i (1/eta - theta mu)/(2K) ‖x_i^{r-1,K} - x*‖²
              + (1/(4 rho) - gamma2/2) ‖rho (xbar_i^{r,K} - x*) + lam_{i|s}^{r+1} - lam_{i|s}*‖²

    Attributes:
        smoothness: L.
        strong_convexity: mu.
        step_size: eta.
        rho: the weight of the quadratic term.
        decrease: 1 - beta, to full relative accuracy also where beta rounds to 1.
        beta: the factor by which Q falls in a round, at least.
        theta: the best theta of the theorem, in (0, 1).
        phi: the best phi, in (0, 1).
        gamma1: gamma_1 of eq. gamma_1, at this theta.
        gamma2: gamma_2 of eq. gamma_2, at this theta and phi.
    """

    smoothness: float
    strong_convexity: float
    step_size: float
    rho: float
    decrease: float
    beta: float
    theta: float
    phi: float
    gamma1: float
    gamma2: float

    def rounds(self, accuracy: float) -> int:
        """The first round R for which Q^R <= accuracy Q^1 is promised.

        Q is a square: an accuracy of 1e-6 leaves a thousandth of the distance.

        Args:
            accuracy: the part of Q^1 that may be left, between 0 and 1.

        Example:
            >>> import pdmm
            >>> pdmm.theory.gpdmm_rate(7.0, 1.0, step_size=0.9 / 7, rho=7 / 0.9).rounds(1e-6)
            271
        """
        return 1 + rounds_to(accuracy, self.decrease)

    def lyapunov(
        self,
        x_own: npt.ArrayLike,
        x_bar: npt.ArrayLike,
        lam: npt.ArrayLike,
        x_star: npt.ArrayLike,
        lam_star: npt.ArrayLike,
        steps: int,
    ) -> float:
        """Q^r from the state of a run.

        Args:
            x_own: x_i^{r-1,K}, the clients' own last iterates before round r, shape (m, d).
            x_bar: xbar_i^{r,K}, the means of the K iterates of round r, (m, d).
            lam: lam_{i|s}^{r+1}, the duals made of them, (m, d).
            x_star: x*, shape (d,).
            lam_star: lam_{i|s}* = grad f_i(x*), (m, d).
            steps: K.
        """
        x_star = np.asarray(x_star)
        own = np.asarray(x_own) - x_star
        both = self.rho * (np.asarray(x_bar) - x_star) + (np.asarray(lam) - np.asarray(lam_star))
        primal = (1 / self.step_size - self.theta * self.strong_convexity) / (2 * steps)
        mixed = 1 / (4 * self.rho) - self.gamma2 / 2
        return float(primal * (own * own).sum() + mixed * (both * both).sum())


def gpdmm_rate(
    smoothness: float, strong_convexity: float, step_size: float, rho: float
) -> Theorem1:
    """How fast GPDMM converges at least, by Theorem 1: Q^{r+1} <= beta Q^r.

    The theorem leaves theta and phi in (0, 1) open. With s = theta mu phi::

        1 - beta = min(s/rho, rho gamma1 eta², (theta mu - s)/(1/eta - s))
        gamma1 eta² = min((1 - theta)/(2 L), eta (1 - L eta)/2)

    The first term rises with s and the third falls, so the best s makes them equal; at that
    s both rise with theta while the second falls, so the best theta makes all three equal,
    unless the part of gamma1 without theta is smaller. This has a closed form::

        1 - beta = min(2 mu / (B + sqrt(B² - 4 rho mu)), rho eta (1 - L eta)/2),
        B = 1/eta + rho + 2 L mu/rho

    with theta = (1 - beta)(1/eta + rho beta)/mu and phi = rho/(1/eta + rho beta). The number K
    of local steps does not occur: it matters only through rho, where that is 1/(K eta).

    Args:
        smoothness: L, the largest of all clients.
        strong_convexity: mu, the smallest of all clients; it must be positive.
        step_size: eta, below 1/L.
        rho: the weight of the quadratic term; the paper's choice is 1/(K eta).

    Returns:
        A :class:`Theorem1` with beta, the theta and phi that give it, and ``rounds(accuracy)``.

    Warns:
        RuntimeWarning: if it promises a decrease of less than 1e-12 a round.

    Example:
        >>> import pdmm
        >>> theorem = pdmm.theory.gpdmm_rate(7.0, 1.0, step_size=0.9 / 7, rho=7 / 0.9)
        >>> round(theorem.beta, 6)
        0.95
        >>> theorem.rounds(1e-6)
        271

    References:
        Zhang, Niwa, Kleijn, Section V, Theorem 1 (its eq. linear_conv counts rounds, although
        it writes k).
    """
    L, mu = curvatures(smoothness, strong_convexity)
    eta = step_below(step_size, L)
    rho = moderate("rho", rho)
    theorem = _theorem1(L, mu, eta, rho / L, rho)
    if theorem.decrease < NOTHING:
        best = best_gpdmm(L, mu, eta)
        warnings.warn(
            f"Theorem 1 promises next to nothing for rho={rho:g}: Q falls by a part of "
            f"{theorem.decrease:.1e} a round. Best for step_size={eta:g} is rho={best.rho:.3g}, "
            f"with a part of {best.decrease:.1e}",
            RuntimeWarning,
            stacklevel=2,
        )
    return theorem


def best_gpdmm(
    smoothness: float, strong_convexity: float, step_size: float | None = None
) -> Theorem1:
    """The rho, and the step size if none is given, for which Theorem 1 promises most.

    1 - beta is quasi-concave in (1/eta, rho): the set where it is at least D is where
    D (1/eta + rho (1 - D) + 2 L mu/rho) <= mu and 2 D / (eta (1 - L eta)) <= rho, both of them
    convex. So a search over rho within a search over eta finds the best. For large kappa =
    L/mu the best is near rho = 2 sqrt(L mu), 1/eta = L + sqrt(L mu), and 1 - beta near
    mu/(L + 4 sqrt(L mu)): about 1/kappa, as for gradient descent.

    Args:
        smoothness: L, the largest of all clients.
        strong_convexity: mu, the smallest of all clients; it must be positive.
        step_size: eta, below 1/L; None to choose that too.

    Returns:
        A :class:`Theorem1`; its ``step_size`` and ``rho`` are the choice.

    Example:
        >>> import pdmm
        >>> best = pdmm.theory.best_gpdmm(smoothness=100.0, strong_convexity=1.0)
        >>> best.rounds(1e-6)
        1906
        >>> pdmm.theory.gpdmm_rate(100.0, 1.0, best.step_size, best.rho).rounds(1e-6)
        1906
    """
    L, mu = curvatures(smoothness, strong_convexity)
    k = mu / L
    eta = _best_step(k) / L if step_size is None else step_below(step_size, L)
    q = _best_q(k, 1 / (eta * L), _slack(eta, L))
    return _theorem1(L, mu, eta, q, L * q)


# All of it in units of L, so that nothing overflows on the way: k = mu/L, p = 1/(eta L), q = rho/L.


def _best_step(k: float) -> float:
    """The best eta L."""

    def above_one(log: float) -> float:
        """What p is more than 1."""
        # A p within rounding of 1 promises hardly more, and is not below 1/L for certain.
        return CLOSEST + math.sqrt(k) * math.exp(log)

    def loss(log: float) -> float:
        more = above_one(log)
        p = 1 + more
        slack = more / p
        return -_decrease(k, p, _best_q(k, p, slack), slack)

    return 1 / (1 + above_one(_lowest(loss)))


def _best_q(k: float, p: float, slack: float) -> float:
    centre = math.sqrt(2 * k)
    return centre * math.exp(_lowest(lambda log: -_decrease(k, p, centre * math.exp(log), slack)))


def _slack(eta: float, L: float) -> float:
    """1 - L eta, to all digits also where L eta is close to 1."""
    return float(1 - Fraction(L) * Fraction(eta))


def _lowest(loss: Any) -> float:
    """Where a function with one valley is lowest, within a factor exp(35) of its centre."""
    return float(minimize_scalar(loss, bounds=(-35, 35), method="bounded").x)


def _decrease(k: float, p: float, q: float, slack: float) -> float:
    """1 - beta at the best theta and phi; slack is 1 - 1/p."""
    B = p + q + 2 * k / q
    t = 2 * math.sqrt(q * k)
    first = 2 * k / (B + math.sqrt(B - t) * math.sqrt(B + t))
    return min(first, q / p * slack / 2)


def _theorem1(L: float, mu: float, eta: float, q: float, rho: float) -> Theorem1:
    """Theorem 1 at its best theta and phi, for constants that were checked."""
    k = mu / L
    p = 1 / (eta * L)
    decrease = _decrease(k, p, q, _slack(eta, L))
    beta = 1 - decrease
    return Theorem1(
        smoothness=L,
        strong_convexity=mu,
        step_size=eta,
        rho=rho,
        decrease=decrease,
        beta=beta,
        theta=min(decrease * (p + q * beta) / k, 1 - 2**-53),  # it may round to 1
        phi=q / (p + q * beta),
        gamma1=decrease * p / q / eta,
        gamma2=decrease / 2 / rho,
    )
