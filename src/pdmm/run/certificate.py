"""Certificates: how far a point can be from the optimum, proven from its gradient alone."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.common.rounding import UNIT, gamma, length
from pdmm.engines.clients import Clients
from pdmm.methods.base import Evidence
from pdmm.problems.block import Floats
from pdmm.problems.sums import CertainGradient, Total
from pdmm.regularisers import Regulariser
from pdmm.result import Certificate
from pdmm.run.curved import CurvedCertifier, Witness

Vector = npt.NDArray[np.float64]

UPWARDS = 1 + 1e-12  # of a bound, for the few operations that it is computed by


class Convexity(NamedTuple):
    """The strong convexity of f = sum_i w_i f_i, as far as it is known."""

    mu: float
    """A lower bound, with a proof; 0 where there is none."""
    kind: str
    """Where it comes from, in words."""
    convex: bool = True
    """False where an f_i was seen not to be convex, or not to be as convex as was said."""


class Slope(NamedTuple):
    """A subgradient s = grad f(x) + v of F, and what rounding may have made of it."""

    measured: float
    """‖s‖ as it was computed; NaN where h has no subgradient."""
    doubt: float
    """How far rounding may have moved it."""
    noise: float
    """What of ‖s‖ and the doubt may be rounding, which no further round can lower."""
    calls: float
    """How many gradients the clients computed for it."""
    misses: float = 0.0
    """F(y) >= F(x) + s·(y - x) - misses, which is 0 unless x just misses a bound of a Box."""
    beside: float = 0.0
    """How far x is from that bound."""


class Certifier:
    """Asks every client for the gradient of f_i at x, and says what follows.

    Args:
        total: F as one function, where there is one; its gradient has no cancellation.
        clients: who are asked for their gradients where there is none.
        regulariser: h, or None.
        convexity: gives what is known of the strong convexity of f by then.
        precision: the rounding unit of the clients' numbers.
        bytes_up: of one gradient from every client.
        curved: judges by curvature, where that may be asked for.
    """

    def __init__(
        self,
        total: Total | None,
        clients: Clients,
        regulariser: Regulariser | None,
        convexity: Callable[[], Convexity],
        precision: float,
        bytes_up: int,
        curved: CurvedCertifier | None = None,
    ) -> None:
        self.total = total
        self.clients = clients
        self.h = regulariser
        self.convexity = convexity
        self.precision = precision
        self.bytes_up = bytes_up
        self.curved = curved

    def __call__(
        self,
        x: Floats,
        r: int,
        consensus: float | None = None,
        dual_sum: float | None = None,
        evidence: Evidence | None = None,
        first: bool = False,
    ) -> Certificate:
        """The certificate of x after round r, for which a method may have evidence already.

        The first one of a run is what later ones are compared with, and need not have a gap.
        """
        if self.curved is not None:
            witness = self.curved(x, evidence, first)
            return self._from_curvature(witness, r, consensus, dual_sum)
        known = self.convexity()
        mu = known.mu
        if self.h is not None:
            mu = (mu + self.h.strong_convexity) * (1 - 2 * UNIT)
        with np.errstate(all="ignore"):
            slope = self._slope(x)
            gap, distance = _bounds(slope.measured + slope.doubt, mu, slope.misses)
            noise = _bounds(slope.noise, mu)[0]
        bounded = known.convex and mu > 0 and bool(np.isfinite([gap, distance]).all())
        return Certificate(
            gap=gap if bounded else None,
            distance=distance + slope.beside if bounded else None,
            stationarity=slope.measured,
            consensus=consensus,
            dual_sum=dual_sum,
            strong_convexity=mu,
            kind=known.kind,
            round=r,
            bytes_up=self.bytes_up,
            rounding=noise if bounded else slope.noise,
            calls=slope.calls,
            proviso=self.clients.proviso,
        )

    def _from_curvature(
        self, witness: Witness, r: int, consensus: float | None, dual_sum: float | None
    ) -> Certificate:
        found = witness.found
        d = self.clients.dimension
        bounded = found.gap is not None
        return Certificate(
            gap=found.gap,
            distance=found.distance,
            stationarity=witness.stationarity,
            consensus=consensus,
            dual_sum=dual_sum,
            strong_convexity=0.0 if self.h is None else self.h.strong_convexity,
            kind="not needed: curvature is known" if bounded else "unknown",
            round=r,
            bytes_up=witness.questions * self.clients.count * 8 * (d * (d + 3) // 2),
            rounding=witness.noise if bounded else 0.0,
            calls=witness.questions * self.clients.count,
            decrement=found.lam if np.isfinite(found.lam) else None,
            standard_errors=found.deviation,
            vectors_up=0,
            proviso=self.clients.proviso,
        )

    def _slope(self, x: Floats) -> Slope:
        """A shortest subgradient of F at x, with what rounding may have made of it."""
        if not self.clients.convex:  # it would cost a pass over all data, and prove nothing
            return Slope(np.nan, 0.0, 0.0, 0.0)
        try:
            found, noise = self._gradient(x)
        except ClientError:  # a function that has a prox need not have gradients
            return Slope(np.nan, 0.0, 0.0, self.clients.count)
        g = found.gradient
        if self.h is None:
            return Slope(length(g), found.doubt, noise, found.calls)
        v = self.h.subgradient(x, g)
        if v is None:
            return Slope(np.nan, 0.0, 0.0, found.calls)
        own = gamma(4) * length(v)
        slope = Slope(length(g + v), found.doubt + own, noise + 2 * own, found.calls)
        beside = self.h.beside(x)
        if beside is None:
            return slope
        return slope._replace(misses=float(np.abs(v) @ beside), beside=length(beside))

    def _gradient(self, x: Floats) -> tuple[CertainGradient, float]:
        """The gradient of f at x, and how small it can get at all."""
        if self.total is not None and not self.total.everyone:
            raise ClientError("there is no gradient of all clients")
        extremes = None if self.total is None else self.total.extremes()
        if self.total is not None and extremes is not None:
            wide = x.astype(np.float64)
            doubt = self.total.rounding(wide)
            held = 2 * self.precision * extremes[1] * length(wide)  # x is rounded itself
            g = self.total.gradient(wide)
            return CertainGradient(g, doubt, 0.0, self.clients.count), max(held, 2 * doubt)
        found = self.clients.certain_gradient(x)
        noise = 32 * self.precision * found.terms
        # A doubt as large as the gradients themselves is no rounding: it may be a kink at x.
        if 2 * found.doubt <= 1e-3 * found.terms:
            noise = max(noise, 2 * found.doubt)
        return found, noise


def _bounds(s: float, mu: float, misses: float = 0.0) -> tuple[float, float]:
    """How far F(x) can be above F*, and x from x*, where F is mu-strongly convex.

    F* >= F(x) + s·(x* - x) + mu/2 ‖x* - x‖² - misses, least at x* = x - s/mu; and between the
    subgradients at x and at x*, mu ‖x - x*‖² <= ‖s‖ ‖x - x*‖ + 2 misses.
    """
    if not mu > 0:
        return np.nan, np.nan
    gap = s * (s / (2 * mu)) + misses
    half = s / mu / 2
    distance = half + np.hypot(half, np.sqrt(2 * misses / mu))
    return gap * UPWARDS, float(distance) * UPWARDS


def proven_convexity(clients: Clients, weights: Vector, total: Total | None) -> Convexity:
    """What is proven of the strong convexity of sum_i w_i f_i, and where it comes from."""
    extremes = None if total is None else total.extremes()
    if extremes is not None:
        return Convexity(extremes[0], "of F, exact")
    if not clients.convex:
        return Convexity(0.0, "unknown: the f_i need not be convex", convex=False)
    if clients.negative_curvature() is not None:
        return Convexity(0.0, "unknown: an f_i is not convex", convex=False)
    if not clients.proven:
        return Convexity(0.0, "unknown")
    refuted = refuted_client(clients)
    if refuted is not None:
        kind = f"unknown: the given strong_convexity of client {refuted} is too large"
        return Convexity(0.0, kind)
    constants = clients.strong_convexity(weights)
    if constants.overall_kind == "exact":
        return Convexity(constants.overall, "of F, exact")
    # A sum of so many products, each rounded.
    overall = constants.overall * (1 - gamma(clients.count + 4))
    return Convexity(overall, "of F, at least sum_i w_i mu_i")


def refuted_client(clients: Clients) -> int | None:
    """A client whose gradients have shown that the strong convexity given for it is wrong."""
    least = clients.least_curvature()
    if least is None or not clients.proven:
        return None
    given = clients.strong_convexity().clients
    with np.errstate(invalid="ignore"):
        wrong = least < given * (1 - 1e-6)
    return int(wrong.argmax()) if wrong.any() else None
