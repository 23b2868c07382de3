"""What server and clients of an adapting method remember, and what they send each other."""

from typing import NamedTuple, Self

from pdmm.methods.anderson import Guard, History, Small
from pdmm.methods.base import Array
from pdmm.methods.spectral import Penalty


class Server(NamedTuple):
    """The server's state."""

    z: Array  # mean of the z_i that the next round starts from
    x: Array  # x_s
    history: History
    guard: Guard
    penalty: Penalty
    relaxation: float
    rounds: int


class Control(NamedTuple):
    """The numbers of a message that say how to go on."""

    base: int
    slot: int
    rho: float
    scale: float
    relaxation: float
    rounds: int

    @classmethod
    def read(cls, numbers: Small) -> Self:
        """The same again, from the array that was sent."""
        sent = cls(*numbers.tolist())
        return sent._replace(base=int(sent.base), slot=int(sent.slot), rounds=int(sent.rounds))


class Message(NamedTuple):
    """x_s, and a few scalars that say how to go on."""

    x: Array
    mix: Small
    control: Small  # the numbers of a Control


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
    sizes: Array  # (..., 5): those of spectral.Moves


class Draft(NamedTuple):
    """What becomes the client's memory once the upload has arrived."""

    f: Array
    x: Array
    lam: Array
    base: Array
    own: Array
    slot: int
