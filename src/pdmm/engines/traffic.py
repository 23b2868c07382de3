"""What travels in a round: counted here and nowhere else, whatever carries the messages."""

from operator import add
from typing import Any, NamedTuple

import numpy as np

from pdmm.methods.base import Method

SCALAR_BYTES = 8
NUMBER_BYTES = 8  # of a sequence number, which goes with every message where one may be lost


class Sent(NamedTuple):
    """What was sent, by all clients and to all clients."""

    contacts: int = 0
    """Clients that were sent a message."""
    uploads: int = 0
    """Clients that sent one."""
    vectors_down: int = 0
    vectors_up: int = 0
    bytes_down: int = 0
    bytes_up: int = 0

    def plus(self, other: "Sent") -> "Sent":
        """Count what was sent elsewhere, or in another round, too."""
        return Sent(*map(add, self, other))


class Envelope(NamedTuple):
    """What the messages of a round are like, beside what the method says of them."""

    vector: int
    """Bytes of a vector in full precision."""
    up: int
    """Bytes of a vector in an upload."""
    numbered: bool = False
    """Whether messages carry a sequence number."""
    memory: int = 0
    """Vectors of memories that go down with the message to each client."""
    draft: int = 0
    """Vectors of drafts that come up with each upload."""


def count(
    method: Method,
    envelope: Envelope,
    contacts: int,
    uploads: int,
    down: int | None = None,
    messages: int | None = None,
    exact: tuple[int, int] = (0, 0),
) -> Sent:
    """Count what a method's messages are in a round.

    Args:
        method: whose messages they are.
        envelope: what else is known of them.
        contacts: how many clients are sent a message.
        uploads: how many clients send one.
        down: bytes of one vector of the message, added up over all messages; in full precision
            if not given.
        messages: how many are sent down, if some bring it to several clients at once.
        exact: numbers beside the vectors in this round alone, down and up.
    """
    e = envelope
    if messages is None:
        messages = contacts
    if down is None:
        down = messages * e.vector
    scalars_down, scalars_up = method.scalars
    number = NUMBER_BYTES if e.numbered else 0
    exact_down, exact_up = exact
    beside_down = number + SCALAR_BYTES * (scalars_down + exact_down)
    beside_up = e.draft * e.vector + number + SCALAR_BYTES * (scalars_up + exact_up)
    memories = contacts * e.memory
    return Sent(
        contacts=contacts,
        uploads=uploads,
        vectors_down=messages * method.vectors_down + memories,
        vectors_up=uploads * (method.vectors_up + e.draft),
        bytes_down=method.vectors_down * down + messages * beside_down + memories * e.vector,
        bytes_up=uploads * (method.vectors_up * e.up + beside_up),
    )


def vectors_in(row: tuple[Any, ...], dimension: int) -> int:
    """How many vectors of length d one client's memory or draft is made of."""
    return sum(field.size // dimension for field in row if isinstance(field, np.ndarray))
