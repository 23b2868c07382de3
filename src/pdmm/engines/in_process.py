"""Clients in this process: blocks of them in cache, on all cores, behind links of any kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pdmm.common import trees
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.engines.broadcasts import Broadcasts
from pdmm.engines.client_round import Part, add_up, client_round
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.clients import Clients, Vector
from pdmm.engines.exchange import Evaluation, Outcome, Question, Sums, add
from pdmm.engines.memories import EveryMemory, LateMemory, Memories
from pdmm.engines.receipts import Receipts
from pdmm.engines.traffic import Envelope, Sent, count
from pdmm.links.checks import Flags, Indices
from pdmm.links.links import Contact, Links, Plan
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem, SumOfBlocks, Total
from pdmm.problems.constants import Constants
from pdmm.problems.lazy import Lazy


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


class InProcess(Clients):
    """Runs the clients whose functions this process holds. It knows nothing of the mathematics.

    Args:
        problem: their functions.
        team: the processes that share the run: this one alone, unless :class:`Ranks` says so.
    """

    threads: Threads
    memories: Memories

    def __init__(self, problem: Problem, team: Team = ALONE) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {problem!r}")
        self.problem = problem
        self.team = team
        self.first = 0
        self.clients = problem.clients
        self.dimension = problem.dimension
        self.dtype = problem.dtype
        self.parallel = problem.parallel
        self.proven = problem.proven
        self.accurate = problem.accurate
        self.eigenbasis_size = problem.eigenbasis_size
        self.links = Links(problem.clients)

    def behind(self, links: Links) -> None:
        """Put links between the server and the clients."""
        self.links = links
        self.steady = links.steady

    @property
    def own(self) -> slice:
        return slice(self.first, self.first + self.problem.clients)

    @contextmanager
    def working(self, threads: int | None) -> Iterator[None]:
        with Threads(threads) as self.threads:
            yield

    # --- what is known of their functions ---------------------------------------------------

    def check(self, x0: Floats, exact: bool) -> None:
        self.team.agree(lambda: self.problem.check(x0, exact))

    def smoothness(self, weights: Any = None) -> Constants:
        return self.problem.smoothness(weights)

    def strong_convexity(self, weights: Any = None) -> Constants:
        return self.problem.strong_convexity(weights)

    def secants(self, weights: Any = None) -> tuple[Constants, Constants] | None:
        return self.problem.secants(weights)

    def negative_curvature(self) -> tuple[int, float] | None:
        return self.problem.negative_curvature()

    def describe(self) -> dict[str, Any]:
        speaks = type(self.problem).__repr__ is not object.__repr__  # else it has an address in it
        return {
            "kind": type(self.problem).__name__,
            "clients": self.clients,
            "dimension": self.dimension,
            "dtype": str(self.dtype),
            "description": repr(self.problem) if speaks and self.team.size == 1 else "",
        }

    def probe(self, point: Floats) -> float:
        if isinstance(self.problem, Lazy):  # nobody knows all clients: the first one's value
            first = np.array([0])
            return self.team.first(lambda: float(self.problem.at(first).value(point)[0]))
        return self.value(point)

    # --- a run ------------------------------------------------------------------------------

    def prepare(self, method: Method, x0: Vector, weights: Vector, rounds: int) -> None:
        problem = self.problem
        self.all_weights = weights
        self.weights = weights[self.own]
        self.weight = float(weights.sum())
        self.source = self.team.agree(
            lambda: problem.prepare(rounds, method.steps, method.exact, self.threads)
        )
        self.sum = SumOfBlocks(problem, problem.evaluator(self.source), self.weights, self.threads)
        self.blocks = problem.blocks()
        self.starts = np.array([block.start for block in self.blocks])
        m = problem.clients
        self.cursor = np.zeros(m, dtype=np.int64)
        self.receipts = Receipts(m)
        self.broadcasts = Broadcasts(method, x0, self.dtype, m, rounds)
        self.memories = self._first_memories(method, x0)

    def _first_memories(self, method: Method, x0: Vector) -> Memories:
        m, start = self.problem.clients, x0.astype(self.dtype)[None]
        exact = self.links.bits is not None  # rounded changes add up to the same at both ends
        if self.links.perfect:
            rows = method.client_start(np.repeat(start, m, axis=0))
            return EveryMemory(trees.cast(rows, np.float64) if exact else rows, m)
        row = method.client_start(start)
        row = trees.cast(row, np.float64) if exact else row
        return LateMemory(row, m, self.problem.memory_folder)

    def total(self, minimum: bool) -> Total | None:
        if not minimum and not isinstance(self.problem, Lazy):
            return None
        return self.problem.total(self.weights, self.threads, self.team)

    def round(self, question: Question) -> Outcome:
        r = question.round
        plan = self.links.plan(r)
        message = self.broadcasts.send(question.message, r, plan.bits)

        def work() -> Sums:
            sent = self._sent(question.method, plan, r)
            parts = self._parts(question.method, message, plan, r)
            value = self._evaluated(question.evaluate)
            return add(parts, sent, value, self._steepest(question.watch))

        sums = self._of_all(work, question)
        # Where all uploads arrive, no rounding gets into their weight.
        weight = self.weight if plan.contact is None else sums.weight
        return sums.outcome(weight, self.weight)

    def _of_all(self, work: Callable[[], Sums], question: Question) -> Sums:
        """What all clients did, from the work of those that are here."""
        return work()

    def _parts(self, method: Method, message: Any, plan: Plan, r: int) -> list[Part]:
        """What the clients here do, block by block."""
        if plan.contact is None:
            jobs = self._everyone(method, plan)
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

    def _everyone(self, method: Method, plan: Plan) -> list[Job]:
        """Every client, block by block."""
        if plan.steps is None:
            return [Job(block, method.steps) for block in self.blocks]
        here = np.arange(self.problem.clients)
        return self._grouped(here, plan.steps[self.own])

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

    def _sent(self, method: Method, plan: Plan, r: int) -> Sent:
        """What is sent: also what does not arrive."""
        ships = self.links.ships_memories
        envelope = Envelope(
            vector=self.broadcasts.vector,
            up=self.broadcasts.vector_bytes(plan.bits),
            numbered=plan.contact is not None,
            memory=method.memory_vectors if ships else 0,
            draft=method.draft_vectors if ships else 0,
        )
        m = self.problem.clients
        if plan.contact is None and plan.bits is None:
            return count(method, envelope, m, m)
        chosen: Indices = np.arange(m)
        heard = m
        if plan.contact is not None:
            contact = plan.contact.among(self.own)
            chosen = contact.chosen
            heard = int(contact.heard.sum())
        down = self.broadcasts.bytes_down(chosen, r, plan.bits)
        return count(method, envelope, len(chosen), heard, down)

    def _steepest(self, watch: bool) -> float:
        """The largest L that the secants of the run's gradients have met."""
        found = self.problem.secants() if watch else None
        return 0.0 if found is None else float(np.fmax.reduce(found[0].clients))

    def after(self, r: int, outcome: Outcome, norm: float) -> None:
        if outcome.disagreement:
            share = outcome.arrived / self.clients
            precision = float(np.finfo(self.dtype).eps)
            self.links.watch(r, outcome.disagreement, norm, share, precision)

    def telemetry(self) -> dict[str, float]:
        return {} if self.links.bits is None else {"bits": self.links.bits}

    @property
    def remarks(self) -> tuple[str, ...]:  # type: ignore[override]  # grows during the run
        return tuple(self.links.remarks)

    # --- F ----------------------------------------------------------------------------------

    def _evaluated(self, wanted: Evaluation | None) -> float | None:
        """The part of F that the clients here have."""
        if wanted is None:
            return None
        if wanted.about is None:
            return self.sum.value(wanted.x)
        return self.sum.divergence(wanted.x, wanted.about)

    def value(self, x: Floats) -> float:
        return float(self.team.total(lambda: self.sum.value(x)))

    def divergence(self, x: Floats, y: Floats) -> float:
        return float(self.team.total(lambda: self.sum.divergence(x, y)))

    def gradient(self, x: Floats) -> Vector:
        return np.asarray(self.team.total(lambda: self.sum.gradient(x)))

    def gradient_and_size(self, x: Floats) -> tuple[Vector, float]:
        both = np.asarray(self.team.total(lambda: self.sum.gradient_and_size(x)))
        return both[:-1], float(both[-1])

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {"links": self.links.state(), "broadcasts": self.broadcasts.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.links.load(state["links"])
        self.broadcasts.load(state["broadcasts"])

    def tables(self) -> Tables:
        numbers = np.arange(self.own.start, self.own.stop)
        learnt = self.problem.run_state()
        return {
            "memory": self.memories.table(self.first),
            "cursor": Table(numbers, [self.cursor]),
            "heard": self.broadcasts.table(self.first),
            "learnt": Table(numbers if learnt else np.arange(0), learnt),
            **self.receipts.tables(self.first),
        }

    def load_tables(self, tables: Tables) -> None:
        learnt = tables["learnt"].columns
        if learnt:
            self.problem.load_run_state(learnt)
        self.memories.load(tables["memory"], self.first)
        (self.cursor,) = tables["cursor"].columns
        self.broadcasts.load_table(tables["heard"])
        like = self.memories.read(np.arange(0))
        self.receipts.load(tables, like, self.first)
