"""Who takes part in a round, and which messages arrive.

In a round the server sends its message to the clients that were chosen. A client that does not
hear it sits out. One that does works and uploads, and numbers its uploads; the server remembers
the last number that it applied, per client, acknowledges it, and states it again with its next
message. So a client whose acknowledgement was lost keeps both its memory and its draft, and
learns at the next contact which of the two holds: it never guesses.
"""

from typing import Any, NamedTuple

import numpy as np

from pdmm.links.availability import Availability
from pdmm.links.checks import Flags, Indices
from pdmm.links.losses import Losses
from pdmm.links.participation import Participation


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


class Links:
    """Everything that is between the server and its clients.

    Args:
        clients: how many there are.
        participation: see :class:`Participation`.
        availability: see :class:`Availability`; None for always.
        loss: a probability or :class:`Bursts`, on its own for downloads, uploads and
            acknowledgements.
        seed: of everything random.
    """

    def __init__(
        self, clients: int, participation: Any, availability: Any, loss: Any, seed: int
    ) -> None:
        self.clients = clients
        self.streams = {
            name: np.random.default_rng([seed, 2 + k])
            for k, name in enumerate(("who", "there", "down", "up", "back"))
        }
        self.participation = Participation(participation, clients)
        self.availability = (
            None
            if availability is None
            else Availability(availability, clients, self.streams["there"])
        )
        self.down, self.up, self.back = (
            Losses(loss, clients, self.streams[name]) for name in ("down", "up", "back")
        )

    @property
    def perfect(self) -> bool:
        """Whether all clients take part in every round, and all that is sent arrives."""
        return self.participation.all and self.availability is None and self.down.none

    def contact(self, r: int) -> Contact:
        """What happens in round r = 1, 2, ..."""
        wanted = self.participation.at(r)
        there = None if self.availability is None else self.availability.at(r)
        if not isinstance(wanted, int):
            chosen = wanted if there is None else wanted[there[wanted]]
        elif there is None:
            drawn = self.streams["who"].choice(self.clients, wanted, replace=False, shuffle=False)
            chosen = np.sort(drawn)
        else:
            pool = np.flatnonzero(there)
            some = self.streams["who"].permutation(len(pool))[: min(wanted, len(pool))]
            chosen = np.sort(pool[some])
        return Contact(
            chosen,
            self.down.arrive(chosen, r),
            self.up.arrive(chosen, r),
            self.back.arrive(chosen, r),
        )

    def state(self) -> dict[str, Any]:
        """All that changes: the generators, who is there, which links are bad."""
        there = None if self.availability is None else self.availability.there
        return {
            "streams": {name: rng.bit_generator.state for name, rng in self.streams.items()},
            "there": there,
            "losses": [None if x.bad is None else [x.bad, x.since] for x in self._losses],
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

    @property
    def _losses(self) -> tuple[Losses, Losses, Losses]:
        return self.down, self.up, self.back
