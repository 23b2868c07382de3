"""Clients at the sites of a federation, over a network that may fail: none of their data are here.

The server keeps a copy of every client's memory. A site keeps it too, under a name, so that
it need not travel; but a site that has not got it is sent it, and answers as if nothing had
happened. An upload counts when its answer is taken: an answer that comes late or twice, or to
another question, is not.
"""

import time
from typing import Any, Literal

import numpy as np

from pdmm.common import trees
from pdmm.common.checks import not_negative, one_of, positive, switch
from pdmm.common.packing import pack
from pdmm.common.site_shares import SiteShare
from pdmm.common.variables import Variables
from pdmm.engines.client_round import Forms, Part, add_up
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.clients import Terms, Vector, steepest
from pdmm.engines.exchange import Outcome, Question, add
from pdmm.engines.secure.function import SummedFunction
from pdmm.engines.secure.layout import Layout
from pdmm.engines.sites.absences import Absences
from pdmm.engines.sites.asked_sites import AbsentError, AskedSites
from pdmm.engines.sites.asking import Asked, ask_round
from pdmm.engines.sites.copies import Copies
from pdmm.engines.sites.facts import check_facts, read_facts
from pdmm.engines.sites.hidden_round import HiddenRound
from pdmm.engines.sites.hidden_sums import SEVERAL, HiddenSums
from pdmm.engines.sites.news import News
from pdmm.engines.sites.opening import Opening
from pdmm.engines.sites.own_start import asked_start
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import PAUSE, Connection, Payload, Roster
from pdmm.engines.sites.seal import LEAST_SITES
from pdmm.engines.sites.shares import Shares
from pdmm.engines.sites.told_sums import read_gradient, read_sums, read_value
from pdmm.engines.traffic import Sent
from pdmm.methods.base import Method
from pdmm.privacy.refusals import Spent
from pdmm.problems.block import Floats
from pdmm.problems.constants import Constants
from pdmm.problems.secants import Shown
from pdmm.problems.sums import CertainGradient, CurvatureSum


class Sites(AskedSites):
    """The clients of all sites; :func:`pdmm.solve` takes it in place of a problem.

    Clients are numbered through: those of the first site, in the order of names, first. Sites
    take part, and answer, as they can: there are no simulated links to them.

    Args:
        connection: to the sites.
        timeout: seconds to wait for a site's answer before the run goes on without it.
        patience: seconds that a site may be silent before the run stops.
        absent: "skip" goes on without a site that does not answer; "wait" waits for it, so that
            rho may adapt, and rounds be accelerated.
        secure: True hides each site's part of every sum from the server: of uploads, values,
            gradients and Hessians. "auto" does so wherever three organisations with certificates
            take part, or more.
        verify: "sites" has each site compute x itself, from what all sites have sent, so that no
            server can choose the points at which they answer. It costs m vectors down instead of
            one, and m - 1 signatures to check.
        run: the name of the run, for the sites' audits.
        study: which the run is a part of; a site may have consented to some studies alone.

    Attributes:
        per_site: whether ``result.sites`` says what part of the run each site made. Where the
            policy of one site does not allow it, nothing of that is computed.
        parameters: names and shapes of a model's parameters; None where x is no model's.
    """

    accurate = False
    proviso = "if all sites are honest"
    per_site: bool = True

    def __init__(
        self,
        connection: Connection,
        timeout: float = 60.0,
        patience: float = 600.0,
        absent: Literal["skip", "wait"] = "skip",
        verify: Literal["server", "sites"] = "server",
        run: str = "run",
        secure: bool | Literal["auto"] = "auto",
        study: str = "",
    ) -> None:
        one_of("absent", absent, ("skip", "wait"))
        one_of("verify", verify, ("server", "sites"))
        switch("secure", secure)
        self.verified = verify == "sites"
        self.computes_x = self.verified
        if self.verified:
            self.no_checkpoint = (
                "a run with verify='sites' has no checkpoint, since its sites take no memory from "
                "a server: leave checkpoint= out, and begin it again where it ends early"
            )
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
        self.organisations = {name: fact.organisation or name for name, fact in facts.items()}
        identified = any(fact.identified for fact in facts.values())
        self.hidden: HiddenSums | None = None
        self.summed = SummedFunction(self._hidden_sum, self.dimension, len(self.places))
        self.why_secure = self._decided(secure, all(f.identified for f in facts.values()))
        reveals = {fact.reveals for fact in facts.values()}
        if self.hidden is not None:
            reveals = {fact.reveals_in_sums for fact in facts.values()}
        self.curved = "none" not in reveals and not self.verified
        self.guarded = "diagonal" in reveals
        self.per_site = all(fact.per_site for fact in facts.values())
        self.likelihood = all(fact.likelihood for fact in facts.values())
        self.intercepts = first.intercepts
        self.convex = all(fact.convex for fact in facts.values())
        self.parameters = first.parameters
        self.x0 = asked_start(self.roster, first.start, self.dimension, self.dtype)
        self._says_proven = {name: fact.proven for name, fact in facts.items()}
        self.variables: Payload | None = None
        self._shown = Shown.nothing(self.clients)
        self._prepared = False
        self.fingerprint: Vector = np.empty(0)
        self.rounds = 0
        self.last: Outcome | None = None
        self.answered: list[str] = []
        self.news = News(self.places) if self.verified else None
        signed = self.verified or identified or self.hidden is not None
        self.opening = Opening(self.roster, run, self.verified, signed, self.hidden, study)
        self.strays: dict[str, int] = {}  # answers in a row that belong to another question
        self._shares = Shares(self.places)

    def _decided(self, secure: bool | str, identified: bool) -> str:
        """Whether sums are secure, and why, in a sentence; empty where nobody would ask."""
        count = len(set(self.organisations.values()))
        enough = count >= LEAST_SITES
        if secure is True and not enough:
            raise ValueError(f"secure=True: {SEVERAL}, and {count} take part")
        if secure is True or (secure == "auto" and identified and enough):
            addends = self.clients + len(self.places)
            self.hidden = HiddenSums(self.roster, addends)
            if not self.no_checkpoint:
                self.no_checkpoint = (
                    "a run with secure sums has no checkpoint, since its sites alone know what "
                    "they remember: leave checkpoint= out, and begin it again where it ends early"
                )
            return f"sums are secure: the server read sums over {count} organisations alone"
        if not identified:
            return ""
        why = "as was asked for" if secure is False else SEVERAL
        return f"sums are not secure, {why}: the server saw each site's part"

    def __repr__(self) -> str:
        return f"Sites({', '.join(self.roster.names)}: {self.clients} clients)"

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
        }
        if self.news is not None:
            self.news = News(self.places)
        self._everyone("prepare", plan)

    def round(self, question: Question) -> Outcome:
        message = trees.cast(question.message, self.dtype)
        if self.hidden is not None:
            self.last = HiddenRound(self, self.hidden, question, message).run()
            self.absences.note(question.round, self.answered, self.roster)
            return self.last
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
        seen = self.steepest_shown() if question.watch else 0.0
        sums = add(parts, asked.sent, self._value(question, asked), seen)
        everyone = len(asked.answers) == len(self.places)
        return sums.outcome(self.weight if everyone else sums.weight, self.weight)

    def steepest_shown(self) -> float:
        """The largest L that gradients have shown."""
        return steepest(self.secants())

    def note_shown(self, name: str, shown: list[Vector]) -> None:
        """A site has told what its gradients have shown of L and mu."""
        self._shown.join(self.places[name], shown)

    def note_sizes(self, sizes: dict[str, float]) -> None:
        """Sites have told the norms of their uploads."""
        self._shares.note_sizes(sizes)

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
        said = (self.why_secure,) if self.why_secure else ()
        return (*said, *self.absences.sentences(), *outliers)

    def shares(self) -> tuple[SiteShare, ...] | None:
        if not self.per_site:
            return None
        found = self._known.get("L")  # nobody is asked for it here
        return self._shares.rows(self.weights, None if found is None else found[0])

    # --- F ----------------------------------------------------------------------------------

    def _hidden_sum(
        self, verb: str, x: Floats | None, T: Vector | None, layout: Layout
    ) -> dict[str, Vector]:
        """A sum over all sites of which no part can be read."""
        assert self.hidden is not None
        if verb in ("curvature", "diagonal"):
            payloads = {name: {"x": x, "T": T} for name in self.places}
            wait = self.steady or not self._prepared
        else:
            assert x is not None
            payloads = self._points(x)
            wait = self.steady
        while True:
            absent = [name for name in payloads if name in self.roster.absent]
            found = None if absent and not wait else self.hidden.ask(verb, payloads, layout)
            if found is not None:
                return found
            if not wait:
                raise AbsentError("some sites did not answer, and F is a sum over all sites")
            time.sleep(PAUSE)

    def _ask_at(self, verb: str, x: Floats) -> list[Reply]:
        """The replies of all sites; where the run goes on without some, it does not wait here."""
        return self._replies(verb, self._points(x), wait=self.steady)

    def _points(self, x: Floats) -> dict[str, Payload]:
        held = np.asarray(x, dtype=self.dtype)
        return {name: self.point(name, "x", held) for name in self.places}

    def value(self, x: Floats) -> float:
        try:
            if self.hidden is not None:
                return self.summed.value(x)
            replies = self._ask_at("value", x)
        except (AbsentError, Spent):
            return float("nan")
        total = 0.0
        for reply in replies:
            total += read_value(reply)
        return total

    def certain_gradient(self, x: Floats) -> CertainGradient:
        try:
            if self.hidden is not None:
                return self.summed.certain_gradient(x)
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
        if self.hidden is not None:
            return self.summed.curvature(x, T)
        k = self.dimension if T is None else T.shape[1]
        added = self._sums("curvature", x, {"T": T}, (k * k + k + 4,))
        return CurvatureSum.unpacked(added)

    def diagonal(self, x: Floats) -> Vector:
        if self.hidden is not None:
            return self.summed.diagonal(x)
        return self._sums("diagonal", x, {}, (3, self.dimension))

    def beside(self) -> Sent | None:
        return None if self.hidden is None else self.hidden.beside()

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
