"""A member of the PDMM family whose rho adapts, and whose rounds are combined (Anderson).

Both need only scalars from the clients. A round is the map z -> T(z), with the residual
f_i = 2 (x_i - x_s) and the relaxed step y_i = z_i + relaxation f_i. Client and server keep
the y of the last rounds (the server their means), the clients the f too, and

- **Anderson acceleration** starts the next round from an affine combination of the y, the
  one whose f are shortest, instead of from the newest. Its coefficients follow from inner
  products of the f, summed over clients;
- **spectral rho** is ‖change of lam‖/‖change of x‖, stacked over clients; z is rescaled
  about x_s, so that the duals lam_{s|i} = rho (z_i - x_s) stay what they are.

The safeguard. For one rho an exact round is nonexpansive, so relaxed steps alone converge,
and their ‖f‖ never grows. A combination is kept only if the ‖f‖ found there has not grown
and is below a summable sequence; else both ends go back to the relaxed step they had. Its
coefficients are bounded, and rho changes at most ``CHANGES`` times. These are the conditions
under which Zhang, O'Donoghue and Boyd prove that the safeguarded run converges wherever
the plain one does.

References:
    Zhang, O'Donoghue, Boyd, "Globally convergent type-I Anderson acceleration for nonsmooth
    fixed-point iterations", SIAM J. Optim. 2020 (the summable bound).
    Xu, Figueiredo, Goldstein, "Adaptive ADMM with spectral penalty parameter selection",
    AISTATS 2017 (the spectral rule).
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pdmm.common.packing import keepable
from pdmm.methods.base import Array, Method, Oracle, Prox
from pdmm.methods.family import Family

Small = npt.NDArray[np.float64]

DEPTH = 10  # differences that Anderson acceleration combines
CHANGES = 8  # of rho, at rounds 2, 3, 5, 9, 17, ...: then it stays
LARGEST = 10.0  # factor by which rho changes at a time
SMALLEST = 2.0  # a smaller change is not worth a fresh start
GROWTH = 1.0  # of ‖f‖, that a combination may cause: none
BOUND = 100.0  # ‖f‖ after n combinations is at most this times the first one's, over n^1.1
COEFFICIENTS = 30.0  # the sum of their sizes: more would go far beyond what was seen
STILL = 1e-6  # a change of f relative to f below which it is rounding
CUT = 1e-12  # smaller eigenvalues of the scaled matrix of inner products are rounding
INEXACT = 0.01  # of ‖f_i‖: the error that an iterative exact step may leave


CONTROL = 6  # numbers that say how to go on: base, slot, rho, scale, relaxation, round


class Server(NamedTuple):
    """The server's state: O(slots d) numbers, and what the safeguard needs."""

    z: Array  # mean of the z_i that the next round starts from
    x: Array  # x_s
    y: Array  # (slots, d): means of the y_i
    gram: Small  # (slots, slots): mean inner products of the f_i
    kept: Small  # slots in use, oldest first
    mix: Small  # (slots,): how the next z is combined of the y
    base: int  # the slot that uploads refer to, the newest good y
    slot: int  # the slot that the next round fills
    rho: float
    scale: float  # old rho / new rho, where it changes with the next message
    relaxation: float
    combined: float  # whether z is a combination, on trial
    first: float  # ‖f‖² when rho last changed
    last: float  # ‖f‖² of the last good round
    accepted: int  # combinations since rho last changed
    rounds: int
    due: int  # the round in which rho may change next
    changes: int  # left
    settled: float  # whether the changes of x and lam refer to a good round
    rejected: int  # combinations that were taken back, in all


class Message(NamedTuple):
    """x_s, and a few scalars that say how to go on."""

    x: Array
    mix: Small
    control: Small  # base, slot, rho, scale, relaxation, round


class Memory(NamedTuple):
    """A client's y and f of the last rounds, and its last x_i and lam_{i|s}.

    Where the method remembers more than z (GPDMM: its last iterate), that is part of the
    state which a round maps to a new one: y and f have it as further entries.
    """

    y: Array  # (..., slots, d or 2 d)
    f: Array  # the same
    x: Array
    lam: Array


class Upload(NamedTuple):
    """The change of y_i since the base, and scalars."""

    dy: Array
    products: Array  # (..., slots): f_i with the kept f_i, itself in the new slot
    sizes: Array  # (..., 4): ‖f‖², ‖change of x‖², ‖change of lam‖², ‖x‖²


class Draft(NamedTuple):
    """What becomes the client's memory once the upload has arrived."""

    f: Array
    x: Array
    lam: Array
    base: Array
    own: Array
    slot: int


@keepable
@dataclass(frozen=True)
class Adaptive(Method):
    """``inner`` with an adapting rho, with Anderson acceleration, or with both.

    Args:
        inner: a member of the PDMM family, its parameters settled.
        adapt: whether rho changes.
        accelerate: whether rounds are combined.
        precision: the rounding unit of the clients' numbers.
    """

    inner: Family
    adapt: bool
    accelerate: bool
    precision: float

    # Constants of other methods, which here depend on the method inside: hence the ignores.

    @property
    def paper_vectors(self) -> tuple[int, int]:  # type: ignore[override]
        return self.inner.paper_vectors

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.inner.exact

    @property
    def steps(self) -> int:
        return self.inner.steps

    @property
    def slots(self) -> int:
        """Rounds that are kept: one more than can be combined, for the one on trial."""
        return DEPTH + 2 if self.accelerate else 2

    @property
    def scalars(self) -> tuple[int, int]:  # type: ignore[override]
        return self.slots + CONTROL, self.slots + 4

    @property
    def memory_vectors(self) -> int:  # type: ignore[override]
        return 2 * self.slots * self.inner.memory_vectors + 2

    @property
    def draft_vectors(self) -> int:  # type: ignore[override]
        return self.inner.memory_vectors + self.inner.draft_vectors + 2

    def settled_method(self, server: Server) -> Family:
        """The inner method with the rho and the relaxation that it ended with."""
        kept = server.rho == _round(self.inner.penalty)
        return self._at(self.inner.penalty if kept else server.rho, server.relaxation)

    def _at(self, rho: float, relaxation: float) -> Family:
        method = self.inner if rho == self.inner.penalty else self.inner.with_penalty(rho)
        if relaxation == _round(method.relaxation):
            return method
        changed: Family = replace(cast(Any, method), relaxation=relaxation)
        return changed

    def telemetry(self, server: Server) -> dict[str, float]:
        return {"rho": server.rho}

    def server_start(self, x0: Array, prox: Prox) -> Server:
        rho = _round(self.inner.penalty)
        n, mix = self.slots, np.zeros(self.slots)
        mix[0] = 1
        return Server(
            z=x0,
            x=prox(1 * x0, 1 / rho),
            y=np.repeat(np.asarray(x0)[None], n, axis=0),
            gram=np.zeros((n, n)),
            kept=np.zeros(0),
            mix=mix,
            base=0,
            slot=1,
            rho=rho,
            scale=1.0,
            relaxation=_round(self.inner.relaxation),
            combined=0.0,
            first=np.inf,
            last=np.inf,
            accepted=0,
            rounds=0,
            due=2,
            changes=CHANGES if self.adapt else 0,
            settled=0.0,
            rejected=0,
        )

    def client_start(self, x0: Array) -> Memory:
        state = np.concatenate(self.inner.client_start(x0), axis=-1)
        y = np.repeat(state[..., None, :], self.slots, axis=-2)
        return Memory(y=y, f=0 * y, x=1 * x0, lam=0 * x0)

    def broadcast(self, server: Server) -> Message:
        s = server
        control = [s.base, s.slot, s.rho, s.scale, s.relaxation, s.rounds]
        return Message(x=server.x, mix=server.mix, control=np.array(control))

    def client(
        self, message: Message, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Draft]:
        base, slot = (int(v) for v in message.control[:2])
        rho, scale, relaxation, done = (float(v) for v in message.control[2:])
        x_s, d = message.x, message.x.shape[-1]
        newest, state = memory.y[..., base, :d], _combine(message.mix, base, memory.y)
        z, own = state[..., :d], state[..., d:]
        if scale != 1:
            z = x_s + (z - x_s) * scale  # the duals rho (z - x_s) stay
        method, anchor = self._at(rho, relaxation), 2 * x_s - z
        moved = 0 * own
        if method.exact:
            # Errors relative to the last residual, and summable over the rounds.
            part = INEXACT * (1 + done / 10) ** -1.1 * rho / 2
            x = f.prox(
                anchor, rho, memory.x, slack=part * np.sqrt(_square(memory.f[..., base, :d]))
            )
        else:
            inner = type(method.client_start(x_s))
            held = inner(z, own) if own.shape[-1] else inner(z)
            x, draft = method.local(f, x_s, anchor, held, steps)
            moved = draft[0] - own if len(draft) else moved
        residual, lam = 2 * (x - x_s), rho * (anchor - x)
        # As in the family: only the change that the client's precision holds.
        dy = (newest + (z + relaxation * residual - newest)) - newest
        whole = np.concatenate([residual, moved], axis=-1) if d < state.shape[-1] else residual
        products = np.einsum("...sd,...d->...s", memory.f, whole, dtype=np.float64)
        products[..., slot] = _square(whole)
        sizes = [_square(v) for v in (residual, x - memory.x, lam - memory.lam, x)]
        upload = Upload(dy=dy, products=products, sizes=np.stack(sizes, axis=-1))
        return upload, Draft(f=whole, x=x, lam=lam, base=newest, own=own + moved, slot=slot)

    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory:
        y, f = 1 * memory.y, 1 * memory.f
        d = draft.x.shape[-1]
        y[..., draft.slot, :d] = draft.base + delivered.dy
        y[..., draft.slot, d:] = draft.own
        f[..., draft.slot, :] = draft.f
        return Memory(y=y, f=f, x=draft.x, lam=draft.lam)

    def disagreement(self, upload: Upload) -> Array:
        return upload.sizes[..., 0] / 4

    def imbalance(self, server: Server, mean: Upload) -> Array:
        move = (server.y[server.base] + mean.dy - server.z) / (2 * server.relaxation)
        return -server.rho * move

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        s, n = server, self.slots
        y = 1 * s.y
        y[s.slot] = s.y[s.base] + share * mean.dy
        size = float(mean.products[s.slot])
        s = s._replace(y=y, rounds=s.rounds + 1)
        limit = min(GROWTH**2 * s.last, BOUND**2 * s.first * (s.accepted + 1) ** -2.2)
        if s.combined and not size <= limit:  # back to the relaxed step from the good round
            s = s._replace(kept=np.array([s.base * 1.0]), settled=0.0, rejected=s.rejected + 1)
            return self._plain(s, prox)
        s = self._keep(s, mean, size)
        rho = self._spectral(s, mean)
        s = s._replace(settled=1.0, due=2 * s.rounds - 1 if s.rounds >= s.due else s.due)
        if rho != s.rho:
            return self._change(s, rho, prox)
        cut = max(CUT, 0.01 * self.precision)
        mix = _anderson(s.gram, s.kept.astype(int), n, cut) if self.accelerate else None
        if mix is None:
            return self._plain(s, prox)
        z = _combine(mix, s.base, s.y)
        return self._go(s, z, mix, prox)._replace(combined=1.0)

    def _keep(self, s: Server, mean: Upload, size: float) -> Server:
        """The round was good: its y and f join those that are kept."""
        gram = s.gram.copy()
        gram[s.slot] = gram[:, s.slot] = mean.products
        most = self.slots - 1
        worse = not s.combined and size > BOUND**2 * s.first  # cannot be, if steps are exact
        return s._replace(
            gram=gram,
            kept=np.append(s.kept, s.slot)[-most:],
            base=s.slot,
            first=size if s.first == np.inf else s.first,
            last=size,
            accepted=s.accepted + int(s.combined),
            relaxation=max(s.relaxation / 2, 0.25) if worse else s.relaxation,
        )

    def _spectral(self, s: Server, mean: Upload) -> float:
        """The next rho, the same again where there is no reason to change it."""
        _, dx, dlam, x = (float(v) for v in mean.sizes)
        if not s.changes or s.rounds < s.due or not s.settled:
            return s.rho
        if dx <= (1e5 * self.precision) ** 2 * x:  # nothing but rounding
            return s.rho
        rho = float(np.clip(np.sqrt(dlam / dx), s.rho / LARGEST, s.rho * LARGEST))
        return rho if max(rho / s.rho, s.rho / rho) > SMALLEST else s.rho

    def _change(self, s: Server, rho: float, prox: Prox) -> Server:
        """Take the relaxed step, then change to another rho and forget the rounds before."""
        rho = _round(rho)
        scale = _round(s.rho / rho)
        s = self._plain(s, prox)
        z = s.x + (s.z - s.x) * scale
        return s._replace(
            z=z,
            x=prox(1 * z, 1 / rho),
            kept=np.zeros(0),
            rho=rho,
            scale=scale,
            first=np.inf,
            last=np.inf,
            accepted=0,
            changes=s.changes - 1,
        )

    def _plain(self, s: Server, prox: Prox) -> Server:
        """Go on from the relaxed step of the last good round."""
        mix = np.zeros(self.slots)
        mix[s.base] = 1
        return self._go(s, 1 * s.y[s.base], mix, prox)._replace(combined=0.0)

    def _go(self, s: Server, z: Array, mix: Small, prox: Prox) -> Server:
        """The next round starts from z, and fills a slot that nothing else needs."""
        taken = {int(k) for k in s.kept} | {s.base}
        free = next(k for k in range(self.slots) if k not in taken)
        return s._replace(z=z, x=prox(1 * z, 1 / s.rho), mix=mix, slot=free, scale=1.0)


def _round(value: float) -> float:
    """A number of 24 bits, which float32 holds too: the same at the server and at all clients."""
    part, power = math.frexp(value)
    return math.ldexp(round(part * 2**24) / 2**24, power)


def _square(v: Array) -> Array:
    return np.einsum("...d,...d->...", v, v, dtype=np.float64)


def _combine(mix: Small, base: int, y: Array) -> Array:
    """y_base + sum_s mix_s (y_s - y_base): affine however the coefficients are rounded."""
    newest = y[..., base, :]
    others = [s for s in range(len(mix)) if s != base and mix[s] != 0]
    if not others:
        return 1 * newest
    return newest + sum(float(mix[s]) * (y[..., s, :] - newest) for s in others)


def _anderson(gram: Small, kept: npt.NDArray[np.int64], slots: int, cut: float) -> Small | None:
    """Coefficients (summing to 1) of the shortest affine combination of the kept f.

    Solved for the differences of successive f, scaled to length 1: they are much less alike
    than the f themselves.
    """
    steps = np.array([gram[a, a] - 2 * gram[a, b] + gram[b, b] for a, b in pairwise(kept)])
    sizes = np.array([max(gram[a, a], gram[b, b]) for a, b in pairwise(kept)])
    noise = np.flatnonzero(~(steps > STILL**2 * sizes))
    kept = kept[noise[-1] + 1 :] if len(noise) else kept
    n = len(kept)
    if n < 2:
        return None
    G = gram[np.ix_(kept, kept)]
    D = np.eye(n)[1:] - np.eye(n)[:-1]
    M, b = D @ G @ D.T, D @ G[:, -1]
    lengths = np.sqrt(np.diagonal(M))
    values, vectors = np.linalg.eigh(M / lengths / lengths[:, None])
    parts = vectors.T @ (b / lengths)
    while cut < 1:  # small eigenvalues make large coefficients: as few of them as need be
        good = values > cut * values[-1]
        theta = (vectors[:, good] / values[good]) @ parts[good] / lengths
        c = np.eye(n)[-1] - theta @ D
        if np.abs(c).sum() < COEFFICIENTS:
            break
        cut *= 100
    else:
        return None
    mix = np.zeros(slots)
    mix[kept] = c.astype(np.float32)
    return mix
