"""FedSplit (eq. client_update_split, server_update_split): PDMM with rho = 1/gamma."""

from dataclasses import dataclass

from pdmm.checks import positive
from pdmm.methods.family import ExactFamily


@dataclass(frozen=True)
class FedSplit(ExactFamily):
    """FedSplit: every client takes an exact proximal step of size gamma.

    The same iterates as :class:`pdmm.PDMM` with ``rho = 1/gamma``.

    Args:
        gamma: step size of the proximal step; 1/sqrt(L mu) is optimal in the worst case.
        relaxation: 1 is Peaceman-Rachford splitting, 0.5 is Douglas-Rachford.

    References:
        Pathak, Wainwright, "FedSplit: an algorithmic framework for fast federated
        optimization", NeurIPS 2020.
    """

    gamma: float
    relaxation: float = 1.0

    def __post_init__(self) -> None:
        self.settle(gamma=positive("gamma", self.gamma))
        self.check_relaxation()

    @property
    def penalty(self) -> float:
        return 1 / self.gamma
