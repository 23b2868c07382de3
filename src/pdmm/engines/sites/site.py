"""What a site of a federation does: it answers questions about its own clients, and keeps its data.

A round's question carries all that the answer depends on, or the name of what the site should
remember of the round before. So a site that was frozen, or that lost its memory, needs no
more than to be asked again.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.packing import unpack
from pdmm.common.threads import Threads
from pdmm.common.variables import Mixed, Scaled, Variables
from pdmm.engines.client_round import Done, Shapes, client_round
from pdmm.engines.sites.consent import Consent
from pdmm.engines.sites.follower import Follower
from pdmm.engines.sites.roster import SiteError
from pdmm.methods.base import Method
from pdmm.privacy.audit import Audit
from pdmm.privacy.doors import Doors, Question, Study, digest_of, numbers_in
from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Refused
from pdmm.privacy.watch import WatchedSource
from pdmm.problems.base import Problem
from pdmm.problems.block import Source, Tally
from pdmm.problems.fingerprints import fingerprints, points_to_try
from pdmm.problems.lazy import Lazy
from pdmm.problems.sums import SumOfBlocks

if TYPE_CHECKING:
    from pdmm.privacy.identity import Identity

Payload = dict[str, Any]


class Kept(NamedTuple):
    """What a site's clients remember, under the name that the server gave it."""

    name: str = ""
    memory: Any = None
    cursor: int = 0
    """Where their mini-batches go on: the site's own count of steps."""


class Answered(NamedTuple):
    """The last round's question, its answer, and what the clients would remember after it."""

    asked: Any = None
    answer: Payload | None = None
    after: Any = None


class Prepared(NamedTuple):
    """What a run was prepared for, and what it works on."""

    plan: Any
    method: Method
    source: Source
    shapes: Shapes
    follower: Follower | None = None
    """Who computes x here, where the sites do."""


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
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of a run."""
        self.variables: Variables | None = None
        self.moved: Problem | None = None  # the functions that rounds are about, if not of x
        self.prepared: Prepared | None = None
        self.memory = Kept()
        self.draft = Kept()  # what the memory becomes if the server took the upload
        self.last = Answered()

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

    def answer(self, verb: str, payload: Payload) -> Payload:
        """The answer to one question, or the error that ends the run."""
        try:
            return self._answer(verb, payload)
        except Refused as error:
            refused = type(error)
        raise refused()  # a new one, on which nothing hangs that tells the reason

    def _answer(self, verb: str, payload: Payload) -> Payload:
        verbs: dict[str, Callable[[Payload, Question], Payload]] = {
            "check": self._check,
            "constants": self._constants,
            "prepare": self._prepare,
            "round": self._round,
            "value": self._value,
            "fingerprint": self._fingerprint,
            "gradient": self._gradient,
            "curvature": self._curvature,
            "diagonal": self._diagonal,
        }
        before: dict[str, Callable[[Payload], Payload]] = {
            "hello": self._hello,
            "join": self.consent.join,
            "open": self._open,
        }
        if verb not in verbs and verb not in before:
            raise SiteError(f"this site's pdmm knows no {verb!r}: is the server's newer?")
        with Threads(None if self.problem.parallel else 1) as self.threads:
            if verb in before:
                return before[verb](payload)
            if self.doors.study is None and "opening" not in payload:
                return {"lacks": "study"}
            if self.doors.study is None:
                self._open(payload["opening"])
            with self.doors.question(verb, payload) as question:
                question.reply = verbs[verb](payload, question)
            return question.reply

    # --- what the server learns of the problem ------------------------------------------------

    def _hello(self, payload: Payload) -> Payload:
        problem = self.problem
        return {
            "clients": problem.clients,
            "dimension": problem.dimension,
            "dtype": str(problem.dtype),
            "proven": problem.proven,
            "reveals": self._reveals(),
            "likelihood": problem.likelihood,
            "intercepts": problem.intercepts,
            "identified": self.consent.identity is not None,
            "per_site": self.policy.per_site_results,
            "alike": {name: _digest(value) for name, value in problem.alike.items()},
        }

    def _reveals(self) -> str:
        """How much of their Hessians the site lets its clients tell."""
        if not self.problem.curved:
            return "none"
        return "full" if self.doors.hessians else "diagonal"

    def _open(self, payload: Payload) -> Payload:
        """Agree to a run, of which all that the policy asks about is known by then."""
        self._forget()
        return self.consent.open(self.problem, payload)

    @property
    def study(self) -> Study:
        """The run that the site has agreed to."""
        assert self.doors.study is not None
        return self.doors.study

    def _check(self, payload: Payload, question: Question) -> Payload:
        self.problem.check_data()
        self.problem.check(self.study.x0, payload["exact"])
        return {}

    def _constants(self, payload: Payload, question: Question) -> Payload:
        problem = self.problem
        if payload.get("variables") is not None:
            problem = self._moved(self._read_variables(payload["variables"]))
        question.digest = digest_of("constants", payload)
        values, kind, _ = problem.constants_of_clients(payload["which"], self.threads)
        return {"values": values, "kind": kind}

    # --- a round ------------------------------------------------------------------------------

    def _prepare(self, payload: Payload, question: Question) -> Payload:
        self.consent.confirm(payload.get("agreed"))
        ready = self._ready(payload)
        if self.study.verified:
            follower = self.consent.follower(payload, ready.method, self.problem.dtype)
            self.prepared = ready._replace(follower=follower)
        return {}

    def _read_variables(self, variables: Payload) -> Variables:
        kinds = {"Mixed": Mixed, "Scaled": Scaled}
        if variables["kind"] not in kinds:
            raise SiteError(f"this site's pdmm knows no {variables['kind']!r} variables")
        parts = {name: part for name, part in variables.items() if name != "kind"}
        found: Variables = kinds[variables["kind"]](**parts)
        self.doors.check_variables(found)
        return found

    def _moved(self, variables: Variables) -> Problem:
        """The site's functions of other variables."""
        return self.problem.in_variables(variables)

    def _ready(self, payload: Payload) -> Prepared:
        """The run that the question is about, prepared if it is not yet."""
        plan = payload["method"], payload["rounds"]
        if payload["variables"] is not None:
            self.variables = self._read_variables(payload["variables"])
            self.moved = self._moved(self.variables)
            self.prepared = None
        if self.prepared is None or self.prepared.plan != plan:
            method = unpack(payload["method"], {})
            if not isinstance(method, Method):
                raise SiteError(f"the server's method is none of pdmm's: {payload['method']!r}")
            self.doors.check_method(method, self.prepared is not None)
            problem = self.moved or self.problem
            source = problem.prepare(payload["rounds"], method.steps, method.exact, self.threads)
            shapes = Shapes.of(method, np.zeros(problem.dimension), problem.dtype)
            self.prepared = Prepared(plan, method, self._watched(source), shapes)
        return self.prepared

    def _watched(self, source: Source) -> Source:
        """The functions, of which every point is seen that an answer is about."""
        if not self.doors.watches:
            return source
        return WatchedSource(source, self.doors.watch, self.problem.clients)

    def _round(self, payload: Payload, question: Question) -> Payload:
        r = question.round = int(payload["round"])
        self.doors.begin_round(r)
        ready = self._follow(payload) or self._ready(payload)
        self._remember(ready, payload, r)
        if payload["have"] != self.memory.name:
            return {"lacks": "memory"}
        message = self._message(ready, payload, r)
        wanted = self._wanted(ready, message, payload["evaluate"])
        asked = digest_of(
            *("round", payload["method"], list(message), list(self.memory.memory)),
            *(self.memory.cursor, wanted, self.study.weights, self.study.variables),
        )
        self.doors.take_round(r, asked)
        if self.last.asked != (asked, r):  # the same question again has the same answer
            self.last = self._work(ready, message, wanted, (asked, r))
        question.digest = asked
        after = self.memory.cursor + ready.method.steps
        self.draft = Kept(payload["next"], self.last.after, after)
        answer = {**(self.last.answer or {}), "next": payload["next"]}
        question.numbers = self._told(ready.method, message, answer)
        if ready.follower is not None:
            answer["signature"] = ready.follower.sign(r, answer["upload"])
            answer["draft"] = None  # the server keeps no memory that it could give back
        return answer

    def _told(self, method: Method, message: Any, answer: Payload) -> int:
        """Numbers of a round's answer, without those that follow from the others."""
        clients, d = self.problem.clients, self.problem.dimension
        if method.curvature == "full":
            return numbers_in([answer["upload"], answer["value"]])
        values = clients + numbers_in(answer["value"])
        return clients * d * method.told(message) + values + numbers_in(answer["shown"])

    def _remember(self, ready: Prepared, payload: Payload, r: int) -> None:
        """What the clients remember, by the name that the server has for it."""
        name = payload["have"]
        if name == self.memory.name:
            return
        if name == self.draft.name and self.draft.memory is not None:
            self.memory = self.draft
        elif payload["memory"] is not None:
            cursor = (r - 1) * ready.method.steps  # as if it had answered in every round
            self.memory = Kept(name, self._given(ready, payload["memory"], r), cursor)

    def _given(self, ready: Prepared, memory: Any, r: int) -> Any:
        """The memory that the server sends; before the first round it is that of the start."""
        began = self.memory.memory is not None
        if r == 1 or (ready.follower is not None and not began):
            x0 = self.study.x0.astype(self.problem.dtype)
            start = x0 if self.variables is None else 0 * x0
            return ready.method.client_start(np.repeat(start[None], self.problem.clients, axis=0))
        if ready.follower is not None:
            raise SiteError(
                "the site has lost its memory, and takes none from a server where the sites "
                "compute x: begin the run again"
            )
        return trees.build(ready.shapes.memory, _all_numbers(memory))

    def _message(self, ready: Prepared, payload: Payload, r: int) -> Any:
        if ready.follower is not None:
            if r == 1:  # a regulariser can put the start anywhere
                self.doors.check_start(ready.follower.message.x, None)
            return ready.follower.message
        message = trees.build(ready.shapes.message, _all_numbers(payload["message"]))
        message = message._replace(x=self._point(message.x))
        if r == 1:
            self.doors.check_start(message.x, self.variables)
        return message

    def _wanted(self, ready: Prepared, message: Any, evaluate: Any) -> Any:
        """Where F is wanted: None for nowhere."""
        if evaluate is False:
            return None
        if evaluate is True or ready.follower is not None:
            return message.x
        return self._point(evaluate)

    def _point(self, x: Any) -> npt.NDArray[Any]:
        """A point of the server's, in the dtype that the watch was tried with."""
        point = _numbers(x).astype(self.problem.dtype)
        if point.shape != (self.problem.dimension,):
            raise SiteError(f"x must be {self.problem.dimension} numbers, got {point.shape}")
        return point

    # --- sites that compute x -------------------------------------------------------------

    def _follow(self, payload: Payload) -> Prepared | None:
        """Take over what all sites sent, where the sites compute x."""
        ready = self.prepared
        if ready is None or ready.follower is None:
            return None
        ready.follower.follow(payload["news"])
        return ready

    def _at(self, payload: Payload) -> npt.NDArray[Any]:
        """The x that a question is about: the one that follows, where the sites compute it."""
        ready = self._follow(payload)
        if ready is None or ready.follower is None:
            return self._point(payload["x"])
        return ready.follower.solution.astype(self.problem.dtype)

    def _work(self, ready: Prepared, message: Any, wanted: Any, asked: Any) -> Answered:
        method = ready.method
        cursor = np.full(self.problem.clients, self.memory.cursor)
        held = self.memory.memory

        def work(block: slice) -> Done:
            f = ready.source.at(block, cursor[block])
            return client_round(method, f, message, trees.rows(held, block), method.steps)

        done = list(self.threads.map(work, self.problem.blocks()))
        tally = Tally()
        for part in done:
            tally.add(part.tally)
        value = None if wanted is None else self._sum().value(wanted)
        shown = self.problem.shown
        answer = {
            "upload": list(trees.joined([part.upload for part in done])),
            "draft": _joined_drafts([part.draft for part in done]),
            "tally": vars(tally),
            "value": value,
            "shown": None if shown is None else shown.arrays,
        }
        return Answered(asked, answer, trees.joined([part.after for part in done]))

    # --- values and gradients: weighted sums over its clients, no more -------------------------

    def _sum(self) -> SumOfBlocks:
        """F of this site's clients, with the weights that were agreed upon."""
        problem = self.problem
        if self.prepared is None or self.moved is not None:
            source = self._watched(problem.prepare(1, 1, False, self.threads))
        else:
            source = self.prepared.source
        return SumOfBlocks(problem, self._evaluator(source), self.study.weights, self.threads)

    def _evaluator(self, source: Source) -> Source:
        """What values are taken from, watched too."""
        if not isinstance(source, WatchedSource):
            return self.problem.evaluator(source)
        return self._watched(self.problem.evaluator(source.source))

    def _value(self, payload: Payload, question: Question) -> Payload:
        x = self._at(payload)
        question.digest = digest_of("value", x, self.study.weights)
        return {"value": self._sum().value(x)}

    def _fingerprint(self, payload: Payload, question: Question) -> Payload:
        # The points are the site's own: F at a point of the server's would be one more answer.
        points = points_to_try(self.study.x0, self.problem.dtype)
        found = fingerprints(self.problem, points, self.threads)
        weights = np.random.default_rng(0).uniform(1, 2, self.problem.clients)
        question.digest = "fingerprint"
        return {"value": float(weights @ found)}

    def _gradient(self, payload: Payload, question: Question) -> Payload:
        x = self._at(payload)
        question.digest = digest_of("gradient", x, self.study.weights)
        return self._sum().certain_gradient(x)._asdict()

    def _curvature(self, payload: Payload, question: Question) -> Payload:
        self.doors.check_hessians()
        x, T = payload["x"], payload["T"]
        question.digest = digest_of("curvature", x, T, self.study.weights)
        return {"sums": self._sum().curvature(x, T).packed()}

    def _diagonal(self, payload: Payload, question: Question) -> Payload:
        x = self._point(payload["x"])
        self.doors.check_point(x)
        question.digest = digest_of("diagonal", x, self.study.weights)
        return {"sums": self._sum().diagonal(x)}


def _numbers(value: Any) -> npt.NDArray[Any]:
    """An array of the server's: of numbers, whose digest tells it from others."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise SiteError(f"a message must have arrays of numbers, got {array.dtype}")
    return array


def _all_numbers(values: Any) -> list[npt.NDArray[Any]]:
    return [_numbers(value) for value in values]


def _digest(value: Any) -> str | None:
    """What tells equal values from others, and nothing else of them."""
    return None if value is None else hashlib.sha256(repr(value).encode()).hexdigest()


def _joined_drafts(parts: Any) -> list[Any]:
    """Arrays with one row per client, one below the other; numbers are the same in all parts."""
    return [
        np.concatenate(field) if isinstance(field[0], np.ndarray) else field[0]
        for field in zip(*parts, strict=True)
    ]
