"""An engine whose clients are at the sites of a federation, over a network that may fail.

The server keeps a copy of every client's memory. A site keeps it too, under a name, so that
it need not travel; but a site that has not got it is sent it, and answers as if nothing had
happened. An upload counts when its answer is taken: an answer that comes late or twice, or to
another question, is not.
"""

import itertools
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pdmm.engines.outcome import Outcome, Owed, Part, Sent, add
from pdmm.engines.roster import PAUSE, Payload, SiteError
from pdmm.engines.site import Kinds
from pdmm.engines.tables import Memories, Tables
from pdmm.methods.base import Method
from pdmm.plain import pack
from pdmm.problems.base import Floats, Tally
from pdmm.threads import Threads

if TYPE_CHECKING:
    from pdmm.engines.federated import Federated


class Remote(Memories):
    """Runs a method's clients at their sites; the server keeps a copy of their memories.

    Args:
        problem: the sites.
        method: what their clients run.
        x0: the start.
        weights: of all clients.
        rounds: how many are planned.
        threads: not used: the server only adds.
    """

    source: Any = None

    def __init__(
        self,
        problem: "Federated",
        method: Method,
        x0: Floats,
        weights: npt.NDArray[np.float64],
        rounds: int,
        threads: Threads,
    ) -> None:
        self.problem, self.method, self.rounds = problem, method, rounds
        self.weights, self.weight = weights, float(weights.sum())
        self.dtype, self.kinds = problem.dtype, Kinds.of(method, problem.dimension, problem.dtype)
        own = np.repeat(x0.astype(self.dtype)[None], problem.clients, axis=0)
        self.memory = method.client_start(own)
        self.cursor = np.zeros(problem.clients, dtype=np.int64)
        self.done = 0
        # Names of memories are of this engine alone: after a restart no site has one of them.
        self.token, self.count = uuid.uuid4().hex[:12], itertools.count()
        self.names = {name: self._name() for name in problem.places}
        self.held = dict.fromkeys(problem.places, False)  # whether the site is thought to have it
        self.notes: list[str] = []
        self._missing: dict[str, int] = {}  # the round since which a site has been left out
        self.last: Outcome | None = None
        self.answered: list[str] = []  # in the last round
        self.taken = dict.fromkeys(problem.places, time.monotonic())  # when an upload last counted
        plan = {"method": pack(method, {}, "method"), "rounds": rounds}
        problem.roster.everyone("prepare", dict.fromkeys(problem.places, plan))

    def _name(self) -> str:
        """A name for a memory that no other has."""
        return f"{self.token}.{next(self.count)}"

    # --- a round ------------------------------------------------------------------------------

    def round(self, message: Any, owed: Owed) -> Outcome:
        """Ask the sites that are there, and average what they upload."""
        roster, kind = self.problem.roster, type(message)
        delivered = kind(*(np.asarray(field, dtype=self.dtype) for field in message))
        wait = self.problem.always_there
        asking = list(self.problem.places) if wait else roster.present
        answers: dict[str, Payload] = {}
        sent = down = 0
        plan = pack(self.method, {}, "method")
        while True:
            next_names = {name: self._name() for name in asking}
            payloads = {
                name: self._question(name, delivered, owed, plan, next_names[name])
                for name in asking
            }
            sent += sum(self._clients(name) for name in asking)
            down += sum(_bytes(payload) for payload in payloads.values())
            found = roster.ask("round", payloads)
            asking = []
            for name, answer in found.items():
                if answer.get("lacks") == "memory":
                    self.held[name] = False
                    asking.append(name)
                elif answer.get("next") == next_names[name]:
                    self._check(name, answer)
                    answers[name] = answer
                    self.names[name], self.held[name] = next_names[name], True
            if wait:
                asking = [name for name in self.problem.places if name not in answers]
            elif not answers and not asking:
                asking = roster.wait()
            if not found:
                time.sleep(PAUSE)
            if not asking:
                break
        self.done += 1
        self.answered = list(answers)
        self.taken |= dict.fromkeys(answers, time.monotonic())
        roster.check(self.taken)
        self._note(answers)
        up = sum(_bytes(answer) for answer in answers.values())
        self.last = self._taken(delivered, answers, owed, (sent, down, up))
        return self.last

    def _clients(self, name: str) -> int:
        place = self.problem.places[name]
        return place.stop - place.start

    def _question(self, name: str, message: Any, owed: Owed, plan: Any, then: str) -> Payload:
        place = self.problem.places[name]
        memory = None if self.held[name] else [field[place] for field in self.memory]
        return {
            "round": self.done + 1,
            "rounds": self.rounds,
            "method": plan,
            "message": list(message),
            "have": self.names[name],
            "memory": memory,
            "next": then,
            "cursor": self.cursor[place],
            "weights": self.weights[place],
            "evaluate": bool(owed.numbers),
            "watch": owed.watch,
        }

    def _check(self, name: str, answer: Payload) -> None:
        """Refuse what would poison the model: a wrong shape or dtype, or what is not finite."""
        k, r = self._clients(name), self.done + 1
        upload = answer["upload"]
        where = f"site {name} returned, in round {r},"
        if not isinstance(upload, list) or len(upload) != len(self.kinds.upload):
            raise SiteError(
                f"{where} an upload of {len(upload)} fields, not {len(self.kinds.upload)}"
            )
        for field, like, what in zip(
            upload, self.kinds.upload, self.kinds.upload._fields, strict=True
        ):
            wanted = (k, *np.shape(like)[1:])
            if not isinstance(field, np.ndarray) or field.shape != wanted:
                raise SiteError(f"{where} {what} of shape {np.shape(field)}, not {wanted}")
            if field.dtype != like.dtype:
                raise SiteError(f"{where} {what} in {field.dtype}, not {like.dtype}")
            if not np.isfinite(field).all():
                raise SiteError(
                    f"{where} {what} that is not finite: something is wrong with its data or "
                    "its functions, or the step size is too large"
                )
        drafts = answer["draft"]
        if len(drafts) != len(self.kinds.draft._fields):
            raise SiteError(
                f"{where} a draft of {len(drafts)} fields, not {len(self.kinds.draft._fields)}"
            )
        for field, what in zip(drafts, self.kinds.draft._fields, strict=True):
            if isinstance(field, np.ndarray) and (len(field) != k or not np.isfinite(field).all()):
                raise SiteError(
                    f"{where} {what} of shape {field.shape} that is not finite or not whole"
                )

    def _taken(
        self,
        message: Any,
        answers: Mapping[str, Payload],
        owed: Owed,
        traffic: tuple[int, int, int],
    ) -> Outcome:
        """Average the uploads, and bring the copies of the memories up to date."""
        method, places, parts = self.method, self.problem.places, []
        for name in places:  # in their order: sums do not depend on who answered first
            if name not in answers:
                continue
            answer, place = answers[name], places[name]
            upload = type(self.kinds.upload)(*answer["upload"])
            draft = self.kinds.draft(*answer["draft"])
            with np.errstate(over="ignore", invalid="ignore"):
                held = type(self.memory)(*(field[place] for field in self.memory))
                after = method.accept(method.receive(message, held), draft, upload)
                w = self.weights[place]
                sums = type(upload)(*(w @ f.astype(np.float64, copy=False) for f in upload))
                apart = method.disagreement(upload)
                apart = None if apart is None else float(w @ apart)
            for field, new in zip(self.memory, after, strict=True):
                field[place] = new
            self.cursor[place] += method.steps
            parts.append(Part(sums, float(w.sum()), Tally(**answer["tally"]), None, apart))
        values = [answers[name]["value"] if name in answers else np.nan for name in places]
        numbers = (float(sum(values)),) if owed.numbers else ()
        arrived = sum(self._clients(name) for name in answers)
        contacts, down, up = traffic
        vector = self.problem.dimension * self.dtype.itemsize
        sent = Sent(contacts, arrived, down // vector, up // vector, down, up)
        steep = max((float(answer["steepest"]) for answer in answers.values()), default=0.0)
        full = self.weight if len(answers) == len(places) else None
        return add(parts, sent, arrived, Owed(numbers), steep).outcome(full, self.weight)

    def _note(self, answers: Mapping[str, Payload]) -> None:
        """Remember who was left out, and for how long."""
        for name in self.problem.places:
            since = self._missing.get(name)
            if name not in answers and since is None:
                self._missing[name] = self.done
            elif name in answers and since is not None:
                del self._missing[name]
                self.notes.append(_absence(name, since, self.done - 1))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Who was left out of which rounds, in words."""
        still = (_absence(name, since, self.done) for name, since in self._missing.items())
        return (*self.notes, *still)

    # --- laying down and taking up ------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {"done": self.done, "notes": self.notes, "missing": self._missing}

    def load(self, state: dict[str, Any]) -> None:
        self.done, self.notes = state["done"], list(state["notes"])
        self._missing = dict(state["missing"])

    def load_tables(self, tables: Tables) -> None:
        super().load_tables(tables)
        self.held = dict.fromkeys(self.held, False)


def _absence(name: str, first: int, last: int) -> str:
    rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
    return f"site {name} did not answer in {rounds}: the run went on without it"


def _bytes(payload: Any) -> int:
    """The bytes of all arrays, and 8 for every number: what has to travel."""
    if isinstance(payload, np.ndarray):
        return int(payload.nbytes)
    if isinstance(payload, dict):
        return sum(map(_bytes, payload.values()))
    if isinstance(payload, list):
        return sum(map(_bytes, payload))
    return 8 if isinstance(payload, int | float) else 0
