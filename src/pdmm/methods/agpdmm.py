"""AGPDMM (Alg. 2): gradient-based PDMM, each client starting from the server's estimate."""

from dataclasses import dataclass, field

from pdmm.methods.base import Array, Auto, Nothing, Oracle, StepSize
from pdmm.methods.family import Acceleration, GradientFamily, Memory, Metric
from pdmm.methods.registry import register


@register("agpdmm")
@dataclass(frozen=True)
class AGPDMM(GradientFamily):
    """Accelerated gradient-based PDMM: K gradient steps a round, starting from x_s.

    The paper sends x_s and lam_{s|i} down, two vectors. A client that remembers z_i can
    work out lam_{s|i} itself, so here one vector goes down, with identical iterates.

    Args:
        step_size: eta; at most 1/L, which "auto" takes; or a callable of the round.
        local_steps: K, gradient steps per round; "auto" takes enough for a nearly exact
            step. With K = 1 this is gradient descent.
        rho: weight of the quadratic term; None means 1/(K eta), as in the paper; "auto"
            starts at sqrt(L mu) and adapts it during the run.
        relaxation: 1 is PDMM, 0.5 is ADMM.
        acceleration: ``"anderson"`` combines the last rounds into a better one, with a
            handful of scalars more a round; see docs/automatic.md.
        metric: the norm of the quadratic term, for problems that know their Hessians: "diagonal"
            scales and centres the columns, "full" makes the mean client's Hessian the identity.
            None is the Euclidean norm.

    References:
        Zhang, Niwa, Kleijn, Section IV-B, Algorithm 2.
    """

    step_size: StepSize = "auto"
    local_steps: int | Auto = "auto"
    rho: float | Auto | None = None
    relaxation: float = 1.0
    acceleration: Acceleration = None
    metric: Metric = field(default=None, kw_only=True)

    paper_vectors = (2, 1)

    def local(
        self, f: Oracle, x_s: Array, anchor: Array, memory: Memory, steps: int
    ) -> tuple[Array, Nothing]:
        last, _ = f.steps(
            x_s,  # Alg. 2, line 5
            step=self.inner_step,  # Alg. 2, line 7
            count=steps,
            anchor=anchor,
            rho=self.penalty,
        )
        return last, Nothing()
