"""Clients of which each process of a team holds some: a round ends in one sum over the team."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.engines.client_round import Forms
from pdmm.engines.clients import Clients, Vector
from pdmm.engines.exchange import Question, Sums
from pdmm.engines.in_process import InProcess
from pdmm.engines.traffic import Sent
from pdmm.links.links import Links
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.problems.block import Floats, Tally
from pdmm.problems.constants import KINDS, Constants, Kind, Which, WithConstants
from pdmm.problems.secants import Shown


class Ranks(WithConstants, InProcess):
    """All clients of a team's members, as one of them sees it.

    Clients are numbered through, those of member 0 first.

    Args:
        problem: the functions of this member's clients.
        team: all of its members make the same calls.
    """

    def __init__(self, problem: Problem, team: Team) -> None:
        facts = team.each(lambda: _facts(problem))
        super().__init__(problem, team)
        _check_alike([other["alike"] for other in facts])
        counts = [other["clients"] for other in facts]
        self.clients = sum(counts)
        self.first = sum(counts[: team.rank])
        self.behind(Links(self.clients))
        self.eigenbasis_size = max(other["eigenbasis_size"] for other in facts)

    def __repr__(self) -> str:
        return f"{self.problem!r}, of {self.clients} clients on {self.team.size} ranks"

    # --- constants --------------------------------------------------------------------------

    def check(self, x0: Floats, exact: bool) -> None:
        super().check(x0, exact)
        self.begin_at(x0)

    @property
    def shown(self) -> Shown | None:
        def part() -> list[Vector] | None:
            found = self.problem.shown
            return None if found is None else found.arrays

        parts = [found for found in self.team.each(part) if found is not None]
        if not parts:
            return None
        return Shown(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        def constants() -> tuple[Vector, Kind]:
            values, kind, _ = self.problem.constants_of_clients(which, threads)
            return values, kind

        parts = self.team.each(constants)
        weakest = min((kind for _, kind in parts), key=KINDS.index)
        return {which: (np.concatenate([values for values, _ in parts]), weakest)}

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        return self.problem._overall_constant(which, weights[self.own], threads, self.team)

    def moved_smoothness(self, weights: Any = None) -> tuple[Constants, Constants]:
        if self.moved is self.problem:
            return Clients.moved_smoothness(self, weights)
        of_x = self.problem
        try:
            self.problem = self.moved
            self._known.clear()
            return self._constants("L", weights), self._constants("mu", weights)
        finally:
            self.problem = of_x
            self._known.clear()

    # --- a round ----------------------------------------------------------------------------

    def prepare(self, method: Method, x0: Vector, weights: Vector, rounds: int) -> None:
        super().prepare(method, x0, weights, rounds)
        # A member none of whose clients took part must know what the others send.
        self.forms = Forms(method, x0, self.dtype)
        self.has_x = method.disagreement(self.forms.first.upload) is not None

    def _of_all(self, work: Callable[[], Sums], question: Question) -> Sums:
        """What the clients of all members did; all members fail if one does."""
        if self.team.size == 1:
            return work()
        here: Sums | None = None
        error: BaseException | None = None
        try:
            here = work()
        except (Exception, SystemExit) as raised:
            error = raised
        form = self.forms.of(question.method, question.message).upload
        blank = trees.each(lambda field: np.zeros(np.shape(field)[1:]), form)
        uploads = blank
        if here is not None and here.uploads is not None:
            uploads = here.uploads
        pieces = [np.ravel(field) for field in uploads]
        pieces.append(np.array(_Added.of(here), dtype=np.float64))
        pieces.append(_Own.of(here, error).in_its_place(self.team))
        ends = np.cumsum([len(piece) for piece in pieces])[:-1]
        *fields, numbers, places = np.split(self.team.sum(np.concatenate(pieces)), ends)
        own = _Own(*places.reshape(self.team.size, -1).T)
        if own.failed.any():
            self.team.fail(error)
        shaped = [field.reshape(like.shape) for field, like in zip(fields, blank, strict=True)]
        whole = trees.build(blank, shaped)
        return self._sums(whole, _Added(*numbers.tolist()), own, question)

    def _sums(self, uploads: Any, added: "_Added", own: "_Own", question: Question) -> Sums:
        bad = own.bad[own.bad > 0]
        arrived = int(added.arrived)
        return Sums(
            uploads=uploads if arrived else None,
            weight=added.weight,
            arrived=arrived,
            tally=Tally(
                gradients=int(added.gradients),
                values=int(added.values),
                exact=int(added.exact),
                error=float(own.error.max()),
                missed=float(own.missed.max()),
            ),
            bad=int(bad[0]) - 1 if len(bad) else None,
            apart=added.apart if self.has_x else None,
            sent=added.sent,
            value=None if question.evaluate is None else added.value,
            steepest=float(own.steepest.max()),
        )


class _Added(NamedTuple):
    """Numbers of a round that are added up over the members of a team."""

    weight: float = 0.0
    apart: float = 0.0
    arrived: float = 0
    value: float = 0.0
    gradients: float = 0
    values: float = 0
    exact: float = 0
    contacts: float = 0
    uploads: float = 0
    vectors_down: float = 0
    vectors_up: float = 0
    bytes_down: float = 0
    bytes_up: float = 0

    @classmethod
    def of(cls, sums: Sums | None) -> "_Added":
        if sums is None:
            return cls()
        return cls(
            weight=sums.weight,
            apart=sums.apart or 0.0,
            arrived=sums.arrived,
            value=sums.value or 0.0,
            gradients=sums.tally.gradients,
            values=sums.tally.values,
            exact=sums.tally.exact,
            **sums.sent._asdict(),
        )

    @property
    def sent(self) -> Sent:
        return Sent(*(int(getattr(self, name)) for name in Sent._fields))


class _Own(NamedTuple):
    """Numbers of which each member has its own, in a place of its own."""

    failed: npt.NDArray[Any]
    error: npt.NDArray[Any]
    """The largest error of an exact step."""
    missed: npt.NDArray[Any]
    bad: npt.NDArray[Any]
    """A client whose upload is not finite, counted from 1; 0 for none."""
    steepest: npt.NDArray[Any]

    @classmethod
    def of(cls, sums: Sums | None, error: BaseException | None) -> "_Own":
        failed = error is not None
        if sums is None:
            return cls(*np.array([failed, 0, 0, 0, 0], dtype=np.float64))
        bad = 0 if sums.bad is None else sums.bad + 1
        tally = sums.tally
        return cls(*np.array([failed, tally.error, tally.missed, bad, sums.steepest], np.float64))

    def in_its_place(self, team: Team) -> npt.NDArray[np.float64]:
        """Zeros for all members but one: added up, they are the numbers of all."""
        places = np.zeros((team.size, len(self)))
        places[team.rank] = self
        return places.ravel()


def _facts(problem: Any) -> dict[str, Any]:
    """What the members tell each other of their parts."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {problem!r}")
    alike = {
        "kind": type(problem).__name__,
        "dimension": problem.dimension,
        "dtype": str(problem.dtype),
        "accurate": problem.accurate,
        "proven": problem.proven,
        "curved": problem.curved,
        "likelihood": problem.likelihood,
    }
    alike |= problem.alike
    return {
        "clients": problem.clients,
        "eigenbasis_size": problem.eigenbasis_size,
        "alike": alike,
    }


def _check_alike(facts: list[dict[str, Any]]) -> None:
    """Refuse parts of which two know something different; None stands for what one does not."""
    known: dict[str, tuple[int, Any]] = {}
    for k, alike in enumerate(facts):
        for name, value in alike.items():
            if value is None:
                continue
            first, expected = known.setdefault(name, (k, value))
            if value != expected:
                raise ValueError(
                    f"problem must be of one kind on all ranks: its {name} is {value} on rank {k} "
                    f"and {expected} on rank {first}"
                )
