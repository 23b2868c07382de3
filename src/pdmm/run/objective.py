"""F along a run, and its gap to the optimum where that is known, without cancellation."""

import numpy as np
import numpy.typing as npt

from pdmm.engines.clients import Clients
from pdmm.engines.exchange import Evaluation
from pdmm.problems.block import Floats
from pdmm.problems.sums import Total
from pdmm.regularisers import Regulariser, SquaredL2

ROUNDING = float(np.finfo(np.float64).eps)
Vector = npt.NDArray[np.float64]


class Objective:
    """F(x) = sum_i w_i f_i(x) + h(x), and its gap to the optimum where that is known.

    Args:
        total: sum_i w_i f_i in a form of its own, if there is one.
        clients: who are asked for their values, if there is none.
        regulariser: h.
        optimum: what the user knows of it: F*, a minimiser x*, or nothing.
    """

    def __init__(
        self,
        total: Total | None,
        clients: Clients,
        regulariser: Regulariser | None,
        optimum: float | Vector | None,
    ) -> None:
        self.total = total
        self.h = regulariser
        self.f = clients if total is None else total
        self.asks_clients = total is None
        """Whether F is a sum over clients, who have to be asked for it."""
        self.known = total is None or total.known
        """Whether F can be evaluated at all."""
        self.calls = 1 if total is None else total.calls
        """How many values one evaluation asks of every client."""
        self.x_star: Vector | None = None
        self.f_star: float | None = None
        self.slope: Vector | None = None
        self._learn(optimum)
        if self.x_star is not None:
            self.f_star = self._value(self.x_star)
        if self.f_star is not None and not np.isfinite(self.f_star):
            raise ValueError(f"optimum has the objective {self.f_star}: {self._why_not_finite()}")

    def _learn(self, optimum: float | Vector | None) -> None:
        """Find F*, or x* and the slope of f there, where the gap is measured from."""
        if isinstance(optimum, float):
            self.f_star = optimum
        elif optimum is not None and not self.f.accurate:
            self.f_star = self._value(optimum)
        elif optimum is not None:
            self.x_star = optimum
            self.slope = -self.f.gradient(optimum)
        elif self.total is not None:
            l2 = self._ridge()
            if l2 is None:
                return
            # A minimiser by a direct solve: its slope is that of h, whatever rounding says.
            self.x_star = self.total.minimiser(l2)
            self.slope = None if self.x_star is None else l2 * self.x_star

    def _ridge(self) -> float | None:
        """The l2 for which h is l2/2 ‖x‖², or None if there is none."""
        if self.h is None:
            return 0.0
        if isinstance(self.h, SquaredL2) and isinstance(self.h.c, float):
            return self.h.c
        return None

    def _why_not_finite(self) -> str:
        if self.h is None:
            return "F overflows there, so scale the data down"
        return "it is outside the regulariser, or F overflows there"

    def _value(self, x: Floats) -> float:
        return self.f.value(x) + (self.h.value(x) if self.h else 0.0)

    def wanted(self, x: Floats) -> Evaluation:
        """What has to be evaluated to know F(x) and the gap."""
        return Evaluation(x, self.x_star)

    def measured(self, x: Floats) -> float:
        """Evaluate that, by asking the clients if need be."""
        if self.x_star is None:
            return self.f.value(x)
        return self.f.divergence(x, self.x_star)

    def concluded(self, x: Floats, measured: float) -> tuple[float, float | None]:
        """F(x) and F(x) - F*, from what was measured at x."""
        if self.x_star is None or self.slope is None or self.f_star is None:
            value = measured + (self.h.value(x) if self.h else 0.0)
            return value, None if self.f_star is None else value - self.f_star
        if self.h is not None:
            more = self.h.divergence(x, self.x_star, self.slope)
        else:
            more = -float(self.slope @ (x - self.x_star))
        gap = measured + more
        if -ROUNDING * abs(self.f_star) < gap < 0:  # x* and its slope are rounded themselves
            gap = 0.0
        return self.f_star + gap, gap
