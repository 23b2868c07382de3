"""What a round is made of: what blocks of clients did, and what the server learns from all."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.team import Team
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem, Tally

Vector = npt.NDArray[np.float64]


class Sent(NamedTuple):
    """What was sent in a round, by all and to all."""

    contacts: int
    """Messages down."""
    uploads: int
    """Messages up."""
    vectors_down: int
    vectors_up: int
    bytes_down: int
    bytes_up: int


class Outcome(NamedTuple):
    """What the server learns from a round, and what the round cost."""

    mean: Any
    share: float
    tally: Tally
    bad_client: int | None
    disagreement: float | None  # weighted mean of ‖x_i - x_s‖²
    sent: Sent
    arrived: int  # uploads
    owed: tuple[float, ...] = ()  # sums over the team of what was owed
    steepest: float = 0.0  # the largest L that gradients have shown so far, where it is watched


class Owed(NamedTuple):
    """What else a round's sum over a team is to carry: numbers, or why there are none."""

    numbers: tuple[float, ...] = ()
    error: Exception | None = None
    watch: bool = False  # whether to look for the largest L that gradients have shown

    def checked(self) -> tuple[float, ...]:
        """The numbers; raises where there are none."""
        if self.error is not None:
            raise self.error
        return self.numbers


NOTHING = Owed()


class Part(NamedTuple):
    """What a few clients did: sums of their uploads in float64, and what goes with these."""

    sums: Any
    weight: float
    tally: Tally
    bad: int | None  # a client whose upload is not finite
    apart: float | None  # weighted sum of ‖x_i - x_s‖²


class Added(NamedTuple):
    """What clients did, added up: those of a member of a team, or those of all members."""

    uploads: Any  # None if none arrived
    weight: float  # of those that did
    tally: Tally
    bad: int | None
    apart: float | None
    sent: Sent
    arrived: int
    owed: tuple[float, ...]
    steepest: float

    def outcome(self, weight: float | None, all_weight: float) -> Outcome:
        """What the server learns; ``weight`` of the uploads, where it is known beforehand."""
        w, mean = self.weight if weight is None else weight, None
        if self.uploads is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                mean = type(self.uploads)(*(total / w for total in self.uploads))
        return Outcome(
            mean=mean,
            share=0.0 if mean is None else w / all_weight,
            tally=self.tally,
            bad_client=self.bad,
            disagreement=None if mean is None or self.apart is None else self.apart / w,
            sent=self.sent,
            arrived=self.arrived,
            owed=self.owed,
            steepest=self.steepest,
        )


def add(parts: Sequence[Part], sent: Sent, arrived: int, owed: Owed, steepest: float) -> Added:
    """What several blocks of clients did, in their order."""
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    bad = next((part.bad for part in parts if part.bad is not None), None)
    there = [part for part in parts if part.weight]
    uploads, apart = None, None
    with np.errstate(over="ignore", invalid="ignore"):
        if there:
            fields = zip(*(part.sums for part in there), strict=True)
            uploads = type(there[0].sums)(*(sum(field) for field in fields))
            known = [part.apart for part in there if part.apart is not None]
            apart = sum(known) if len(known) == len(there) else None
    weight = sum(part.weight for part in there)
    return Added(uploads, weight, tally, bad, apart, sent, arrived, owed.numbers, steepest)


class Ledger:
    """Adds up what the clients of all members of a team did in a round, in one sum.

    Args:
        method: whose uploads they are.
        x0: the start.
        dtype: of the clients' numbers.
        team: that shares the run.
    """

    def __init__(self, method: Method, x0: Floats, dtype: np.dtype[Any], team: Team) -> None:
        self.team = team
        if team.size > 1:
            # A member none of whose clients took part must know what the others send.
            _, _, blank, _ = blank_round(method, x0, dtype)
            self.apart = method.disagreement(blank) is not None
            self.zeros = type(blank)(*(np.zeros(np.shape(field)[1:]) for field in blank))

    def add(self, work: Callable[[], Added], owed: Owed) -> Added:
        """What all clients did, from the work of those that are here; all fail if one does."""
        if self.team.size == 1:
            return work()
        here: Added | None = None
        error: BaseException | None = owed.error
        try:
            here = work()
        except (Exception, SystemExit) as raised:
            error = error or raised
        uploads = self.zeros if here is None or here.uploads is None else here.uploads
        pieces = [np.ravel(field) for field in uploads]
        pieces += [_counts(here), np.array(owed.numbers), _flags(here, error, self.team)]
        buffer = self.team.sum(np.concatenate(pieces))
        ends = np.cumsum([len(piece) for piece in pieces])[:-1]
        *fields, counts, numbers, flags = np.split(buffer, ends)
        rows = flags.reshape(self.team.size, FLAGS)
        if rows[:, 0].any():
            self.team.fail(error)
        shaped = (f.reshape(zero.shape) for f, zero in zip(fields, self.zeros, strict=True))
        whole = [int(v) for v in counts[2:]]
        bad = rows[:, 3][rows[:, 3] > 0]
        return Added(
            uploads=type(self.zeros)(*shaped) if whole[-1] else None,
            weight=float(counts[0]),
            tally=Tally(
                gradients=whole[0],
                values=whole[1],
                exact=whole[2],
                error=float(rows[:, 1].max()),
                missed=float(rows[:, 2].max()),
            ),
            bad=int(bad[0]) - 1 if len(bad) else None,
            apart=float(counts[1]) if self.apart else None,
            sent=Sent(*whole[3:9]),
            arrived=whole[-1],
            owed=tuple(numbers.tolist()),
            steepest=float(rows[:, 4].max()),
        )


FLAGS = 5  # numbers of which every member has its own, in a place of its own


def _flags(here: Added | None, error: BaseException | None, team: Team) -> Vector:
    """Whether it failed, the largest errors of exact steps, a bad client, the largest L seen."""
    rows = np.zeros((team.size, FLAGS))
    if here is not None:
        tally, bad = here.tally, 0 if here.bad is None else here.bad + 1
        rows[team.rank, 1:] = tally.error, tally.missed, bad, here.steepest
    rows[team.rank, 0] = error is not None
    return rows.ravel()


def _counts(here: Added | None) -> Vector:
    """Numbers that are summed: weight, disagreement, then whole numbers."""
    if here is None:
        return np.zeros(12)
    t = here.tally
    counts = [here.weight, here.apart or 0.0, t.gradients, t.values, t.exact]
    return np.array([*counts, *here.sent, here.arrived], dtype=np.float64)


def steepest(problem: Problem) -> float:
    """The largest L that the secants of the run's gradients have met."""
    found = problem.secants()
    return 0.0 if found is None else float(np.fmax.reduce(found[0].clients))


class _Blank:
    """The oracle of a client that answers 0 to everything, to learn what an upload looks like."""

    def __init__(self, zeros: Floats) -> None:
        self.zeros = zeros

    def gradient(self, x: Floats) -> Floats:
        return self.zeros.copy()

    def steps(self, start: Floats, **_: Any) -> tuple[Floats, Floats]:
        return self.zeros.copy(), self.zeros.copy()

    def prox(self, *_: Any, **__: Any) -> Floats:
        return self.zeros.copy()


def blank_round(method: Method, x0: Floats, dtype: np.dtype[Any]) -> tuple[Any, Any, Any, Any]:
    """A message, a memory, an upload and a draft, to see what they look like: one row each."""
    sent = method.broadcast(method.server_start(1.0 * x0, lambda v, t: v))
    message = type(sent)(*(np.asarray(field, dtype=dtype) for field in sent))
    row = x0.astype(dtype)[None]
    with np.errstate(all="ignore"):
        memory = method.receive(message, method.client_start(row))
        upload, draft = method.client(message, memory, _Blank(0 * row), max(method.steps, 1))
    return message, memory, upload, draft
