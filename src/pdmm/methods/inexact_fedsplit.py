"""Inexact FedSplit (eq. gradient_xi_fedsplit), from its own start or from the repaired one."""

from dataclasses import dataclass, replace
from typing import Literal, Self

from pdmm.common.checks import is_auto, moderate, one_of
from pdmm.methods.automatic import Chosen, Reasons, steps_of_nearly_exact
from pdmm.methods.base import Array, Auto, GradientSteps, Nothing, Oracle, StepSize, settled
from pdmm.methods.family import Acceleration, Family, Memory
from pdmm.methods.known import Known
from pdmm.methods.registry import register


@register("inexact-fedsplit")
@dataclass(frozen=True)
class InexactFedSplit(GradientSteps, Family):
    """FedSplit with ``local_steps`` plain gradient steps in place of the proximal step.

    Args:
        gamma: step size of the proximal step that is approximated; "auto" starts at
            1/sqrt(L mu) and adapts it during the run.
        step_size: eta of the gradient steps on f_i(x) + 1/(2 gamma) ‖x - z_{s|i}‖²; "auto"
            takes 1/(L + 1/gamma).
        local_steps: K, how many of them per round; "auto" takes enough for a nearly exact step.
        start: ``"anchor"`` starts them at z_{s|i}, as published: this stalls away from the
            optimum. ``"server"`` starts them at x_s, the repair (Remark 2): this converges.
        relaxation: 1 is Peaceman-Rachford splitting, 0.5 is Douglas-Rachford.
        acceleration: ``"anderson"`` combines the last rounds into a better one, with a
            handful of scalars more a round; see docs/automatic.md.

    References:
        Pathak, Wainwright, "FedSplit: an algorithmic framework for fast federated
        optimization", NeurIPS 2020; the repair is Section III of Zhang, Niwa, Kleijn.
    """

    gamma: float | Auto = "auto"
    step_size: StepSize = "auto"
    local_steps: int | Auto = "auto"
    start: Literal["anchor", "server"] = "anchor"
    relaxation: float = 1.0
    acceleration: Acceleration = None

    paper_vectors = (1, 1)

    def __post_init__(self) -> None:
        if not is_auto(self.gamma):
            self.settle(gamma=moderate("gamma", self.gamma))
        self.check_steps()
        one_of("start", self.start, ("anchor", "server"))
        self.check_family()

    def auto(self, known: Known, adaptive: bool) -> tuple[Self, Reasons]:
        method, why = super().auto(known, adaptive)
        if self.start == "anchor":
            stays = "start stays 'anchor', as published, which stalls; 'server' converges"
            why = (*why, stays)
        return method, why

    def auto_step_size(self, known: Known, adaptive: bool) -> Chosen:
        step = 1 / (known.safe_L + self.penalty)
        return step, f"step_size {step:.3g}, 1/(L + 1/gamma){known.halved}: {known}"

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        return steps_of_nearly_exact(known, self.eta, self.penalty)

    def step_limit(self, one_over_l: float) -> tuple[str, float]:
        return "1/(L + 1/gamma)", 1 / (1 / one_over_l + self.penalty)

    @property
    def penalty(self) -> float:
        return 1 / settled("gamma", self.gamma)

    def with_penalty(self, rho: float) -> Self:
        """The same method with gamma = 1/rho, its steps as safe as they were."""
        smooth = 1 / self.eta - self.penalty  # an L for which step_size is 1/(L + 1/gamma)
        return replace(self, gamma=1 / rho, step_size=1 / (max(smooth, 0.5 / self.eta) + rho))

    def local(
        self, f: Oracle, x_s: Array, anchor: Array, memory: Memory, steps: int
    ) -> tuple[Array, Nothing]:
        x, _ = f.steps(
            anchor if self.start == "anchor" else x_s,
            step=self.eta,
            count=steps,
            anchor=anchor,
            rho=self.penalty,
        )
        return x, Nothing()
