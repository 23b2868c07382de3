"""What a site of a federation does: it answers questions about its own clients, and keeps its data.

A round's question carries all that the answer depends on, or the name of what the site should
remember of the round before. So a site that was frozen, or that lost its memory, needs no
more than to be asked again.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.packing import unpack
from pdmm.common.threads import Threads
from pdmm.common.variables import Mixed, Scaled
from pdmm.engines.client_round import Done, Shapes, client_round
from pdmm.engines.sites.roster import SiteError
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.problems.block import Source, Tally
from pdmm.problems.fingerprints import fingerprints
from pdmm.problems.lazy import Lazy
from pdmm.problems.sums import SumOfBlocks

Payload = dict[str, Any]


class Kept(NamedTuple):
    """What a site's clients remember, under the name that the server gave it."""

    name: str = ""
    memory: Any = None


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


class Site:
    """A site's own clients, and what it remembers of a run.

    Args:
        make_problem: returns the site's problem, from its own data.
    """

    def __init__(self, make_problem: Callable[[], Any]) -> None:
        self.make_problem = make_problem
        self._problem: Problem | None = None
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
        """The answer to one question."""
        verbs: dict[str, Callable[[Payload], Payload]] = {
            "hello": self._hello,
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
        if verb not in verbs:
            raise SiteError(f"this site's pdmm knows no {verb!r}: is the server's newer?")
        with Threads(None if self.problem.parallel else 1) as self.threads:
            return verbs[verb](payload)

    # --- what the server learns of the problem ------------------------------------------------

    def _hello(self, payload: Payload) -> Payload:
        problem = self.problem
        return {
            "clients": problem.clients,
            "dimension": problem.dimension,
            "dtype": str(problem.dtype),
            "proven": problem.proven,
            "curved": problem.curved,
            "likelihood": problem.likelihood,
            "intercepts": problem.intercepts,
            "alike": {name: _digest(value) for name, value in problem.alike.items()},
        }

    def _check(self, payload: Payload) -> Payload:
        self.problem.check_data()
        self.problem.check(payload["x0"], payload["exact"])
        return {}

    def _constants(self, payload: Payload) -> Payload:
        problem = self.problem
        if payload.get("variables") is not None:
            problem = self._moved(payload["variables"])
        values, kind, _ = problem.constants_of_clients(payload["which"], self.threads)
        return {"values": values, "kind": kind}

    # --- a round ------------------------------------------------------------------------------

    def _prepare(self, payload: Payload) -> Payload:
        self._ready(payload)
        return {}

    def _moved(self, variables: Payload) -> Problem:
        """The site's functions of other variables."""
        kinds = {"Mixed": Mixed, "Scaled": Scaled}
        if variables["kind"] not in kinds:
            raise SiteError(f"this site's pdmm knows no {variables['kind']!r} variables")
        parts = {name: part for name, part in variables.items() if name != "kind"}
        return self.problem.in_variables(kinds[variables["kind"]](**parts))

    def _ready(self, payload: Payload) -> Prepared:
        """The run that the question is about, prepared if it is not yet."""
        plan = payload["method"], payload["rounds"]
        if payload["variables"] is not None:
            self.moved = self._moved(payload["variables"])
            self.prepared = None
        if self.prepared is None or self.prepared.plan != plan:
            method = unpack(payload["method"], {})
            if not isinstance(method, Method):
                raise SiteError(f"the server's method is none of pdmm's: {payload['method']!r}")
            problem = self.moved or self.problem
            source = problem.prepare(payload["rounds"], method.steps, method.exact, self.threads)
            shapes = Shapes.of(method, np.zeros(problem.dimension), problem.dtype)
            self.prepared = Prepared(plan, method, source, shapes)
        return self.prepared

    def _round(self, payload: Payload) -> Payload:
        ready = self._ready(payload)
        if payload["memory"] is not None:
            memory = trees.build(ready.shapes.memory, payload["memory"])
            self.memory = Kept(payload["have"], memory)
        elif payload["have"] == self.draft.name and self.draft.memory is not None:
            self.memory = self.draft
        if payload["have"] != self.memory.name:
            return {"lacks": "memory"}
        asked = payload["have"], payload["round"], payload["method"]
        if self.last.asked != asked:  # the same question again has the same answer
            self.last = self._work(ready, payload, asked)
        self.draft = Kept(payload["next"], self.last.after)
        return {**(self.last.answer or {}), "next": payload["next"]}

    def _work(self, ready: Prepared, payload: Payload, asked: Any) -> Answered:
        method = ready.method
        message = trees.build(ready.shapes.message, payload["message"])
        cursor = payload["cursor"]
        held = self.memory.memory

        def work(block: slice) -> Done:
            f = ready.source.at(block, cursor[block])
            return client_round(method, f, message, trees.rows(held, block), method.steps)

        done = list(self.threads.map(work, self.problem.blocks()))
        tally = Tally()
        for part in done:
            tally.add(part.tally)
        value = None
        wanted = payload["evaluate"]
        if wanted is not False:
            x = message.x if wanted is True else wanted
            value = self._sum(payload["weights"]).value(x)
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

    def _sum(self, weights: npt.NDArray[np.float64]) -> SumOfBlocks:
        problem = self.problem
        if self.prepared is None or self.moved is not None:
            source = problem.prepare(1, 1, False, self.threads)
        else:
            source = self.prepared.source
        return SumOfBlocks(problem, problem.evaluator(source), weights, self.threads)

    def _value(self, payload: Payload) -> Payload:
        return {"value": self._sum(payload["weights"]).value(payload["x"])}

    def _fingerprint(self, payload: Payload) -> Payload:
        found = fingerprints(self.problem, payload["points"], self.threads)
        return {"value": float(payload["weights"] @ found)}

    def _gradient(self, payload: Payload) -> Payload:
        return self._sum(payload["weights"]).certain_gradient(payload["x"])._asdict()

    def _curvature(self, payload: Payload) -> Payload:
        found = self._sum(payload["weights"]).curvature(payload["x"], payload["T"])
        return {"sums": found.packed()}

    def _diagonal(self, payload: Payload) -> Payload:
        return {"sums": self._sum(payload["weights"]).diagonal(payload["x"])}


def _digest(value: Any) -> str | None:
    """What tells equal values from others, and nothing else of them."""
    return None if value is None else hashlib.sha256(repr(value).encode()).hexdigest()


def _joined_drafts(parts: Any) -> list[Any]:
    """Arrays with one row per client, one below the other; numbers are the same in all parts."""
    return [
        np.concatenate(field) if isinstance(field[0], np.ndarray) else field[0]
        for field in zip(*parts, strict=True)
    ]
