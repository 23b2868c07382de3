"""Certificates: how far a point can be from the optimum, proven from its gradient alone."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.engines.clients import Clients
from pdmm.problems.block import Floats
from pdmm.problems.sums import Total
from pdmm.regularisers import Regulariser
from pdmm.result import Certificate

Vector = npt.NDArray[np.float64]


class Certifier:
    """Asks every client for the gradient of f_i at x, and says what follows.

    Args:
        total: F as one function, where there is one; its gradient has no cancellation.
        clients: who are asked for their gradients where there is none.
        regulariser: h, or None.
        strong_convexity: gives (mu, kind) of f = sum_i w_i f_i as it is known by then.
        precision: the rounding unit of the clients' numbers.
        bytes_up: of one gradient from every client.
    """

    def __init__(
        self,
        total: Total | None,
        clients: Clients,
        regulariser: Regulariser | None,
        strong_convexity: Callable[[], tuple[float, str]],
        precision: float,
        bytes_up: int,
    ) -> None:
        self.total = total
        self.clients = clients
        self.h = regulariser
        self.ask = strong_convexity
        self.precision = precision
        self.bytes_up = bytes_up

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
            g, terms = self.clients.gradient_and_size(x)
            added = 16 * self.precision * terms
            noise = 2 * added
        if self.h is not None:
            v = self.h.subgradient(x, g)
            if v is None:
                return np.nan, 0.0
            g = g + v
        return float(np.linalg.norm(g)) + added, noise


def proven_convexity(
    clients: Clients, weights: npt.NDArray[np.float64], total: Total | None
) -> tuple[float, str]:
    """The mu of sum_i w_i f_i with a proof, and where it comes from; 0 where there is none."""
    extremes = None if total is None else total.extremes()
    if extremes is not None:
        return extremes[0], "of F, exact"
    if clients.negative_curvature() is not None:
        return 0.0, "unknown: an f_i is not convex"
    if not clients.proven:
        return 0.0, "unknown"
    refuted = refuted_client(clients)
    if refuted is not None:
        return 0.0, f"unknown: the given strong_convexity of client {refuted} is too large"
    constants = clients.strong_convexity(weights)
    if constants.overall_kind == "exact":
        return constants.overall, "of F, exact"
    return constants.overall, "of F, at least sum_i w_i mu_i"


def refuted_client(clients: Clients) -> int | None:
    """A client whose gradients have shown that the strong convexity given for it is wrong."""
    met = clients.secants()
    if met is None or not clients.proven:
        return None
    given = clients.strong_convexity().clients
    with np.errstate(invalid="ignore"):
        wrong = met[1].clients < given * (1 - 1e-6) - 1e-12
    return int(wrong.argmax()) if wrong.any() else None
