"""A problem whose clients are at the sites of a federation: none of their data are here."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError, not_negative, one_of, positive
from pdmm.common.threads import Threads
from pdmm.engines.sites.remote import Remote
from pdmm.engines.sites.roster import Payload, Roster, SiteError, Sites
from pdmm.problems.base import Block, Clients, Floats, Problem, Source, SumOfClients
from pdmm.problems.constants import KINDS, Kind, Vector, Which
from pdmm.problems.secants import Shown


class Federated(Problem):
    """The sum of the sites' functions, none of whose data are here.

    Clients are numbered through: those of the first site, in the order of names, first.

    Args:
        sites: what connects to them.
        timeout: seconds to wait for a site's answer before the run goes on without it.
        patience: seconds that a site may be silent before the run stops.
        absent: "skip" goes on without a site that does not answer; "wait" waits for it, so that
            rho may adapt, and rounds be accelerated.
    """

    accurate = False

    def __init__(
        self,
        sites: Sites,
        timeout: float = 60.0,
        patience: float = 600.0,
        absent: Literal["skip", "wait"] = "skip",
    ) -> None:
        one_of("absent", absent, ("skip", "wait"))
        self.always_there = absent == "wait"
        self.roster = Roster(
            sites, positive("timeout", timeout), not_negative("patience", patience)
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
        ends = np.cumsum([0, *(facts[name]["clients"] for name in self.roster.names)])
        self.places = {
            name: slice(int(ends[k]), int(ends[k + 1])) for k, name in enumerate(self.roster.names)
        }
        self.clients = int(ends[-1])
        self.dimension = int(facts[first]["dimension"])
        self.dtype = np.dtype(facts[first]["dtype"])
        self.proven = all(fact["proven"] for fact in facts.values())
        self._shown = Shown.nothing(self.clients)
        self.engine: Remote | None = None

    def __repr__(self) -> str:
        return f"Federated({', '.join(self.roster.names)}: {self.clients} clients)"

    def _everyone(self, verb: str, payload: Payload | None = None) -> dict[str, Payload]:
        """The answers of all sites, in the order of their names."""
        answers = self.roster.everyone(verb, {name: payload or {} for name in self.roster.names})
        return {name: answers[name] for name in self.roster.names}

    def make_engine(self, *arguments: Any) -> Remote:
        self._shown = Shown.nothing(self.clients)
        if self.proven:
            self.strong_convexity()  # which certificates need: asked for while all are there
        self.engine = Remote(*arguments)
        return self.engine

    def check(self, x0: Floats, exact: bool) -> None:
        self._everyone("check", {"x0": x0, "exact": exact})

    def summed(
        self, source: Source, weights: npt.NDArray[np.float64], threads: Threads
    ) -> SumOfClients:
        return SumOfSites(self, weights)

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        question = {"which": which}
        if self.engine is not None and not self.always_there:
            answers = self.now("constants", dict.fromkeys(self.places, question))
        else:
            answers = self._everyone("constants", question)
        values, kinds = np.empty(self.clients), []
        for name, answer in answers.items():
            with self.roster.reading(name, "constants"):
                values[self.places[name]] = answer["values"]
                kinds.append(KINDS.index(answer["kind"]))
        return {which: (values, KINDS[min(kinds)])}

    def now(self, verb: str, payloads: Mapping[str, Payload]) -> dict[str, Payload]:
        """The answers of all sites, without waiting for those that are absent."""
        present = self.roster.present
        answers = self.roster.ask(verb, {name: payloads[name] for name in present})
        if missing := [name for name in self.places if name not in answers]:
            raise AbsentError(f"{', '.join(missing)} did not answer, and F is a sum over all sites")
        return answers

    @property
    def shown(self) -> Shown:
        """What sites have told with their answers; they need not be asked again."""
        return self._shown

    def run_state(self) -> list[npt.NDArray[Any]]:
        return self._shown.arrays

    def load_run_state(self, state: list[npt.NDArray[Any]]) -> None:
        self._shown = Shown(*state)

    def blocks(self) -> list[slice]:
        raise ClientError("the clients of a federation are at its sites")

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> Block:
        raise ClientError("the clients of a federation are at its sites")


class AbsentError(ClientError):
    """A sum over all sites was asked for, and some are absent."""


class SumOfSites(SumOfClients):
    """F as the sum of what the sites say."""

    parts = True  # values come with the answers of the next round
    accurate = False

    def __init__(self, problem: Federated, weights: npt.NDArray[np.float64]) -> None:
        self.problem, self.weights = problem, weights

    def _ask(self, verb: str, x: Floats) -> dict[str, Payload]:
        """The answers of all sites; where the run goes on without some, it does not wait here."""
        problem = self.problem
        wide = np.asarray(x, dtype=problem.dtype)
        payloads = {
            name: {"x": wide, "weights": self.weights[place]}
            for name, place in problem.places.items()
        }
        if problem.always_there:
            return problem.roster.everyone(verb, payloads)
        return problem.now(verb, payloads)

    def value_here(self, x: Floats) -> float:
        return 0.0

    def value(self, x: Floats) -> float:
        try:
            answers = self._ask("value", x)
        except AbsentError:
            return float("nan")
        total = 0.0
        for name in self.problem.places:
            with self.problem.roster.reading(name, "value"):
                total += float(answers[name]["value"])
        return total

    def completed(self, part: float, x: Floats) -> float:
        return self.value(x)

    def gradient_and_size(self, x: Floats) -> tuple[npt.NDArray[np.float64], float]:
        answers = self._ask("gradient", x)
        gradient, size = np.zeros(self.problem.dimension), 0.0
        for name in self.problem.places:
            with self.problem.roster.reading(name, "gradient"):
                part = np.asarray(answers[name]["gradient"], dtype=np.float64)
                if part.shape != gradient.shape:
                    raise ValueError(f"its shape is {part.shape}, not {gradient.shape}")
                gradient += part
                size += float(answers[name]["size"])
        return gradient, size

    def gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        return self.gradient_and_size(x)[0]

    def divergence(self, x: Floats, y: Floats) -> float:
        raise NotImplementedError
