"""Naive twins, behind links that lose messages, of the methods that ``unreliable`` leaves out."""

from dataclasses import dataclass

from twins.methods import Network
from twins.unreliable import Family, State


@dataclass
class InexactFedSplit(Family):
    """FedSplit whose clients take plain gradient steps, from the anchor or from x_s."""

    from_anchor: bool = True

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        assert self.eta is not None
        x_s = message["x"]
        z_s = 2 * x_s - memory["z"]
        x = z_s if self.from_anchor else x_s  # the flaw, or Remark 2
        for k in range(steps):  # eq. gradient_xi_fedsplit
            x = x - self.eta * (net.gradient(i, x, done + k) + self.rho * (x - z_s))
        return {"dz": self.relaxation * (2 * x - z_s - memory["z"])}, {"x": x}


@dataclass
class GradientDescent:
    """One gradient for each client and round; the server steps along the mean of those it got."""

    eta: float

    def server_start(self, net: Network) -> State:
        return {"x": net.x0.copy()}

    def message(self, server: State) -> State:
        return dict(server)

    def client_start(self, net: Network) -> State:
        return {}

    def work(
        self, net: Network, i: int, message: State, memory: State, steps: int, done: int
    ) -> tuple[State, State]:
        return {"gradient": net.gradient(i, message["x"], done)}, {}

    def accept(self, memory: State, more: State, upload: State, message: State) -> State:
        return memory

    def server(
        self, net: Network, server: State, message: State, uploads: dict[int, State]
    ) -> State:
        weight = sum(net.weights[i] for i in uploads)
        x = server["x"]
        for i, upload in uploads.items():
            x = x - self.eta * net.weights[i] * upload["gradient"] / weight
        return {"x": net.server_prox(x, self.eta / net.total_weight)}
