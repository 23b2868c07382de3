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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.packing import pack
from pdmm.common.threads import Threads
from pdmm.engines.client_tables import Memories, Tables
from pdmm.engines.outcome import Outcome, Owed, Part, Sent, add, steepest
from pdmm.engines.sites.roster import PAUSE, Payload, SiteError
from pdmm.engines.sites.site import Kinds
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Tally

if TYPE_CHECKING:
    from pdmm.engines.sites.federated import Federated


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
        contacts, down = 0, Size(0, 0)
        plan = pack(self.method, {}, "method")
        while True:
            next_names = {name: self._name() for name in asking}
            payloads = {
                name: self._question(name, delivered, owed, plan, next_names[name])
                for name in asking
            }
            contacts += sum(self._clients(name) for name in asking)
            down += self._size(payloads)
            found = roster.ask("round", payloads)
            asking = []
            for name, answer in found.items():
                if answer.get("lacks") == "memory":
                    if not self.held[name]:
                        raise SiteError(
                            f"site {name} was sent its memory, and says that it lacks it"
                        )
                    self.held[name] = False
                    asking.append(name)
                elif answer.get("next") == next_names[name]:
                    with roster.reading(name, "round"):
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
        roster.check({name: when for name, when in self.taken.items() if name not in answers})
        self._note(answers)
        up, arrived = self._size(answers), sum(self._clients(name) for name in answers)
        sent = Sent(contacts, arrived, down.vectors, up.vectors, down.bytes, up.bytes)
        self.last = self._taken(delivered, answers, owed, sent)
        return self.last

    def _clients(self, name: str) -> int:
        place = self.problem.places[name]
        return place.stop - place.start

    def _size(self, payloads: Mapping[str, Payload]) -> "Size":
        return _size(list(payloads.values()), self.problem.dimension)

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
        }

    def _check(self, name: str, answer: Payload) -> None:
        """Refuse what would poison the model: a wrong shape or dtype, or what is not finite."""
        where = f"site {name} returned, in round {self.done + 1},"
        for part, kind in (("upload", self.kinds.upload), ("draft", self.kinds.draft)):
            fields = answer[part]
            if not isinstance(fields, list) or len(fields) != len(kind):
                raise SiteError(f"{where} not the {len(kind)} fields of an {part}")
            for field, like, what in zip(fields, kind, kind._fields, strict=True):
                self._check_field(f"{where} {what}", field, like, self._clients(name))
        Tally(**answer["tally"])
        if answer["value"] is not None:
            float(answer["value"])

    def _check_field(self, what: str, field: Any, like: Any, clients: int) -> None:
        if not isinstance(like, np.ndarray):
            if type(field) is not type(like):
                raise SiteError(f"{what} of type {type(field).__name__}, not {type(like).__name__}")
            return
        wanted = (clients, *like.shape[1:])
        if not isinstance(field, np.ndarray) or field.shape != wanted:
            raise SiteError(f"{what} of shape {np.shape(field)}, not {wanted}")
        if field.dtype != like.dtype:
            raise SiteError(f"{what} in {field.dtype}, not {like.dtype}")
        if not np.isfinite(field).all():
            raise SiteError(
                f"{what} that is not finite: something is wrong with its data or its functions, "
                "or the step size is too large"
            )

    def _taken(
        self,
        message: Any,
        answers: Mapping[str, Payload],
        owed: Owed,
        sent: Sent,
    ) -> Outcome:
        """Average the uploads, and bring the copies of the memories up to date."""
        method, places, parts = self.method, self.problem.places, []
        for name in places:  # in their order: sums do not depend on who answered first
            if name not in answers:
                continue
            answer, place = answers[name], places[name]
            upload = type(self.kinds.upload)(*answer["upload"])
            draft = type(self.kinds.draft)(*answer["draft"])
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
            if answer["shown"] is not None:
                with self.problem.roster.reading(name, "round"):
                    self.problem.shown.join(place, answer["shown"])
            parts.append(Part(sums, float(w.sum()), Tally(**answer["tally"]), None, apart))
        values = [answers[name]["value"] if name in answers else np.nan for name in places]
        numbers = (float(sum(values)),) if owed.numbers else ()
        steep = steepest(self.problem) if owed.watch else 0.0
        full = self.weight if len(answers) == len(places) else None
        return add(parts, sent, sent.uploads, Owed(numbers), steep).outcome(full, self.weight)

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


class Size(NamedTuple):
    """What has to travel: vectors of the length of x, and bytes of all arrays and numbers."""

    vectors: int
    bytes: int

    def __add__(self, other: Any) -> "Size":
        return Size(self.vectors + other.vectors, self.bytes + other.bytes)


def _size(payload: Any, d: int) -> Size:
    if isinstance(payload, np.ndarray):
        return Size(payload.size // d if payload.shape[-1:] == (d,) else 0, int(payload.nbytes))
    if isinstance(payload, dict):
        payload = list(payload.values())
    if isinstance(payload, list):
        return sum((_size(part, d) for part in payload), Size(0, 0))
    return Size(0, 8 if isinstance(payload, int | float) else 0)
