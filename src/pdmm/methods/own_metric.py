"""PDMM in which every client has a metric of its own, close to its own Hessian.

With ‖v‖² replaced by v'P_i v for client i, a round of PDMM is::

    a_i  = 2 x_s - z_i
    x_i  = argmin f_i(x) + (x - a_i)'P_i(x - a_i)/2
    z_i' = z_i + 2 relaxation (x_i - x_s)
    x_s  = prox of h in the metric S at S^-1 mean_i u_i,    u_i = P_i z_i,    S = mean_i P_i

with weighted means. The server needs only the sums of the u_i and of the P_i, and clients upload
the changes of both: what is lost or absent contributes nothing, as in the rest of the family.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from pdmm.common.packing import keepable
from pdmm.methods.automatic import Reasons
from pdmm.methods.base import Array, Method, Nothing, Prox
from pdmm.methods.whitening import Vector, packed, symmetric

if TYPE_CHECKING:
    from pdmm.methods.pdmm import PDMM

COMMON = 1e-3  # of the mean Hessian, in each P_i: a client's own Hessian may be singular
COMMON_RELAXATION = 0.9  # of "auto" in a metric that all share
RELAXATION = 0.7  # of "auto": P_i is not H_i for long, and longer steps may then fail


class Server(NamedTuple):
    """The server's state."""

    u: Array
    """The weighted mean of the u_i."""
    S: Array
    """The weighted mean of the P_i: its upper triangle."""
    x: Array
    heard: float
    """How many uploads have arrived, for each client on average."""


class _Message(NamedTuple):
    x: Array
    renew: Array


class Message(_Message):
    """x_s, and whether clients renew their metrics."""

    EXACT: ClassVar = ("renew",)


class Memory(NamedTuple):
    """What a client remembers."""

    u: Array
    P: Array
    """Its upper triangle."""


class _Upload(NamedTuple):
    du: Array
    renewal: Array
    apart: Array


class Upload(_Upload):
    """The change of u_i, that of P_i (its upper triangle, if it was renewed), and ‖x_i - x_s‖²."""

    EXACT: ClassVar = ("renewal", "apart")


@keepable
@dataclass(frozen=True)
class OwnMetric(Method[Server, Memory, Message, Upload, Nothing]):
    """``inner`` with a metric P_i = rho (H_i(x_s) + eps I) for each client.

    The run's variables are those in which the mean client's Hessian is the identity. P_i is
    renewed in rounds 1, 2, 4, 8 and 16; where clients are missing, in the rounds after which each
    client has been heard as often on average. The first round is a step of Newton's method.

    Args:
        inner: PDMM, its parameters settled.
    """

    inner: "PDMM"

    paper_vectors = (1, 1)
    exact = True
    memory_vectors = 1

    @property
    def curvature(self) -> Literal["full"]:
        return "full"

    @property
    def steps(self) -> int:
        return 0

    @property
    def as_named(self) -> Method:
        return self.inner

    def with_parameters(self, **values: Any) -> Self:
        return replace(self, inner=self.inner.with_parameters(**values))

    def exact_numbers(self, message: Message) -> tuple[int, int]:
        d = np.shape(message.x)[-1]
        return 1, 1 + d * (d + 1) // 2 * bool(message.renew)

    def shape_key(self, message: Message) -> bool:
        return bool(message.renew)

    # --- clients ----------------------------------------------------------------------------

    def client_start(self, x0: Array) -> Memory:
        rows = np.zeros((*x0.shape[:-1], 1))
        return Memory(u=self.inner.penalty * x0, P=rows + self._first_metric(x0.shape[-1]))

    def client(
        self, message: Message, memory: Memory, f: Any, steps: int
    ) -> tuple[Upload, Nothing]:
        x_s = message.x
        P = symmetric(memory.P)
        u = memory.u
        renewal = memory.P[..., :0]
        if message.renew:
            renewal = packed(self._metric(f.majorant(x_s))) - memory.P
            P = P + symmetric(renewal)
            u = _times(P, x_s) + self._dual(memory, x_s, f)
        z = np.linalg.solve(P, u[..., None])[..., 0]
        x = f.prox(2 * x_s - z, P, x_s)
        move = x - x_s
        du = (u - memory.u) + 2 * self.inner.relaxation * _times(P, move)
        apart = np.einsum("...d,...d->...", move, move)
        return Upload(du=du, renewal=renewal, apart=apart), Nothing()

    def _dual(self, memory: Memory, x_s: Vector, f: Any) -> Vector:
        """lam_{s|i} = P_i (z_i - x_s), which stays when P_i changes.

        A client that has not been heard yet has none. It takes -grad f_i(x_s), the dual of which
        x_s is the optimum for it: its x_i is then x_s, and if all do so, the server's next x_s is
        that of Newton's method.
        """
        dual = np.asarray(memory.u - _times(symmetric(memory.P), x_s))
        new = np.asarray(np.equal(memory.P, self._first_metric(x_s.shape[-1])).all(-1))
        if not new.any():
            return dual
        return np.where(new[..., None], -f.gradient(x_s), dual)

    def _first_metric(self, dimension: int) -> Vector:
        return self.inner.penalty * packed(np.eye(dimension))

    def _metric(self, hessian: Vector) -> Vector:
        return self.inner.penalty * (hessian + COMMON * np.eye(hessian.shape[-1]))

    def accept(self, memory: Memory, draft: Nothing, delivered: Upload) -> Memory:
        P = memory.P
        if delivered.renewal.shape[-1]:
            P = P + delivered.renewal
        return Memory(u=memory.u + delivered.du, P=P)

    def disagreement(self, upload: Upload) -> Array:
        return upload.apart

    # --- the server -------------------------------------------------------------------------

    def server_start(self, x0: Array, prox: Prox) -> Server:
        start = self.client_start(x0)
        return Server(u=start.u, S=start.P, x=prox(1 * x0, 1 / self.inner.penalty), heard=0.0)

    def broadcast(self, server: Server) -> Message:
        return Message(x=server.x, renew=np.array(float(_is_due(server.heard))))

    def imbalance(self, server: Server, mean: Upload) -> Array:
        # P_i (x_i - x_s) is what is left of du_i without the change of the metric.
        moved = mean.du
        if np.shape(mean.renewal)[-1]:
            moved = moved - _times(symmetric(mean.renewal), server.x)
        return -moved / (2 * self.inner.relaxation)

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        u = server.u + share * mean.du
        S = server.S
        if np.shape(mean.renewal)[-1]:
            S = S + share * mean.renewal
        metric = symmetric(S)
        x = np.linalg.solve(metric, u)
        h: Any = getattr(prox, "h", None)
        if h is not None:
            weight = float(getattr(prox, "weight", 1.0))
            x = np.asarray(h.prox_in(x, weight * metric))
        return Server(u=u, S=S, x=x, heard=server.heard + share)


def auto_relaxation(given: float, own: bool) -> tuple[float, Reasons]:
    """The relaxation of ``rho="auto"`` in a metric, and why.

    Args:
        given: the user's, or 1.
        own: whether each client has a metric of its own, or all have one.
    """
    if given < 1:
        return given, ()
    if own:
        return RELAXATION, (
            f"relaxation {RELAXATION}: each client's metric is its Hessian somewhere on the way, "
            "and longer steps may overshoot",
        )
    return COMMON_RELAXATION, (
        f"relaxation {COMMON_RELAXATION}: with 1, what goes to and fro where a client's function "
        "is flat hardly fades",
    )


def _is_due(heard: float) -> bool:
    """Whether metrics are renewed now: in rounds 1, 2, 4, 8 and 16 where all are heard."""
    rounds = int(heard + 1e-9) + 1
    return rounds in (1, 2, 4, 8, 16)


def _times(P: Vector, v: Vector) -> Vector:
    """P v for each client."""
    return np.asarray((P @ v[..., None])[..., 0])
