"""A member of the PDMM family whose rho adapts, and whose rounds are combined.

Both need only scalars from the clients. A round is the map z -> T(z), with the residual
f_i = 2 (x_i - x_s) and the relaxed step y_i = z_i + relaxation f_i. Client and server keep
the y of the last rounds (the server their means), the clients the f too, and

- :mod:`pdmm.methods.anderson` starts the next round from an affine combination of the y, the
  one whose f are shortest, instead of from the newest;
- :mod:`pdmm.methods.spectral` chooses rho; z is rescaled about x_s, so that the duals
  lam_{s|i} = rho (z_i - x_s) stay what they are.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pdmm.common.packing import keepable
from pdmm.methods.adaptive_states import Control, Draft, Memory, Message, Server, Upload
from pdmm.methods.anderson import DEPTH, FLAT_DEPTH, Guard, History, Small, combine
from pdmm.methods.base import Array, Method, Oracle, Prox
from pdmm.methods.spectral import Moves, Penalty, in_24_bits
from pdmm.methods.wrapping import Wrapping

if TYPE_CHECKING:
    from pdmm.methods.family import Family

INEXACT = 0.01  # of ‖f_i‖: the error that an iterative exact step may leave
LEAST_RELAXATION = 0.25


@keepable
@dataclass(frozen=True)
class Adaptive(Wrapping[Server, Memory, Message, Upload, Draft]):
    """``inner`` with an adapting rho, with Anderson acceleration, or with both.

    Args:
        inner: a member of the PDMM family, its parameters settled.
        adapt: whether rho changes.
        accelerate: whether rounds are combined.
        precision: the rounding unit of the clients' numbers.
        flat: whether no client's function is known to bend in every direction.
    """

    inner: "Family"
    adapt: bool
    accelerate: bool
    precision: float
    flat: bool = False

    @property
    def slots(self) -> int:
        """Rounds that are kept: one more than can be combined, for the one on trial."""
        if not self.accelerate:
            return 2
        return (FLAT_DEPTH if self.flat else DEPTH) + 2

    @property
    def scalars(self) -> tuple[int, int]:  # type: ignore[override]
        return self.slots + len(Control._fields), self.slots + len(Moves._fields)

    @property
    def memory_vectors(self) -> int:  # type: ignore[override]
        return 2 * self.slots * self.inner.memory_vectors + 2

    @property
    def tells(self) -> int:  # type: ignore[override]
        return self.inner.tells

    @property
    def draft_vectors(self) -> int:  # type: ignore[override]
        return self.inner.memory_vectors + self.inner.draft_vectors + 2

    # --- the method inside ------------------------------------------------------------------

    def ended(self, server: Server) -> Method:
        """The inner method with the rho and the relaxation that it ended with."""
        rho = server.penalty.rho
        if rho == in_24_bits(self.inner.penalty):
            rho = self.inner.penalty
        return self._at(rho, server.relaxation)

    def _at(self, rho: float, relaxation: float) -> "Family":
        """The inner method with this rho and relaxation."""
        method = self.inner
        if rho != method.penalty:
            method = method.with_penalty(rho)
        if relaxation != in_24_bits(method.relaxation):
            method = method.with_parameters(relaxation=relaxation)
        return method

    def telemetry(self, server: Server) -> dict[str, float]:
        return {"rho": server.penalty.rho}

    # --- clients ----------------------------------------------------------------------------

    def client_start(self, x0: Array) -> Memory:
        state = np.concatenate(self.inner.client_start(x0), axis=-1)
        y = np.repeat(state[..., None, :], self.slots, axis=-2)
        return Memory(y=y, f=0 * y, x=1 * x0, lam=0 * x0)

    def client(
        self, message: Message, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Draft]:
        how = Control.read(message.control)
        x_s = message.x
        d = x_s.shape[-1]
        newest = memory.y[..., how.base, :d]
        state = combine(message.mix, how.base, memory.y)
        z = state[..., :d]
        own = state[..., d:]
        if how.scale != 1:
            z = x_s + (z - x_s) * how.scale  # the duals rho (z - x_s) stay
        anchor = 2 * x_s - z
        if self.exact:
            x = f.prox(anchor, how.rho, memory.x, slack=_slack(how, memory.f[..., how.base, :d]))
            moved = 0 * own
        else:
            x, moved = self._steps(f, how, x_s, anchor, z, own, steps)
        residual = 2 * (x - x_s)
        lam = how.rho * (anchor - x)
        # As in the family: only the change that the client's precision holds.
        dy = (newest + (z + how.relaxation * residual - newest)) - newest
        whole = np.concatenate([residual, moved], axis=-1) if own.shape[-1] else residual
        products = np.einsum("...sd,...d->...s", memory.f, whole, dtype=np.float64)
        products[..., how.slot] = _square(whole)
        dx = x - memory.x
        dlam = lam - memory.lam
        sizes = Moves(
            residual=_square(residual),
            dx=_square(dx),
            dlam=_square(dlam),
            x=_square(x),
            product=_product(dx, dlam),
        )
        upload = Upload(dy=dy, products=products, sizes=np.stack(sizes, axis=-1))
        return upload, Draft(f=whole, x=x, lam=lam, base=newest, own=own + moved, slot=how.slot)

    def _steps(
        self, f: Oracle, how: Control, x_s: Array, anchor: Array, z: Array, own: Array, steps: int
    ) -> tuple[Array, Array]:
        """x_i by the inner method's gradient steps, and the change of what else it remembers."""
        method = self._at(how.rho, how.relaxation)
        kind = type(method.client_start(x_s))
        held = kind(z, own) if own.shape[-1] else kind(z)
        x, draft = method.local(f, x_s, anchor, held, steps)
        moved = draft[0] - own if len(draft) else 0 * own
        return x, moved

    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory:
        y = 1 * memory.y
        f = 1 * memory.f
        d = draft.x.shape[-1]
        y[..., draft.slot, :d] = draft.base + delivered.dy
        y[..., draft.slot, d:] = draft.own
        f[..., draft.slot, :] = draft.f
        return Memory(y=y, f=f, x=draft.x, lam=draft.lam)

    def disagreement(self, upload: Upload) -> Array:
        return upload.sizes[..., 0] / 4

    # --- the server -------------------------------------------------------------------------

    def server_start(self, x0: Array, prox: Prox) -> Server:
        penalty = Penalty.start(self.inner.penalty, self.adapt)
        return Server(
            z=x0,
            x=prox(1 * x0, 1 / penalty.rho),
            history=History.start(x0, self.slots),
            guard=Guard.start(),
            penalty=penalty,
            relaxation=in_24_bits(self.inner.relaxation),
            rounds=0,
        )

    def broadcast(self, server: Server) -> Message:
        history = server.history
        control = Control(
            base=history.base,
            slot=history.slot,
            rho=server.penalty.rho,
            scale=server.penalty.scale,
            relaxation=server.relaxation,
            rounds=server.rounds,
        )
        return Message(x=server.x, mix=history.mix, control=np.array(control))

    def imbalance(self, server: Server, mean: Upload) -> Array:
        history = server.history
        move = (history.y[history.base] + mean.dy - server.z) / (2 * server.relaxation)
        return -server.penalty.rho * move

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        size = float(mean.products[server.history.slot])
        history = server.history.filled(share * mean.dy)
        s = server._replace(history=history, rounds=server.rounds + 1)
        if not s.guard.allows(size):
            return self._taken_back(s, prox)
        s = self._kept(s, mean, size)
        moves = Moves(*mean.sizes.tolist())
        # In a metric nobody has asked how each client's function bends.
        flat = self.flat or self.inner.metric is not None
        rho = s.penalty.proposed(s.rounds, moves, self.precision, flat)
        s = s._replace(penalty=s.penalty.after_good_round(s.rounds))
        if rho != s.penalty.rho:
            return self._with_rho(s, rho, prox)
        mix = s.history.shortest(self.precision) if self.accelerate else None
        if mix is None:
            return self._relaxed(s, prox)
        return self._going_on(s, mix, prox, on_trial=True)

    def _taken_back(self, s: Server, prox: Prox) -> Server:
        """The combination was no good: back to the relaxed step from the last good round."""
        s = s._replace(
            history=s.history.only_base(),
            guard=s.guard.after_bad(),
            penalty=s.penalty._replace(comparable=False),
        )
        return self._relaxed(s, prox)

    def _kept(self, s: Server, mean: Upload, size: float) -> Server:
        """The round was good: its y and f join those that are kept."""
        relaxation = s.relaxation
        if s.guard.alarmed(size):
            relaxation = max(relaxation / 2, LEAST_RELAXATION)
        return s._replace(
            history=s.history.joined(mean.products),
            guard=s.guard.after_good(size),
            relaxation=relaxation,
        )

    def _with_rho(self, s: Server, rho: float, prox: Prox) -> Server:
        """Take the relaxed step, then change to another rho and forget the rounds before."""
        s = self._relaxed(s, prox)
        penalty = s.penalty.changed(rho)
        z = s.x + (s.z - s.x) * penalty.scale
        return s._replace(
            z=z,
            x=prox(1 * z, 1 / penalty.rho),
            history=s.history.forgotten(),
            guard=s.guard.afresh(),
            penalty=penalty,
        )

    def _relaxed(self, s: Server, prox: Prox) -> Server:
        """Go on from the relaxed step of the last good round."""
        return self._going_on(s, s.history.newest(), prox, on_trial=False)

    def _going_on(self, s: Server, mix: Small, prox: Prox, on_trial: bool) -> Server:
        """The next round starts from a combination of the y."""
        z = combine(mix, s.history.base, s.history.y)
        return s._replace(
            z=z,
            x=prox(1 * z, 1 / s.penalty.rho),
            history=s.history.going_on(mix),
            guard=s.guard._replace(on_trial=on_trial),
            penalty=s.penalty._replace(scale=1.0),
        )


def _slack(how: Control, residual: Array) -> Array:
    """The error that an exact step may leave: relative to the last f, summable over rounds."""
    part = INEXACT * (1 + how.rounds / 10) ** -1.1 * how.rho / 2
    return part * np.sqrt(_square(residual))


def _square(v: Array) -> Array:
    return _product(v, v)


def _product(v: Array, w: Array) -> Array:
    return np.einsum("...d,...d->...", v, w, dtype=np.float64)
