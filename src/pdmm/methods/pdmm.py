"""PDMM with exact client minimisation (eq. client_update, server_update)."""

from dataclasses import dataclass, field, replace
from typing import Self

from pdmm.common.checks import is_auto, moderate
from pdmm.methods.base import Auto, Method, settled
from pdmm.methods.family import Acceleration, ExactFamily, Metric
from pdmm.methods.own_metric import OwnMetric
from pdmm.methods.registry import register


@register("pdmm")
@dataclass(frozen=True)
class PDMM(ExactFamily):
    """The primal-dual method of multipliers: every client minimises exactly.

    Each round, client i solves ``x_i = argmin f_i(x) + rho/2 ‖x - x_s + lam_{s|i}/rho‖²``.

    Args:
        rho: weight of the quadratic term. sqrt(L mu) is optimal in the worst case, where
            every f_i is mu-strongly convex with an L-Lipschitz gradient. "auto" starts
            there and adapts it during the run.
        relaxation: 1 is PDMM (Peaceman-Rachford splitting), 0.5 is ADMM
            (Douglas-Rachford). Less than 1 is needed where f_i is neither smooth nor
            strongly convex.
        acceleration: ``"anderson"`` combines the last rounds into a better one, with a
            handful of scalars more a round; see docs/automatic.md.
        metric: the norm of the quadratic term, for problems that know their Hessians: "diagonal"
            scales and centres the columns, "full" makes the mean client's Hessian the identity, and
            "own" gives each client a metric close to its own Hessian, where rho="auto" takes 1,
            and a relaxation of 0.7 in the place of 1. None is the Euclidean norm.

    Example:
        >>> import pdmm
        >>> problem = pdmm.LeastSquares.random(clients=4, samples=40, features=5, seed=1)
        >>> result = pdmm.solve(problem, pdmm.PDMM(rho=35.0), rounds=40)
        >>> bool(result.history["gap"][-1] < 1e-12 * result.history["gap"][0])
        True

    References:
        Zhang, Niwa, Kleijn, "Revisiting the Primal-Dual Method of Multipliers for
        Optimisation over Centralised Networks", Section III.
    """

    rho: float | Auto = "auto"
    relaxation: float = 1.0
    acceleration: Acceleration = None
    metric: Metric = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not is_auto(self.rho):
            self.settle(rho=moderate("rho", self.rho))
        if self.metric == "own" and self.acceleration is not None:
            raise ValueError("metric='own' takes no acceleration: metrics change on the way")
        self.check_family()

    @property
    def penalty(self) -> float:
        return settled("rho", self.rho)

    def with_penalty(self, rho: float) -> Self:
        return replace(self, rho=rho)

    def running(self) -> Method:
        return OwnMetric(self) if self.metric == "own" else self
