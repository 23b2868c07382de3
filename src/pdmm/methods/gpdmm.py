"""GPDMM (Alg. 1): gradient-based PDMM, each client going on from its own last iterate."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pdmm.common.checks import one_of
from pdmm.methods.base import Array, Auto, Oracle, StepSize
from pdmm.methods.family import Acceleration, GradientFamily, Metric, Upload
from pdmm.methods.registry import register


class Memory(NamedTuple):
    """What a client remembers: z_i, and its own last iterate x_i^{r-1,K}."""

    z: Array
    x: Array


class Draft(NamedTuple):
    """The client's last iterate of this round, x_i^{r,K}."""

    x: Array


@register("gpdmm")
@dataclass(frozen=True)
class GPDMM(GradientFamily):
    """Gradient-based PDMM: K gradient steps a round, from the client's own last iterate.

    Args:
        step_size: eta; at most 1/L, which "auto" takes; or a callable of the round.
        local_steps: K, gradient steps per round; "auto" takes enough for a nearly exact step.
        rho: weight of the quadratic term; None means 1/(K eta), as in the paper; "auto"
            starts at sqrt(L mu) and adapts it during the run.
        iterate: which of the K iterates the dual is made of: ``"mean"`` (Alg. 1, for which
            convergence is proven) or ``"last"`` (Remark 1, usually faster).
        relaxation: 1 is PDMM, 0.5 is ADMM.
        acceleration: ``"anderson"`` combines the last rounds into a better one, with a
            handful of scalars more a round; see docs/automatic.md.
        metric: the norm of the quadratic term, for problems that know their Hessians: "diagonal"
            scales and centres the columns, "full" makes the mean client's Hessian the identity.
            None is the Euclidean norm.

    References:
        Zhang, Niwa, Kleijn, Section IV-A, Algorithm 1, Theorems 1 and 2.
    """

    step_size: StepSize = "auto"
    local_steps: int | Auto = "auto"
    rho: float | Auto | None = None
    iterate: Literal["mean", "last"] = "mean"
    relaxation: float = 1.0
    acceleration: Acceleration = None
    metric: Metric = field(default=None, kw_only=True)

    paper_vectors = (1, 1)
    memory_vectors = 2
    draft_vectors = 1
    tells = 2  # the mean of the iterates, and the last one

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("iterate", self.iterate, ("mean", "last"))

    def client_start(self, x0: Array) -> Memory:
        return Memory(z=x0, x=1 * x0)  # two arrays: no array is shared by two fields

    def local(
        self, f: Oracle, x_s: Array, anchor: Array, memory: Memory, steps: int
    ) -> tuple[Array, Draft]:
        last, mean = f.steps(
            memory.x,  # Alg. 1, line 5
            step=self.inner_step,  # Alg. 1, line 7
            count=steps,
            anchor=anchor,
            rho=self.penalty,
            average=self.iterate == "mean",
        )
        x = mean if self.iterate == "mean" else last  # Alg. 1, line 9
        return x, Draft(x=last)

    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory:
        return Memory(z=memory.z + delivered.dz, x=draft.x)
