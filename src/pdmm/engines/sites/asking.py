"""The questions of one round: who is asked, who is asked again, and whose answer counts."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pdmm.common.packing import pack
from pdmm.engines.exchange import Question
from pdmm.engines.sites.answers import Answer, read_answer
from pdmm.engines.sites.limits import STRAYS
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import PAUSE, Payload, SiteError
from pdmm.engines.traffic import Envelope, Sent, count, vectors_in

if TYPE_CHECKING:
    from pdmm.engines.sites.sites import Sites


class Asked(NamedTuple):
    """What came of a round's questions."""

    answers: dict[str, Answer]
    """Those that count, by site."""
    sent: Sent


def ask_round(sites: "Sites", question: Question, message: Any) -> Asked:
    """Ask the sites that are there, or all of them, until each answer that is to come has come."""
    round_ = _Round(sites, question, message)
    asking = list(sites.places) if sites.steady else sites.roster.present
    while True:
        found = round_.ask(asking)
        asking = round_.take(found)
        if sites.steady:
            asking = [name for name in sites.places if name not in round_.answers]
        elif not round_.answers and not asking:
            asking = sites.roster.wait()
        if not found or round_.strayed:
            time.sleep(PAUSE)
        if not asking:
            return Asked(round_.answers, round_.counted())


class _Round:
    """A round's questions and answers so far."""

    def __init__(self, sites: "Sites", question: Question, message: Any) -> None:
        self.sites = sites
        self.question = question
        self.message = message
        self.plan = pack(question.method, {}, "method")
        self.shapes = sites.forms.of(question.method, message)
        self.exact = question.method.exact_numbers(message)
        self.next_names: dict[str, str] = {}
        self.answers: dict[str, Answer] = {}
        self.strayed = False  # whether someone has just answered another question
        self.sent = Sent()

    def ask(self, names: list[str]) -> dict[str, Payload]:
        """Ask some sites, and count what is sent to them."""
        payloads = {}
        for name in names:
            self.next_names[name] = self.sites.copies.new_name()
            payloads[name] = self._payload(name)
            self.sent = self.sent.plus(self._down(name))
        return self.sites.roster.ask("round", payloads)

    def take(self, found: Mapping[str, Payload]) -> list[str]:
        """Keep the answers that count; returns the sites to ask again, which lack their memory."""
        copies = self.sites.copies
        again = []
        self.strayed = False
        for name, fields in found.items():
            reply = Reply(name, "round", fields)
            if reply.has("lacks"):
                self._lacks(reply)
                again.append(name)
            elif reply.text("next") != self.next_names[name]:
                self._stray(name)
            else:
                self.answers[name] = self._answer(reply)
                copies.names[name] = self.next_names[name]
                copies.held[name] = True
                self.sites.strays.pop(name, None)
        return again

    def _lacks(self, reply: Reply) -> None:
        """A site has forgotten its memory: it is sent the copy, once."""
        reply.text("lacks", ("memory",))
        held = self.sites.copies.held
        if not held[reply.site]:
            raise SiteError(f"site {reply.site} was sent its memory, and says that it lacks it")
        held[reply.site] = False

    def _stray(self, name: str) -> None:
        """An answer to another question is as good as none, but not for ever."""
        strays = self.sites.strays
        strays[name] = strays.get(name, 0) + 1
        self.strayed = True
        if strays[name] >= STRAYS:
            raise SiteError(
                f"site {name} answered {STRAYS} questions in a row with the answer to another one, "
                f"the last in round {self.question.round}: its process should be started again"
            )

    def _answer(self, reply: Reply) -> Answer:
        evaluated = self.question.evaluate is not None
        clients = self._clients(reply.site)
        signed = self.sites.verified
        return read_answer(reply, self.shapes, self.question.round, clients, evaluated, signed)

    def _clients(self, name: str) -> int:
        place = self.sites.places[name]
        return int(place.stop - place.start)

    def _payload(self, name: str) -> Payload:
        sites = self.sites
        return {
            "round": self.question.round,
            "rounds": sites.rounds,
            "method": self.plan,
            "have": sites.copies.names[name],
            "memory": sites.copies.to_send(name),
            "next": self.next_names[name],
            "evaluate": self._evaluate(),
            "variables": None if sites.copies.held[name] else sites.variables,
            **sites.point(name, "message", list(self.message)),
        }

    def _evaluate(self) -> Any:
        """Where F is wanted: True for the x of the message."""
        wanted = self.question.evaluate
        if wanted is None:
            return False
        same = self.sites.variables is None and np.array_equal(wanted.x, self.message.x)
        return True if same else wanted.x

    # --- what travels: a message for each site, an upload and a draft of each client --------

    def _envelope(self, memory: int = 0) -> Envelope:
        d = self.sites.dimension
        vector = d * self.sites.dtype.itemsize
        draft = vectors_in(self.shapes.draft, d)
        return Envelope(vector, up=vector, numbered=True, memory=memory, draft=draft)

    def _down(self, name: str) -> Sent:
        sites = self.sites
        memory = 0
        if not sites.copies.held[name]:
            memory = vectors_in(self.shapes.memory, sites.dimension)
        envelope = self._envelope(memory)
        method = self.question.method
        return count(method, envelope, self._clients(name), 0, messages=1, exact=self.exact)

    def counted(self) -> Sent:
        """What was sent, both ways."""
        uploads = sum(self._clients(name) for name in self.answers)
        up = count(self.question.method, self._envelope(), 0, uploads, exact=self.exact)
        return self.sent.plus(up)
