"""Certificates from curvature: what gradient and Hessian at a point prove, without any mu."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from pdmm.common.rounding import gamma, length
from pdmm.engines.clients import Clients
from pdmm.methods.base import Evidence
from pdmm.methods.whitening import factor
from pdmm.problems.block import Floats
from pdmm.problems.sums import CurvatureSum
from pdmm.regularisers import Regulariser
from pdmm.run.decrement import Decrement, decrement

Vector = npt.NDArray[np.float64]

PASSES = 3  # questions, each in better coordinates than the one before
OPERATIONS = 10**8  # more rows than anybody has: what rounding makes of so long a sum is harmless


class Witness(NamedTuple):
    """What is proven of a point by curvature, and what it took."""

    found: Decrement
    noise: float
    """The part of the gap that may be rounding."""
    stationarity: float
    """‖grad f(x) + v‖; NaN where h has no subgradient."""
    questions: int
    """How often the clients were asked for their Hessians."""


class CurvedCertifier:
    """Asks the clients for curvature at x, in coordinates that spare digits.

    Args:
        clients: who know their Hessians.
        regulariser: h, or None.
        weights: of the clients.
    """

    def __init__(self, clients: Clients, regulariser: Regulariser | None, weights: Vector) -> None:
        self.clients = clients
        self.h = regulariser
        self.weight = float(weights.sum())
        self.least_weight = float(weights.min())
        self.T: Vector = np.eye(clients.dimension)

    def __call__(self, x: Floats, evidence: Evidence | None, first: bool = False) -> Witness:
        """What is proven of x; by what a run has said of it already, if that is enough.

        Of a run's first point only the size matters that others are compared with, and lam gives
        it: clients are not asked again there to bound the gap.
        """
        point = np.asarray(x, dtype=np.float64)
        if evidence is not None and np.array_equal(evidence.x, x):
            return self._judged(point, self._sums(evidence), np.asarray(evidence.T), 0)
        for question in range(1, PASSES + 1):
            T = self.T
            sums = self.clients.curvature(x, T)
            witness = self._judged(point, sums, T, question)
            if not np.isfinite(sums.hessian).all():
                return witness
            self.T = factor(sums.hessian, T).whiten(T)
            enough = first and np.isfinite(witness.found.lam)
            if enough or witness.found.gap is not None:
                return witness
        return witness

    def _sums(self, e: Evidence) -> CurvatureSum:
        """Weighted means as sums; a mean of the R_i² is at least the largest, in these weights."""
        w = self.weight
        return CurvatureSum(
            value=w * float(e.value),
            gradient=w * np.asarray(e.gradient),
            doubt=w * float(e.doubt),
            hessian=w * np.asarray(e.hessian),
            reach=float(e.reach) * w / self.least_weight,
            unsettled=float(e.unsettled),
        )

    def _judged(self, x: Vector, sums: CurvatureSum, T: Vector, questions: int) -> Witness:
        slope = solve_triangular(T, sums.gradient, trans=1, check_finite=False)
        gradient = sums.gradient
        doubt = sums.doubt
        v = np.zeros(len(x))
        l2 = None
        if self.h is not None:
            l2 = np.asarray(self.h.quadratic(len(x)), dtype=np.float64)
            found = self._subgradient(x, slope, sums.hessian, T, l2)
            if found is None:
                nothing = Decrement(np.inf, np.inf, None, None, None)
                return Witness(nothing, 0.0, np.nan, questions)
            v = found
            kinks = v - l2 * x
            if not self.h.kinked:
                kinks = np.zeros(len(x))
            gradient = gradient + T.T @ kinks
            doubt += gamma(len(x) + 8) * length(np.abs(T).T @ (np.abs(kinks) + np.abs(v)))
        bound = decrement(gradient, doubt, sums.hessian, sums.reach, OPERATIONS, x=x, l2=l2, T=T)
        rounding = decrement(
            np.zeros(len(gradient)),
            2 * doubt,
            sums.hessian,
            sums.reach,
            OPERATIONS,
            x=np.zeros(len(x)),
            l2=l2,
            T=T,
        )
        noise = rounding.gap if rounding.gap is not None else 0.0
        return Witness(bound, noise, length(slope + v), questions)

    def _subgradient(
        self, x: Vector, slope: Vector, M: Vector, T: Vector, l2: Vector
    ) -> Vector | None:
        """The subgradient of h that makes the decrement smallest."""
        assert self.h is not None
        if not self.h.kinked:
            return l2 * x
        H = factor(M, T).in_x(T) + np.diag(l2)
        v = self.h.subgradient_in(x, slope, H)
        return None if v is None else np.asarray(v, dtype=np.float64)
