"""Clients in this process: blocks of them in cache, on all cores, behind links of any kind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.common.variables import Variables
from pdmm.engines.broadcasts import Broadcasts
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.clients import Clients, Terms, Vector, steepest
from pdmm.engines.exchange import Evaluation, Outcome, Question, Sums, add
from pdmm.engines.workplace import Workplace
from pdmm.links.links import Links
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.problems.block import Floats
from pdmm.problems.constants import Constants
from pdmm.problems.fingerprints import check_same, fingerprints, points_to_try
from pdmm.problems.lazy import Lazy
from pdmm.problems.sums import CertainGradient, CurvatureSum, SumOfBlocks, Total


class InProcess(Clients):
    """Runs the clients whose functions this process holds. It knows nothing of the mathematics.

    Args:
        problem: their functions.
        team: the processes that share the run: this one alone, unless :class:`Ranks` says so.
    """

    rounds_uploads = False
    """Whether uploads are rounded on their way, whatever the links."""
    threads: Threads
    here: Workplace

    def __init__(self, problem: Problem, team: Team = ALONE) -> None:
        if not isinstance(problem, Problem):
            raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {problem!r}")
        self.problem = problem
        self.moved = problem  # the functions that rounds are about
        self.team = team
        self.first = 0
        self.clients = problem.clients
        self.dimension = problem.dimension
        self.dtype = problem.dtype
        self.parallel = problem.parallel
        self.proven = problem.proven
        self.accurate = problem.accurate
        self.eigenbasis_size = problem.eigenbasis_size
        self.curved = problem.curved
        self.likelihood = problem.likelihood
        self.intercepts = problem.intercepts
        self.convex = problem.convex
        self.x0 = problem.x0
        self.at_hand = team.size == 1
        self.reaches_all = not isinstance(problem, Lazy)
        self.links = Links(problem.clients)
        self.fingerprint: Vector = np.empty(0)

    def behind(self, links: Links) -> None:
        """Put links between the server and the clients."""
        self.links = links
        self.steady = links.steady

    @property
    def own(self) -> slice:
        return slice(self.first, self.first + self.problem.clients)

    @contextmanager
    def working(self, threads: int | None) -> Iterator[None]:
        self.team.agree(self.problem.check_data)
        with Threads(threads) as self.threads:
            yield

    def open(self, terms: Terms) -> None:
        self.problem.begin(terms.seed, self.first)

    # --- what is known of their functions ---------------------------------------------------

    def check(self, x0: Floats, exact: bool) -> None:
        self.team.agree(lambda: self.problem.check(x0, exact))

    def smoothness(self, weights: Any = None) -> Constants:
        return self.problem._constants("L", weights)

    def strong_convexity(self, weights: Any = None) -> Constants:
        return self.problem._constants("mu", weights)

    def valley(self, weights: Any = None) -> tuple[Constants, Constants]:
        return self.problem.valley(weights)

    def secants(self, weights: Any = None) -> tuple[Constants, Constants] | None:
        return self.problem.secants(weights)

    def negative_curvature(self) -> tuple[int, float] | None:
        return self.problem.negative_curvature()

    def least_curvature(self) -> Vector | None:
        return self.problem.least_curvature()

    def describe(self) -> dict[str, Any]:
        speaks = type(self.problem).__repr__ is not object.__repr__  # else it has an address in it
        return {
            "kind": type(self.problem).__name__,
            "clients": self.clients,
            "dimension": self.dimension,
            "dtype": str(self.dtype),
            "description": repr(self.problem) if speaks and self.team.size == 1 else "",
        }

    def recognise(self, x0: Vector, then: Table | None) -> None:
        self.team.agree(lambda: self._recognise(points_to_try(x0, self.dtype), then))

    def _recognise(self, points: list[Floats], then: Table | None) -> None:
        """The same, of the clients that are here; they count from 0."""
        table = then or Table(np.arange(0), [np.empty(0)])
        numbers = table.clients - self.first
        values = table.columns[0]
        if isinstance(self.problem, Lazy):
            known = dict(zip(numbers.tolist(), values.tolist(), strict=True))
            self.problem.recognise(points, known)
            return
        now = fingerprints(self.problem, points, self.threads)
        check_same(now[numbers], values, self.dtype, lambda k: f"client {numbers[k]}")
        self.fingerprint = now

    # --- a run ------------------------------------------------------------------------------

    def weigh(self, weights: Vector) -> None:
        self.weights = weights[self.own]
        self.weight = float(weights.sum())
        source = self.problem._source_of_values(self.threads)
        self.sum = SumOfBlocks(self.problem, source, self.weights, self.threads)

    def change_variables(self, variables: Variables) -> None:
        self.moved = self.team.agree(lambda: self.problem.in_variables(variables))

    def moved_smoothness(self, weights: Any = None) -> tuple[Constants, Constants]:
        if self.moved is self.problem:
            return super().moved_smoothness(weights)
        return self.moved._constants("L", weights), self.moved._constants("mu", weights)

    def prepare(self, method: Method, x0: Vector, weights: Vector, rounds: int) -> None:
        problem = self.moved
        self.weights = weights[self.own]
        self.weight = float(weights.sum())
        source = self.team.agree(
            lambda: problem.prepare(rounds, method.steps, method.exact, self.threads)
        )
        if problem is self.problem:
            self.sum = SumOfBlocks(problem, problem.evaluator(source), self.weights, self.threads)
        self.broadcasts = Broadcasts(method, x0, self.dtype, problem.clients, rounds)
        self.here = Workplace(
            problem,
            source,
            self.weights,
            self.threads,
            self.links,
            self.broadcasts,
            self.own,
            self.rounds_uploads,
        )
        self.here.begin(method, x0.astype(self.dtype))

    def total(self, minimum: bool) -> Total | None:
        if not minimum and self.reaches_all:
            return None
        if self.team.size == 1:  # a problem of the user's own need not know of teams
            return self.problem.total(self.weights, self.threads)
        return self.problem.total(self.weights, self.threads, self.team)

    def round(self, question: Question) -> Outcome:
        r = question.round
        plan = self.links.plan(r)
        message = self.broadcasts.send(question.message, r, plan.bits)

        def work() -> Sums:
            sent = self.here.sent(question.method, message, plan, r)
            parts = self.here.round(question.method, message, plan, r)
            value = self._evaluated(question.evaluate)
            seen = steepest(self.problem.secants()) if question.watch else 0.0
            return add(parts, sent, value, seen)

        sums = self._of_all(work, question)
        # Where all uploads arrive, no rounding gets into their weight.
        weight = self.weight if plan.contact is None else sums.weight
        return sums.outcome(weight, self.weight)

    def _of_all(self, work: Callable[[], Sums], question: Question) -> Sums:
        """What all clients did, from the work of those that are here."""
        return work()

    def after(self, r: int, outcome: Outcome, norm: float) -> None:
        if outcome.disagreement:
            share = outcome.arrived / self.clients
            precision = float(np.finfo(self.dtype).eps)
            self.links.watch(r, outcome.disagreement, norm, share, precision)

    def telemetry(self) -> dict[str, float]:
        return {} if self.links.bits is None else {"bits": self.links.bits}

    @property
    def remarks(self) -> tuple[str, ...]:
        return (*self.links.remarks, *self.problem.remarks)

    def measures(self, x: Floats) -> dict[str, float]:
        found: dict[str, float] = {}
        if self.problem.evaluates:
            found = dict(self.team.first(lambda: self.problem.measures(x)))
        if self.problem.gradient_norm:
            found["gradient_norm"] = float(np.linalg.norm(self.gradient(x)))
        return found

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

    def certain_gradient(self, x: Floats) -> CertainGradient:
        added = self.team.total(lambda: self.sum.certain_gradient(x).packed())
        return CertainGradient.sum([CertainGradient.unpacked(added)], self.team.size)

    def curvature(self, x: Floats | None, T: Vector | None) -> CurvatureSum:
        return CurvatureSum.unpacked(self.team.total(lambda: self.sum.curvature(x, T).packed()))

    def diagonal(self, x: Floats) -> Vector:
        return np.asarray(self.team.total(lambda: self.sum.diagonal(x)))

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {"links": self.links.state(), "broadcasts": self.broadcasts.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.links.load(state["links"])
        self.broadcasts.load(state["broadcasts"])

    def tables(self) -> Tables:
        learnt = self.problem.run_state()
        numbers = np.arange(self.own.start, self.own.stop) if learnt else np.arange(0)
        return {
            **self.here.tables(),
            "heard": self.broadcasts.table(self.first),
            "learnt": Table(numbers, learnt),
            "fingerprint": self._fingerprint_table(),
        }

    def _fingerprint_table(self) -> Table:
        if isinstance(self.problem, Lazy):
            numbers, values = self.problem.recognised
            return Table(self.first + numbers, [values])
        return Table(self.first + np.arange(len(self.fingerprint)), [self.fingerprint])

    def load_tables(self, tables: Tables) -> None:
        learnt = tables["learnt"].columns
        if learnt:
            self.problem.load_run_state(learnt)
        self.here.load(tables)
        self.broadcasts.load_table(tables["heard"])
