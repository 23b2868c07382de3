"""What a site of a federation does: it answers questions about its own clients, and keeps its data.

A round's question carries all that the answer depends on, or the name of what the site should
remember of the round before. So a site that was frozen, or that lost its memory, needs no
more than to be asked again.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdmm.common.threads import Threads
from pdmm.engines.sites.consent import Consent
from pdmm.engines.sites.own_start import own_start, start_digest
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.site_run import SiteRun
from pdmm.privacy.audit import Audit
from pdmm.privacy.doors import Doors
from pdmm.privacy.policy import Policy
from pdmm.privacy.questions import Question, digest_of
from pdmm.privacy.refusals import Refused
from pdmm.problems.base import Problem
from pdmm.problems.fingerprints import fingerprints, points_to_try
from pdmm.problems.lazy import Lazy

if TYPE_CHECKING:
    from pdmm.privacy.identity import Identity

Payload = dict[str, Any]

IN_THE_CLEAR = ("check", "constants", "prepare")
"""Questions of a run whose answers are no parts of sums."""


class Site:
    """A site's own clients, what it remembers of a run, and what it lets out.

    Args:
        make_problem: returns the site's problem, from its own data.
        policy: what the site allows: a :class:`pdmm.engines.Policy`, a TOML file, or a dict of its
            keys. None is the default policy. What it does not allow raises
            :class:`pdmm.engines.Refused`, whose reason is in the audit alone.
        folder: where the audit is kept, by which the site counts what has left; None keeps it in
            memory, in ``site.audit``.
        table: the name under which it is counted: that of the site's table.
        identity: who the site is, to the other sites of a run; None in a simulation, where names
            are taken for granted.
        by: who submitted the run, for the audit.
    """

    def __init__(
        self,
        make_problem: Callable[[], Any],
        policy: Any = None,
        *,
        folder: str | Path | None = None,
        table: str = "",
        identity: "Identity | None" = None,
        by: str = "",
    ) -> None:
        self.make_problem = make_problem
        self.policy = Policy.given(policy)
        self.audit = Audit(None if folder is None else Path(folder), table)
        self.doors = Doors(self.policy, self.audit)
        self.consent = Consent(self.doors, identity, by)
        self._problem: Problem | None = None
        self._run: SiteRun | None = None

    @property
    def problem(self) -> Problem:
        """Made when it is first asked for."""
        if self._problem is None:
            made = self.make_problem()
            if not isinstance(made, Problem):
                raise SiteError(  # what it is may be the site's data: only its type is told
                    "the site's function must return a pdmm problem, such as LeastSquares, got a "
                    f"{type(made).__name__}"
                )
            if isinstance(made, Lazy):
                raise SiteError(
                    "the site's problem must know all of its clients, which a "
                    f"{type(made).__name__} does not"
                )
            self._problem = made
        return self._problem

    def take_problem(self, problem: Problem) -> None:
        """Answer about this problem from here on, in place of one that was made before."""
        self._problem = problem
        self._run = None

    def answer(self, verb: str, payload: Payload) -> Payload:
        """The answer to one question, or the error that ends the run."""
        try:
            return self._answer(verb, payload)
        except Refused as error:
            refused = type(error)
        raise refused()  # a new one, on which nothing hangs that tells the reason

    def _answer(self, verb: str, payload: Payload) -> Payload:
        if verb == "check":  # changed data are the site's own affair, whoever asks
            self.problem.check_data()
        verbs: dict[str, Callable[[Payload, Question], Payload]] = {
            "check": self._check,
            "constants": lambda *asked: self.run.constants(*asked),
            "prepare": lambda *asked: self.run.prepare(*asked),
            "round": lambda *asked: self.run.round(*asked),
            "value": self._value,
            "fingerprint": self._fingerprint,
            "gradient": self._gradient,
            "curvature": self._curvature,
            "diagonal": self._diagonal,
        }
        before: dict[str, Callable[[Payload], Payload]] = {
            "hello": self._hello,
            "start": self._start,
            "join": self.consent.join,
            "open": self._open,
            "confirm": self.consent.confirm,
        }
        if verb not in verbs and verb not in before:
            raise SiteError(f"this site's pdmm knows no {verb!r}: is the server's newer?")
        with Threads(None if self.problem.parallel else 1) as self.run.threads:
            if verb in before:
                return before[verb](payload)
            if self.doors.study is None and "opening" not in payload:
                return {"lacks": "study"}
            if self.doors.study is None:
                self._open(payload["opening"])
            with self.doors.question(verb) as question:
                self.doors.check_begun()
                question.reply = self._hidden(verb, payload, question, verbs[verb])
            return question.reply

    def _hidden(
        self,
        verb: str,
        payload: Payload,
        question: Question,
        answer: Callable[[Payload, Question], Payload],
    ) -> Payload:
        """The answer to a question; in a run with secure sums, under its mask."""
        if verb in IN_THE_CLEAR:
            return answer(payload, question)
        base = self.run.follow(payload)
        seal = self.consent.seal(verb, payload, base, self.run.variables_digest)
        question.seal = seal
        reply = answer(payload, question)
        if seal is None or seal.used or "lacks" in reply:
            return reply
        seal.digest = question.digest
        masked, question.numbers = seal.of_arrays(reply)
        return masked

    # --- what the server learns of the problem ------------------------------------------------

    def _hello(self, payload: Payload) -> Payload:
        problem = self.problem
        return {
            "clients": problem.clients,
            "dimension": problem.dimension,
            "dtype": str(problem.dtype),
            "proven": problem.proven,
            "reveals": self._reveals(self.policy.hessians == "allowed"),
            "reveals_in_sums": self._reveals(self.policy.hessians != "never"),
            "organisation": self.consent.organisation,
            "likelihood": problem.likelihood,
            "intercepts": problem.intercepts,
            "identified": self.consent.identity is not None,
            "per_site": self.policy.per_site_results,
            "convex": problem.convex,
            "start": start_digest(problem),
            "parameters": problem.parameters,
            "alike": {name: _digest(value) for name, value in problem.alike.items()},
        }

    def _start(self, payload: Payload) -> Payload:
        """Where the site's model starts, which is to be no number of its rows."""
        start = own_start(self.problem)
        if start is None:
            raise SiteError("this site's problem has no start of its own")
        with self.doors.telling("start"):
            return {"x0": start}

    def _reveals(self, hessians: bool) -> str:
        """How much of their Hessians the site lets its clients tell."""
        if not self.problem.curved:
            return "none"
        return "full" if hessians else "diagonal"

    def _open(self, payload: Payload) -> Payload:
        """Agree to a run, of which all that the policy asks about is known by then."""
        threads = self.run.threads
        self._run = SiteRun(self.problem, self.doors, self.consent)
        self._run.threads = threads
        agreed = self.consent.open(self.problem, payload)
        self.problem.begin(self._run.study.seed, self._run.study.first)
        return agreed

    @property
    def run(self) -> SiteRun:
        """What the site knows of the run; of none, before the first one is opened."""
        if self._run is None:
            self._run = SiteRun(self.problem, self.doors, self.consent)
        return self._run

    def _check(self, payload: Payload, question: Question) -> Payload:
        self.problem.check(self.run.study.x0, payload["exact"])
        return {}

    # --- values and gradients: weighted sums over its clients, no more -------------------------

    def _value(self, payload: Payload, question: Question) -> Payload:
        x = self.run.at(payload)
        question.digest = digest_of("value", x, self.run.study.weights)
        return {"value": self.run.sums().value(x)}

    def _fingerprint(self, payload: Payload, question: Question) -> Payload:
        # The points are the site's own: F at a point of the server's would be one more answer.
        points = points_to_try(self.run.study.x0, self.problem.dtype)
        found = fingerprints(self.problem, points, self.run.threads)
        weights = np.random.default_rng(0).uniform(1, 2, self.problem.clients)
        question.digest = digest_of("fingerprint", self.run.study.x0)
        return {"value": float(weights @ found)}

    def _gradient(self, payload: Payload, question: Question) -> Payload:
        x = self.run.at(payload)
        question.digest = digest_of("gradient", x, self.run.study.weights)
        return self.run.sums().certain_gradient(x)._asdict()

    def _curvature(self, payload: Payload, question: Question) -> Payload:
        self.doors.check_hessians()
        self.doors.check_server_asks()
        x, T = payload["x"], payload["T"]
        if x is not None:
            x = self.run.point(x)
        question.digest = digest_of("curvature", x, T, self.run.study.weights)
        found = self.run.sums().curvature(x, T)
        return {"sums": found.packed() if question.seal is None else found._asdict()}

    def _diagonal(self, payload: Payload, question: Question) -> Payload:
        self.doors.check_server_asks()
        x = self.run.point(payload["x"])
        self.doors.check_point(x)
        question.digest = digest_of("diagonal", x, self.run.study.weights)
        return {"sums": self.run.sums().diagonal(x)}


def _digest(value: Any) -> str | None:
    """What tells equal values from others, and nothing else of them."""
    return None if value is None else hashlib.sha256(repr(value).encode()).hexdigest()
