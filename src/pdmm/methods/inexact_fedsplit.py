"""Inexact FedSplit (eq. gradient_xi_fedsplit), from its own start or from the repaired one."""

from dataclasses import dataclass
from typing import Literal

from pdmm.checks import one_of, positive
from pdmm.methods.base import Array, GradientSteps, Nothing, Oracle
from pdmm.methods.family import Family, Memory


@dataclass(frozen=True)
class InexactFedSplit(GradientSteps, Family):
    """FedSplit with ``local_steps`` plain gradient steps in place of the proximal step.

    Args:
        gamma: step size of the proximal step that is approximated.
        step_size: eta of the gradient steps on f_i(x) + 1/(2 gamma) ‖x - z_{s|i}‖².
        local_steps: K, how many of them per round.
        start: ``"anchor"`` starts them at z_{s|i}, as published: this stalls away from the
            optimum. ``"server"`` starts them at x_s, the repair (Remark 2): this converges.
        relaxation: 1 is Peaceman-Rachford splitting, 0.5 is Douglas-Rachford.

    References:
        Pathak, Wainwright, "FedSplit: an algorithmic framework for fast federated
        optimization", NeurIPS 2020; the repair is Section III of Zhang, Niwa, Kleijn.
    """

    gamma: float
    step_size: float
    local_steps: int
    start: Literal["anchor", "server"] = "anchor"
    relaxation: float = 1.0

    paper_vectors = (1, 1)

    def __post_init__(self) -> None:
        self.settle(gamma=positive("gamma", self.gamma))
        self.check_steps()
        one_of("start", self.start, ("anchor", "server"))
        self.check_relaxation()

    def step_limit(self, one_over_l: float) -> tuple[str, float]:
        return "1/(L + 1/gamma)", 1 / (1 / one_over_l + self.penalty)

    @property
    def penalty(self) -> float:
        return 1 / self.gamma

    def local(
        self, f: Oracle, x_s: Array, anchor: Array, memory: Memory, steps: int
    ) -> tuple[Array, Nothing]:
        x, _ = f.steps(
            anchor if self.start == "anchor" else x_s,
            step=self.step_size,
            count=steps,
            anchor=anchor,
            rho=self.penalty,
        )
        return x, Nothing()
