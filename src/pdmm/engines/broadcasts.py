"""The server's messages on their way down: rounded changes, and what a client has missed."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.engines.client_tables import Table
from pdmm.links.checks import Flags, Indices
from pdmm.links.quantise import packed_bytes, rounded
from pdmm.methods.base import Method
from pdmm.problems.block import Floats


class Broadcasts:
    """What the clients get of the server's messages, and what it costs to bring each up to date.

    Where messages are rounded, the server sends the change of what clients hold. A client that
    missed some changes is sent these first, or the whole vector, whichever is smaller.

    Args:
        method: whose messages they are.
        x0: the start, which all clients know.
        dtype: of the clients' numbers.
        clients: how many there are.
        rounds: how many are planned.
    """

    def __init__(
        self, method: Method, x0: Floats, dtype: np.dtype[Any], clients: int, rounds: int
    ) -> None:
        self.dtype = dtype
        first = method.broadcast(method.server_start(1.0 * x0, lambda v, t: v))
        self.held = trees.cast(first, dtype)
        self.vector = int(self.held[0].size) * dtype.itemsize
        self.heard_last: npt.NDArray[np.int64] = np.zeros(clients, dtype=np.int64)
        # Bytes of one vector's changes, added up over the rounds.
        self.so_far: npt.NDArray[np.int64] = np.zeros(rounds + 1, dtype=np.int64)

    def send(self, message: Any, r: int, bits: int | None) -> Any:
        """The message as clients get it in round r."""
        if bits is None:
            return trees.cast(message, self.dtype)
        exact: tuple[str, ...] = getattr(type(message), "EXACT", ())
        moved = [
            new
            if name in exact
            else old + rounded((np.asarray(new, dtype=np.float64) - old)[None], bits)[0]
            for name, new, old in zip(message._fields, message, self.held, strict=True)
        ]
        self.held = trees.cast(trees.build(message, moved), self.dtype)
        if r >= len(self.so_far):
            self.so_far = np.append(self.so_far, np.zeros(r, dtype=np.int64))
        self.so_far[r] = self.so_far[r - 1] + self.vector_bytes(bits)
        return self.held

    def vector_bytes(self, bits: int | None) -> int:
        """What a vector takes."""
        if bits is None:
            return self.vector
        return packed_bytes(self.vector // self.dtype.itemsize, bits)

    def bytes_down(self, clients: Indices, r: int, bits: int | None) -> int:
        """What one vector of round r's message takes, to all of these clients."""
        if bits is None:
            return len(clients) * self.vector
        missed = self.so_far[r] - self.so_far[self.heard_last[clients]]
        return int(np.minimum(self.vector, missed).sum())

    def heard(self, clients: Indices, arrives: Flags, r: int) -> None:
        """The server knows from their uploads who has its message."""
        self.heard_last[clients[arrives]] = r

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that changes, but for what belongs to single clients."""
        return {"so_far": self.so_far, "held": list(self.held)}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.so_far = state["so_far"]
        self.held = trees.build(self.held, state["held"])

    def table(self, first: int) -> Table:
        """The round that each client is known to have; clients are counted from ``first``."""
        return Table(first + np.arange(len(self.heard_last)), [self.heard_last])

    def load_table(self, table: Table) -> None:
        """Take that over."""
        (self.heard_last,) = table.columns
