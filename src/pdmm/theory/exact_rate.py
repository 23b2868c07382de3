"""The rate of PDMM and FedSplit with exact steps, and the rho that is best for it."""

import math
from dataclasses import dataclass

from pdmm.common.checks import moderate, number
from pdmm.theory.conditions import curvatures, rounds_to


@dataclass(frozen=True)
class ExactRate:
    """What is proven of exact PDMM: ‖z - z*‖ shrinks by ``rate`` in every round.

    Attributes:
        smoothness: L.
        strong_convexity: mu.
        rho: the weight of the quadratic term.
        relaxation: 1 is PDMM, 0.5 is ADMM.
        delta: the factor without relaxation.
        rate: the factor with it, (1 - relaxation) + relaxation delta.
        decrease: 1 - rate, to full relative accuracy.
    """

    smoothness: float
    strong_convexity: float
    rho: float
    relaxation: float
    delta: float
    rate: float
    decrease: float

    def rounds(self, accuracy: float) -> int:
        """After how many rounds ‖z - z*‖ is promised to be this part of what it was."""
        return rounds_to(accuracy, self.decrease)


def pdmm_rate(
    smoothness: float, strong_convexity: float, rho: float, relaxation: float = 1.0
) -> ExactRate:
    """How fast PDMM and FedSplit (rho = 1/gamma) with exact steps converge at least.

    With z_i what client i uploads and z_i* = x* - grad f_i(x*)/rho, the distance ‖z - z*‖,
    stacked over clients, shrinks in every round by::

        delta = max(|L - rho|/(L + rho), |rho - mu|/(rho + mu)),

    the contraction of the clients' reflections 2 prox - 1; the server's is an isometry. With
    relaxation a the round is (1 - a) z + a T(z), which shrinks by (1 - a) + a delta. At
    relaxation 1 this is tight: a single client with eigenvalues mu and L attains it.

    Args:
        smoothness: L, the largest of all clients.
        strong_convexity: mu, the smallest of all clients; it must be positive.
        rho: the weight of the quadratic term.
        relaxation: in (0, 1].

    Example:
        >>> import pdmm
        >>> rho = pdmm.theory.best_rho(100.0, 1.0)
        >>> exact = pdmm.theory.pdmm_rate(100.0, 1.0, rho)
        >>> round(exact.delta, 6)
        0.818182
        >>> exact.rounds(1e-6)
        69

    References:
        Pathak, Wainwright, "FedSplit: an algorithmic framework for fast federated
        optimization", NeurIPS 2020, Theorem 1.
    """
    L, mu = curvatures(smoothness, strong_convexity)
    rho = moderate("rho", rho)
    a = number("relaxation", relaxation)
    if not 0 < a <= 1:
        raise ValueError(f"relaxation must be in (0, 1], got {a!r}: 1 is PDMM, 0.5 is ADMM")
    # |u - v|/(u + v) is (1 - t)/(1 + t), and 1 minus that is 2 t/(1 + t), without cancellation;
    # the smaller ratio of the two has the larger of the one and the smaller of the other.
    t = min(_ratio(L, rho), _ratio(rho, mu))
    delta = (1 - t) / (1 + t)
    return ExactRate(L, mu, rho, a, delta, (1 - a) + a * delta, a * (2 * t / (1 + t)))


def _ratio(u: float, v: float) -> float:
    return min(u, v) / max(u, v)


def best_rho(smoothness: float, strong_convexity: float) -> float:
    """The rho with the smallest proven delta of exact PDMM: sqrt(L mu).

    Then delta = 1 - 2/(sqrt(kappa) + 1), kappa = L/mu. It is the best for the worst of all
    problems with these constants; a given problem may like another one better.

    Args:
        smoothness: L, the largest of all clients.
        strong_convexity: mu, the smallest of all clients; it must be positive.

    Example:
        >>> import pdmm
        >>> pdmm.theory.best_rho(smoothness=8.0, strong_convexity=2.0)
        4.0
    """
    L, mu = curvatures(smoothness, strong_convexity)
    return L * math.sqrt(mu / L)
