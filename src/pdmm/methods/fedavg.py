"""FedAvg ("FedAve" in the paper): local gradient steps, averaged."""

from dataclasses import dataclass
from typing import NamedTuple

from pdmm.methods.automatic import Chosen
from pdmm.methods.base import Array, Auto, GradientSteps, Nothing, Oracle, Prox, StepSize
from pdmm.methods.known import Known
from pdmm.methods.registry import register


class Server(NamedTuple):
    """The server's state, and its message: x_s."""

    x: Array


class Upload(NamedTuple):
    """What a client sends: x_i - x_s."""

    dx: Array


@register("fedavg")
@dataclass(frozen=True)
class FedAvg(GradientSteps):
    """Federated averaging: K local gradient steps, then the mean of the results.

    With K > 1 and clients that differ it does not reach the optimum, whatever the number
    of rounds: the local steps drift towards each client's own optimum.

    Args:
        step_size: eta of the local steps; "auto" takes 1/L. A callable of the round, such as
            ``lambda r: 0.1 / r**0.5``, makes it smaller from round to round.
        local_steps: K, gradient steps per round; "auto" takes 1, with which it converges.

    References:
        McMahan et al., "Communication-efficient learning of deep networks from
        decentralized data", AISTATS 2017.
    """

    step_size: StepSize = "auto"
    local_steps: int | Auto = "auto"

    paper_vectors = (1, 1)
    no_regulariser = (
        "it does not converge to the optimum of a regularised sum; "
        "use AGPDMM, GPDMM, PDMM or GradientDescent"
    )

    def __post_init__(self) -> None:
        self.check_steps()

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        return 1, "local_steps 1: with more, FedAvg does not reach the optimum"

    def server_start(self, x0: Array, prox: Prox) -> Server:
        return Server(x=x0)

    def client_start(self, x0: Array) -> Nothing:
        return Nothing()

    def broadcast(self, server: Server) -> Server:
        return server

    def client(
        self, message: Server, memory: Nothing, f: Oracle, steps: int
    ) -> tuple[Upload, Nothing]:
        x, _ = f.steps(message.x, step=self.eta, count=steps)
        return Upload(dx=x - message.x), Nothing()

    def spread(self, upload: Upload) -> Array:
        return upload.dx

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        return Server(x=server.x + mean.dx)
