"""What a regulariser is, and what it can do beyond its proximal step."""

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.floating]
Indices = npt.NDArray[np.int64]


class Regulariser(ABC):
    """A convex function h whose proximal step is known.

    ``value`` and ``prox`` are all that one of your own must have. What the other methods are
    for, and what is lost without each, is told in docs/regularisers.md. If h is a sum over the
    entries of x, derive from :class:`pdmm.regularisers.Separable` instead, which has them all.
    """

    @abstractmethod
    def value(self, x: Vector) -> float:
        """h(x)."""

    @abstractmethod
    def prox(self, v: Vector, t: float) -> Vector:
        """argmin_x h(x) + ‖x - v‖²/(2 t)."""

    def divergence(self, x: Vector, y: Vector, slope: Vector) -> float:
        """h(x) - h(y) - slope·(x - y), without cancellation where a regulariser knows how.

        As it stands here it subtracts values, so that gaps below the rounding of F are noise.
        """
        return self.value(x) - self.value(y) - float(slope @ (x - y))

    def subgradient(self, x: Vector, slope: Vector) -> Vector | None:
        """The subgradient of h at x that is nearest to -slope, in float64; None if none is known.

        Args:
            x: a point, in the run's dtype.
            slope: the gradient of the rest of F there, in float64.
        """
        return None

    def beside(self, x: Vector) -> Vector | None:
        """How far each entry of x is from where the subgradient is taken; None if it is there.

        That is not 0 where x belongs on a bound that its dtype cannot hold.
        """
        return None

    @property
    def strong_convexity(self) -> float:
        """A mu for which h is mu-strongly convex."""
        return 0.0

    def check(self, dimension: int) -> None:
        """Refuse a problem of another dimension."""

    def for_problem(self, dimension: int, intercepts: Indices | None = None) -> "Regulariser":
        """The regulariser as it applies to a problem; it refuses another dimension.

        Args:
            dimension: the length of x.
            intercepts: which entries of x are intercepts, or None. A weight that is one number
                spares them; a weight that is a vector is taken literally.
        """
        self.check(dimension)
        return self

    # What metrics and Newton's method need.

    def prox_in(self, v: Vector, P: Vector) -> Vector:
        """argmin_x h(x) + (x - v)'P(x - v)/2.

        Args:
            v: a point.
            P: a symmetric positive definite matrix (d, d), or the diagonal of one (d,).
        """
        if P.ndim == 1 and (P[0] == P).all():
            return self.prox(v, 1 / float(P[0]))
        raise self._lacks("prox_in(v, P)", "A metric and Newton's method need")

    def subgradient_in(self, x: Vector, slope: Vector, H: Vector) -> Vector | None:
        """The subgradient v of h at x, in float64, that makes (slope + v)'H^-1(slope + v) small.

        A certificate holds with any subgradient; it is tightest with the one that makes it least.

        Args:
            x: a point.
            slope: the gradient of the rest of F there, in float64.
            H: a symmetric positive definite matrix (d, d), the Hessian of the smooth part of F.

        Returns:
            None where x is outside of h's domain, or where no subgradient is known.
        """
        return self.subgradient(x, slope)

    def quadratic(self, dimension: int) -> Vector:
        """The q of the part of h that is sum_j q_j x_j²/2, which Newton's method adds to H."""
        return np.zeros(dimension)

    @property
    def kinked(self) -> bool:
        """Whether h has anything beside that quadratic."""
        return True

    @property
    def has_prox_in(self) -> bool:
        """Whether ``prox_in`` takes every P."""
        return type(self).prox_in is not Regulariser.prox_in

    def check_metric(self) -> None:
        """Refuse to be used with a metric or with Newton's method if ``prox_in`` is missing."""
        if not self.has_prox_in:
            raise self._lacks("prox_in(v, P)", "A metric and Newton's method need")

    def _lacks(self, missing: str, who_needs: str) -> ValueError:
        return ValueError(
            f"{who_needs} {missing} of the regulariser, which {type(self).__name__} does not "
            f"define: write it (docs/regularisers.md shows how), or use curvature='none' and "
            f"metric=None, which need no more than prox"
        )
