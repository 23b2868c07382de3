"""Clients in this process behind links that are not perfect: some are absent, messages get lost."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.memories import Rows
from pdmm.engines.outcome import NOTHING, Added, Ledger, Outcome, Owed, Part, Sent, add, steepest
from pdmm.links.checks import Indices
from pdmm.links.links import Contact
from pdmm.links.quantise import packed_bytes, rounded
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem

_COUNTS = ("cursor", "sent", "applied", "heard_last")  # a number for every client
NUMBER_BYTES = 8  # of a sequence number, which goes with every message


class Work(NamedTuple):
    """What a few clients did, who took equally many steps, and what they remember of it."""

    part: Part
    memory: Any
    """What the clients remember."""
    draft: Any
    """What that becomes, once they know that their upload was applied."""


class Partial:
    """Runs those clients that hear the server; what they upload counts if it arrives.

    Clients number their uploads. One that has not heard whether its last upload was applied
    keeps that upload's outcome beside its memory, and takes it over when the server's next
    message says so.

    Args:
        problem: the clients' functions.
        method: what they run.
        x0: the start.
        weights: of the clients.
        rounds: how many are planned.
        threads: for blocks of clients.
        bits: of a number in an upload and in a broadcast; None for full precision.
        at_server: whether the server keeps the clients' memories, and ships them.
    """

    remarks: tuple[str, ...] = ()

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Floats,
        weights: npt.NDArray[np.float64],
        rounds: int,
        threads: Threads,
        bits: int | None,
        at_server: bool,
    ) -> None:
        self.method, self.threads = method, threads
        self.weights, self.weight = weights[problem.own], float(weights.sum())
        self.problem, self.own = problem.here, problem.own
        self.source = problem.prepare(rounds, method.steps, method.exact, threads)
        self.blocks, self.dtype = problem.here.blocks(), problem.dtype
        self.ledger = Ledger(method, x0, self.dtype, threads.team)
        m = len(self.weights)
        self.bits, self.at_server = bits, at_server
        start = method.client_start(x0.astype(self.dtype)[None])
        if bits is not None:
            # Rounded changes are added up in float64 on both sides, so that the sums stay equal.
            start = type(start)(*(field.astype(np.float64) for field in start))
        self.memory: Rows = Rows(start, m, problem.here.memory_folder)
        self.cursor = np.zeros(m, dtype=np.int64)
        self.sent = np.zeros(m, dtype=np.int64)  # uploads of every client
        self.applied = np.zeros(m, dtype=np.int64)  # the last of them that the server applied
        self.drafts: dict[int, Any] = {}  # of clients that have not heard about their last upload
        # The message as clients hold it, where it is rounded: all know x0.
        first = method.broadcast(method.server_start(1.0 * x0, lambda v, t: v))
        self.held = type(first)(*(np.asarray(field, dtype=self.dtype) for field in first))
        self.heard_last = np.zeros(m, dtype=np.int64)  # the round that a client is known to have
        self.so_far = np.zeros(rounds + 1, dtype=np.int64)  # bytes of a vector's differences
        self.starts = np.array([block.start for block in self.blocks])

    # --- a round --------------------------------------------------------------------------

    def contact(
        self,
        message: Any,
        contact: Contact,
        r: int,
        steps: npt.NDArray[np.int64] | int,
        owed: Owed = NOTHING,
    ) -> Outcome:
        """Send the message to the chosen clients, and average the uploads that arrive.

        Args:
            message: the server's.
            contact: who is chosen of all clients, and what arrives.
            r: the round.
            steps: local steps of every client that hears it, or of all.
            owed: what else the sum over a team is to carry.
        """
        delivered, vector_bytes = self._delivered(message)
        counts = np.broadcast_to(np.asarray(steps), contact.listeners.shape)
        counts = counts[contact.listeners_in(self.own)]
        here = contact.among(self.own)

        def work() -> Added:
            sent = self._count(here, vector_bytes, delivered, r)
            parts, arrived = self._exchange(delivered, here, r, counts)
            seen = steepest(self.problem) if owed.watch else 0.0
            return add(parts, sent, arrived, owed, seen)

        return self.ledger.add(work, owed).outcome(None, self.weight)

    def _exchange(
        self, message: Any, contact: Contact, r: int, counts: npt.NDArray[np.int64]
    ) -> tuple[list[Part], int]:
        """What the clients here do, and how many of their uploads arrive."""
        clients, arrives = contact.listeners, contact.arrives[contact.heard]
        told = contact.told[contact.heard] & arrives
        self._resolve(clients)
        jobs = list(self._blocks(clients, counts))
        done: list[Work] = list(
            self.threads.map(
                lambda job: self._part(message, clients[job[0]], arrives[job[0]], job[1]), jobs
            )
        )
        self.sent[clients] += 1
        self.applied[clients[arrives]] = self.sent[clients[arrives]]
        self.heard_last[clients[arrives]] = r  # as far as the server knows
        for (rows, _), work in zip(jobs, done, strict=True):
            self._keep(clients[rows], told[rows], work)
        return [work.part for work in done], int(arrives.sum())

    def _blocks(
        self, clients: Indices, steps: npt.NDArray[np.int64]
    ) -> Iterator[tuple[Indices, int]]:
        """Positions among the clients, block by block and with equally many steps in each."""
        block = np.searchsorted(self.starts, clients, side="right")
        order = np.lexsort((clients, steps, block))
        key = np.column_stack([block, steps])[order]
        cuts = np.flatnonzero((np.diff(key, axis=0) != 0).any(axis=1)) + 1
        for rows in np.split(order, cuts) if len(order) else ():
            yield rows, int(steps[rows[0]])

    def _part(
        self, message: Any, clients: Indices, arrives: npt.NDArray[np.bool_], steps: int
    ) -> Work:
        method = self.method
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # seen below
            f = self.source.at(clients, self.cursor[clients])
            mine = method.receive(message, self.memory.read(clients))
            used = type(mine)(*(field.astype(self.dtype, copy=False) for field in mine))
            upload, draft = method.client(message, used, f, steps)
            if self.bits is not None:
                upload = type(upload)(*(rounded(field, self.bits) for field in upload))
            after = method.accept(mine, draft, upload)
            self.cursor[clients] += steps
            # What is lost must not count at all: not even as 0 times NaN.
            w = self.weights[clients[arrives]]
            there = type(upload)(*(field[arrives] for field in upload))
            rows = [field.astype(np.float64, copy=False) for field in there]
            bad_rows = ~np.all([np.isfinite(field).all(axis=1) for field in rows], axis=0)
            sums = type(upload)(*(w @ field for field in rows))
            apart = method.disagreement(there)
            apart = None if apart is None else float(w @ apart)
        found = np.flatnonzero(bad_rows)
        bad = self.own.start + int(clients[arrives][found[0]]) if len(found) else None
        return Work(Part(sums, float(w.sum()), f.tally, bad, apart), mine, after)

    # --- memories -------------------------------------------------------------------------

    def _keep(self, clients: Indices, told: npt.NDArray[np.bool_], work: Work) -> None:
        """Those that were told take their drafts over; the others keep both."""
        both = zip(work.memory, work.draft, strict=True)
        rows = [np.where(told.reshape(-1, *[1] * (old.ndim - 1)), new, old) for old, new in both]
        self.memory.write(clients, type(work.memory)(*rows))
        for k in np.flatnonzero(~told):
            self.drafts[int(clients[k])] = [field[k : k + 1].copy() for field in work.draft]

    def _resolve(self, clients: Indices) -> None:
        """Clients hear which upload was applied last: they take their drafts over, or drop them."""
        for i in clients.tolist() if self.drafts else ():
            draft = self.drafts.pop(i, None)
            if draft is not None and self.applied[i] == self.sent[i]:
                self.memory.write(np.array([i]), self.memory.kind(*draft))

    def settled(self) -> Any:
        """The memories as they will be once everyone has heard of its last upload."""
        memory = self.memory.all()
        for i, draft in self.drafts.items():
            if self.applied[i] == self.sent[i]:
                for field, row in zip(memory, draft, strict=True):
                    field[i] = row[0]
        return memory

    def state(self) -> dict[str, Any]:
        """All that changes, but for what belongs to single clients."""
        return {"bits": self.bits, "so_far": self.so_far, "held": list(self.held)}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.bits, self.so_far = state["bits"], state["so_far"]
        self.held = type(self.held)(*state["held"])

    def tables(self) -> Tables:
        """What belongs to clients: memories, drafts, and what they have sent and heard."""
        first, memory = self.own.start, self.memory.state()
        waiting = sorted(self.drafts)
        fields = zip(*(self.drafts[i] for i in waiting), strict=True)
        return {
            "memory": Table(first + memory["clients"], memory["rows"]),
            "counts": Table(
                first + np.arange(len(self.weights)), [getattr(self, name) for name in _COUNTS]
            ),
            "drafts": Table(
                first + np.array(waiting, dtype=np.int64), [np.concatenate(f) for f in fields]
            ),
        }

    def load_tables(self, tables: Tables) -> None:
        """Take that over."""
        first, memory, drafts = self.own.start, tables["memory"], tables["drafts"]
        self.memory.load({"clients": memory.clients - first, "rows": memory.columns})
        for name, column in zip(_COUNTS, tables["counts"].columns, strict=True):
            setattr(self, name, column)
        for k, i in enumerate((drafts.clients - first).tolist()):
            self.drafts[i] = [field[k : k + 1] for field in drafts.columns]

    # --- links ----------------------------------------------------------------------------

    def _delivered(self, message: Any) -> tuple[Any, int]:
        """The message as clients get it, and the bytes of one of its vectors."""
        kind = type(message)
        plain = kind(*(np.asarray(field, dtype=self.dtype) for field in message))
        full = plain[0].size * self.dtype.itemsize
        if self.bits is None:
            return plain, full
        moved = (
            old + rounded((np.asarray(new, dtype=np.float64) - old)[None], self.bits)[0]
            for new, old in zip(message, self.held, strict=True)
        )
        self.held = kind(*(np.asarray(field, dtype=self.dtype) for field in moved))
        return self.held, packed_bytes(plain[0].size, self.bits)

    def _count(self, contact: Contact, vector_bytes: int, message: Any, r: int) -> Sent:
        """What is sent: also what does not arrive."""
        d, item = message[0].size, self.dtype.itemsize
        method = self.method
        full, chosen, heard = d * item, contact.chosen, int(contact.heard.sum())
        down = np.full(len(chosen), full)
        up_vector = full
        if self.bits is not None:
            # Differences that were missed come first, or the vector itself, if that is less.
            if r >= len(self.so_far):
                self.so_far = np.append(self.so_far, np.zeros(r, dtype=np.int64))
            self.so_far[r] = self.so_far[r - 1] + vector_bytes
            down = np.minimum(full, self.so_far[r] - self.so_far[self.heard_last[chosen]])
            up_vector = packed_bytes(d, self.bits)
        more_down = method.memory_vectors if self.at_server else 0
        more_up = method.draft_vectors if self.at_server else 0
        return Sent(
            contacts=len(chosen),
            uploads=heard,
            vectors_down=len(chosen) * (method.vectors_down + more_down),
            vectors_up=heard * (method.vectors_up + more_up),
            bytes_down=int(down.sum()) * method.vectors_down
            + len(chosen) * (more_down * full + NUMBER_BYTES + 8 * method.scalars[0]),
            bytes_up=heard
            * (
                method.vectors_up * up_vector
                + more_up * full
                + NUMBER_BYTES
                + 8 * method.scalars[1]
            ),
        )
