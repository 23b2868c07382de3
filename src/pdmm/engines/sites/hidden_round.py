"""A round with secure sums: who is asked, at which scales, and when the sum can be read."""

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pdmm.common.packing import pack
from pdmm.engines.exchange import Outcome, Question
from pdmm.engines.secure.cost import mask_bytes, names_bytes, part_bytes
from pdmm.engines.secure.layout import Vector, round_layout
from pdmm.engines.secure.part import summed
from pdmm.engines.secure.scales import MOST_TRIES
from pdmm.engines.sites.answers import read_shown
from pdmm.engines.sites.hidden_sums import HiddenSums, Sealed, not_scaled
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import PAUSE, Payload, SiteForgotError
from pdmm.engines.sites.seal import LEAST_SITES
from pdmm.engines.sites.sealed_round import tally_of
from pdmm.engines.traffic import SCALAR_BYTES, Sent

if TYPE_CHECKING:
    from pdmm.engines.sites.sites import Sites


class Beside(NamedTuple):
    """What a site tells in the clear beside its masked part."""

    error: float
    missed: float
    next_name: str
    """Of what it remembers once the sum counts."""
    shown: list[Vector] | None
    size: float | None
    """The norm of its upload, where its policy allows to tell of it alone."""


class HiddenRound:
    """One round of a run with secure sums.

    Args:
        sites: of the run.
        hidden: what reads their sums.
        question: of the round.
        message: the server's, in the clients' dtype.
    """

    def __init__(self, sites: "Sites", hidden: HiddenSums, question: Question, message: Any):
        self.sites = sites
        self.hidden = hidden
        self.question = question
        self.message = message
        self.plan = pack(question.method, {}, "method")
        self.like = sites.forms.of(question.method, message).upload
        self.layout = round_layout(question.method, self.like)
        self.scales = hidden.scales("round", self.layout)
        self.beside: dict[str, Beside] = {}
        self.sent = Sent()

    def run(self) -> Outcome:
        """Ask until a sum can be read."""
        names = self._present()
        tries = 0
        while True:
            mask = self.hidden.mask(names, self.scales)
            sealed = self._asked(names, mask)
            if len(sealed) < len(names):
                names = self._remaining(names, sealed)
                continue
            found = self.hidden.total(sealed, mask, self.scales)
            if self.sites.news is not None:
                self.sites.news.add_sums(self.question.round, mask["counter"], sealed)
            if found is not None:
                return self._outcome(names, self.layout.arrays(found))
            tries += 1
            if tries >= MOST_TRIES:
                raise not_scaled("round")

    # --- who is asked -------------------------------------------------------------------------

    def _present(self) -> list[str]:
        """The sites of the sum: all of them, or those that are there, of enough organisations."""
        sites = self.sites
        if sites.steady:
            return list(sites.places)
        while True:
            present = [name for name in sites.places if name in sites.roster.present]
            if self._enough(present):
                return present
            sites.roster.check()
            time.sleep(PAUSE)

    def _enough(self, names: list[str]) -> bool:
        return len({self.sites.organisations[name] for name in names}) >= LEAST_SITES

    def _remaining(self, names: list[str], sealed: dict[str, Sealed]) -> list[str]:
        """Whom to ask once some have not answered: nothing can be read without their masks."""
        if self.sites.steady:
            time.sleep(PAUSE)
            return names
        there = [name for name in names if name in sealed]
        return there if self._enough(there) else self._present()

    # --- questions and answers ------------------------------------------------------------------

    def _asked(self, names: list[str], mask: Payload) -> dict[str, Sealed]:
        """The masked answers of those that answer."""
        sites = self.sites
        have = self.hidden.have(names)
        payloads = {name: self._payload(name, have, mask) for name in names}
        answers: dict[str, Payload] = {}
        wanted = payloads
        while True:
            found = sites.roster.ask("round", wanted)
            answers |= found
            wanted = {name: p for name, p in payloads.items() if name not in answers}
            if not wanted or not sites.steady:
                break
            if not found:
                time.sleep(PAUSE)
        self._count(names, answers, mask)
        sealed = {}
        for name, fields in answers.items():
            reply = Reply(name, "round", fields)
            if reply.has("lacks"):
                raise SiteForgotError(
                    f"site {name} has lost its memory of the run, which nobody else has where "
                    "sums are secure: begin the run again"
                )
            one = self.hidden.read(reply, mask, self.layout)
            if one is None:
                continue
            sealed[name] = one
            self.beside[name] = self._beside(reply)
        return sealed

    def _beside(self, reply: Reply) -> Beside:
        place = self.sites.places[reply.site]
        clients = place.stop - place.start
        return Beside(
            error=reply.number("error", 0.0),
            missed=reply.number("missed", 0.0),
            next_name=reply.text("next"),
            shown=read_shown(reply, clients) if reply.has("shown") else None,
            size=reply.number("size", 0.0) if reply.has("size") else None,
        )

    def _payload(self, name: str, have: dict[str, str], mask: Payload) -> Payload:
        sites = self.sites
        return {
            "round": self.question.round,
            "rounds": sites.rounds,
            "method": self.plan,
            "have": have,
            "evaluate": self._evaluate(),
            "variables": sites.variables,
            "mask": mask,
            **sites.point(name, "message", list(self.message)),
        }

    def _evaluate(self) -> Any:
        """Where F is wanted: True for the x of the message."""
        wanted = self.question.evaluate
        if wanted is None:
            return False
        same = self.sites.variables is None and np.array_equal(wanted.x, self.message.x)
        return True if same else wanted.x

    # --- what comes of it -----------------------------------------------------------------------

    def _count(self, names: list[str], answers: Any, mask: Payload) -> None:
        """Count what travelled: messages with scales and the set, and words."""
        method = self.question.method
        d = self.sites.dimension
        vector = d * self.sites.dtype.itemsize
        exact_down, _ = method.exact_numbers(self.message)
        scalars_down, _ = method.scalars
        down = method.vectors_down * vector + SCALAR_BYTES * (scalars_down + exact_down)
        down += mask_bytes(names, self.layout.size) + names_bytes(len(names))
        up = part_bytes(self.layout.size, len(names), mask["long"]) + names_bytes(1)
        clients = {name: place.stop - place.start for name, place in self.sites.places.items()}
        self.sent = self.sent.plus(
            Sent(
                contacts=sum(clients[name] for name in names),
                uploads=0,
                vectors_down=len(names) * method.vectors_down,
                vectors_up=len(answers) * method.vectors_up,
                bytes_down=len(names) * down,
                bytes_up=len(answers) * up,
            )
        )

    def _outcome(self, names: list[str], numbers: dict[str, Vector]) -> Outcome:
        sites = self.sites
        self.hidden.memories |= {name: self.beside[name].next_name for name in names}
        sites.answered = list(names)
        self._note(names)
        places = [sites.places[name] for name in names]
        everyone = len(names) == len(sites.places)
        weight = sites.weight
        if not everyone:
            weight = float(sum(sites.weights[place].sum() for place in places))
        value = None
        if self.question.evaluate is not None:
            value = float(numbers["value"]) if everyone else float("nan")
        arrived = sum(place.stop - place.start for place in places)
        beside = [self.beside[name] for name in names]
        tally = tally_of(
            numbers, max(one.error for one in beside), max(one.missed for one in beside)
        )
        sent = self.sent._replace(uploads=arrived)
        seen = sites.steepest_shown() if self.question.watch else 0.0
        sums = summed(numbers, self.like, weight, tally, arrived, sent, value, seen)
        return sums.outcome(weight, sites.weight)

    def _note(self, names: list[str]) -> None:
        """Keep what sites tell in the clear."""
        sizes = {}
        for name in names:
            one = self.beside[name]
            if one.shown is not None:
                self.sites.note_shown(name, one.shown)
            if one.size is not None:
                sizes[name] = one.size
        if self.sites.per_site and len(sizes) == len(names):
            self.sites.note_sizes(sizes)
