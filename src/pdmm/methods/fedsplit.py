"""FedSplit (eq. client_update_split, server_update_split): PDMM with rho = 1/gamma."""

from dataclasses import dataclass, replace
from typing import Self

from pdmm.common.checks import is_auto, moderate
from pdmm.methods.base import Auto, settled
from pdmm.methods.family import Acceleration, ExactFamily
from pdmm.methods.registry import register


@register("fedsplit")
@dataclass(frozen=True)
class FedSplit(ExactFamily):
    """FedSplit: every client takes an exact proximal step of size gamma.

    The same iterates as :class:`pdmm.PDMM` with ``rho = 1/gamma``.

    Args:
        gamma: step size of the proximal step; 1/sqrt(L mu) is optimal in the worst case.
            "auto" starts there and adapts it during the run.
        relaxation: 1 is Peaceman-Rachford splitting, 0.5 is Douglas-Rachford.
        acceleration: ``"anderson"`` combines the last rounds into a better one, with a
            handful of scalars more a round; see docs/automatic.md.

    References:
        Pathak, Wainwright, "FedSplit: an algorithmic framework for fast federated
        optimization", NeurIPS 2020.
    """

    gamma: float | Auto = "auto"
    relaxation: float = 1.0
    acceleration: Acceleration = None

    def __post_init__(self) -> None:
        if not is_auto(self.gamma):
            self.settle(gamma=moderate("gamma", self.gamma))
        self.check_family()

    @property
    def penalty(self) -> float:
        return 1 / settled("gamma", self.gamma)

    def with_penalty(self, rho: float) -> Self:
        return replace(self, gamma=1 / rho)
