"""Numbered uploads: which of them the server applied, and what clients keep until they know."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.engines.client_tables import Table
from pdmm.engines.memories import Memories
from pdmm.links.checks import Flags, Indices


class Receipts:
    """Clients number their uploads, and the server says which number it applied last.

    A client that has not heard whether its last upload was applied keeps that upload's outcome
    beside its memory, and takes it over when the server's next message says so.

    Args:
        clients: how many there are.
    """

    def __init__(self, clients: int) -> None:
        self.sent: npt.NDArray[np.int64] = np.zeros(clients, dtype=np.int64)
        self.applied: npt.NDArray[np.int64] = np.zeros(clients, dtype=np.int64)
        self.drafts: dict[int, Any] = {}

    def settle(self, clients: Indices, memories: Memories) -> None:
        """These clients hear which upload was applied: they take their drafts over, or not."""
        if not self.drafts:
            return
        for i in clients.tolist():
            draft = self.drafts.pop(i, None)
            if draft is not None and self.applied[i] == self.sent[i]:
                memories.write(np.array([i]), draft)

    def number(self, clients: Indices, arrives: Flags) -> None:
        """These clients upload; the server applies what arrives."""
        self.sent[clients] += 1
        there = clients[arrives]
        self.applied[there] = self.sent[there]

    def keep(
        self, clients: Indices, told: Flags, before: Any, after: Any, memories: Memories
    ) -> None:
        """Those that were told take the outcome over; the others keep both."""

        def chosen(old: Any, new: Any) -> Any:
            flags = told.reshape(-1, *[1] * (old.ndim - 1))
            return np.where(flags, new, old)

        both = zip(before, after, strict=True)
        memories.write(clients, trees.build(before, [chosen(old, new) for old, new in both]))
        for k in np.flatnonzero(~told):
            self.drafts[int(clients[k])] = _row(after, int(k))

    # --- checkpoints ------------------------------------------------------------------------

    def tables(self, first: int) -> dict[str, Table]:
        """The numbers of all clients, and the drafts of those that wait; counted from ``first``."""
        clients = first + np.arange(len(self.sent))
        waiting = sorted(self.drafts)
        fields = zip(*(self.drafts[i] for i in waiting), strict=True)
        return {
            "receipts": Table(clients, [self.sent, self.applied]),
            "drafts": Table(
                first + np.array(waiting, dtype=np.int64), [np.concatenate(f) for f in fields]
            ),
        }

    def load(self, tables: dict[str, Table], like: Any, first: int) -> None:
        """Take that over; ``like`` is a memory."""
        self.sent, self.applied = tables["receipts"].columns
        drafts = tables["drafts"]
        for k, i in enumerate((drafts.clients - first).tolist()):
            self.drafts[i] = trees.build(like, [field[k : k + 1] for field in drafts.columns])


def _row(fields: Any, k: int) -> Any:
    """One client's row, as a copy: the others' need not be kept for its sake."""
    return trees.each(lambda field: field[k : k + 1].copy(), fields)
