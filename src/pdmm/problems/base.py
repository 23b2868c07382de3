"""What a problem is: the clients' functions f_i, block by block."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.constants import WithConstants
from pdmm.problems.minimise import minimise

Floats: TypeAlias = npt.NDArray[np.floating]
Clients: TypeAlias = slice | npt.NDArray[np.integer]

BLOCK_BYTES = 4 * 2**20  # what a block of clients works on: it should stay in cache
LEAST_BYTES = 4 * 2**20  # less than this is not worth a block of its own


@dataclass
class Tally:
    """What was asked of the clients of a block, summed over them."""

    gradients: int = 0
    values: int = 0
    exact: int = 0
    error: float = 0.0  # the largest relative residual of an exact step
    missed: float = 0.0  # the largest of those that missed what was asked of them

    def add(self, other: "Tally") -> None:
        """Count what was asked of other clients too."""
        self.gradients += other.gradients
        self.values += other.values
        self.exact += other.exact
        self.error = max(self.error, other.error)
        self.missed = max(self.missed, other.missed)


class Block(ABC):
    """The functions of a block of b clients: arrays have a row a client, or none for all."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tally = Tally()

    @abstractmethod
    def _gradient(self, x: Floats) -> Floats:
        """Gradients (b, d) at x, which is (d,) or (b, d)."""

    @abstractmethod
    def value(self, x: Floats) -> Floats:
        """Values (b,), in float64."""

    def divergence(self, x: Floats, y: Floats) -> Floats:
        """f_i(x) - f_i(y) - grad f_i(y)·(x - y), (b,), without cancellation."""
        raise NotImplementedError

    def gradient(self, x: Floats) -> Floats:
        """Gradients (b, d) at x, counted."""
        self.tally.gradients += self.size
        return self._gradient(x)

    def accurate_gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        """Gradients (b, d) at x for certificates: in float64 where the data allow it."""
        return self.gradient(x).astype(np.float64, copy=False)

    def steps(
        self,
        start: Floats,
        *,
        step: float,
        count: int,
        shift: Floats | None = None,
        anchor: Floats | None = None,
        rho: float = 0.0,
        average: bool = False,
    ) -> tuple[Floats, Floats]:
        """``count`` gradient steps on f_i(x) + shift·x + rho/2 ‖x - anchor‖²: (last, mean)."""
        self.tally.gradients += count * self.size
        return self._steps(start, step, count, _pull(shift, anchor, rho), rho, average)

    def _steps(
        self,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        return descend(self._gradient, start, step, count, pull, rho, average)

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        """Minimise f_i(x) + rho/2 ‖x - anchor‖², client by client, to a gradient of slack."""
        self.tally.exact += self.size
        rows = np.empty_like(anchor)
        for i, a in enumerate(anchor):
            solution = minimise(
                self.smooth(i),
                a,
                rho,
                start if start.ndim == 1 else start[i],
                self.tolerance,
                0.0 if slack is None else float(slack[i]),
            )
            rows[i] = solution.x
            self.tally.gradients += solution.calls
            self.tally.values += solution.calls
            self.tally.error = max(self.tally.error, solution.error)
            if solution.missed:
                self.tally.missed = max(self.tally.missed, solution.error)
        return rows

    tolerance = 1e-10  # of an exact step: its residual, relative to the terms that cancel in it

    def smooth(self, i: int) -> Callable[[npt.NDArray[np.float64]], tuple[float, Floats]]:
        """The i-th client's function for a general solver: x -> (value, gradient), in float64."""
        raise NotImplementedError


def _pull(shift: Floats | None, anchor: Floats | None, rho: float) -> Floats | None:
    """The part shift - rho anchor of the gradient that does not depend on x."""
    if anchor is None or rho == 0:
        return shift
    return -rho * anchor if shift is None else shift - rho * anchor


def descend(
    gradient: Callable[[Floats], Floats],
    start: Floats,
    step: float,
    count: int,
    pull: Floats | None,
    rho: float,
    average: bool,
) -> tuple[Floats, Floats]:
    """Gradient steps x -= step (gradient(x) + rho x + pull), one after the other."""
    x, total = start, None
    for _ in range(count):
        g = gradient(x)
        if rho:
            g += rho * x
        if pull is not None:
            g += pull
        g *= -step
        g += x
        x = g
        if average:
            total = x.copy() if total is None else np.add(total, x, out=total)
    return x, (x if total is None else total * (1 / count))


class OneClient:
    """One client's function on vectors of shape (d,): what a deployed client is given."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def gradient(self, x: Floats) -> Floats:
        return np.asarray(self.block.gradient(x)[0])

    def steps(
        self,
        start: Floats,
        *,
        step: float,
        count: int,
        shift: Floats | None = None,
        anchor: Floats | None = None,
        rho: float = 0.0,
        average: bool = False,
    ) -> tuple[Floats, Floats]:
        last, mean = self.block.steps(
            start, step=step, count=count, shift=shift, anchor=anchor, rho=rho, average=average
        )
        return last[0], mean[0]

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        left = None if slack is None else np.reshape(slack, 1)
        return np.asarray(self.block.prox(anchor[None], rho, start, left)[0])


class Source(Protocol):
    """Where an engine gets the clients' functions from, prepared for a run."""

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> Block:
        """The functions of some clients, whose mini-batches continue at ``cursor``."""


class Total(ABC):
    """F = sum_i w_i f_i, for history and certificates: no method sees it."""

    calls = 1  # values that one evaluation asks of every client
    accurate = True  # whether divergence is known without cancellation
    known = True  # whether F can be evaluated at all
    everyone = True  # whether all clients can be asked for a gradient

    @abstractmethod
    def value(self, x: Floats) -> float:
        """F(x)."""

    @abstractmethod
    def gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        """Gradient of F at x."""

    @abstractmethod
    def divergence(self, x: Floats, y: Floats) -> float:
        """F(x) - F(y) - grad F(y)·(x - y)."""

    def minimiser(self, l2: float) -> npt.NDArray[np.float64] | None:
        """A minimiser of F(x) + l2/2 ‖x‖², where a direct solve can find it."""
        return None

    def extremes(self) -> tuple[float, float] | None:
        """Proven mu and L of F, where they are known to rounding."""
        return None


class SumOfBlocks:
    """F as a sum over the clients of one process, block by block: a pass over their data.

    Args:
        problem: their functions.
        source: where these are taken from.
        weights: of these clients.
        threads: for the blocks.
    """

    def __init__(
        self,
        problem: "Problem",
        source: Source,
        weights: npt.NDArray[np.float64],
        threads: Threads,
    ) -> None:
        self.blocks = problem.blocks()
        self.source = source
        self.weights = weights
        self.threads = threads

    def _sum(self, part: Callable[[Block], Floats]) -> Any:
        def weigh(block: slice) -> Any:
            with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is seen by its x_s
                return self.weights[block] @ part(self.source.at(block)).astype(np.float64)

        return sum(self.threads.map(weigh, self.blocks))

    def value(self, x: Floats) -> float:
        """F(x)."""
        return float(self._sum(lambda f: f.value(x)))

    def divergence(self, x: Floats, y: Floats) -> float:
        """F(x) - F(y) - grad F(y)·(x - y)."""
        return float(self._sum(lambda f: f.divergence(x, y)))

    def gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        """The gradient of F at x."""
        return np.asarray(self._sum(lambda f: f.gradient(x)), dtype=np.float64)

    def gradient_and_size(self, x: Floats) -> npt.NDArray[np.float64]:
        """The gradient of F for a certificate, and as last entry the norms of its terms, added."""

        def part(f: Block) -> Floats:
            g = f.accurate_gradient(x)
            terms = np.linalg.norm(g, axis=1)
            if x.dtype == np.float32:  # what cancels within a gradient is no smaller than this
                terms += np.linalg.norm(f.accurate_gradient(0 * x), axis=1)
            return np.column_stack([g, terms])

        return np.asarray(self._sum(part), dtype=np.float64)


class Problem(WithConstants, ABC):
    """A sum of functions, one a client, whose data stay where they are."""

    clients: int
    """How many clients there are."""
    dimension: int
    """Length of x."""
    dtype: np.dtype[Any]
    """The run's dtype: that of the data."""
    accurate: bool = True
    """Whether its blocks know their divergence, for gaps without cancellation."""
    proven: bool = False
    """Whether the constants that it states are more than estimates."""
    parallel: bool = True
    """Whether clients may be worked on in several threads at once."""

    memory_folder: str | None = None
    """Where the clients' memories live as files, if there are too many for the main memory."""

    @property
    def eigenbasis_size(self) -> int:
        """How many vectors an eigenbasis that an exact step needs has; 0 if it needs none."""
        return 0

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Source:
        """What a run of so many rounds and steps works on; a problem may factorise here."""
        return self

    @abstractmethod
    def blocks(self) -> list[slice]:
        """The clients in blocks that each stay in cache; they depend on the problem alone."""

    @abstractmethod
    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> Block:
        """The functions of some clients, whose mini-batches continue at ``cursor``."""

    def client(self, i: int, cursor: int = 0) -> OneClient:
        """Client i's function alone, on vectors of shape (d,)."""
        return OneClient(self.at(slice(i, i + 1), np.array([cursor])))

    def objective(self, x: Any, weights: Any = None) -> float:
        """F(x) = sum_i w_i f_i(x), by a pass over the data (weights of 1 if not given)."""
        w = np.ones(self.clients) if weights is None else np.asarray(weights, dtype=np.float64)
        for name, array, length in (
            ("x", np.asarray(x), self.dimension),
            ("weights", w, self.clients),
        ):
            if array.shape != (length,):
                raise ValueError(f"{name} must have shape ({length},), got shape {array.shape}")
        with Threads(None if self.parallel else 1) as threads:
            source = self._source_of_values(threads)
            return SumOfBlocks(self, source, w, threads).value(np.asarray(x, dtype=self.dtype))

    def _source_of_values(self, threads: Threads) -> Source:
        """What values are taken from outside a run."""
        return self.evaluator(self.prepare(1, 1, False, threads))

    def evaluator(self, source: Source) -> Source:
        """What values are taken from; better than what a run works on, where there is better."""
        return source

    def quadratics(self, threads: Threads) -> Any:
        """The f_i as ``quadratic.Quadratics``, whose exact steps are factorised; None if not."""
        return None

    def total(
        self, weights: npt.NDArray[np.float64], threads: Threads, team: Team = ALONE
    ) -> Total | None:
        """F = sum_i w_i f_i in a form of its own, with its minimiser, if there is such a form.

        Args:
            weights: w_i, one for each of these clients.
            threads: for blocks of clients.
            team: the processes that hold the other clients; all of them make this call.
        """
        return None

    def check(self, x0: Floats, exact: bool) -> None:
        """Try out what can only be checked by calling it."""

    def run_state(self) -> list[npt.NDArray[Any]]:
        """What the problem has learnt in a run, for checkpoints: arrays with a row a client."""
        return []

    def load_run_state(self, state: list[npt.NDArray[Any]]) -> None:
        """Take that over."""

    def _gradient_of(self, i: int) -> Callable[[Floats], Floats]:
        block = self.at(slice(i, i + 1))
        return lambda x: np.asarray(block.gradient(x)[0])


def partition(clients: int, held: float, read: float, fewest: int = 8) -> list[slice]:
    """Clients in blocks of nearly equal size.

    Args:
        clients: how many there are.
        held: bytes a client of what a block works on as a whole; this should stay in cache.
        read: bytes a client of all that a step reads.
        fewest: so many blocks keep a few threads busy, unless that leaves them too little to do.
    """
    most = max(1, int(BLOCK_BYTES // max(1, held)))
    worth = int(clients * read // LEAST_BYTES)
    count = min(clients, max(-(-clients // most), min(fewest, worth), 1))
    # The larger blocks come first: threads then finish together more often.
    edges = [i * (clients // count) + min(i, clients % count) for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
