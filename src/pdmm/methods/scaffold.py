"""SCAFFOLD (eq. SCAFFOLD_client_update, SCAFFOLD_server_update)."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from pdmm.common.checks import moderate
from pdmm.methods.automatic import Chosen, Reasons
from pdmm.methods.base import Array, Auto, GradientSteps, Method, Oracle, Prox, StepSize
from pdmm.methods.known import Known
from pdmm.methods.registry import register


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


class BothUploads(NamedTuple):
    """As published: x_i - x_s, and c_i' - c_i."""

    dx: Array
    dc: Array


class Draft(NamedTuple):
    """The c that the client was sent: the change of c_i follows from it and from dx."""

    c: Array


@register("scaffold")
@dataclass(frozen=True)
class Scaffold(GradientSteps):
    """SCAFFOLD: local gradient steps, their drift corrected by control variates.

    Published, a client uploads x_i - x_s and c_i' - c_i, two vectors. The second follows
    from the first: c_i' - c_i = -c - (x_i - x_s)/(K eta). So here one vector goes up, with
    identical iterates, and both counts are in the history.

    Args:
        step_size: eta of the local steps; "auto" takes 1/L; or a callable of the round.
        local_steps: K, gradient steps per round; "auto" takes 10.
        server_step: eta_g, by which the server scales the mean of the changes.
        send_control: whether c_i' - c_i goes up too, as published. It must, where clients take
            different numbers of steps.

    References:
        Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated
        learning", ICML 2020.
    """

    step_size: StepSize = "auto"
    local_steps: int | Auto = "auto"
    server_step: float = 1.0
    send_control: bool = False

    paper_vectors = (2, 2)
    vectors_down = 2
    memory_vectors = 1
    no_regulariser = (
        "its clients average gradient steps, and no prox of the server's makes the regularised "
        "optimum a fixed point; use AGPDMM, GPDMM or PDMM"
    )

    def __post_init__(self) -> None:
        self.check_steps()
        self.settle(server_step=moderate("server_step", self.server_step))

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        return 10, "local_steps 10: SCAFFOLD gains little from more"

    def for_own_steps(self) -> tuple[Method, Reasons]:
        return self._sending_control("numbers of steps differ")

    def for_rounding(self) -> tuple[Method, Reasons]:
        return self._sending_control("messages are rounded")

    def for_changing_steps(self) -> tuple[Method, Reasons]:
        return self._sending_control("step sizes change while uploads may be on their way")

    def _sending_control(self, where: str) -> tuple[Method, Reasons]:
        """Send both vectors up, where the second does not follow from the first."""
        if self.send_control:
            return self, ()
        why = f"SCAFFOLD sends c_i' - c_i too: it does not follow from x_i - x_s where {where}"
        return replace(self, send_control=True), (why,)

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

    @property
    def vectors_up(self) -> int:  # type: ignore[override]
        return 2 if self.send_control else 1

    def client(
        self, message: Server, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload | BothUploads, Draft]:
        x, _ = f.steps(
            message.x, step=self.eta, count=steps, shift=message.c - memory.c
        )  # eq. SCAFFOLD_client_update
        dx = x - message.x
        draft = Draft(c=message.c + 0 * memory.c)
        if self.send_control:
            return BothUploads(dx=dx, dc=-draft.c - dx / (steps * self.eta)), draft
        return Upload(dx=dx), draft

    def accept(self, memory: Memory, draft: Draft, delivered: Upload | BothUploads) -> Memory:
        return Memory(c=memory.c + self._change(draft.c, delivered))

    def spread(self, upload: Upload | BothUploads) -> Array:
        return upload.dx

    def server(
        self, server: Server, mean: Upload | BothUploads, share: float, prox: Prox
    ) -> Server:
        return Server(  # eq. SCAFFOLD_server_update
            x=server.x + self.server_step * mean.dx,
            c=server.c + share * self._change(server.c, mean),
        )

    def _change(self, c: Array, upload: Upload | BothUploads) -> Array:
        """c_i' - c_i: sent, or as it follows from dx where all take equally many steps."""
        if isinstance(upload, BothUploads):
            return upload.dc
        return -c - upload.dx / (self.steps * self.eta)
