"""A member of the PDMM family whose rho adapts although clients may be missing.

A change of rho must leave the duals lam_{s|i} = rho (z_i - x_s) as they are: each z_i is rescaled
about the x_s of that moment. But not every client hears of it then. So no client ever rescales
anything. It remembers a w_i, the z_i that it would have at the first rho, and

    z_i = shift + scale w_i,    scale = first rho / rho,

where scale and shift are the same for all clients and come with the message. When rho changes,
scale and shift do, and w_i stays; whoever was absent, for however long, has missed nothing:

    shift' = x_s + (shift - x_s) rho/rho',    scale' = scale rho/rho'.

The server keeps the mean of the w_i as the family keeps that of the z_i. Before the first change
the shift is 0, the scale 1, and nothing but a few scalars differs from the method inside. After
it, messages have two vectors.

:mod:`pdmm.methods.balance` chooses rho. Clients remember their last look: x_s and their gradient
there, their x_i and lam_{i|s}.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from pdmm.common.packing import keepable
from pdmm.methods.automatic import Reasons
from pdmm.methods.balance import Balance, Moves
from pdmm.methods.base import Array, Method, Oracle, Prox
from pdmm.methods.wrapping import Wrapping

if TYPE_CHECKING:
    from pdmm.methods.family import Family

NO_LOOK = -1  # of a client that has not looked yet, and in messages when all looks are over
SINGLE = 1e-10  # a precision above it is that of float32


class Server(NamedTuple):
    """The server's state."""

    w: Array  # the weighted mean of the w_i
    shift: Array
    x: Array  # x_s
    balance: Balance


class Control(NamedTuple):
    """The numbers of a message that say how to go on."""

    rho: float
    scale: float
    look: float


class _Message(NamedTuple):
    x: Array
    shift: Array
    control: Array


class Message(_Message):
    """x_s, the shift (empty before rho first changes), and the numbers of a Control."""

    EXACT: ClassVar = ("shift", "control")


class Memory(NamedTuple):
    """What a client remembers."""

    w: Array
    own: Array  # what else the method inside remembers (GPDMM: its last iterate), or nothing
    x_s: Array  # of the last look, as are those below
    slope: Array  # grad f_i(x_s)
    x: Array  # x_i
    lam: Array  # lam_{i|s}
    look: Array  # (...,): its number


class _Upload(NamedTuple):
    dw: Array
    apart: Array
    moves: Array


class Upload(_Upload):
    """The change of w_i, ‖x_i - x_s‖², and the numbers of a Moves."""

    EXACT: ClassVar = ("apart", "moves")


class Draft(NamedTuple):
    """What becomes the client's memory once the upload has arrived."""

    own: Array
    x_s: Array
    slope: Array
    x: Array
    lam: Array
    look: Array


@keepable
@dataclass(frozen=True)
class Patient(Wrapping[Server, Memory, Message, Upload, Draft]):
    """``inner`` with an adapting rho, for clients that may be missing.

    Args:
        inner: a member of the PDMM family, its parameters settled.
        precision: the rounding unit of the clients' numbers.
    """

    inner: "Family"
    precision: float

    scalars = (len(Control._fields), 1 + len(Moves._fields))

    @property
    def memory_vectors(self) -> int:  # type: ignore[override]
        return self.inner.memory_vectors + 4

    @property
    def tells(self) -> int:  # type: ignore[override]
        return self.inner.tells

    def told(self, message: Message) -> int:
        how = Control(*message.control.tolist())
        return self.tells + (how.look != NO_LOOK)  # grad f_i(x_s), beside x_i

    @property
    def draft_vectors(self) -> int:  # type: ignore[override]
        return self.inner.draft_vectors + 3  # the server knows x_s

    def exact_numbers(self, message: Message) -> tuple[int, int]:
        # They are counted as numbers of eight bytes, and two of float32 are one of these.
        numbers = np.shape(message.shift)[-1]
        return (numbers + 1) // 2 if self.precision > SINGLE else numbers, 0

    # --- the method inside ------------------------------------------------------------------

    def for_own_steps(self) -> tuple[Method, Reasons]:
        inner: Any
        inner, why = self.inner.for_own_steps()
        return self.with_inner(inner), why

    def for_rounding(self) -> tuple[Method, Reasons]:
        inner: Any
        inner, why = self.inner.for_rounding()
        return self.with_inner(inner), why

    def ended(self, server: Server) -> Method:
        """The inner method with the rho that it ended with."""
        return self.at_rho(server.balance.rho)

    def telemetry(self, server: Server) -> dict[str, float]:
        return {"rho": server.balance.rho}

    # --- clients ----------------------------------------------------------------------------

    def client_start(self, x0: Array) -> Memory:
        start = self.inner.client_start(x0)
        own = 1 * start[1] if len(start) > 1 else x0[..., :0]
        return Memory(
            w=start[0],
            own=own,
            x_s=1 * x0,
            slope=0 * x0,
            x=1 * x0,
            lam=0 * x0,
            look=np.full(x0.shape[:-1], NO_LOOK, dtype=x0.dtype),
        )

    def client(
        self, message: Message, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Draft]:
        how = Control(*message.control.tolist())
        method = self.at_rho(how.rho)
        x_s = message.x
        z = how.scale * memory.w
        if np.shape(message.shift)[-1]:
            z = message.shift + z
        anchor = 2 * x_s - z
        held = [z, memory.own] if memory.own.shape[-1] else [z]
        kind = type(self.inner.client_start(x_s))
        x, kept = method.local(f, x_s, anchor, kind(*held), steps)
        dw = 2 * method.relaxation * (x - x_s) / how.scale
        # As in the family: only the change that the client's precision holds.
        dw = (memory.w + dw) - memory.w
        draft = Draft(
            own=kept[0] if len(kept) else 1 * memory.own,
            x_s=x_s + 0 * x,
            slope=1 * memory.slope,
            x=1 * x,
            lam=how.rho * (anchor - x),
            look=how.look + 0 * memory.look,
        )
        moves = Moves(*np.zeros((len(Moves._fields), *x.shape[:-1])))
        if how.look != NO_LOOK:
            draft = draft._replace(slope=f.gradient(x_s))
            moves = _moves(memory, draft)
        apart = _product(x - x_s, x - x_s)
        upload = Upload(dw=dw, apart=apart, moves=np.stack(moves, axis=-1))
        return upload, _once(memory, draft)

    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory:
        return Memory(memory.w + delivered.dw, *draft)

    def disagreement(self, upload: Upload) -> Array:
        return upload.apart

    # --- the server -------------------------------------------------------------------------

    def server_start(self, x0: Array, prox: Prox) -> Server:
        balance = Balance.start(self.inner.penalty)
        return Server(w=x0, shift=0 * x0, x=prox(1 * x0, 1 / balance.rho), balance=balance)

    def broadcast(self, server: Server) -> Message:
        balance = server.balance
        shift = server.shift if server.shift.any() else server.shift[:0]
        look = NO_LOOK if balance.over else balance.look
        control = Control(rho=balance.rho, scale=balance.scale, look=look)
        return Message(x=server.x, shift=shift, control=np.array(control))

    def imbalance(self, server: Server, mean: Upload) -> Array:
        # The mean of x_i - x_s is scale dw/(2 relaxation), and rho scale is the first rho.
        return -server.balance.first * mean.dw / (2 * self.inner.relaxation)

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        s = server._replace(
            w=server.w + share * mean.dw,
            balance=server.balance.after(share, Moves(*mean.moves.tolist())),
        )
        s = self._placed(s, prox)
        if s.balance.complete():
            decided = s.balance.decided(float(s.x @ s.x), self.precision)
            s = self._with_rho(s, decided, prox)
        return s._replace(balance=s.balance.next())

    def _placed(self, s: Server, prox: Prox) -> Server:
        """x_s where the w_i put it."""
        z = s.shift + s.balance.scale * s.w
        return s._replace(x=prox(z, 1 / s.balance.rho))

    def _with_rho(self, s: Server, balance: Balance, prox: Prox) -> Server:
        """Another rho: every z_i is rescaled about x_s, so that the duals stay."""
        if balance.rho == s.balance.rho:
            return s._replace(balance=balance)
        shift = s.x + (s.shift - s.x) * (s.balance.rho / balance.rho)
        if self.precision > SINGLE:  # what clients add must be what the server adds
            shift = shift.astype(np.float32).astype(np.float64)
        return self._placed(s._replace(shift=shift, balance=balance), prox)


def _moves(memory: Memory, draft: Draft) -> Moves:
    """What has changed since a client's last look; 0 if it has none, or that is this one."""
    fresh = (memory.look < draft.look) & (memory.look != NO_LOOK)
    dx_s = draft.x_s - memory.x_s
    dlam = draft.lam - memory.lam
    return Moves(
        fresh=1.0 * fresh,
        x_s=fresh * _product(dx_s, dx_s),
        slope=fresh * _product(dx_s, draft.slope - memory.slope),
        lam=fresh * _product(dlam, dlam),
        product=fresh * _product(dlam, draft.x - memory.x),
    )


def _once(memory: Memory, draft: Draft) -> Draft:
    """What a client keeps of a round: of its looks, the first round of each."""
    new = memory.look < draft.look
    rows = new[..., None]
    return Draft(
        own=draft.own,
        x_s=np.where(rows, draft.x_s, memory.x_s),
        slope=np.where(rows, draft.slope, memory.slope),
        x=np.where(rows, draft.x, memory.x),
        lam=np.where(rows, draft.lam, memory.lam),
        look=np.where(new, draft.look, memory.look),
    )


def _product(v: Array, w: Array) -> Array:
    return np.einsum("...d,...d->...", v, w, dtype=np.float64)
