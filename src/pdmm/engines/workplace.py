"""The clients of this process at work: block by block, each committing what is known to arrive."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.threads import Threads
from pdmm.engines.broadcasts import Broadcasts
from pdmm.engines.client_round import Done, Made, Part, add_up, client_round, client_work
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.memories import EveryMemory, LateMemory, Memories
from pdmm.engines.receipts import Receipts
from pdmm.engines.traffic import Envelope, Sent, count
from pdmm.links.checks import Flags, Indices
from pdmm.links.links import Contact, Links, Plan
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.problems.block import Floats, Source


class Job(NamedTuple):
    """Clients that are worked on together: of one block, with equally many steps."""

    clients: slice | Indices
    steps: int
    rows: Indices | None = None
    """Which of those that hear the message they are; None where all do."""


class Worked(NamedTuple):
    """What the clients of a job did, and what they remember of it."""

    part: Part
    before: Any
    after: Any


class Working(NamedTuple):
    """What the clients of a job have made, before anybody knows how it arrives."""

    job: Job
    made: Made
    weights: npt.NDArray[np.float64]


class Workplace:
    """What the clients of a process remember, and the rounds that they take part in.

    Args:
        problem: their functions.
        source: these functions, prepared for the run.
        weights: of these clients.
        threads: for blocks of them.
        links: between them and the server.
        broadcasts: what they hold of the server's messages.
        own: which of all clients they are.
        rounded: whether uploads are rounded on their way.
    """

    memories: Memories

    def __init__(
        self,
        problem: Problem,
        source: Source,
        weights: npt.NDArray[np.float64],
        threads: Threads,
        links: Links,
        broadcasts: Broadcasts,
        own: slice,
        rounded: bool = False,
    ) -> None:
        self.problem = problem
        self.source = source
        self.weights = weights
        self.threads = threads
        self.links = links
        self.broadcasts = broadcasts
        self.own = own
        self.rounded = rounded or links.bits is not None
        self.first = int(own.start)
        self.clients = problem.clients
        self.blocks = problem.blocks()
        self.starts = np.array([block.start for block in self.blocks])
        self.cursor = np.zeros(self.clients, dtype=np.int64)
        self.receipts = Receipts(self.clients)

    def begin(self, method: Method, x0: Floats) -> None:
        """All clients start from x0, in their own dtype."""
        start = x0[None]
        if self.links.perfect:
            rows = self._held(method.client_start(np.repeat(start, self.clients, axis=0)))
            self.memories = EveryMemory(rows, self.clients)
        else:
            row = self._held(method.client_start(start))
            self.memories = LateMemory(row, self.clients, self.problem.memory_folder)
        self.every_block = [Job(block, method.steps) for block in self.blocks]

    def _held(self, memory: Any) -> Any:
        """Memories as they are kept: rounded changes must add up to the same at both ends."""
        return trees.cast(memory, np.float64) if self.rounded else memory

    # --- a round ----------------------------------------------------------------------------

    def round(self, method: Method, message: Any, plan: Plan, r: int) -> list[Part]:
        """What the clients do in round r, block by block."""
        if plan.contact is None:
            jobs = self._everyone(plan)
            everyone = list(
                self.threads.map(lambda job: self._at_once(method, message, job, plan.bits), jobs)
            )
            if plan.bits is not None:
                self.broadcasts.heard_last[:] = r
            return everyone
        contact = plan.contact.among(self.own)
        counts = np.full(len(contact.listeners), method.steps)
        if plan.steps is not None:
            counts = plan.steps[plan.contact.listeners_in(self.own)]
        return self._some(method, message, contact, counts, plan.bits, r)

    def _everyone(self, plan: Plan) -> list[Job]:
        """Every client, block by block."""
        if plan.steps is None:
            return self.every_block
        return self._grouped(np.arange(self.clients), plan.steps[self.own])

    def _grouped(self, clients: Indices, steps: Any) -> list[Job]:
        """Some clients, block by block and with equally many steps in each job."""
        if not len(clients):
            return []
        block = np.searchsorted(self.starts, clients, side="right")
        order = np.lexsort((clients, steps, block))
        key = np.column_stack([block, steps])[order]
        cuts = np.flatnonzero((np.diff(key, axis=0) != 0).any(axis=1)) + 1
        return [Job(clients[rows], int(steps[rows[0]]), rows) for rows in np.split(order, cuts)]

    def _at_once(self, method: Method, message: Any, job: Job, bits: int | None) -> Part:
        """The round of clients that know that their upload arrives: they commit at once."""
        f = self.source.at(job.clients, self.cursor[job.clients])
        memory = self.memories.read(job.clients)
        done = client_round(method, f, message, memory, job.steps, bits)
        self.memories.write(job.clients, done.after)
        self.cursor[job.clients] += job.steps
        first = job.clients.start if isinstance(job.clients, slice) else job.clients
        return add_up(
            method, done.upload, self.weights[job.clients], done.tally, self.first + first
        )

    def made(self, method: Method, message: Any) -> list[Working]:
        """What all clients make of a message; nothing is committed before :meth:`commit`."""

        def work(job: Job) -> Working:
            f = self.source.at(job.clients, self.cursor[job.clients])
            memory = self.memories.read(job.clients)
            made = client_work(method, f, message, memory, job.steps, self.rounded)
            return Working(job, made, self.weights[job.clients])

        return list(self.threads.map(work, self.every_block))

    def commit(self, working: Working, done: Done) -> None:
        """An upload is known to have arrived like this."""
        job = working.job
        self.memories.write(job.clients, done.after)
        self.cursor[job.clients] += job.steps

    def _some(
        self,
        method: Method,
        message: Any,
        contact: Contact,
        counts: Any,
        bits: int | None,
        r: int,
    ) -> list[Part]:
        """The round of the clients that hear the message; not every upload need arrive."""
        clients = contact.listeners
        arrives = contact.arrives[contact.heard]
        told = contact.told[contact.heard] & arrives
        self.receipts.settle(clients, self.memories)
        jobs = self._grouped(clients, counts)
        worked = list(
            self.threads.map(lambda job: self._work(method, message, job, arrives, bits), jobs)
        )
        self.receipts.number(clients, arrives)
        self.broadcasts.heard(clients, arrives, r)
        for job, work in zip(jobs, worked, strict=True):
            clients = np.asarray(job.clients)
            self.receipts.keep(clients, told[job.rows], work.before, work.after, self.memories)
        return [work.part for work in worked]

    def _work(
        self, method: Method, message: Any, job: Job, arrives: Flags, bits: int | None
    ) -> Worked:
        """The work of a job, and what of it arrives; memories stay as they are."""
        clients = np.asarray(job.clients)
        f = self.source.at(clients, self.cursor[clients])
        memory = self.memories.read(clients)
        done = client_round(method, f, message, memory, job.steps, bits)
        self.cursor[clients] += job.steps
        # What is lost must not count at all: not even as 0 times NaN.
        there = arrives[job.rows]
        upload = trees.rows(done.upload, there)
        numbers = self.first + clients[there]
        part = add_up(method, upload, self.weights[clients[there]], done.tally, numbers)
        return Worked(part, done.before, done.after)

    def sent(self, method: Method, message: Any, plan: Plan, r: int) -> Sent:
        """What is sent: also what does not arrive."""
        exact = method.exact_numbers(message)
        ships = self.links.ships_memories
        envelope = Envelope(
            vector=self.broadcasts.vector,
            up=self.broadcasts.vector_bytes(plan.bits),
            numbered=plan.contact is not None,
            memory=method.memory_vectors if ships else 0,
            draft=method.draft_vectors if ships else 0,
        )
        m = self.clients
        if plan.contact is None and plan.bits is None:
            return count(method, envelope, m, m, exact=exact)
        chosen: Indices = np.arange(m)
        heard = m
        if plan.contact is not None:
            contact = plan.contact.among(self.own)
            chosen = contact.chosen
            heard = int(contact.heard.sum())
        down = self.broadcasts.bytes_down(chosen, r, plan.bits)
        return count(method, envelope, len(chosen), heard, down, exact=exact)

    # --- checkpoints ------------------------------------------------------------------------

    def tables(self) -> Tables:
        """What belongs to single clients."""
        numbers = np.arange(self.own.start, self.own.stop)
        return {
            "memory": self.memories.table(self.first),
            "cursor": Table(numbers, [self.cursor]),
            **self.receipts.tables(self.first),
        }

    def load(self, tables: Tables) -> None:
        """Take that over."""
        self.memories.load(tables["memory"], self.first)
        (self.cursor,) = tables["cursor"].columns
        like = self.memories.read(np.arange(0))
        self.receipts.load(tables, like, self.first)
