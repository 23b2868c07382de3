"""Clients at the sites of a federation, over a network that may fail: none of their data are here.

The server keeps a copy of every client's memory. A site keeps it too, under a name, so that
it need not travel; but a site that has not got it is sent it, and answers as if nothing had
happened. An upload counts when its answer is taken: an answer that comes late or twice, or to
another question, is not.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from pdmm.common import trees
from pdmm.common.checks import ClientError, not_negative, one_of, positive
from pdmm.common.packing import Arrays, pack
from pdmm.common.threads import Threads
from pdmm.common.variables import Variables
from pdmm.engines.client_round import Forms, Part, add_up
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.clients import Clients, Terms, Vector, steepest
from pdmm.engines.exchange import Outcome, Question, add
from pdmm.engines.sites.absences import Absences
from pdmm.engines.sites.answers import draft_of, upload_of
from pdmm.engines.sites.asking import Asked, ask_round
from pdmm.engines.sites.copies import Copies
from pdmm.engines.sites.news import News
from pdmm.engines.sites.roster import Connection, Payload, Roster, SiteError
from pdmm.methods.base import Method
from pdmm.privacy.refusals import Spent
from pdmm.problems.block import Floats, Tally
from pdmm.problems.constants import KINDS, Constants, Kind, Which, WithConstants
from pdmm.problems.fingerprints import check_same
from pdmm.problems.secants import Shown
from pdmm.problems.sums import CertainGradient, CurvatureSum


class AbsentError(ClientError):
    """A sum over all sites was asked for, and some are absent."""


class Sites(WithConstants, Clients):
    """The clients of all sites; :func:`pdmm.solve` takes it in place of a problem.

    Clients are numbered through: those of the first site, in the order of names, first. Sites
    take part, and answer, as they can: there are no simulated links to them.

    Args:
        connection: to the sites.
        timeout: seconds to wait for a site's answer before the run goes on without it.
        patience: seconds that a site may be silent before the run stops.
        absent: "skip" goes on without a site that does not answer; "wait" waits for it, so that
            rho may adapt, and rounds be accelerated.
        verify: "sites" has each site compute x itself, from what all sites have sent, so that no
            server can choose the points at which they answer. It costs m vectors down instead of
            one, and m - 1 signatures to check.
        run: the name of the run, for the sites' audits.
    """

    accurate = False
    _asks_moved = False  # whether constants are those of the functions that rounds are about

    def __init__(
        self,
        connection: Connection,
        timeout: float = 60.0,
        patience: float = 600.0,
        absent: Literal["skip", "wait"] = "skip",
        verify: Literal["server", "sites"] = "server",
        run: str = "run",
    ) -> None:
        one_of("absent", absent, ("skip", "wait"))
        one_of("verify", verify, ("server", "sites"))
        self.verified = verify == "sites"
        self.run = run
        self.steady = absent == "wait"
        self.may_be_silent = not self.steady
        self.roster = Roster(
            connection, positive("timeout", timeout), not_negative("patience", patience)
        )
        facts = self._everyone("hello")
        first = self.roster.names[0]
        for name, fact in facts.items():
            for what in ("dimension", "dtype"):
                if fact[what] != facts[first][what]:
                    raise SiteError(
                        f"site {name} has the {what} {fact[what]}, but site {first} has "
                        f"{facts[first][what]}: all must be the same"
                    )
        _check_alike({name: fact.get("alike", {}) for name, fact in facts.items()})
        self.places: dict[str, slice] = {}
        self.clients = 0
        for name in self.roster.names:
            end = self.clients + int(facts[name]["clients"])
            self.places[name] = slice(self.clients, end)
            self.clients = end
        self.dimension = int(facts[first]["dimension"])
        self.dtype = np.dtype(facts[first]["dtype"])
        self.proven = all(fact["proven"] for fact in facts.values())
        reveals = {fact["reveals"] for fact in facts.values()}
        self.curved = "none" not in reveals and not self.verified
        self.guarded = "diagonal" in reveals
        self.per_site = all(fact["per_site"] for fact in facts.values())
        self.identified = self.verified or any(fact["identified"] for fact in facts.values())
        self.likelihood = all(fact.get("likelihood", False) for fact in facts.values())
        self.intercepts = facts[first].get("intercepts")
        self.variables: Payload | None = None
        self._shown = Shown.nothing(self.clients)
        self._prepared = False
        self.fingerprint: Vector = np.empty(0)
        self.rounds = 0
        self.last: Outcome | None = None
        self.answered: list[str] = []
        self.news = News(self.places) if self.verified else None
        self._opening: dict[str, Payload] = {}
        self._agreed: dict[str, str] = {}
        self.roster.opening = self._opening_of

    def __repr__(self) -> str:
        return f"Sites({', '.join(self.roster.names)}: {self.clients} clients)"

    def _everyone(self, verb: str, payload: Payload | None = None) -> dict[str, Payload]:
        """The answers of all sites, in the order of their names."""
        answers = self.roster.everyone(verb, {name: payload or {} for name in self.roster.names})
        return {name: answers[name] for name in self.roster.names}

    def _now(self, verb: str, payloads: Mapping[str, Payload]) -> dict[str, Payload]:
        """The answers of all sites, without waiting for those that are absent."""
        present = self.roster.present
        answers = self.roster.ask(verb, {name: payloads[name] for name in present})
        missing = [name for name in self.places if name not in answers]
        if missing:
            raise AbsentError(f"{', '.join(missing)} did not answer, and F is a sum over all sites")
        return answers

    # --- what a run is about ------------------------------------------------------------------

    def open(self, terms: Terms) -> None:
        run = f"{self.run}/{uuid.uuid4().hex[:12]}"
        arrays: Arrays = {}
        regulariser = pack(terms.regulariser, arrays, "regulariser")
        self._prepared = False
        everyone = {name: terms.weights[place] for name, place in self.places.items()}
        parties: list[Any] = list(self.places)
        if self.identified:
            asked = {name: {"run": run, "name": name} for name in self.places}
            joined = self.roster.everyone("join", asked)
            parties = [joined[name]["statement"] for name in self.places]
        about = {
            "run": run,
            "rounds": terms.rounds,
            "x0": terms.x0,
            "verified": self.verified,
            "parties": parties,
            "everyone": everyone if self.identified else None,
            "regulariser": [regulariser, arrays],
        }
        self._opening = {name: {**about, "weights": everyone[name]} for name in self.places}
        answers = self.roster.everyone("open", self._opening)
        self._agreed = {name: answers[name]["agreed"] for name in self.places}

    def _opening_of(self, name: str) -> Payload:
        """What a site is told again whose process was started again."""
        if self.identified or not self._opening:
            raise SiteError(
                f"site {name} has lost its part of the run, whose sites have made sure of each "
                "other: begin the run again"
            )
        return self._opening[name]

    def point(self, name: str, key: str, x: Any) -> Payload:
        """A point for a question; what it follows from instead, where the sites compute it."""
        return {key: x} if self.news is None else {"news": self.news.since(name)}

    # --- what is known of their functions ---------------------------------------------------

    def check(self, x0: Floats, exact: bool) -> None:
        self._everyone("check", {"exact": exact})
        self.begin_at(x0)

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        question: Payload = {"which": which}
        if self._asks_moved:
            question["variables"] = self.variables
        if self._prepared and not self.steady:
            answers = self._now("constants", dict.fromkeys(self.places, question))
        else:
            answers = self._everyone("constants", question)
        values = np.empty(self.clients)
        kinds = []
        for name, answer in answers.items():
            with self.roster.reading(name, "constants"):
                values[self.places[name]] = answer["values"]
                kinds.append(KINDS.index(answer["kind"]))
        return {which: (values, KINDS[min(kinds)])}

    @property
    def shown(self) -> Shown:
        """What sites have told with their answers; they need not be asked again."""
        return self._shown

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "Sites",
            "clients": self.clients,
            "dimension": self.dimension,
            "dtype": str(self.dtype),
            "description": repr(self),
        }

    def recognise(self, x0: Vector, then: Table | None) -> None:
        now = self._fingerprints()
        if then is not None:
            before = then.columns[0]
            if self.may_be_silent:  # a site that did not answer says nothing of its clients
                before = np.where(np.isnan(before), now, before)
                now = np.where(np.isnan(now), before, now)
            check_same(now, before, self.dtype, self._site_of)
        self.fingerprint = now

    def _fingerprints(self) -> Vector:
        """For each client a number of its site: a sum over its clients, which knows their order."""
        payloads: dict[str, Payload] = {name: {} for name in self.places}
        if self.steady:
            answers = self.roster.everyone("fingerprint", payloads)
        else:
            present = self.roster.present
            answers = self.roster.ask("fingerprint", {name: payloads[name] for name in present})
        found = np.full(self.clients, np.nan)
        for name, answer in answers.items():
            with self.roster.reading(name, "fingerprint"):
                found[self.places[name]] = float(answer["value"])
        return found

    def _site_of(self, client: int) -> str:
        name = next(name for name, place in self.places.items() if client < place.stop)
        return f"site {name}"

    # --- a run ------------------------------------------------------------------------------

    def weigh(self, weights: Vector) -> None:
        self.weights = weights
        self.weight = float(weights.sum())

    def change_variables(self, variables: Variables) -> None:
        self.variables = {"kind": type(variables).__name__, **vars(variables)}

    def moved_smoothness(self, weights: Any = None) -> tuple[Constants, Constants]:
        if self.variables is None:
            return super().moved_smoothness(weights)
        known = dict(self._known)
        self._known.clear()
        self._asks_moved = True
        try:
            return self._constants("L", weights), self._constants("mu", weights)
        finally:
            self._asks_moved = False
            self._known.clear()
            self._known.update(known)

    def prepare(self, method: Method, x0: Vector, weights: Vector, rounds: int) -> None:
        self._shown = Shown.nothing(self.clients)
        if self.proven:
            self.strong_convexity()  # which certificates need: asked for while all are there
        self._prepared = True
        self.rounds = rounds
        self.weights = weights
        self.weight = float(weights.sum())
        self.forms = Forms(method, np.zeros(self.dimension), self.dtype)
        self.copies = Copies(method, x0.astype(self.dtype), self.places)
        self.absences = Absences(self.places)
        plan = {
            "method": pack(method, {}, "method"),
            "rounds": rounds,
            "variables": self.variables,
            "agreed": self._agreed,
        }
        if self.news is not None:
            self.news = News(self.places)
        self._everyone("prepare", plan)

    def round(self, question: Question) -> Outcome:
        message = trees.cast(question.message, self.dtype)
        asked = ask_round(self, question, message)
        self.answered = list(asked.answers)
        self.absences.note(question.round, asked.answers, self.roster)
        self.last = self._taken(question, message, asked)
        return self.last

    def _taken(self, question: Question, message: Any, asked: Asked) -> Outcome:
        """Average the uploads, and bring the copies of the memories up to date."""
        parts: list[Part] = []
        shapes = self.forms.of(question.method, message)
        for name, place in self.places.items():  # sums do not depend on who answered first
            if name not in asked.answers:
                continue
            answer = asked.answers[name]
            upload = upload_of(answer, shapes)
            if self.news is None:
                draft = draft_of(answer, shapes)
                self.copies.take(name, question.method, message, draft, upload)
            if answer["shown"] is not None:
                with self.roster.reading(name, "round"):
                    self._shown.join(place, answer["shown"])
            tally = Tally(**answer["tally"])
            parts.append(add_up(question.method, upload, self.weights[place], tally, place.start))
        if self.news is not None:
            self.news.add(question.round, asked.answers)
        seen = steepest(self.secants()) if question.watch else 0.0
        sums = add(parts, asked.sent, self._value(question, asked), seen)
        everyone = len(asked.answers) == len(self.places)
        return sums.outcome(self.weight if everyone else sums.weight, self.weight)

    def _value(self, question: Question, asked: Asked) -> float | None:
        """F as the sum of what the sites say; NaN if one of them says nothing."""
        if question.evaluate is None:
            return None
        values = [
            asked.answers[name]["value"] if name in asked.answers else np.nan
            for name in self.places
        ]
        return float(sum(values))

    @property
    def remarks(self) -> tuple[str, ...]:
        return self.absences.sentences()

    # --- F ----------------------------------------------------------------------------------

    def _ask_at(self, verb: str, x: Floats) -> dict[str, Payload]:
        """The answers of all sites; where the run goes on without some, it does not wait here."""
        held = np.asarray(x, dtype=self.dtype)
        payloads = {name: self.point(name, "x", held) for name in self.places}
        if self.steady:
            return self.roster.everyone(verb, payloads)
        return self._now(verb, payloads)

    def value(self, x: Floats) -> float:
        try:
            answers = self._ask_at("value", x)
        except (AbsentError, Spent):
            return float("nan")
        total = 0.0
        for name in self.places:
            with self.roster.reading(name, "value"):
                total += float(answers[name]["value"])
        return total

    def certain_gradient(self, x: Floats) -> CertainGradient:
        try:
            answers = self._ask_at("gradient", x)
        except Spent as error:
            raise AbsentError(str(error)) from error
        parts = []
        for name in self.places:
            with self.roster.reading(name, "gradient"):
                part = CertainGradient(**answers[name])
                shape = np.shape(part.gradient)
                if shape != (self.dimension,):
                    raise ValueError(f"its shape is {shape}, not {(self.dimension,)}")
                parts.append(CertainGradient(part.gradient, *map(float, part[1:])))
        return CertainGradient.sum(parts, len(parts))

    def gradient(self, x: Floats) -> Vector:
        return self.certain_gradient(x).gradient

    def curvature(self, x: Floats | None, T: Vector | None) -> CurvatureSum:
        d = self.dimension
        k = d if T is None else T.shape[1]
        added = self._sums("curvature", x, {"T": T}, (k * k + k + 4,))
        return CurvatureSum.unpacked(added)

    def diagonal(self, x: Floats) -> Vector:
        return self._sums("diagonal", x, {}, (3, self.dimension))

    def _sums(self, verb: str, x: Floats | None, more: Payload, shape: tuple[int, ...]) -> Vector:
        """An array that is the sum of what all sites say."""
        payloads = {name: {"x": x, **more} for name in self.places}
        ask = self.roster.everyone if self.steady or not self._prepared else self._now
        answers = ask(verb, payloads)
        total = np.zeros(shape)
        for name in self.places:
            with self.roster.reading(name, verb):
                part = np.asarray(answers[name]["sums"], dtype=np.float64)
                if part.shape != shape:
                    raise ValueError(f"its shape is {part.shape}, not {shape}")
                total += part
        return total

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return self.absences.state()

    def load(self, state: dict[str, Any]) -> None:
        self.absences.load(state)

    def tables(self) -> Tables:
        learnt = Table(np.arange(self.clients), self._shown.arrays)
        fingerprint = Table(np.arange(len(self.fingerprint)), [self.fingerprint])
        return {**self.copies.tables(), "learnt": learnt, "fingerprint": fingerprint}

    def load_tables(self, tables: Tables) -> None:
        self._shown = Shown(*tables["learnt"].columns)
        self.copies.load(tables)


def _check_alike(facts: dict[str, dict[str, str | None]]) -> None:
    """Refuse sites whose columns, classes or the like are not those of the others.

    Sites tell no more than digests of them; a site whose data have no names has nothing to tell.
    """
    known: dict[str, tuple[str, str]] = {}
    for site, digests in facts.items():
        for what, digest in digests.items():
            if digest is None:
                continue
            first, expected = known.setdefault(what, (site, digest))
            if digest != expected:
                raise SiteError(
                    f"site {site} has other {what} than site {first}, or in another order: all "
                    "must be the same"
                )
