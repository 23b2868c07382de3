"""F = sum_i w_i f_i: as one function, or as a sum over the clients of a process."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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
