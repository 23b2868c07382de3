"""ClientRows that are made when they first take part: millions of them, of which few are there."""

import os
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError, whole
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import Block, ClientRows, Floats
from pdmm.problems.constants import Which
from pdmm.problems.fingerprints import alike, of_block
from pdmm.problems.sums import Total

BLOCK = 64  # clients that are worked on together


class Lazy(Problem):
    """A sum of very many functions, each made when its client first takes part.

    Args:
        count: how many clients there are.
        make_client: called as ``make_client(i)``: client i's function, a problem with one
            client such as ``pdmm.LeastSquares([A], [b])``. It must give the same each time.
        evaluate: called as ``evaluate(x)``: F(x), for the history's ``objective``. Without it
            there is none: nobody knows all clients.
        keep: so many clients are kept, those that took part last; the others are made again.
        folder: where the clients' memories live as files, if the main memory is too small.

    Take part in ``pdmm.solve`` with ``participation=``. There are no certificates, and nothing
    chooses parameters: L and mu are not known.

    Example:
        >>> import numpy as np, pdmm
        >>> def phone(i):
        ...     rng = np.random.default_rng(i)
        ...     A = rng.standard_normal((8, 3))
        ...     return pdmm.LeastSquares([A], [A @ np.array([1.0, -2.0, 3.0])])
        >>> phones = pdmm.Lazy(1_000_000, phone)
        >>> method = pdmm.AGPDMM(step_size=0.02, local_steps=20, rho=2.0)
        >>> result = pdmm.solve(phones, method, rounds=20, participation=20)
        >>> result.x.shape
        (3,)
    """

    def __init__(
        self,
        count: int,
        make_client: Callable[[int], Problem],
        evaluate: Callable[[Floats], float] | None = None,
        keep: int = 1000,
        folder: str | None = None,
    ) -> None:
        self.clients = whole("count", count, at_least=1)
        if not callable(make_client):
            raise ValueError(f"make_client must be callable as make_client(i), got {make_client!r}")
        if evaluate is not None and not callable(evaluate):
            raise ValueError(f"evaluate must be callable as evaluate(x), got {evaluate!r}")
        self.make_client = make_client
        self.evaluate = evaluate
        self.keep = whole("keep", keep, at_least=1)
        self.memory_folder = None if folder is None else os.path.abspath(folder)
        self._made: OrderedDict[int, Problem] = OrderedDict()
        self._lock = Lock()
        self._watch: Recognised | None = None
        self._run = (0, 0)  # the seed, and the number of client 0
        first = self._make(0)
        self.dimension = first.dimension
        self.dtype = first.dtype
        self.parallel = first.parallel
        self.convex = first.convex
        self.x0 = first.x0
        self._made[0] = first

    def __repr__(self) -> str:
        return f"Lazy({self.clients} clients, dimension {self.dimension}, {self.dtype})"

    def _make(self, i: int) -> Problem:
        try:
            made = self.make_client(i)
        except Exception as error:
            raise ClientError(f"make_client({i}) raised {type(error).__name__}: {error}") from error
        if not isinstance(made, Problem) or made.clients != 1:
            raise ClientError(
                f"make_client({i}) must return a problem with one client, such as "
                f"pdmm.LeastSquares([A], [b]), got {made!r}"
            )
        seed, number = self._run
        made.begin(seed, number + i)
        return made

    def begin(self, seed: int, first: int) -> None:
        self._run = seed, first
        for i, made in self._made.items():
            made.begin(seed, first + i)

    def function(self, i: int) -> Problem:
        """Client i's function, made if it is not kept."""
        made = self._kept(i)
        if self._watch is not None:
            self._watch.look(i, made)
        return made

    def _kept(self, i: int) -> Problem:
        with self._lock:
            if i in self._made:
                self._made.move_to_end(i)
                return self._made[i]
        made = self._make(i)
        if (made.dimension, made.dtype) != (self.dimension, self.dtype):
            raise ClientError(
                f"make_client({i}) has dimension {made.dimension} and {made.dtype}, but client 0 "
                f"has {self.dimension} and {self.dtype}"
            )
        with self._lock:
            self._made[i] = made
            while len(self._made) > self.keep:
                self._made.popitem(last=False)
        return made

    def check_data(self) -> None:
        for i, made in list(self._made.items()):
            try:
                made.check_data()
            except ValueError as error:
                raise ValueError(f"make_client({i}): {error}") from error

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> "Lazy":
        self._watch = None
        return self

    def recognise(self, points: list[Floats], known: dict[int, float]) -> None:
        """From now on, compare each client that is needed with what is known of it.

        Args:
            points: at which they are compared.
            known: the fingerprints of clients that took part before, by their numbers.
        """
        self._watch = Recognised(points, self.dtype, known)
        self.function(0)

    @property
    def recognised(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The clients that have taken part, and their fingerprints."""
        known = {} if self._watch is None else self._watch.known
        numbers = sorted(known)
        values = [known[i] for i in numbers]
        return np.array(numbers, dtype=np.int64), np.array(values, dtype=np.float64)

    def blocks(self) -> list[slice]:
        starts = range(0, self.clients, BLOCK)
        return [slice(a, min(a + BLOCK, self.clients)) for a in starts]

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> "LazyBlock":
        chosen = np.arange(self.clients)[clients] if isinstance(clients, slice) else clients
        return LazyBlock(self, chosen, cursor)

    def total(
        self, weights: npt.NDArray[np.float64], threads: Threads, team: Team = ALONE
    ) -> "LazyTotal":
        return LazyTotal(self.evaluate, team)

    def _client_constants(self, which: Which, threads: Threads) -> NoReturn:
        self._unknown("smoothness L" if which == "L" else "strong convexity mu")

    def _unknown(self, what: str) -> NoReturn:
        raise ValueError(
            f"the {what} of a Lazy problem is not known: give the method its numbers, e.g. "
            "pdmm.AGPDMM(step_size=0.01, local_steps=10, rho=1.0)"
        )


class Recognised:
    """What clients were when they first took part: whoever is made again must be the same.

    Nobody knows all clients, and those that have never taken part may be any.

    Args:
        points: at which they are compared.
        dtype: of the run.
        known: the fingerprints of some clients.
    """

    def __init__(self, points: list[Floats], dtype: np.dtype[Any], known: dict[int, float]) -> None:
        self.points = points
        self.dtype = dtype
        self.known = dict(known)
        self._seen: set[int] = set()

    def look(self, i: int, made: Problem) -> None:
        """Note what client i is, or refuse it; once is enough."""
        if i in self._seen:
            return
        now = float(of_block(made.as_given().at(slice(0, 1)), self.points)[0])
        then = self.known.setdefault(i, now)
        if not alike(now, then, self.dtype):
            raise ClientError(
                f"problem is not the one of the checkpoint: at a random point make_client({i}) "
                f"gives {now:.9g}, and it gave {then:.9g}"
            )
        self._seen.add(i)


class LazyTotal(Total):
    """F as far as the user evaluates it."""

    accurate = False
    everyone = False

    def __init__(self, evaluate: Callable[[Floats], float] | None, team: Team) -> None:
        self.evaluate = evaluate
        self.known = evaluate is not None
        self.team = team
        self.calls = 0

    def value(self, x: Floats) -> float:
        evaluate = self.evaluate
        if evaluate is None:
            return float("nan")
        return self.team.first(lambda: _as_number(evaluate(x.copy())))

    def gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        raise ClientError("a Lazy problem has no gradient of all clients")

    def divergence(self, x: Floats, y: Floats) -> float:
        raise NotImplementedError


def _as_number(found: Any) -> float:
    """What the user's ``evaluate`` returned."""
    try:
        return float(found)
    except (TypeError, ValueError):
        raise ClientError(f"evaluate must return a number, got {found!r}") from None


class LazyBlock(Block):
    """A few clients, one after the other."""

    def __init__(
        self, problem: Lazy, clients: npt.NDArray[Any], cursor: npt.NDArray[np.int64] | None
    ) -> None:
        super().__init__(len(clients))
        self.parts: list[Block] = []
        for k, i in enumerate(clients):
            own = None if cursor is None else cursor[k : k + 1]
            self.parts.append(problem.function(int(i)).at(slice(0, 1), own))

    def _each(self, x: Floats) -> list[Floats]:
        rows = np.broadcast_to(x, (self.size, x.shape[-1]))
        return [rows[k : k + 1] for k in range(self.size)]

    def _gradient(self, x: Floats) -> Floats:
        rows = zip(self.parts, self._each(x), strict=True)
        return np.concatenate([part.gradient(row) for part, row in rows])

    def value(self, x: Floats) -> Floats:
        rows = zip(self.parts, self._each(x), strict=True)
        return np.concatenate([part.value(row) for part, row in rows])

    def _steps(
        self,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        pulls = [None] * self.size if pull is None else self._each(pull)
        rows = zip(self.parts, self._each(start), pulls, strict=True)
        both = [
            part._steps(own, step, count, own_pull, rho, average) for part, own, own_pull in rows
        ]
        last = np.concatenate([end for end, _ in both])
        if not average:
            return last, last
        return last, np.concatenate([mean for _, mean in both])

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        left = [None] * self.size if slack is None else [slack[k : k + 1] for k in range(self.size)]
        rows = zip(self.parts, self._each(anchor), self._each(start), left, strict=True)
        solved = [part.prox(own, rho, begin, some) for part, own, begin, some in rows]
        for part in self.parts:
            self.tally.add(part.tally)
        return np.concatenate(solved)
