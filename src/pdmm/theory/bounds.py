"""Bounds as curves over the rounds: Theorem 2 for GPDMM, and Inexact FedSplit's, corrected."""

import math

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import moderate, not_negative, whole
from pdmm.theory.conditions import curvatures, step_below
from pdmm.theory.exact_rate import best_rho, pdmm_rate

Curve = npt.NDArray[np.float64]


def theorem2_bound(
    smoothness: float,
    start: float,
    first: float,
    step_size: float,
    local_steps: int,
    rho: float,
    rounds: int,
) -> Curve:
    """The right-hand side of Theorem 2: GPDMM on convex functions, mu = 0 allowed.

    For every R, with xbar_i^R and lambar_i^R the averages over rounds 1..R of xbar_i^{r,K}
    and lam_{i|s}^{r+1}::

        sum_i [f_i(xbar_i^R) - f_i(x*) - lam_i*·(xbar_i^R - x*)]
            + (gamma1 eta²/2) sum_i ‖lambar_i^R - lam_i*‖²
        <= (1/R) (start/(2 eta K) + first/(4 rho)),    gamma1 eta² = eta (1 - L eta)/2.

    (gamma1 at theta = 0 is the smaller of 1/(2 L eta²) and (1/eta - L)/2, always the second.)
    The left is a Lagrangian gap at the clients' averages, not F(x_s) - F*.

    Args:
        smoothness: L, the largest of all clients.
        start: sum_i ‖x_i^{0,K} - x*‖², which is m ‖x0 - x*‖².
        first: sum_i ‖rho (xbar_i^{1,K} - x*) + lam_{i|s}^2 - lam_i*‖², known after one round.
        step_size: eta, below 1/L.
        local_steps: K.
        rho: the weight of the quadratic term.
        rounds: for how many R.

    Returns:
        The right-hand side for R = 1, 2, .., rounds.

    Example:
        >>> import pdmm
        >>> pdmm.theory.theorem2_bound(2.0, 8.0, 4.0, 0.4, 5, 0.5, rounds=4).tolist()
        [4.0, 2.0, 1.3333333333333333, 1.0]

    References:
        Zhang, Niwa, Kleijn, Section V, Theorem 2, and the last display of its proof. There the
        1/K belongs to the first term only, and both are summed over i.
    """
    eta = step_below(step_size, moderate("smoothness", smoothness))
    K = whole("local_steps", local_steps, at_least=1)
    count = whole("rounds", rounds, at_least=1)
    far = not_negative("start", start)
    moved = not_negative("first", first)
    penalty = moderate("rho", rho)
    R = np.arange(1, count + 1)
    with np.errstate(over="ignore"):  # a bound that no float can hold is infinite
        return far / (2 * eta * K * R) + moved / (4 * penalty * R)


def fedsplit_bound(
    smoothness: float,
    strong_convexity: float,
    distance: float,
    inner_error: float,
    rounds: int,
    clients: int,
    gamma: float | None = None,
) -> Curve:
    """How far Inexact FedSplit's x_s is from x* at most, after each round.

    If no client misses its exact proximal step by more than b in any round, then::

        ‖x_s^{r+1} - x*‖ <= c^r ‖z^1 - z*‖/sqrt(m) + (sqrt(kappa) + 1) b
        c = 1 - 2/(sqrt(kappa) + 1),    kappa = L/mu,    gamma = 1/sqrt(L mu)

    with z the anchors z_{s|i}, stacked: z_i^1 = x0 and z_i* = x* + gamma grad f_i(x*). In each
    round the exact map shrinks ‖z - z*‖ by c, an error b of x_i moves z_i by 2 b, and x_s is a
    mean of m of them. The errors add up to the offset 2 b/(1 - c) = (sqrt(kappa) + 1) b,
    which no number of rounds removes. With kappa = 1, c is 0 and only the offset is left. A run
    ends in rounding, of which this bound knows nothing; that of :func:`trace_fedsplit` does.

    The bound as printed in the paper has ‖x_s^0 - x*‖ in place of ‖z^1 - z*‖, and is false:
    from x0 = x* and with exact steps it says that x_s never moves, but it does, since
    z_i* is x* only where every client has the same minimiser.

    Args:
        smoothness: L, the largest of all clients.
        strong_convexity: mu, the smallest of all clients; it must be positive.
        distance: ‖z^1 - z*‖, stacked over clients.
        inner_error: b, at least the largest error of a client's steps.
        rounds: for how many rounds.
        clients: m.
        gamma: step of the proximal step; 1/sqrt(L mu) if not given. With another, c is the
            delta of :func:`pdmm_rate` at rho = 1/gamma, and the offset 2 b/(1 - delta).

    Returns:
        The right-hand side for r = 1, 2, .., rounds.

    Example:
        >>> import pdmm
        >>> bound = pdmm.theory.fedsplit_bound(9.0, 1.0, 8.0, 0.0, rounds=3, clients=4)
        >>> bound.round(6).tolist()
        [2.0, 1.0, 0.5]
        >>> pdmm.theory.fedsplit_bound(9.0, 1.0, 8.0, 0.01, rounds=50, clients=4)[-1].round(6)
        np.float64(0.04)

    References:
        Pathak, Wainwright, NeurIPS 2020, Theorem 1; as printed, Section III-B of Zhang, Niwa,
        Kleijn.
    """
    L, mu = curvatures(smoothness, strong_convexity)
    far = not_negative("distance", distance)
    b = not_negative("inner_error", inner_error)
    count = whole("rounds", rounds, at_least=1)
    m = whole("clients", clients, at_least=1)
    rho = best_rho(L, mu) if gamma is None else 1 / moderate("gamma", gamma)
    exact = pdmm_rate(L, mu, rho)
    first = np.power(exact.delta, np.arange(1, count + 1)) * (far / math.sqrt(m))
    return np.asarray(first + b / (exact.decrease / 2))
