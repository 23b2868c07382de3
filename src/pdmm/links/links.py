"""Who takes part in a round, and which messages arrive.

In a round the server sends its message to the clients that were chosen. A client that does not
hear it sits out. One that does works and uploads, and numbers its uploads; the server remembers
the last number that it applied, per client, acknowledges it, and states it again with its next
message. So a client whose acknowledgement was lost keeps both its memory and its draft, and
learns at the next contact which of the two holds: it never guesses.
"""

import logging
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.links.availability import Availability
from pdmm.links.checks import Flags, Indices
from pdmm.links.local_steps import LocalSteps
from pdmm.links.losses import Losses
from pdmm.links.participation import Participation
from pdmm.links.stall import Stall

log = logging.getLogger(__name__)


class Contact(NamedTuple):
    """A round's messages, as they go. Flags are one a chosen client."""

    chosen: Indices
    """The clients that the server sends to, in increasing order."""
    heard: Flags
    """Which of them hear it."""
    arrives: Flags
    """Whose upload would arrive."""
    told: Flags
    """Who would hear the acknowledgement."""

    @property
    def listeners(self) -> Indices:
        """The clients that hear the message."""
        return self.chosen[self.heard]

    def among(self, own: slice) -> "Contact":
        """What of it concerns some of the clients, counted from the first of these."""
        here = (self.chosen >= own.start) & (self.chosen < own.stop)
        return Contact(
            self.chosen[here] - own.start, self.heard[here], self.arrives[here], self.told[here]
        )

    def listeners_in(self, own: slice) -> Flags:
        """Which of the listeners are among some of the clients."""
        return np.asarray((self.listeners >= own.start) & (self.listeners < own.stop))


class Plan(NamedTuple):
    """A round as the links will have it."""

    contact: Contact | None
    """None: every client is asked, and everything arrives."""
    steps: npt.NDArray[np.int64] | None
    """The local steps of each client that hears the message; None: the method's."""
    bits: int | None
    """Of a number in an upload and in a broadcast; None: full precision."""


class Links:
    """Everything that is between the server and its clients.

    Args:
        clients: how many there are.
        participation: see :class:`Participation`.
        availability: see :class:`Availability`; None for always.
        loss: a probability or :class:`Bursts`, on its own for downloads, uploads and
            acknowledgements.
        seed: of everything random.
        local_steps: see :class:`LocalSteps`; None for the method's.
        bits: of a number that travels, at first; None for full precision.
        ships_memories: whether the server keeps the clients' memories, and sends them along.
    """

    def __init__(
        self,
        clients: int,
        participation: Any = 1.0,
        availability: Any = None,
        loss: Any = 0.0,
        seed: int = 0,
        local_steps: Any = None,
        bits: int | None = None,
        ships_memories: bool = False,
    ) -> None:
        self.clients = clients
        self.ships_memories = ships_memories
        self.streams = {
            name: np.random.default_rng([seed, 2 + k])
            for k, name in enumerate(("who", "there", "down", "up", "back"))
        }
        self.participation = Participation(participation, clients)
        self.availability: Availability | None = None
        if availability is not None:
            self.availability = Availability(availability, clients, self.streams["there"])
            _check_somebody(self.participation, self.availability)
        self.down = Losses(loss, clients, self.streams["down"])
        self.up = Losses(loss, clients, self.streams["up"])
        self.back = Losses(loss, clients, self.streams["back"])
        self.local_steps: LocalSteps | None = None
        if local_steps is not None:
            self.local_steps = LocalSteps(local_steps, clients)
        self.bits = bits
        self.stall = None if bits is None else Stall(bits)
        self.remarks: list[str] = []
        everyone = self.participation.all and self.availability is None
        self.perfect = everyone and self.down.none
        """Whether all clients take part in every round, and all that is sent arrives."""
        self.steady = self.perfect and local_steps is None and bits is None
        """Whether, besides, all do the same work and nothing is rounded: then rho may adapt."""

    def plan(self, r: int) -> Plan:
        """What happens in round r = 1, 2, ..."""
        contact = None
        if not self.perfect:
            contact = self.contact(r)
        steps = None
        if self.local_steps is not None:
            listeners = np.arange(self.clients) if contact is None else contact.listeners
            steps = self.local_steps.at(r, listeners)
        return Plan(contact, steps, self.bits)

    def contact(self, r: int) -> Contact:
        """Who is chosen in round r, and which messages arrive."""
        chosen = self._chosen(r)
        return Contact(
            chosen,
            self.down.arrive(chosen, r),
            self.up.arrive(chosen, r),
            self.back.arrive(chosen, r),
        )

    def _chosen(self, r: int) -> Indices:
        wanted = self.participation.at(r)
        there = None if self.availability is None else self.availability.at(r)
        draw = self.streams["who"]
        if not isinstance(wanted, int):
            return wanted if there is None else wanted[there[wanted]]
        if there is None:
            return np.sort(draw.choice(self.clients, wanted, replace=False, shuffle=False))
        pool = np.flatnonzero(there)
        some = draw.permutation(len(pool))[: min(wanted, len(pool))]
        return np.sort(pool[some])

    def watch(self, r: int, size: float, norm: float, share: float, precision: float) -> None:
        """Take more bits where uploads stop getting smaller.

        Args:
            r: the round that is done.
            size: the mean square of its uploads.
            norm: of x_s, after it.
            share: of the clients whose upload arrived.
            precision: the rounding unit of the clients' numbers.
        """
        if self.stall is None:
            return
        bits = self.stall.add(size, norm, share, precision)
        if bits is None:
            return
        why = "uploads had stopped getting smaller"
        if bits == self.stall.asked:
            why = "more had not helped"
        self.remarks.append(f"bits {self.bits} -> {bits} after round {r}: {why}")
        log.info("%s", self.remarks[-1])
        self.bits = bits

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that changes: the generators, who is there, which links are bad, the bits."""
        there = None if self.availability is None else self.availability.there
        return {
            "streams": {name: rng.bit_generator.state for name, rng in self.streams.items()},
            "there": there,
            "losses": [None if x.bad is None else [x.bad, x.since] for x in self._losses],
            "bits": self.bits,
            "stall": None if self.stall is None else vars(self.stall),
            "remarks": self.remarks,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for name, rng in self.streams.items():
            rng.bit_generator.state = state["streams"][name]
        if self.availability is not None:
            self.availability.there = state["there"]
        for losses, kept in zip(self._losses, state["losses"], strict=True):
            if kept is not None:
                losses.bad, losses.since = kept
        self.bits = state["bits"]
        if self.stall is not None:
            vars(self.stall).update(state["stall"])
        self.remarks = list(state["remarks"])

    @property
    def _losses(self) -> tuple[Losses, Losses, Losses]:
        return self.down, self.up, self.back


def _check_somebody(participation: Participation, availability: Availability) -> None:
    """Refuse lists of clients of which none is ever there when it is asked."""
    table = availability.possible
    if table is None or participation.entries is None:
        return
    # Of two lists that are repeated, entries meet if they are equally far in what both divide into.
    step = gcd(len(participation.entries), len(table))
    for k, wanted in enumerate(participation.entries):
        rows = table[k % step :: step]
        if (rows if isinstance(wanted, int) else rows[:, wanted]).any():
            return
    raise ValueError(
        "the clients that participation lists are never there when it lists them, as availability "
        "says: nobody would ever take part"
    )
