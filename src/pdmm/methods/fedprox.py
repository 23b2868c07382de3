"""FedProx: local gradient steps that are pulled towards the server's point, averaged."""

from dataclasses import dataclass

from pdmm.common.checks import moderate_or_zero
from pdmm.methods.automatic import Chosen
from pdmm.methods.base import Nothing, Oracle
from pdmm.methods.fedavg import FedAvg, Server, Upload
from pdmm.methods.known import Known
from pdmm.methods.registry import register


@register("fedprox")
@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedProx: K gradient steps on f_i + mu/2 ‖x - x_s‖², then the mean of the results.

    The pull towards x_s keeps clients that differ from drifting apart, and slows them down. With
    K > 1 it does not reach the optimum, whatever the number of rounds.

    Args:
        step_size: eta of the local steps; "auto" takes 1/(L + mu); or a callable of the round.
        local_steps: K, gradient steps per round; "auto" takes 1, with which it converges.
        mu: the weight of the pull; with 0 it is FedAvg.

    References:
        Li et al., "Federated optimization in heterogeneous networks", MLSys 2020.
    """

    mu: float = 1.0

    def __post_init__(self) -> None:
        self.check_steps()
        self.settle(mu=moderate_or_zero("mu", self.mu))

    def auto_step_size(self, known: Known, adaptive: bool) -> Chosen:
        step = 1 / (known.safe_L + self.mu)
        return step, f"step_size {step:.3g}, 1/(L + mu){known.halved}: {known}"

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        return 1, "local_steps 1: with more, FedProx does not reach the optimum"

    def step_limit(self, one_over_l: float) -> tuple[str, float]:
        return "1/(L + mu)", one_over_l / (1 + self.mu * one_over_l)

    def client(
        self, message: Server, memory: Nothing, f: Oracle, steps: int
    ) -> tuple[Upload, Nothing]:
        x, _ = f.steps(message.x, step=self.eta, count=steps, anchor=message.x, rho=self.mu)
        return Upload(dx=x - message.x), Nothing()
