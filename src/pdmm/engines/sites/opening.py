"""How a run begins at the server: every site is told what it is about, and agrees or refuses."""

import uuid
from collections.abc import Mapping
from typing import Any

from pdmm.common.packing import Arrays, pack
from pdmm.engines.clients import Terms
from pdmm.engines.sites.hidden_sums import HiddenSums
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Payload, Roster, SiteForgotError

MOST_SIGNS = 10_000  # characters of what a site says of itself, its certificate included


class Opening:
    """What the sites of a run have agreed to.

    Args:
        roster: the sites.
        run: its name, for their audits.
        verified: whether they compute x themselves.
        signed: whether they make sure of each other, by keys of their own.
        hidden: what reads their sums, where these are secure.
        study: which the run is a part of; a site may have consented to some studies alone.
        verb: "open" for a run, "survey" for questions about tables.
    """

    def __init__(
        self,
        roster: Roster,
        run: str,
        verified: bool,
        signed: bool,
        hidden: HiddenSums | None = None,
        study: str = "",
        verb: str = "open",
    ) -> None:
        self.roster = roster
        self.run = run
        self.verified = verified
        self.signed = signed
        self.hidden = hidden
        self.study = study
        self.verb = verb
        self.asked: dict[str, Payload] = {}
        roster.opening = self.again

    def agree(self, terms: Terms, places: Mapping[str, slice]) -> None:
        """Have all sites agree to the terms of a run."""
        run = f"{self.run}/{uuid.uuid4().hex[:12]}"
        parties = self._parties(run, places)
        arrays: Arrays = {}
        regulariser = pack(terms.regulariser, arrays, "regulariser")
        weights = {name: terms.weights[place] for name, place in places.items()}
        about = {
            "run": run,
            "rounds": terms.rounds,
            "x0": terms.x0,
            "seed": terms.seed,
            "verified": self.verified,
            "secure": self.hidden is not None,
            "parties": parties,
            "everyone": weights,
            "regulariser": [regulariser, arrays],
            "study": self.study,
        }
        self.asked = {
            name: {**about, "weights": weights[name], "first": place.start}
            for name, place in places.items()
        }
        answers = self.roster.everyone(self.verb, self.asked)
        agreed = {name: _signature(name, self.verb, answers[name]) for name in places}
        if self.signed:
            self.roster.everyone("confirm", {name: {"agreed": agreed} for name in places})
        if self.hidden is not None:
            self.hidden.begin(parties)

    def _parties(self, run: str, places: Mapping[str, slice]) -> list[Any]:
        """Who takes part: what each says of itself, or only their names."""
        if not self.signed:
            return list(places)
        asked = {name: {"run": run, "name": name} for name in places}
        answers = self.roster.everyone("join", asked)
        return [_statement(name, answers[name]) for name in places]

    def again(self, name: str) -> Payload:
        """What a site is told again whose process was started again."""
        if self.signed or not self.asked:
            raise SiteForgotError(
                f"site {name} has lost its part of the run, whose sites have made sure of each "
                "other: begin the run again"
            )
        return self.asked[name]


def _signature(name: str, verb: str, answer: Any) -> str:
    return Reply(name, verb, answer).text("agreed")


def _statement(name: str, answer: Any) -> dict[str, str]:
    """What a site says of itself; the other sites check whether it is true."""
    reply = Reply(name, "join", answer).within("statement")
    for key, value in reply.fields.items():
        if not isinstance(key, str) or not isinstance(value, str) or len(value) > MOST_SIGNS:
            reply.refuse(key, f"a text of at most {MOST_SIGNS:,} characters")
    return dict(reply.fields)
