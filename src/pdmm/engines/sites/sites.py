"""Clients at the sites of a federation, over a network that may fail: none of their data are here.

The server keeps a copy of every client's memory. A site keeps it too, under a name, so that
it need not travel; but a site that has not got it is sent it, and answers as if nothing had
happened. An upload counts when its answer is taken: an answer that comes late or twice, or to
another question, is not.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from pdmm.common import trees
from pdmm.common.checks import ClientError, not_negative, one_of, positive
from pdmm.common.packing import pack
from pdmm.common.site_shares import SiteShare
from pdmm.common.threads import Threads
from pdmm.common.variables import Variables
from pdmm.engines.client_round import Forms, Part, add_up
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.clients import Clients, Terms, Vector, steepest
from pdmm.engines.exchange import Outcome, Question, add
from pdmm.engines.sites.absences import Absences
from pdmm.engines.sites.asking import Asked, ask_round
from pdmm.engines.sites.copies import Copies
from pdmm.engines.sites.facts import check_facts, read_facts
from pdmm.engines.sites.news import News
from pdmm.engines.sites.opening import Opening
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import Connection, Payload, Roster
from pdmm.engines.sites.shares import Shares
from pdmm.engines.sites.told_constants import check_order, read_constants
from pdmm.engines.sites.told_sums import read_gradient, read_sums, read_value
from pdmm.methods.base import Method
from pdmm.privacy.refusals import Spent
from pdmm.problems.block import Floats
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

    Attributes:
        per_site: whether ``result.sites`` says what part of the run each site made. Where the
            policy of one site does not allow it, nothing of that is computed.
    """

    accurate = False
    proviso = "if all sites are honest"
    per_site: bool = True
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
        self.steady = absent == "wait"
        self.may_be_silent = not self.steady
        self.roster = Roster(
            connection, positive("timeout", timeout), not_negative("patience", patience)
        )
        facts = {reply.site: read_facts(reply) for reply in self._everyone("hello")}
        check_facts(facts)
        self.places: dict[str, slice] = {}
        self.clients = 0
        for name, fact in facts.items():
            end = self.clients + fact.clients
            self.places[name] = slice(self.clients, end)
            self.clients = end
        first = facts[self.roster.names[0]]
        self.dimension = first.dimension
        self.dtype = np.dtype(first.dtype)
        self.proven = all(fact.proven for fact in facts.values())
        reveals = {fact.reveals for fact in facts.values()}
        self.curved = "none" not in reveals and not self.verified
        self.guarded = "diagonal" in reveals
        self.per_site = all(fact.per_site for fact in facts.values())
        self.likelihood = all(fact.likelihood for fact in facts.values())
        self.intercepts = first.intercepts
        self._says_proven = {name: fact.proven for name, fact in facts.items()}
        self.variables: Payload | None = None
        self._shown = Shown.nothing(self.clients)
        self._prepared = False
        self.fingerprint: Vector = np.empty(0)
        self.rounds = 0
        self.last: Outcome | None = None
        self.answered: list[str] = []
        self.news = News(self.places) if self.verified else None
        identified = any(fact.identified for fact in facts.values())
        self.opening = Opening(self.roster, run, self.verified, self.verified or identified)
        self.strays: dict[str, int] = {}  # answers in a row that belong to another question
        self._shares = Shares(self.places)

    def __repr__(self) -> str:
        return f"Sites({', '.join(self.roster.names)}: {self.clients} clients)"

    def _everyone(self, verb: str, payload: Payload | None = None) -> list[Reply]:
        """The replies of all sites, in the order of their names."""
        return self._replies(verb, dict.fromkeys(self.roster.names, payload or {}), wait=True)

    def _replies(self, verb: str, payloads: Mapping[str, Payload], wait: bool) -> list[Reply]:
        """The replies of all sites, in the order of their names.

        Args:
            verb: of the question.
            payloads: for each site.
            wait: for those that are absent; else it is an error that they are.
        """
        if wait:
            answers = self.roster.everyone(verb, payloads)
        else:
            present = self.roster.present
            answers = self.roster.ask(verb, {name: payloads[name] for name in present})
        missing = [name for name in self.roster.names if name not in answers]
        if missing:
            raise AbsentError(f"{', '.join(missing)} did not answer, and F is a sum over all sites")
        return [Reply(name, verb, answers[name]) for name in self.roster.names]

    # --- what a run is about ------------------------------------------------------------------

    def open(self, terms: Terms) -> None:
        self._prepared = False
        self.opening.agree(terms, self.places)

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
        wait = self.steady or not self._prepared
        replies = self._replies("constants", dict.fromkeys(self.places, question), wait)
        values = np.empty(self.clients)
        kinds = []
        for reply in replies:
            place = self.places[reply.site]
            proven = self._says_proven[reply.site] and not self._asks_moved
            clients = place.stop - place.start
            values[place], kind = read_constants(reply, which, clients, proven)
            kinds.append(KINDS.index(kind))
        found: tuple[Vector, Kind] = (values, KINDS[min(kinds)])
        self._check_with_other(which, found)
        return {which: found}

    def _check_with_other(self, which: Which, found: tuple[Vector, Kind]) -> None:
        """Hold L against mu, once both are known."""
        other = {"L": "mu", "mu": "L"}.get(which)
        if other not in self._known:
            return
        values, kind, _ = self._known[other]
        pair = {which: found, other: (values, kind)}
        check_order(pair["L"], pair["mu"], self.places)

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
            reply = Reply(name, "fingerprint", answer)
            found[self.places[name]] = reply.number_or_nan("value")
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
        self.strays = {}
        self._shares = Shares(self.places)
        plan = {
            "method": pack(method, {}, "method"),
            "rounds": rounds,
            "variables": self.variables,
            "agreed": self.opening.agreed,
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
        for name, place in self.places.items():  # sums do not depend on who answered first
            if name not in asked.answers:
                continue
            answer = asked.answers[name]
            if self.news is None:
                with self.roster.reading(name, "round"):
                    self.copies.take(name, question.method, message, answer.draft, answer.upload)
            if answer.shown is not None:
                self._shown.join(place, answer.shown)
            weights = self.weights[place]
            parts.append(add_up(question.method, answer.upload, weights, answer.tally, place.start))
        if self.news is not None:
            self.news.add(question.round, asked.answers)
        if self.per_site:
            uploads = {name: answer.upload for name, answer in asked.answers.items()}
            self._shares.note(uploads, self.weights)
        seen = steepest(self.secants()) if question.watch else 0.0
        sums = add(parts, asked.sent, self._value(question, asked), seen)
        everyone = len(asked.answers) == len(self.places)
        return sums.outcome(self.weight if everyone else sums.weight, self.weight)

    def _value(self, question: Question, asked: Asked) -> float | None:
        """F as the sum of what the sites say; NaN if one of them says nothing."""
        if question.evaluate is None:
            return None
        total = 0.0
        for name in self.places:
            answer = asked.answers.get(name)
            if answer is None or answer.value is None:
                return float("nan")
            total += answer.value
        return total

    @property
    def remarks(self) -> tuple[str, ...]:
        outliers = [row.words for row in self.shares() or () if row.flagged]
        return (*self.absences.sentences(), *outliers)

    def shares(self) -> tuple[SiteShare, ...] | None:
        if not self.per_site:
            return None
        found = self._known.get("L")  # nobody is asked for it here
        return self._shares.rows(self.weights, None if found is None else found[0])

    # --- F ----------------------------------------------------------------------------------

    def _ask_at(self, verb: str, x: Floats) -> list[Reply]:
        """The replies of all sites; where the run goes on without some, it does not wait here."""
        held = np.asarray(x, dtype=self.dtype)
        payloads = {name: self.point(name, "x", held) for name in self.places}
        return self._replies(verb, payloads, wait=self.steady)

    def value(self, x: Floats) -> float:
        try:
            replies = self._ask_at("value", x)
        except (AbsentError, Spent):
            return float("nan")
        total = 0.0
        for reply in replies:
            total += read_value(reply)
        return total

    def certain_gradient(self, x: Floats) -> CertainGradient:
        try:
            replies = self._ask_at("gradient", x)
        except Spent as error:
            raise AbsentError(str(error)) from error
        parts = {reply.site: read_gradient(reply, self.dimension) for reply in replies}
        if self.per_site:
            self._shares.note_gradients({name: part.gradient for name, part in parts.items()})
        return CertainGradient.sum(list(parts.values()), len(parts))

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
        start = np.zeros(self.dimension) if self.start is None else self.start
        needed = x is None or (not self._prepared and np.array_equal(x, start))
        total = np.zeros(shape)
        for reply in self._replies(verb, payloads, wait=self.steady or not self._prepared):
            total += read_sums(reply, shape, needed)
        return total

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {**self.absences.state(), "shares": self._shares.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.absences.load(state)
        self._shares.load(state["shares"])

    def tables(self) -> Tables:
        learnt = Table(np.arange(self.clients), self._shown.arrays)
        fingerprint = Table(np.arange(len(self.fingerprint)), [self.fingerprint])
        return {**self.copies.tables(), "learnt": learnt, "fingerprint": fingerprint}

    def load_tables(self, tables: Tables) -> None:
        self._shown = Shown(*tables["learnt"].columns)
        self.copies.load(tables)
