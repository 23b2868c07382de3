"""F = sum_i w_i f_i: as one function, or as a sum over the clients of a process."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import gamma, lengths
from pdmm.common.threads import Threads
from pdmm.problems.block import Block, Floats, Source, Vector

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
        self.blocks: Sequence[slice] = problem.blocks()
        self.source = source
        self.weights = weights
        self.threads = threads

    def of(self, client: int) -> "SumOfBlocks":
        """The part of one client."""
        found = copy(self)
        found.blocks = [slice(client, client + 1)]
        return found

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

    def curvature(self, x: Floats | None, T: Vector | None) -> "CurvatureSum":
        """F to second order at x, or what stands for it where nothing is known of x."""

        def part(block: slice) -> CurvatureSum:
            f = self.source.at(block)
            w = self.weights[block]
            found = f.working(T) if x is None else f.curvature(x, T)
            with np.errstate(over="ignore", invalid="ignore"):
                return CurvatureSum(
                    value=float(w @ found.value),
                    gradient=w @ found.gradient,
                    doubt=float(w @ found.doubt),
                    hessian=np.tensordot(w, found.hessian, 1),
                    reach=float(found.reach.sum()),
                    unsettled=float(found.unsettled.sum()),
                )

        return CurvatureSum.sum(list(self.threads.map(part, self.blocks)))

    def diagonal(self, x: Floats) -> Vector:
        """The diagonal of F's Hessian at x, the entries with the intercepts, and the gradient."""

        def part(block: slice) -> Vector:
            f = self.source.at(block)
            w = self.weights[block]
            with np.errstate(over="ignore", invalid="ignore"):
                return np.stack([*(w @ rows for rows in f.diagonal(x)), w @ f.gradient(x)])

        return np.asarray(sum(self.threads.map(part, self.blocks)))


class CurvatureSum(NamedTuple):
    """F = sum_i w_i f_i to second order at a point, in the coordinates y of x + T y."""

    value: float
    gradient: Vector
    """(k,): T' grad F."""
    doubt: float
    """How far rounding may have moved it."""
    hessian: Vector
    """(k, k): T' H T."""
    reach: float
    """R², for which |D³F[v, v, u]| <= R ‖u‖ D²F[v, v]: the sum of those of the clients."""
    unsettled: float
    """How many rows x does not put on the side of their outcome."""

    @classmethod
    def sum(cls, parts: "Sequence[CurvatureSum]") -> "CurvatureSum":
        """The sum of some parts."""
        return cls(*(sum(same) for same in zip(*parts, strict=True)))

    def packed(self) -> Vector:
        """All of it as one array, whose sums are those of the parts."""
        numbers = [self.value, self.doubt, self.reach, self.unsettled]
        return np.concatenate([self.gradient, self.hessian.ravel(), numbers])

    @classmethod
    def unpacked(cls, array: Vector) -> "CurvatureSum":
        """What gave this array, or the sum of such."""
        k = (math.isqrt(1 + 4 * (len(array) - 4)) - 1) // 2
        value, doubt, reach, unsettled = array[-4:].tolist()
        hessian = array[k:-4].reshape(k, k)
        return cls(value, array[:k], doubt, hessian, reach, unsettled)


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
