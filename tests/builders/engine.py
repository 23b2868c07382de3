"""Clients in this process that a test, or a benchmark, asks round by round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pdmm
from pdmm.common import trees
from pdmm.engines.exchange import Outcome, Question
from pdmm.engines.in_process import InProcess
from pdmm.links.links import Links, Plan


class Stepped:
    """A method's clients, and the server's state; without a history or certificates."""

    def __init__(self, clients: InProcess, method: pdmm.Method, x0: Any, prox: Any) -> None:
        self.clients = clients
        self.method = method
        self.prox = prox
        self.server = method.server_start(x0, prox)
        self.done = 0

    @property
    def memory(self) -> Any:
        """What every client remembers."""
        rows = self.clients.here.memories.read(np.arange(self.clients.problem.clients))
        return trees.each(np.copy, rows)

    @property
    def x(self) -> Any:
        """x_s."""
        return np.asarray(self.method.broadcast(self.server).x)

    def ask(self, message: Any) -> Outcome:
        """One round's messages."""
        self.done += 1
        return self.clients.round(Question(self.done, self.method, message))

    def step(self) -> Outcome:
        """One round."""
        outcome = self.ask(self.method.broadcast(self.server))
        self.server = self.method.server(self.server, outcome.mean, outcome.share, self.prox)
        return outcome


@contextmanager
def stepped(
    problem: pdmm.Problem,
    method: pdmm.Method,
    x0: Any = None,
    weights: Any = None,
    rounds: int = 20,
    prox: Any = lambda v, t: v,
    threads: int | None = 1,
    links: Links | None = None,
) -> Iterator[Stepped]:
    """A method's clients at work, for as long as the block lasts."""
    clients = InProcess(problem)
    if links is not None:
        clients.behind(links)
    start = np.zeros(problem.dimension) if x0 is None else np.asarray(x0, dtype=np.float64)
    with clients.working(threads):
        w = np.ones(problem.clients) if weights is None else weights
        clients.prepare(method, start, w, rounds)
        yield Stepped(clients, method, start, prox)


def settled(clients: InProcess) -> Any:
    """The memories as they will be once everyone has heard of its last upload."""
    memory = trees.each(np.copy, clients.here.memories.read(np.arange(clients.problem.clients)))
    receipts = clients.here.receipts
    for i, draft in receipts.drafts.items():
        if receipts.applied[i] == receipts.sent[i]:
            trees.put(memory, np.array([i]), draft)
    return memory


def watch(
    patch: Any,
    before: Callable[[InProcess, Any], object] | None = None,
    after: Callable[[InProcess], object] | None = None,
    change: Callable[[Any, int], Any] | None = None,
) -> None:
    """Look at the clients before and after every round, or change what arrives in it."""
    plain_round, plain_plan = InProcess.round, Links.plan

    def watched(self: InProcess, question: Question) -> Outcome:
        if before is not None:
            before(self, question.message)
        outcome = plain_round(self, question)
        if after is not None:
            after(self)
        return outcome

    def planned(self: Links, r: int) -> Plan:
        plan = plain_plan(self, r)
        if change is None or plan.contact is None:
            return plan
        return plan._replace(contact=change(plan.contact, r))

    patch.setattr(InProcess, "round", watched)
    patch.setattr(Links, "plan", planned)
