"""FedDyn: local gradient steps on functions that bend dynamically towards the common optimum."""

from dataclasses import dataclass
from typing import NamedTuple

from pdmm.common.checks import is_auto, moderate
from pdmm.methods.automatic import Chosen, steps_of_nearly_exact
from pdmm.methods.base import Array, Auto, GradientSteps, Nothing, Oracle, Prox, StepSize, settled
from pdmm.methods.known import Known
from pdmm.methods.registry import register


class Server(NamedTuple):
    """The server's state: x_s, and h, -alpha times the mean of all that clients have moved."""

    x: Array
    h: Array


class Message(NamedTuple):
    """What the server sends: x_s."""

    x: Array


class Memory(NamedTuple):
    """What a client remembers: g_i, which becomes the gradient of f_i at the optimum."""

    g: Array


class Upload(NamedTuple):
    """What a client sends: x_i - x_s."""

    dx: Array


@register("feddyn")
@dataclass(frozen=True)
class FedDyn(GradientSteps):
    """FedDyn: K gradient steps on f_i - g_i·x + alpha/2 ‖x - x_s‖², and g_i follows the drift.

    It reaches the optimum of clients that differ, with one vector up and one down.

    Args:
        step_size: eta of the local steps; "auto" takes 1/(L + alpha). With 1/L it need not
            converge.
        local_steps: K, gradient steps per round; "auto" takes enough for a nearly exact step.
        alpha: the weight of the quadratic term; "auto" takes sqrt(L mu) of the mean client.

    References:
        Acar et al., "Federated learning based on dynamic regularization", ICLR 2021.
    """

    step_size: StepSize = "auto"
    local_steps: int | Auto = "auto"
    alpha: float | Auto = "auto"

    FIRST = ("alpha", "step_size", "local_steps")
    paper_vectors = (1, 1)
    memory_vectors = 1
    no_regulariser = "its server takes no proximal step; use AGPDMM, GPDMM, PDMM or GradientDescent"

    def __post_init__(self) -> None:
        self.check_steps()
        if not is_auto(self.alpha):
            self.settle(alpha=moderate("alpha", self.alpha))

    @property
    def weight(self) -> float:
        """alpha, a number."""
        return settled("alpha", self.alpha)

    def auto_alpha(self, known: Known, adaptive: bool) -> Chosen:
        alpha = known.first_rho()
        return alpha, f"alpha is {alpha:.3g}, from sqrt(L mu) of the mean client: {known}"

    def auto_step_size(self, known: Known, adaptive: bool) -> Chosen:
        step = 1 / (known.safe_L + self.weight)
        return step, f"step_size {step:.3g}, 1/(L + alpha){known.halved}: {known}"

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        return steps_of_nearly_exact(known, self.eta, self.weight)

    def step_limit(self, one_over_l: float) -> tuple[str, float]:
        return "1/(L + alpha)", one_over_l / (1 + self.weight * one_over_l)

    def server_start(self, x0: Array, prox: Prox) -> Server:
        return Server(x=x0, h=0 * x0)

    def client_start(self, x0: Array) -> Memory:
        return Memory(g=0 * x0)

    def broadcast(self, server: Server) -> Message:
        return Message(x=server.x)

    def client(
        self, message: Message, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Nothing]:
        x, _ = f.steps(
            message.x,
            step=self.eta,
            count=steps,
            shift=-memory.g,
            anchor=message.x,
            rho=self.weight,
        )
        return Upload(dx=x - message.x), Nothing()

    def accept(self, memory: Memory, draft: Nothing, delivered: Upload) -> Memory:
        return Memory(g=memory.g - self.weight * delivered.dx)

    def spread(self, upload: Upload) -> Array:
        return upload.dx

    def imbalance(self, server: Server, mean: Upload) -> Array:
        return server.h  # the mean of all g_i

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        h = server.h - self.weight * share * mean.dx
        return Server(x=server.x + mean.dx - h / self.weight, h=h)
