"""A problem of which each member of a team holds some of the clients."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.common.team import Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Block, Clients, Floats, Problem, Source, Total
from pdmm.problems.constants import KINDS, Kind, Shown, Vector, Which


class Shared(Problem):
    """The whole of a problem, as one member of a team sees it.

    Clients are numbered through, those of member 0 first.

    Args:
        here: this member's clients.
        team: all of its members make the same calls.
    """

    def __init__(self, here: Any, team: Team) -> None:
        self.team = team
        facts = team.each(lambda: _facts(here))
        self._here: Problem = here
        for k, other in enumerate(facts):
            for name, value in other["alike"].items():
                if value != facts[0]["alike"][name]:
                    raise ValueError(
                        f"problem must be of one kind on all ranks: its {name} is {value} on rank "
                        f"{k} and {facts[0]['alike'][name]} on rank 0"
                    )
        counts = [other["clients"] for other in facts]
        self.clients, self.first = sum(counts), sum(counts[: team.rank])
        self.dimension, self.dtype = here.dimension, here.dtype
        self.accurate, self.parallel = here.accurate, here.parallel
        self.proven, self.knows_all = here.proven, here.knows_all
        self._eigenbasis_size: int = max(other["eigenbasis_size"] for other in facts)

    def __repr__(self) -> str:
        return f"{self._here!r}, of {self.clients} clients on {self.team.size} ranks"

    @property
    def here(self) -> Problem:
        return self._here

    @property
    def own(self) -> slice:
        return slice(self.first, self.first + self._here.clients)

    @property
    def eigenbasis_size(self) -> int:
        return self._eigenbasis_size

    # --- what all members do ----------------------------------------------------------------

    def check(self, x0: Floats, exact: bool) -> None:
        self.team.agree(lambda: self._here.check(x0, exact))

    def total(self, weights: npt.NDArray[np.float64], threads: Threads) -> Total | None:
        return self._here.total(weights[self.own], threads)

    @property
    def shown(self) -> Shown | None:
        def part() -> list[Vector] | None:
            found = self._here.shown
            return None if found is None else found.arrays

        parts = [found for found in self.team.each(part) if found is not None]
        return Shown(*(np.concatenate(f) for f in zip(*parts, strict=True))) if parts else None

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        def constants() -> tuple[Vector, Kind]:
            values, kind, _ = self._here._constants_of_clients(which, threads)
            return values, kind

        parts = self.team.each(constants)
        weakest = min((kind for _, kind in parts), key=KINDS.index)
        return {which: (np.concatenate([values for values, _ in parts]), weakest)}

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads
    ) -> tuple[float, Kind]:
        with Threads(threads.threads, self.team) as shared:
            return self._here._overall_constant(which, weights[self.own], shared)

    # --- what each member does with its own clients --------------------------------------------

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Source:
        return self.team.agree(lambda: self._here.prepare(rounds, steps, exact, threads))

    def evaluator(self, source: Source) -> Source:
        return self._here.evaluator(source)

    def run_state(self) -> list[npt.NDArray[Any]]:
        return self._here.run_state()

    def load_run_state(self, state: list[npt.NDArray[Any]]) -> None:
        self._here.load_run_state(state)

    def blocks(self) -> list[slice]:
        return self._here.blocks()

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> Block:
        raise ClientError("the clients of a shared problem are asked for by those who hold them")


def _facts(here: Any) -> dict[str, Any]:
    """What the members tell each other of their parts."""
    if not isinstance(here, Problem):
        raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {here!r}")
    return {
        "clients": here.clients,
        "eigenbasis_size": int(here.eigenbasis_size),
        "alike": {
            "kind": type(here).__name__,
            "dimension": here.dimension,
            "dtype": str(here.dtype),
            **{name: getattr(here, name) for name in ("accurate", "proven", "knows_all")},
            **{name: getattr(here, name) for name in ("classes", "l2") if hasattr(here, name)},
        },
    }
