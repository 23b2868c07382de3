"""A site's part in one run: its rounds, and what its clients remember between them."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.packing import unpack
from pdmm.common.threads import Threads
from pdmm.common.variables import Mixed, Scaled, Variables
from pdmm.engines.client_round import Done, Made, Shapes, client_work, delivered
from pdmm.engines.secure.layout import round_layout
from pdmm.engines.sites.consent import Consent
from pdmm.engines.sites.follower import Follower
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.seal import START, check_memories, memory_of
from pdmm.engines.sites.sealed_follower import SealedFollower
from pdmm.engines.sites.sealed_round import in_the_clear, sealed_round, two_digits
from pdmm.engines.sites.shares import upload_size
from pdmm.methods.base import Method
from pdmm.privacy.doors import Doors
from pdmm.privacy.questions import Question, Study, digest_of, numbers_in
from pdmm.privacy.refusals import Reason
from pdmm.privacy.watch import WatchedSource
from pdmm.problems.base import Problem
from pdmm.problems.block import Source, Tally
from pdmm.problems.sums import SumOfBlocks

Payload = dict[str, Any]


class Kept(NamedTuple):
    """What a site's clients remember, under the name that the server gave it."""

    name: str = ""
    memory: Any = None
    cursor: int = 0
    """Where their mini-batches go on: the site's own count of steps."""
    round: int = 0
    """After which round."""
    among: tuple[str, ...] = ()
    """The sites of the sum that it follows from, where sums are secure."""


class Answered(NamedTuple):
    """The last round's question, and what the clients made of it."""

    asked: Any = None
    made: Any = None
    value: float | None = None
    """F of the site's clients, where it was wanted."""
    shown: Any = None


class Prepared(NamedTuple):
    """What a run was prepared for, and what it works on."""

    plan: Any
    method: Method
    source: Source
    shapes: Shapes
    follower: Follower | None = None
    """Who computes x here, where the sites do."""


class SiteRun:
    """What a site knows of a run, from its opening on.

    Args:
        problem: of the site.
        doors: its policy at work.
        consent: what it and the other sites have agreed to.
    """

    def __init__(self, problem: Problem, doors: Doors, consent: Consent) -> None:
        self.problem = problem
        self.doors = doors
        self.consent = consent
        self.threads = Threads(1)
        self.variables: Variables | None = None
        self.moved: Problem | None = None  # the functions that rounds are about, if not of x
        self.prepared: Prepared | None = None
        self.begun = ""  # what it was prepared for
        self.memory = Kept()
        self.draft = Kept()  # what the memory becomes if the server took the upload
        self.last = Answered()

    @property
    def study(self) -> Study:
        """The run, as the site has agreed to it."""
        assert self.doors.study is not None
        return self.doors.study

    # --- before the first round -----------------------------------------------------------

    def prepare(self, payload: Payload, question: Question) -> Payload:
        """Get ready for a method; once in a run."""
        asked = digest_of(payload["method"], payload["rounds"], payload["variables"])
        if self.doors.check_unprepared(self.begun, asked):
            return {}
        ready = self._ready(payload)
        if self.study.verified:
            self.doors.check_step(ready.method.as_named, self._steepest())
            follower = self.consent.follower(payload, ready.method, self.problem.dtype)
            self.prepared = ready._replace(follower=follower)
        self.begun = asked
        return {}

    def _steepest(self) -> float:
        """The largest L of the clients; infinite where none is known, as of networks."""
        if not self.problem.convex:
            return float("inf")
        L, _, _ = self.problem.constants_of_clients("L", self.threads)
        return float(np.max(L))

    def constants(self, payload: Payload, question: Question) -> Payload:
        """L and mu of each client."""
        problem = self.problem
        if payload.get("variables") is not None:
            problem = problem.in_variables(self._read_variables(payload["variables"]))
        question.digest = digest_of("constants", payload)
        which = payload["which"]
        values, kind, _ = problem.constants_of_clients(which, self.threads)
        if self.study.secure:
            values = two_digits(values, up="L" in which)
            kind = "bound" if kind == "exact" else kind
        return {"values": values, "kind": kind}

    def _read_variables(self, variables: Payload) -> Variables:
        kinds = {"Mixed": Mixed, "Scaled": Scaled}
        if variables["kind"] not in kinds:
            raise SiteError(f"this site's pdmm knows no {variables['kind']!r} variables")
        parts = {name: part for name, part in variables.items() if name != "kind"}
        found: Variables = kinds[variables["kind"]](**parts)
        self.doors.check_variables(found)
        return found

    def _ready(self, payload: Payload) -> Prepared:
        """The run that the question is about, prepared if it is not yet."""
        plan = payload["method"], payload["rounds"]
        if payload["variables"] is not None:
            self.variables = self._read_variables(payload["variables"])
            self.moved = self.problem.in_variables(self.variables)
            self.prepared = None
        if self.prepared is None or self.prepared.plan != plan:
            method = unpack(payload["method"], {})
            if not isinstance(method, Method):
                raise SiteError(f"the server's method is none of pdmm's: {payload['method']!r}")
            self.doors.check_method(method)
            problem = self.moved or self.problem
            source = problem.prepare(payload["rounds"], method.steps, method.exact, self.threads)
            shapes = Shapes.of(method, np.zeros(problem.dimension), problem.dtype)
            self.prepared = Prepared(plan, method, self.watched(source), shapes)
        return self.prepared

    def watched(self, source: Source) -> Source:
        """The functions, of which every point is seen that an answer is about."""
        if not self.doors.watches:
            return source
        return WatchedSource(source, self.doors.watch, self.problem.clients)

    # --- rounds -----------------------------------------------------------------------------

    def round(self, payload: Payload, question: Question) -> Payload:
        """What the clients do in a round."""
        r = question.round = int(payload["round"])
        self.doors.begin_round(r)
        ready = self._followed(payload) or self._ready(payload)
        have = self._have(payload, question)
        if ready.follower is not None:
            self.doors.check_next(r, ready.follower.round + 1)
            self._remember_own(ready.follower, ready.method, have)
        else:
            self._remember(ready, payload, have, r)
        if have != self.memory.name:
            return {"lacks": "memory"}
        if question.seal is not None and ready.follower is None:
            seal = question.seal
            check_memories(payload["have"], seal.sums.own, seal.mask, self.memory.among)
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
        if question.seal is not None:
            answer, done = self._sealed(ready, question)
            among = question.seal.mask.among
            self.draft = Kept(question.seal.name, done.after, after, r, among)
        else:
            answer, done = self._open_answer(ready.method)
            answer["next"] = payload["next"]
            self.draft = Kept(payload["next"], done.after, after, r)
        question.numbers = self._told(ready.method, message, wanted is not None)
        if ready.follower is not None and question.seal is None:
            answer["signature"] = ready.follower.sign(r, answer["upload"])
            answer["draft"] = None  # the server keeps no memory that it could give back
        return answer

    def _open_answer(self, method: Method) -> tuple[Payload, Done]:
        """What the clients did, as it is."""
        made = self.last.made
        done = delivered(method, made, made.upload)
        answer = {
            "upload": list(made.upload),
            "draft": list(made.draft),
            "tally": vars(made.tally),
            "value": self.last.value,
            "shown": self.last.shown,
        }
        return answer, done

    def _sealed(self, ready: Prepared, question: Question) -> tuple[Payload, Done]:
        """What the clients did, under the mask of the sum over all sites."""
        layout = round_layout(ready.method, self.last.made.upload)
        if isinstance(ready.follower, SealedFollower):
            ready.follower.check_scales(question.seal.mask, layout)
        question.seal.digest = question.digest
        made = self.last.made
        weights = self.study.weights
        clear = in_the_clear(self.last.shown)
        if self.doors.policy.per_site_results:
            clear["size"] = upload_size(made.upload, weights)
        return sealed_round(
            ready.method, made, self.last.value, weights, layout, question.seal, clear
        )

    def _told(self, method: Method, message: Any, evaluated: bool) -> int:
        """Numbers of a round's answer, without those that follow from the others."""
        clients, d = self.problem.clients, self.problem.dimension
        if method.curvature == "full":
            return numbers_in(list(self.last.made.upload)) + int(evaluated)
        # Beside the vectors: values of f_i, F, and how exact an exact step was.
        values = clients + int(evaluated) + int(method.exact)
        return clients * d * method.told(message) + values + numbers_in(self.last.shown)

    def _have(self, payload: Payload, question: Question) -> str:
        """The name of what the clients are to remember."""
        if question.seal is None:
            return str(payload["have"])
        return memory_of(payload, question.seal.sums.own, question.seal.mask)

    def _remember(self, ready: Prepared, payload: Payload, name: str, r: int) -> None:
        """What the clients remember, by the name that the server has for it."""
        if name == self.memory.name:
            return
        if name == self.draft.name and self.draft.memory is not None:
            self.memory = self.draft
        elif self.study.secure:
            if (
                self.memory.memory is None and name == START
            ):  # the site has taken part in no round before
                self.memory = Kept(name, self._start(ready.method))
        elif payload["memory"] is not None:
            cursor = (r - 1) * ready.method.steps  # as if it had answered in every round
            self.memory = Kept(name, self._given(ready, payload["memory"], r), cursor)

    def _remember_own(self, follower: Follower, method: Method, name: str) -> None:
        """The same where the sites compute x: what all were told counts, and no server's word."""
        if self.memory.memory is None:
            self.memory = Kept(name, self._start(method))
        elif self.draft.memory is not None and self.draft.round == follower.taken:
            self.memory = self.draft
        self.memory = self.memory._replace(name=name)

    def _given(self, ready: Prepared, memory: Any, r: int) -> Any:
        """The memory that the server sends; before the first round it is that of the start."""
        if r == 1:
            return self._start(ready.method)
        return trees.build(ready.shapes.memory, _all_numbers(memory))

    def _start(self, method: Method) -> Any:
        x0 = self.study.x0.astype(self.problem.dtype)
        start = x0 if self.variables is None else 0 * x0
        memory = method.client_start(np.repeat(start[None], self.problem.clients, axis=0))
        # What is added up at both ends must be the same at both.
        return trees.cast(memory, np.float64) if self.study.secure else memory

    def _message(self, ready: Prepared, payload: Payload, r: int) -> Any:
        if ready.follower is not None:
            return ready.follower.message
        message = trees.build(ready.shapes.message, _all_numbers(payload["message"]))
        message = message._replace(x=self.point(message.x))
        if r == 1:
            self.doors.check_start(message.x, self.variables)
        return message

    def _wanted(self, ready: Prepared, message: Any, evaluate: Any) -> Any:
        """Where F is wanted: None for nowhere."""
        if evaluate is False:
            return None
        if ready.follower is not None:  # the message may bring a trial, which is no result
            return ready.follower.solution.astype(self.problem.dtype)
        if evaluate is True:
            return message.x
        return self.point(evaluate)

    def point(self, x: Any) -> npt.NDArray[Any]:
        """A point of the server's, in the dtype that the watch was tried with."""
        point = _numbers(x).astype(self.problem.dtype)
        if point.shape != (self.problem.dimension,):
            raise SiteError(f"x must be {self.problem.dimension} numbers, got {point.shape}")
        return point

    # --- the x that a question is about ---------------------------------------------------

    @property
    def variables_digest(self) -> str:
        """Which variables rounds are about; empty where it is x."""
        if self.variables is None:
            return ""
        return digest_of(type(self.variables).__name__, vars(self.variables))

    def follow(self, payload: Payload) -> bytes:
        """Take over what all sites sent; a hash of all of it, where the sites compute x."""
        if "news" not in payload:
            return b""
        ready = self._followed(payload)
        return b"" if ready is None or ready.follower is None else ready.follower.history

    def _followed(self, payload: Payload) -> Prepared | None:
        """Take over what all sites sent, where the sites compute x."""
        if not self.study.verified:
            return None
        ready = self.prepared
        if ready is None or ready.follower is None:
            raise Reason("a point is asked about before the sites can compute it")
        ready.follower.follow(payload["news"])
        return ready

    def at(self, payload: Payload) -> npt.NDArray[Any]:
        """The x that a question is about: the one that follows, where the sites compute it."""
        ready = self._followed(payload)
        if ready is None or ready.follower is None:
            return self.point(payload["x"])
        return ready.follower.solution.astype(self.problem.dtype)

    # --- the work ---------------------------------------------------------------------------

    def _work(self, ready: Prepared, message: Any, wanted: Any, asked: Any) -> Answered:
        method = ready.method
        cursor = np.full(self.problem.clients, self.memory.cursor)
        held = self.memory.memory

        def work(block: slice) -> Made:
            f = ready.source.at(block, cursor[block])
            memory = trees.rows(held, block)
            return client_work(method, f, message, memory, method.steps, self.study.secure)

        parts = list(self.threads.map(work, self.problem.blocks()))
        shown = self.problem.shown
        return Answered(
            asked=asked,
            made=_joined(parts),
            value=None if wanted is None else self.sums().value(wanted),
            shown=None if shown is None else shown.arrays,
        )

    def sums(self) -> SumOfBlocks:
        """F of this site's clients, with the weights that were agreed upon."""
        problem = self.problem
        if self.prepared is None or self.moved is not None:
            source = self.watched(problem.prepare(1, 1, False, self.threads))
        else:
            source = self.prepared.source
        return SumOfBlocks(problem, self._evaluator(source), self.study.weights, self.threads)

    def _evaluator(self, source: Source) -> Source:
        """What values are taken from, watched too."""
        if not isinstance(source, WatchedSource):
            return self.problem.evaluator(source)
        return self.watched(self.problem.evaluator(source.source))


def _numbers(value: Any) -> npt.NDArray[Any]:
    """An array of the server's: of numbers, whose digest tells it from others."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise SiteError(f"a message must have arrays of numbers, got {array.dtype}")
    return array


def _all_numbers(values: Any) -> list[npt.NDArray[Any]]:
    return [_numbers(value) for value in values]


def _joined(parts: list[Made]) -> Made:
    """What all clients of the site made."""
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    return Made(
        upload=trees.joined([part.upload for part in parts]),
        draft=_joined_drafts([part.draft for part in parts]),
        before=trees.joined([part.before for part in parts]),
        tally=tally,
    )


def _joined_drafts(parts: Any) -> Any:
    """Arrays with one row per client, one below the other; numbers are the same in all parts."""
    fields = [
        np.concatenate(field) if isinstance(field[0], np.ndarray) else field[0]
        for field in zip(*parts, strict=True)
    ]
    return trees.build(parts[0], fields)
