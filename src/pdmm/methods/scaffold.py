"""SCAFFOLD (eq. SCAFFOLD_client_update, SCAFFOLD_server_update)."""

from dataclasses import dataclass
from typing import NamedTuple

from pdmm.checks import positive
from pdmm.methods.base import Array, Auto, GradientSteps, Oracle, Prox


class Server(NamedTuple):
    """The server's state: x_s and its control variate c."""

    x: Array
    c: Array


class Memory(NamedTuple):
    """What a client remembers: its control variate c_i."""

    c: Array


class Upload(NamedTuple):
    """What a client sends: x_i - x_s."""

    dx: Array


class Draft(NamedTuple):
    """The c that the client was sent: the change of c_i follows from it and from dx."""

    c: Array


@dataclass(frozen=True)
class Scaffold(GradientSteps):
    """SCAFFOLD: local gradient steps, their drift corrected by control variates.

    Published, a client uploads x_i - x_s and c_i' - c_i, two vectors. The second follows
    from the first: c_i' - c_i = -c - (x_i - x_s)/(K eta). So here one vector goes up, with
    identical iterates, and both counts are in the history.

    Args:
        step_size: eta of the local steps; "auto" takes 1/L.
        local_steps: K, gradient steps per round; "auto" takes 10.
        server_step: eta_g, by which the server scales the mean of the changes.

    References:
        Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated
        learning", ICML 2020.
    """

    step_size: float | Auto = "auto"
    local_steps: int | Auto = "auto"
    server_step: float = 1.0

    paper_vectors = (2, 2)
    vectors_down = 2
    no_regulariser = (
        "its clients average gradient steps, and no prox of the server's makes the regularised "
        "optimum a fixed point; use AGPDMM, GPDMM or PDMM"
    )

    def __post_init__(self) -> None:
        self.check_steps()
        self.settle(server_step=positive("server_step", self.server_step))

    def step_limit(self, one_over_l: float) -> tuple[str, float]:
        if self.server_step <= 1:
            return "1/L", one_over_l
        return "1/(L server_step)", one_over_l / self.server_step

    def server_start(self, x0: Array, prox: Prox) -> Server:
        return Server(x=x0, c=0 * x0)

    def client_start(self, x0: Array) -> Memory:
        return Memory(c=0 * x0)

    def broadcast(self, server: Server) -> Server:
        return Server(x=server.x, c=server.c)

    def client(
        self, message: Server, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Draft]:
        x, _ = f.steps(
            message.x, step=self.eta, count=steps, shift=message.c - memory.c
        )  # eq. SCAFFOLD_client_update
        return Upload(dx=x - message.x), Draft(c=message.c + 0 * memory.c)

    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory:
        return Memory(c=memory.c + self._change(draft.c, delivered.dx))

    def spread(self, upload: Upload) -> Array:
        return upload.dx

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        return Server(  # eq. SCAFFOLD_server_update
            x=server.x + self.server_step * mean.dx,
            c=server.c + share * self._change(server.c, mean.dx),
        )

    def _change(self, c: Array, dx: Array) -> Array:
        return -c - dx / (self.steps * self.eta)
