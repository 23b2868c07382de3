"""The sites of a study, as a server asks them: who they are, and sums that hide their parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdmm.engines.clients import Terms
from pdmm.engines.sites.hidden_sums import SEVERAL, HiddenSums
from pdmm.engines.sites.opening import Opening
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Connection, Payload, Roster
from pdmm.engines.sites.seal import LEAST_SITES
from pdmm.engines.sites.totals import Totals
from pdmm.study.advice import advice

EARLY = ("rows", "present", "count", "moments", "columns_total", "columns_squares")
"""Sums of before the first round: a site may still be left out once they are known."""

Report = Callable[[dict[str, Any]], None]
Secure = bool | Literal["auto"]


def _silent(told: dict[str, Any]) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Way:
    """How sites are asked.

    Args:
        timeout: seconds to wait for an answer before a site counts as absent.
        patience: seconds that a site may be silent before the study stops.
        secure: whether sums are secure; "auto" is where three organisations take part, or more.
        run: the study's run, for the audits of the sites.
        study: its name, to which sites may have consented.
        leave_out: whether sites whose tables do not fit are left out.
        report: takes what an onlooker is told.
        follow: gives what is called after each round, for the sites of a run.
    """

    timeout: float = 60.0
    patience: float = 600.0
    secure: Secure = "auto"
    run: str = "study"
    study: str = ""
    leave_out: bool = False
    report: Report = _silent
    follow: Callable[[Any], Callable[[int, Any], None]] | None = None


class Connected:
    """Sites that have agreed to questions about their tables.

    Args:
        connection: to the sites.
        way: how they are asked.
    """

    def __init__(self, connection: Connection, way: Way) -> None:
        self.connection = connection
        self.way = way
        self.roster = Roster(connection, way.timeout, way.patience)
        self.names: list[str] = self.roster.names
        replies = [Reply(n, "table", a) for n, a in self._asked("table", {}).items()]
        owners = {r.site: r.text("organisation") for r in replies if r.has("organisation")}
        self.organisations = {name: owners.get(name, name) for name in self.names}
        self.identified = all(reply.flag("identified") for reply in replies)
        self.per_site = all(reply.flag("per_site") for reply in replies)
        choices = ("never", "secure", "allowed")
        self.hessians = {reply.site: reply.text("hessians", choices) for reply in replies}
        self.begun = False
        """Whether sums are known that must not be known again without one of the sites."""
        self.secure, self.why = self._decided()
        addends = len(self.names)
        self.hidden = HiddenSums(self.roster, addends) if self.secure else None
        self.totals = Totals(self.roster, self.hidden)
        self._agree()

    def _decided(self) -> tuple[bool, str]:
        """Whether sums are secure, and why, in a sentence."""
        count = len(set(self.organisations.values()))
        asked = self.way.secure
        enough = count >= LEAST_SITES
        if asked is True and not enough:
            raise ValueError(f"secure=True: {SEVERAL}, and {count} take part")
        if asked is True or (asked == "auto" and enough and self.identified):
            return (
                True,
                f"sums are secure: the server read sums over {count} organisations alone",
            )
        why = "as was asked for" if asked is False else SEVERAL
        if asked == "auto" and enough:
            why = "since the sites have no certificates"
        return False, f"sums are not secure, {why}: the server saw each site's part"

    def _agree(self) -> None:
        """Have all sites agree to be asked about their tables."""
        signed = self.secure or self.identified
        opening = Opening(
            self.roster, self.way.run, False, signed, self.hidden, self.way.study, "survey"
        )
        ones = np.ones(len(self.names))
        places = {name: slice(k, k + 1) for k, name in enumerate(self.names)}
        with advice("survey"):
            opening.agree(Terms(np.empty(0), ones, 0, None), places)

    def _asked(self, verb: str, payload: Payload) -> dict[str, Payload]:
        with advice(verb):
            answers = self.roster.everyone(verb, dict.fromkeys(self.names, payload))
        return {name: answers[name] for name in self.names}

    def told(self, verb: str, payload: Payload) -> dict[str, Reply]:
        """What each site says, by name."""
        return {n: Reply(n, verb, answer) for n, answer in self._asked(verb, payload).items()}

    def sums(self, verb: str, payload: Payload, **shapes: tuple[int, ...]) -> dict[str, Any]:
        """What all sites say together."""
        with advice(verb):
            found = self.totals.ask(verb, payload, shapes)
        self.begun = self.begun or verb not in EARLY
        return found

    def phase(self, words: str) -> None:
        """Tell an onlooker what is being done."""
        self.way.report({"phase": words, "sites": self.names, "roster": self.roster})

    @property
    def hessians_leave(self) -> bool:
        """Whether Hessians may leave all sites."""
        allowed = ("allowed", "secure") if self.secure else ("allowed",)
        return all(each in allowed for each in self.hessians.values())

    @property
    def why_no_hessians(self) -> str:
        """Which sites keep their Hessians, and what would change that; empty where none does."""
        if self.hessians_leave:
            return ""
        never = [name for name, each in self.hessians.items() if each == "never"]
        if never:
            have = "has" if len(never) == 1 else "have"
            return (
                f'they need the sites\' Hessians, and {_listed(never)} {have} hessians = "never" '
                "in the policy"
            )
        kept = [name for name, each in self.hessians.items() if each == "secure"]
        have = "lets" if len(kept) == 1 else "let"
        return (
            f"they need the sites' Hessians, which {_listed(kept)} {have} leave in secure sums "
            "alone, and the sums are not secure"
        )


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"site {names[0]}"
    return f"sites {', '.join(names[:-1])} and {names[-1]}"


class Without:
    """A connection to some of the sites.

    Args:
        connection: to all of them.
        names: those that take part.
    """

    def __init__(self, connection: Connection, names: Sequence[str]) -> None:
        self.connection = connection
        self.names = list(names)

    def ask(
        self, verb: str, payloads: Mapping[str, Payload], timeout: float
    ) -> tuple[dict[str, Payload], dict[str, str]]:
        """Ask them."""
        return self.connection.ask(verb, payloads, timeout)
