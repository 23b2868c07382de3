"""Certificates: how far a point can be from the optimum, proven from its gradient alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.problems.base import Floats, Problem, SumOfClients, Total
from pdmm.regularisers import Regulariser

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """What is proven of a point x, and the residuals of the optimality conditions there.

    F is mu-strongly convex, so with g a subgradient of F at x,
    F(x) - F* <= ‖g‖²/(2 mu) and ‖x - x*‖ <= ‖g‖/mu.
    """

    gap: float | None
    """F(x) - F* is at most this; None where no mu > 0 is proven."""
    distance: float | None
    """‖x - x*‖ is at most this; None where no mu > 0 is proven."""
    stationarity: float
    """‖grad f(x) + v‖, f = sum_i w_i f_i, v the nearest subgradient of the regulariser.

    NaN where there is none: x outside a Box, or a client without gradients.
    """
    consensus: float | None
    """Root mean square over clients of ‖x_i - x_s‖ in the last round."""
    dual_sum: float | None
    """‖sum_i w_i lam_{i|s} + v‖ in the last round; None for methods without duals."""
    strong_convexity: float
    """The mu of F that was used; 0 where none is known."""
    kind: str
    """Where that mu comes from, in words."""
    round: int
    """The round after which x was the server's."""
    bytes_up: int
    """What asking the clients for their gradients cost: one vector a client."""
    rounding: float = 0.0
    """The part of ``size`` that may be rounding, which no further round can lower."""

    def __repr__(self) -> str:
        bound = "no bound, " if self.gap is None else f"gap <= {self.gap:.3g}, "
        return f"Certificate({bound}stationarity {self.stationarity:.3g}, mu {self.kind})"

    @property
    def size(self) -> float:
        """What a tolerance is compared with: the gap where it is bounded, else ‖grad F‖."""
        return self.stationarity if self.gap is None else self.gap


class Certifier:
    """Asks every client for the gradient of f_i at x, and says what follows.

    Args:
        total: F as one function, where there is one; its gradient has no cancellation.
        blocks: F as a sum over clients.
        regulariser: h, or None.
        strong_convexity: gives (mu, kind) of f = sum_i w_i f_i as it is known by then.
        precision: the rounding unit of the clients' numbers.
        bytes_up: of one gradient from every client.
    """

    def __init__(
        self,
        total: Total | None,
        blocks: SumOfClients,
        regulariser: Regulariser | None,
        strong_convexity: Callable[[], tuple[float, str]],
        precision: float,
        bytes_up: int,
    ) -> None:
        self.total, self.blocks, self.h = total, blocks, regulariser
        self.ask, self.precision, self.bytes_up = strong_convexity, precision, bytes_up

    def __call__(
        self,
        x: Floats,
        r: int,
        consensus: float | None = None,
        dual_sum: float | None = None,
    ) -> Certificate:
        """The certificate of x after round r."""
        mu, kind = self.ask()
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                size, noise = self._stationarity(x)
            except ClientError:  # a function that has a prox need not have gradients
                size, noise = np.nan, 0.0
            if self.h is not None:
                mu += self.h.strong_convexity
            bounded = mu > 0 and np.isfinite(size)
            return Certificate(
                gap=size * (size / (2 * mu)) if bounded else None,
                distance=size / mu if bounded else None,
                stationarity=size,
                consensus=consensus,
                dual_sum=dual_sum,
                strong_convexity=mu,
                kind=kind,
                round=r,
                bytes_up=self.bytes_up,
                rounding=noise * (noise / (2 * mu)) if bounded else noise,
            )

    def _stationarity(self, x: Floats) -> tuple[float, float]:
        """‖grad f(x) + v‖ and what of it may be rounding; NaN where h has no subgradient."""
        if self.total is not None and not self.total.everyone:
            raise ClientError("there is no gradient of all clients")
        extremes = None if self.total is None else self.total.extremes()
        if self.total is not None and extremes is not None:
            g = self.total.gradient(x)  # exact, but of an x that is rounded
            added, noise = 0.0, 2 * self.precision * extremes[1] * float(np.linalg.norm(x))
        else:
            g, terms = self.blocks.gradient_and_size(x)
            added = 16 * self.precision * terms
            noise = 2 * added
        if self.h is not None:
            v = self.h.subgradient(x, g)
            if v is None:
                return np.nan, 0.0
            g = g + v
        return float(np.linalg.norm(g)) + added, noise


def proven_convexity(
    problem: Problem, weights: npt.NDArray[np.float64], total: Total | None
) -> tuple[float, str]:
    """The mu of sum_i w_i f_i with a proof, and where it comes from; 0 where there is none."""
    extremes = None if total is None else total.extremes()
    if extremes is not None:
        return extremes[0], "of F, exact"
    if problem.negative_curvature() is not None:
        return 0.0, "unknown: an f_i is not convex"
    if not problem.proven:
        return 0.0, "unknown"
    refuted = refuted_client(problem)
    if refuted is not None:
        return 0.0, f"unknown: the given strong_convexity of client {refuted} is too large"
    constants = problem.strong_convexity(weights)
    if constants.overall_kind == "exact":
        return constants.overall, "of F, exact"
    return constants.overall, "of F, at least sum_i w_i mu_i"


def refuted_client(problem: Problem) -> int | None:
    """A client whose gradients have shown that the strong convexity given for it is wrong."""
    met = problem.secants()
    if met is None or not problem.proven:
        return None
    given = problem.strong_convexity().clients
    with np.errstate(invalid="ignore"):
        wrong = met[1].clients < given * (1 - 1e-6) - 1e-12
    return int(wrong.argmax()) if wrong.any() else None
