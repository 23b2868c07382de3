"""F = sum_i w_i f_i: as one function, or as a sum over the clients of a process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import gamma, lengths
from pdmm.common.threads import Threads
from pdmm.problems.block import Block, Floats, Source

if TYPE_CHECKING:
    from pdmm.problems.base import Problem


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
        """Proven mu and L of F, where they are known to rounding; then ``rounding`` is too."""
        return None

    def rounding(self, x: Floats) -> float:
        """How far rounding can have moved the gradient of F at x."""
        raise NotImplementedError


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

    def certain_gradient(self, x: Floats) -> "CertainGradient":
        """The gradient of F for a certificate, with what rounding may have made of it."""

        def part(block: slice) -> CertainGradient:
            f = self.source.at(block)
            w = self.weights[block]
            g, doubt = f.certain_gradient(x)
            terms = lengths(g)
            if x.dtype == np.float32:  # what cancels within a gradient is no smaller than this
                terms += lengths(f.accurate_gradient(0 * x))
            with np.errstate(over="ignore", invalid="ignore"):
                return CertainGradient(w @ g, float(w @ doubt), float(w @ terms), f.tally.gradients)

        return CertainGradient.sum(list(self.threads.map(part, self.blocks)), len(self.weights))


class CertainGradient(NamedTuple):
    """The gradient of a sum of functions, with what rounding may have made of it."""

    gradient: npt.NDArray[np.float64]
    doubt: float
    """How far rounding may have moved it."""
    terms: float
    """The norms of what adds up to it, added up."""
    calls: float
    """How many gradients were computed for it, of all clients together."""

    @classmethod
    def sum(cls, parts: "Sequence[CertainGradient]", terms: int) -> "CertainGradient":
        """The sum of some parts, which have so many terms in all."""
        sizes = float(sum(part.terms for part in parts))
        return cls(
            gradient=np.asarray(sum(part.gradient for part in parts), dtype=np.float64),
            doubt=float(sum(part.doubt for part in parts)) + gamma(terms + 4) * sizes,
            terms=sizes,
            calls=float(sum(part.calls for part in parts)),
        )

    def packed(self) -> npt.NDArray[np.float64]:
        """All of it as one array."""
        return np.append(self.gradient, [self.doubt, self.terms, self.calls])

    @classmethod
    def unpacked(cls, array: npt.NDArray[np.float64]) -> "CertainGradient":
        """What gave this array, or the sum of such."""
        return cls(array[:-3], *array[-3:].tolist())
