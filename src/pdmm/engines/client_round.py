"""A client's part of a round, written once: for clients here, on ranks and at sites.

receive -> client -> (the link) -> accept, and then the weighted sum of what arrived.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.links.quantise import rounded
from pdmm.methods.base import Method
from pdmm.problems.block import Block, Floats, Tally
from pdmm.problems.curvature import Curvature


class Done(NamedTuple):
    """What some clients did in a round; nothing of it is committed yet."""

    upload: Any
    """As it arrives: rounded, where the link rounds."""
    draft: Any
    before: Any
    """What the clients remember once the message has arrived."""
    after: Any
    """What they will remember once they know that their upload has arrived."""
    tally: Tally


class Part(NamedTuple):
    """What some clients did, added up in float64."""

    sums: Any
    weight: float
    arrived: int
    tally: Tally
    bad: int | None
    """A client whose upload is not finite."""
    apart: float | None
    """The weighted sum of ‖x_i - x_s‖²."""


class Made(NamedTuple):
    """What some clients have made of a message, before it is known how their upload arrives."""

    upload: Any
    draft: Any
    before: Any
    tally: Tally


def client_work(
    method: Method, f: Block, message: Any, memory: Any, steps: int, rounds: bool = False
) -> Made:
    """Let some clients make their uploads.

    Args:
        method: what they run.
        f: their functions.
        message: the server's.
        memory: theirs, one row per client.
        steps: how many local steps each of them takes.
        rounds: whether uploads are rounded on their way. Memories are then in float64: rounded
            changes are added up at both ends, and the sums must stay equal.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # seen by `add_up`
        before = method.receive(message, memory)
        used = before
        if rounds:
            used = trees.cast(before, message.x.dtype)
        upload, draft = method.client(message, used, f, steps)
    return Made(upload, draft, before, f.tally)


def delivered(method: Method, made: Made, upload: Any) -> Done:
    """What clients remember once their upload has arrived like this."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        after = method.accept(made.before, made.draft, upload)
    return Done(upload, made.draft, made.before, after, made.tally)


def client_round(
    method: Method, f: Block, message: Any, memory: Any, steps: int, bits: int | None = None
) -> Done:
    """Let some clients take part in a round.

    Args:
        method: what they run.
        f: their functions.
        message: the server's.
        memory: theirs, one row per client.
        steps: how many local steps each of them takes.
        bits: of a number in an upload; None for full precision.
    """
    made = client_work(method, f, message, memory, steps, bits is not None)
    upload = made.upload
    if bits is not None:
        upload = trees.inexact(lambda rows: rounded(rows, bits), upload)
    return delivered(method, made, upload)


def committed(method: Method, message: Any, memory: Any, draft: Any, upload: Any) -> Any:
    """Work out, away from the clients, what they remember once their upload has arrived."""
    with np.errstate(over="ignore", invalid="ignore"):
        return method.accept(method.receive(message, memory), draft, upload)


def add_up(
    method: Method, upload: Any, weights: npt.NDArray[np.float64], tally: Tally, first: Any = 0
) -> Part:
    """Add up the uploads that arrived.

    Args:
        method: whose uploads they are.
        upload: one row per client.
        weights: of these clients.
        tally: what was asked of them.
        first: the number of the first client, or the numbers of all.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums = trees.weighted_sum(weights, upload)
        each = method.disagreement(upload)
        apart = None if each is None else float(weights @ each)
        finite = [bool(np.isfinite(field).all()) for field in sums]
        bad = None if all(finite) else _bad_client(upload, first)
    return Part(sums, float(weights.sum()), len(weights), tally, bad, apart)


def _bad_client(upload: Any, first: Any) -> int | None:
    """The first client with a number that is not finite; the sum alone may have overflowed."""
    found = np.flatnonzero(~trees.finite_rows(upload))
    if not len(found):
        return None
    return int(found[0] + first if np.ndim(first) == 0 else first[found[0]])


class _Blank:
    """The oracle of a client that answers 0 to everything, to learn what an upload looks like."""

    def __init__(self, zeros: Floats) -> None:
        self.zeros = zeros
        self.tally = Tally()

    def value(self, x: Floats) -> Floats:
        return np.zeros(1)

    def gradient(self, x: Floats) -> Floats:
        return self.zeros.copy()

    def value_and_gradient(self, x: Floats) -> tuple[Floats, Floats]:
        return np.zeros(len(self.zeros)), self.zeros.copy()

    def steps(self, start: Floats, **_: Any) -> tuple[Floats, Floats]:
        return self.zeros.copy(), self.zeros.copy()

    def prox(self, *_: Any, **__: Any) -> Floats:
        return self.zeros.copy()

    def hessian(self, x: Floats) -> Floats:
        d = self.zeros.shape[-1]
        return np.zeros((1, d, d))

    def majorant(self, x: Floats) -> Floats:
        return self.hessian(x)

    def curvature(self, x: Floats, T: Any = None) -> Curvature:
        k = self.zeros.shape[-1] if T is None else T.shape[-1]
        one = np.zeros(1)
        return Curvature(one, np.zeros((1, k)), one, np.zeros((1, k, k)), one, one)

    def working(self, T: Any = None) -> Curvature:
        return self.curvature(self.zeros, T)

    def along(self, x: Floats, direction: Floats, t: Floats) -> Floats:
        return np.zeros((1, len(t)))


class Shapes(NamedTuple):
    """What a method's messages look like: one of each, with one row where there are rows."""

    message: Any
    memory: Any
    upload: Any
    draft: Any

    @classmethod
    def of(cls, method: Method, x0: Floats, dtype: np.dtype[Any], message: Any = None) -> "Shapes":
        """From a round of a client that answers 0 to everything.

        Args:
            method: whose messages they are.
            x0: any point.
            dtype: of the clients' numbers.
            message: the server's in that round; the first one if not given.
        """
        if message is None:
            message = method.broadcast(method.server_start(1.0 * x0, lambda v, t: v))
        message = trees.cast(message, dtype)
        row = x0.astype(dtype)[None]
        with np.errstate(all="ignore"):
            memory = method.receive(message, method.client_start(row))
            oracle: Any = _Blank(0 * row)
            upload, draft = method.client(message, memory, oracle, max(method.steps, 1))
        return cls(message, memory, upload, draft)


class Forms:
    """The shapes of a method's messages in every kind of round that it has.

    Args:
        method: whose messages they are.
        x0: any point.
        dtype: of the clients' numbers.
    """

    def __init__(self, method: Method, x0: Floats, dtype: np.dtype[Any]) -> None:
        self.x0 = x0
        self.dtype = dtype
        self.first = Shapes.of(method, x0, dtype)
        self._known = {method.shape_key(self.first.message): self.first}

    def of(self, method: Method, message: Any) -> Shapes:
        """Those of the round of this message."""
        key = method.shape_key(message)
        if key not in self._known:
            self._known[key] = Shapes.of(method, self.x0, self.dtype, message)
        return self._known[key]
