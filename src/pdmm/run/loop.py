"""A run: a problem, a method and links, round by round; it can be laid down and taken up again."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.checks import ClientError
from pdmm.common.threads import Threads
from pdmm.engines.base import Engine
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.local import Local
from pdmm.engines.outcome import Outcome, Sent
from pdmm.engines.partial import Partial
from pdmm.links.links import Links
from pdmm.links.local_steps import LocalSteps
from pdmm.links.stall import Stall
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem, Tally
from pdmm.regularisers import Regulariser
from pdmm.result import Result, Traffic
from pdmm.run.arguments import known_optimum
from pdmm.run.certificate import Certificate, Certifier, proven_convexity
from pdmm.run.choice import choose
from pdmm.run.reasons import advice, certified, grows, warn, what_is_known, why_diverged
from pdmm.run.record import Objective, Recorder

TOO_LARGE = 1e30  # a norm that only a diverging run reaches, and that float32 still holds
AUTO_TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


@dataclass(frozen=True)
class Settings:
    """What :func:`pdmm.solve` was asked for, checked."""

    method: Method | None
    rounds: int
    x0: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    regulariser: Regulariser | None
    tolerance: float | None
    check_every: int
    optimum: Any
    seed: int
    record_every: int
    participation: Any
    availability: Any
    loss: Any
    bits: int | None
    local_steps: Any
    state: str


class Run:
    """A run that goes one round at a time.

    Args:
        problem: the clients' functions.
        settings: all else.
        pool: entered; its threads work on blocks of clients, and its team shares the run.
    """

    def __init__(self, problem: Problem, settings: Settings, pool: Threads) -> None:
        begun = perf_counter()
        s = settings
        self.problem, self.settings, self.weight = problem, s, float(s.weights.sum())
        self.team = pool.team
        if s.method is not None:
            problem.check(s.x0, s.method.exact)
        self.links = Links(problem.clients, s.participation, s.availability, s.loss, s.seed)
        steps = s.local_steps
        self.steps = None if steps is None else LocalSteps(steps, problem.clients)
        perfect = self.links.perfect and s.bits is None and steps is None and problem.always_there
        self.choice = choose(problem, s.method, s.weights, adaptive=perfect)
        if steps is not None:
            self.choice = self.choice.then(self.choice.method.for_own_steps())
        if s.bits is not None:
            self.choice = self.choice.then(self.choice.method.for_rounding())
        method = self.method = self.choice.method
        if s.method is None:
            problem.check(s.x0, method.exact)
        at_server = s.state == "server"
        plain = self.links.perfect and s.bits is None and steps is None and not at_server
        if problem.make_engine is not None and not plain:
            raise ValueError(
                "participation, availability, loss, bits, local_steps and state are for clients in "
                "this process: those of a federation take part, and answer, as they can"
            )
        arguments = (problem, method, s.x0, s.weights, s.rounds, pool)
        self.engine: Engine | Partial
        if problem.make_engine is not None:
            self.engine = problem.make_engine(*arguments)
        elif perfect and not at_server:
            self.engine = Local(*arguments)
        else:
            self.engine = Partial(*arguments, s.bits, at_server)
        self.stall = None if s.bits is None else Stall(s.bits)
        self.raised: list[str] = []
        blocks = problem.summed(self.engine.source, s.weights, pool)
        without = s.optimum is False and problem.knows_all
        total = None if without else problem.total(s.weights, pool)
        known = known_optimum(s.optimum, problem.dimension)
        self.objective = Objective(total or blocks, s.regulariser, known)
        self.server = method.server_start(s.x0, self._prox)
        self.message = method.broadcast(self.server)
        self.x: Floats = self.message.x.astype(problem.dtype)
        self.traffic = _traffic(method, problem)
        self.certify = Certifier(
            total,
            blocks,
            s.regulariser,
            lambda: proven_convexity(problem, s.weights, total),
            precision=float(np.finfo(problem.dtype).eps),
            bytes_up=problem.clients * self.traffic.bytes_per_vector,
        )
        self.recorder = Recorder(self.objective, self.traffic, problem.clients, method.exact)
        self.setup_seconds = perf_counter() - begun
        self.tolerance, self.target = s.tolerance, -1.0
        self.certificate: Certificate | None = None
        self.reason, self.diverged, self.done, self.worst = "", False, 0, 0.0
        self.residuals: dict[str, float | None] = {}  # of the last round, for certificates
        self.proven = self.finished = self.stopped = False

    def _prox(self, v: Floats, t: float) -> Floats:
        h = self.settings.regulariser
        return v if h is None else h.prox(v, t / self.weight)

    # --- rounds ---------------------------------------------------------------------------

    def begin(self) -> None:
        """The history's row 0, and the first certificate if there is a tolerance."""
        self.recorder.start = perf_counter()
        certificate = None
        if self.tolerance is None and self.settings.method is None:
            certificate = self.certify(self.x, 0)
            root = 0.5 if certificate.gap is None else 1.0
            self.tolerance = AUTO_TOLERANCE[self.problem.dtype] ** root
        if self.tolerance is not None:
            certificate = certificate or self.certify(self.x, 0)
            self.recorder.checked()
            self.target = self.tolerance * certificate.size
        self._record()
        if certificate is not None and certificate.size <= certificate.rounding:
            self.reason, self.finished = "the start is optimal, to rounding", True
            self.certificate = certificate

    def step(self, callback: Callable[[int, Floats], bool | None] | None) -> None:
        """One round; ``finished`` says whether it was the last."""
        s, r = self.settings, self.done + 1
        try:
            outcome = self._exchange(r)
            self.recorder.arrived(outcome.owed)
        except Exception as error:
            error.add_note(f"in round {r} of {type(self.method.as_named).__name__}")
            if isinstance(error, ClientError):
                error.history = self.recorder.history()
            raise
        with np.errstate(over="ignore", invalid="ignore"):
            if outcome.arrived:
                self.residuals = self._residuals(outcome)
                self.server = self.method.server(
                    self.server, outcome.mean, outcome.share, self._prox
                )
                self.message = self.method.broadcast(self.server)
            size = float(np.linalg.norm(self.message.x))
        self.recorder.add(outcome.tally, outcome.sent)
        self._watch(outcome, size)
        self.worst = max(self.worst, outcome.tally.missed)
        self.done, self.certificate = r, None
        if outcome.bad_client is not None or not size < TOO_LARGE * self._far:
            self.diverged = self.finished = True
            method, client = self.method.as_named, outcome.bad_client
            self.reason = why_diverged(r, size, client, method, self.problem)
            return
        self.x = self.message.x.astype(self.problem.dtype)
        if self.choice.estimated_step:
            self._take_over(self.method.with_smaller_steps(outcome.steepest))
        stop = callback is not None and self._asked_to_stop(callback, r)
        final = r == s.rounds
        if self.tolerance is not None and (r % s.check_every == 0 or final):
            self.certificate = self._certificate()
            self.recorder.checked()
        certificate = self.certificate
        if certificate is not None and np.isnan(self.target):  # there was none at the start
            self.target = (self.tolerance or 0.0) * certificate.size
        else:
            self.proven = certificate is not None and (
                certificate.size <= max(self.target, certificate.rounding)
            )
        if r % s.record_every == 0 or final or self.proven:
            self._record()
        if self.proven and certificate is not None:
            self.reason = certified(certificate, r, self.tolerance)
        self.finished, self.stopped = final or self.proven, stop

    def close(self) -> None:
        """Where a callback stopped it: the last certificate and row, of the result alone."""
        if self.tolerance is not None and self.certificate is None:
            self.certificate = self._certificate()
            self.recorder.checked()
        if self.recorder.columns["round"][-1] != self.done:
            self._record()

    def _asked_to_stop(self, callback: Callable[[int, Floats], bool | None], r: int) -> bool:
        """Whether the callback stops the run: that of any member of a team."""

        def asked() -> bool:
            answer: Any = callback(r, self.x.copy())
            return np.ndim(answer) == 0 and bool(answer)

        return bool(self.team.total(asked))

    def settle(self) -> None:
        """Complete the history's last row, where it waits for a sum over a team."""
        recorder = self.recorder
        if not recorder.waiting:
            return
        *_, part = self.team.agree(recorder.owed.checked)
        recorder.arrived((self.objective.total.completed(part, self.x),))

    def _exchange(self, r: int) -> Outcome:
        """The messages and the work of a round."""
        owed = self.recorder.owed._replace(watch=self.choice.estimated_step)
        if not isinstance(self.engine, Partial):
            return self.engine.round(self.message, owed)
        contact = self.links.contact(r)
        steps: Any = self.method.steps
        if self.steps is not None:
            steps = self.steps.at(r, contact.listeners)
        return self.engine.contact(self.message, contact, r, steps, owed)

    def _watch(self, outcome: Outcome, size: float) -> None:
        """Take more bits where uploads stop getting smaller."""
        if self.stall is None or not outcome.disagreement or not isinstance(self.engine, Partial):
            return
        share = outcome.arrived / self.problem.clients
        precision = float(np.finfo(self.problem.dtype).eps)
        bits = self.stall.add(outcome.disagreement, size, share, precision)
        if bits is not None:
            old, self.engine.bits = self.engine.bits, bits
            why = "uploads had stopped getting smaller"
            if bits == self.stall.asked:
                why = "more had not helped"
            self.raised.append(f"bits {old} -> {bits} after round {self.done + 1}: {why}")

    def _take_over(self, method: Method) -> None:
        self.method = self.engine.method = method

    @property
    def _far(self) -> float:
        return max(1.0, float(np.linalg.norm(self.settings.x0)))

    def _record(self) -> None:
        more = self.method.telemetry(self.server)
        if isinstance(self.engine, Partial) and self.engine.bits is not None:
            more = {**more, "bits": self.engine.bits}
        self.recorder.record(self.done, self.x, more)

    def _residuals(self, outcome: Outcome) -> dict[str, float | None]:
        """What certificates say of a round, besides its x."""
        apart, duals = outcome.disagreement, self.method.imbalance(self.server, outcome.mean)
        return {
            "consensus": None if apart is None else float(np.sqrt(apart)),
            "dual_sum": None if duals is None else self.weight * float(np.linalg.norm(duals)),
        }

    def _certificate(self) -> Certificate:
        return self.certify(self.x, self.done, **self.residuals)

    def result(self) -> Result:
        """What :func:`pdmm.solve` returns."""
        self.settle()
        s, certificate = self.settings, self.certificate or self._certificate()
        reason = self.reason or f"all {s.rounds} rounds done"
        if self.stopped:
            reason = f"stopped by the callback after round {self.done}"
        missed = self.tolerance is not None and not self.proven and not self.diverged
        if missed and not self.stopped and self.done == s.rounds:
            known = what_is_known(certificate)
            reason += f", tolerance={self.tolerance:g} not reached: {known}"
        history = self.recorder.history()
        if "objective" in history and not self.diverged and grows(history["objective"]):
            reason += ", but the objective grew: " + advice(self.method.as_named, self.problem)
        warn(self.problem, self.method.as_named, self.worst, quiet=self.team.rank > 0)
        method = self.method
        return Result(
            x=self.x,
            history=history,
            reason=reason,
            diverged=self.diverged,
            rounds=self.done,
            method=method.ended(self.server),
            traffic=self.traffic,
            optimum=self.objective.f_star,
            setup_seconds=self.setup_seconds,
            seed=s.seed,
            certificate=certificate,
            scalars=method.scalars,
            choices=(*self.choice.why, *self.raised, *self.engine.remarks),
            smoothness=self.choice.smoothness,
            strong_convexity=self.choice.strong_convexity,
        )

    # --- laying down and taking up --------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that changes in a run, but the history's rows: numbers, arrays, lists and dicts."""
        method, recorder = self.method.as_named, self.recorder
        return {
            "done": self.done,
            "finished": self.finished,
            "diverged": self.diverged,
            "proven": self.proven,
            "reason": self.reason,
            "worst": self.worst,
            "tolerance": self.tolerance,
            "target": self.target,
            "x": self.x,
            "server": trees.flat(self.server),
            "residuals": self.residuals,
            "method": {f.name: getattr(method, f.name) for f in fields(cast(Any, method))},
            "raised": self.raised,
            "stall": None if self.stall is None else vars(self.stall),
            "engine": self.engine.state(),
            "links": self.links.state(),
            "tally": vars(recorder.done),
            "sent": list(recorder.sent),
            "checks": recorder.checks,
            "exact_error": recorder.exact_error,
            "seconds": perf_counter() - recorder.start,
        }

    def load(self, state: dict[str, Any], history: dict[str, list[Any]]) -> None:
        """Go on from a state."""
        for name in ("done", "finished", "diverged", "proven", "reason", "worst", "tolerance"):
            setattr(self, name, state[name])
        self.target, self.x, self.raised = state["target"], state["x"], list(state["raised"])
        self.residuals = state["residuals"]
        self.server = trees.rebuilt(self.server, state["server"])
        self.message = self.method.broadcast(self.server)
        self._settle(state["method"])
        if self.stall is not None:
            vars(self.stall).update(state["stall"])
        self.engine.load(state["engine"])
        self.links.load(state["links"])
        recorder = self.recorder
        recorder.columns = history
        recorder.done, recorder.sent = Tally(**state["tally"]), Sent(*state["sent"])
        recorder.checks, recorder.exact_error = state["checks"], state["exact_error"]
        recorder.start = perf_counter() - state["seconds"]

    def tables(self) -> Tables:
        """What belongs to the clients that are here."""
        learnt, own = self.problem.run_state(), self.problem.own
        clients = np.arange(own.start, own.stop) if learnt else np.arange(0)
        return {**self.engine.tables(), "learnt": Table(clients, learnt)}

    def load_tables(self, tables: Tables) -> None:
        """Take that over."""
        learnt = tables["learnt"].columns
        if learnt:
            self.problem.load_run_state(learnt)
        self.engine.load_tables(tables)

    def _settle(self, values: dict[str, Any]) -> None:
        """Take over the method's parameters as they were by then."""
        named = self.method.as_named
        if all(getattr(named, name) == value for name, value in values.items()):
            return
        self._take_over(self.method.with_parameters(**values))


def _traffic(method: Method, problem: Problem) -> Traffic:
    down, up = method.paper_vectors
    return Traffic(
        down=method.vectors_down,
        up=method.vectors_up,
        paper_down=down,
        paper_up=up,
        bytes_per_vector=problem.dimension * problem.dtype.itemsize,
    )
