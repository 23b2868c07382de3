"""Gradient descent on the mean of the f_i, proximal where there is a regulariser."""

from dataclasses import dataclass
from typing import NamedTuple

from pdmm.common.checks import is_auto, moderate
from pdmm.methods.automatic import Chosen
from pdmm.methods.base import Array, Method, Nothing, Oracle, Prox, StepSize, settled
from pdmm.methods.known import Known
from pdmm.methods.registry import register


class Server(NamedTuple):
    """The server's state, and its message: x_s."""

    x: Array


class Upload(NamedTuple):
    """What a client sends: the gradient of f_i at x_s."""

    gradient: Array


@register("gradient-descent")
@dataclass(frozen=True)
class GradientDescent(Method):
    """Gradient descent: one gradient per client and round, one step at the server.

    ``x_s <- prox(x_s - step_size * mean_i grad f_i(x_s))``, the prox being that of
    ``step_size * h / sum_i w_i`` for a regulariser h.

    Args:
        step_size: below 2/L, where L is that of the mean of the f_i; "auto" takes
            2/(L + mu) of the mean.
    """

    step_size: StepSize = "auto"

    paper_vectors = (1, 1)

    def __post_init__(self) -> None:
        if not is_auto(self.step_size) and not callable(self.step_size):
            self.settle(step_size=moderate("step_size", self.step_size))

    def auto_step_size(self, known: Known, adaptive: bool) -> Chosen:
        step = known.step_of_mean()
        return step, f"step_size {step:.3g}, 2/(L + mu) of the mean of the f_i{known.halved}"

    @property
    def steps(self) -> int:
        return 1

    def server_start(self, x0: Array, prox: Prox) -> Server:
        return Server(x=x0)

    def client_start(self, x0: Array) -> Nothing:
        return Nothing()

    def broadcast(self, server: Server) -> Server:
        return server

    def client(
        self, message: Server, memory: Nothing, f: Oracle, steps: int
    ) -> tuple[Upload, Nothing]:
        return Upload(gradient=f.gradient(message.x)), Nothing()

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        eta = settled("step_size", self.step_size)
        return Server(x=prox(server.x - eta * mean.gradient, eta))
