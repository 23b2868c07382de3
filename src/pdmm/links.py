"""Who takes part in a round, and which messages arrive.

In a round the server sends its message to the clients that were chosen. A client that does not
hear it sits out. One that does works and uploads, and numbers its uploads; the server remembers
the last number that it applied, per client, acknowledges it, and states it again with its next
message. So a client whose acknowledgement was lost keeps both its memory and its draft, and
learns at the next contact which of the two holds: it never guesses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.checks import number, whole

Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Bursts:
    """Losses that come in bursts (Gilbert-Elliott): a link is good or bad, and stays so a while.

    Args:
        start: probability that a good link turns bad, a round.
        end: probability that a bad link turns good, a round.
        loss: probability that a message is lost on a bad link.
        otherwise: the same on a good link.
    """

    start: float
    end: float
    loss: float = 1.0
    otherwise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("start", "end", "loss", "otherwise"):
            object.__setattr__(self, name, probability(name, getattr(self, name)))
        if self.start + self.end == 0:
            raise ValueError("start and end are both 0: the links would never change")

    @property
    def mean(self) -> float:
        """The share of messages that is lost in the long run."""
        bad = self.start / (self.start + self.end)
        return bad * self.loss + (1 - bad) * self.otherwise


@dataclass(frozen=True)
class OnOff:
    """Clients that come and go: each is there or away, and stays so a while.

    Args:
        leave: probability that one that is there goes away, a round.
        come: probability that one that is away comes back, a round.
    """

    leave: float
    come: float

    def __post_init__(self) -> None:
        for name in ("leave", "come"):
            object.__setattr__(self, name, probability(name, getattr(self, name)))
        if self.come == 0:
            raise ValueError("come must be above 0: clients that left would never come back")


def probability(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise ValueError(f"{name} must be from 0 to 1, got {value!r}")
    return result


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


class Participation:
    """How many, or which, of the clients take part in a round.

    Args:
        given: a fraction, a count, a list of these (or of lists of clients) for one round after
            the other, repeated, or a callable of the round that returns one of these.
        clients: how many there are.
    """

    def __init__(self, given: Any, clients: int) -> None:
        self.given, self.clients = given, clients
        self.all = False
        if callable(given):
            return
        if _is_list(given):
            if len(given) == 0:
                raise ValueError("participation is empty: give a number for at least one round")
            for k, entry in enumerate(given):
                self._entry(entry, f"participation[{k}]")
            return
        found = self._entry(given, "participation")
        self.all = found == clients

    def at(self, r: int) -> int | Indices:
        """A count, or the clients themselves, of round r = 1, 2, ..."""
        if callable(self.given):
            return self._entry(self.given(r), f"participation({r})")
        if _is_list(self.given):
            k = (r - 1) % len(self.given)
            return self._entry(self.given[k], f"participation[{k}]")
        return self._entry(self.given, "participation")

    def _entry(self, entry: Any, name: str) -> int | Indices:
        if _is_list(entry):
            chosen = np.unique(np.asarray(entry, dtype=None if len(entry) else np.intp))
            if (
                chosen.dtype.kind not in "iu"
                or (chosen < 0).any()
                or (chosen >= self.clients).any()
            ):
                raise ValueError(f"{name} must list clients from 0 to {self.clients - 1}")
            return chosen.astype(np.intp)
        if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            count = whole(name, entry, at_least=1)
            if count > self.clients:
                raise ValueError(f"{name} is {count}, but there are {self.clients} clients")
            return count
        share = number(name, entry.item() if isinstance(entry, np.ndarray) else entry)
        if not 0 < share <= 1:
            raise ValueError(
                f"{name} must be a fraction above 0 and at most 1, or a whole number of clients, "
                f"got {entry!r}"
            )
        return max(1, round(share * self.clients))


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str)


class Availability:
    """Which clients are there.

    Args:
        given: a probability for every client, :class:`OnOff`, or a table of true and false
            (rounds, clients), repeated.
        clients: how many there are.
        rng: of the random ones.
    """

    def __init__(self, given: Any, clients: int, rng: np.random.Generator) -> None:
        self.given, self.clients, self.rng = given, clients, rng
        self.there: Flags | None = None
        if isinstance(given, OnOff):
            steady = given.come / (given.come + given.leave)
            self.there = rng.random(clients) < steady
            return
        try:
            table = np.asarray(given)
        except ValueError as error:
            raise ValueError(f"availability is not a table: {error}") from None
        if table.ndim == 0 and table.dtype.kind in "fiu":
            table = np.full(clients, table)  # the same for all
        if table.ndim == 2 and table.dtype.kind in "iu" and np.isin(table, (0, 1)).all():
            table = table.astype(bool)
        if table.dtype == bool and table.size and not table.any():
            raise ValueError("availability is false everywhere: nobody would ever take part")
        if table.dtype == bool and table.ndim == 2 and table.shape[1] == clients and len(table):
            self.table: Any = table
            return
        if table.shape != (clients,) or table.dtype.kind not in "fiu":
            raise ValueError(
                f"availability must be {clients} probabilities, one a client, a table of true and "
                f"false with {clients} columns, or pdmm.OnOff(leave, come)"
            )
        table = table.astype(np.float64)
        if not ((table >= 0) & (table <= 1)).all():
            raise ValueError("availability must be probabilities, from 0 to 1")
        if not table.any():
            raise ValueError("availability is 0 for every client: nobody would ever take part")
        self.table = table

    def at(self, r: int) -> Flags:
        """Who is there in round r = 1, 2, ..."""
        if self.there is not None:
            if r > 1:
                draw = self.rng.random(self.clients)
                stays, comes = draw >= self.given.leave, draw < self.given.come
                self.there = np.where(self.there, stays, comes)
            return self.there
        if self.table.ndim == 2:
            return np.asarray(self.table[(r - 1) % len(self.table)])
        return np.asarray(self.rng.random(self.clients) < self.table)


class Losses:
    """Which messages are lost, on one of the links (down, up, or back) of every client."""

    def __init__(self, given: Any, clients: int, rng: np.random.Generator) -> None:
        self.rng, self.bursts = rng, given if isinstance(given, Bursts) else None
        self.loss = 0.0
        self.bad: Flags | None = None
        if self.bursts is None:
            self.loss = probability("loss", given)
            if self.loss == 1:
                raise ValueError("loss is 1: nothing would ever arrive")
            return
        if self.bursts.mean == 1:
            raise ValueError("loss is 1 in the long run: nothing would ever arrive")
        self.share = self.bursts.start / (self.bursts.start + self.bursts.end)
        self.bad = rng.random(clients) < self.share
        self.since = np.ones(clients, dtype=np.int64)  # the round that ``bad`` refers to

    @property
    def none(self) -> bool:
        """Whether nothing is ever lost."""
        return self.bursts is None and self.loss == 0

    def arrive(self, clients: Indices, r: int) -> Flags:
        """Which messages of these clients arrive in round r."""
        if self.none:
            return np.ones(len(clients), dtype=bool)
        loss: Any = self.loss
        if self.bursts is not None and self.bad is not None:
            # A chain of two states, several rounds on: what is left of where it was.
            memory = (1 - self.bursts.start - self.bursts.end) ** (r - self.since[clients])
            bad = self.share + (self.bad[clients] - self.share) * memory
            self.bad[clients] = self.rng.random(len(clients)) < bad
            self.since[clients] = r
            loss = np.where(self.bad[clients], self.bursts.loss, self.bursts.otherwise)
        return np.asarray(self.rng.random(len(clients)) >= loss)


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


class LocalSteps:
    """How many local steps the clients take: fast ones more, stragglers fewer.

    Args:
        given: a number for every client, or a callable of round and client.
        clients: how many there are.
    """

    def __init__(self, given: Any, clients: int) -> None:
        self.call: Callable[[int, int], Any] | None = given if callable(given) else None
        if self.call is not None:
            return
        if not _is_list(given) or len(given) != clients:
            raise ValueError(
                f"local_steps must be a number for each of the {clients} clients, or a callable of "
                f"round and client, got {given!r}"
            )
        self.counts = np.array(
            [whole(f"local_steps[{i}] (client {i})", v, at_least=1) for i, v in enumerate(given)]
        )

    def at(self, r: int, clients: Indices) -> npt.NDArray[np.int64]:
        """Steps of some clients in round r = 1, 2, ..."""
        if self.call is None:
            return np.asarray(self.counts[clients])
        counts = [
            whole(f"local_steps({r}, {i})", self.call(r, int(i)), at_least=1) for i in clients
        ]
        return np.array(counts, dtype=np.int64)
