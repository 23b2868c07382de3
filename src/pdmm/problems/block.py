"""The functions of a block of clients: gradients, values, K local steps, exact steps."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.problems.curvature import Curvature
from pdmm.problems.doubt import measured_doubt
from pdmm.problems.minimise import minimise

Floats: TypeAlias = npt.NDArray[np.floating]
Vector: TypeAlias = npt.NDArray[np.float64]
ClientRows: TypeAlias = slice | npt.NDArray[np.integer]
Watching: TypeAlias = Callable[[int, Floats | None, Floats, float], None]
"""Sees a client's rows at a point: its number in the block, linear predictors, curvatures, and by
how much their mean loss is above the least that any linear predictors give."""


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

    watch: Watching | None = None
    """Sees every point at which something is computed from rows that are known to bend."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.tally = Tally()

    @abstractmethod
    def _gradient(self, x: Floats) -> Floats:
        """Gradients (b, d) at x, which is (d,) or (b, d)."""

    @abstractmethod
    def value(self, x: Floats) -> Floats:
        """Values (b,), in float64."""

    def fingerprint(self, x: Floats) -> Floats:
        """A number for each client (b,), by which another function would be recognised.

        Where mini-batches make the order of a client's rows matter, it depends on that too.
        """
        return self.value(x)

    def divergence(self, x: Floats, y: Floats) -> Floats:
        """f_i(x) - f_i(y) - grad f_i(y)·(x - y), (b,), without cancellation."""
        raise NotImplementedError

    def gradient(self, x: Floats) -> Floats:
        """Gradients (b, d) at x, counted."""
        self.tally.gradients += self.size
        return self._gradient(x)

    def value_and_gradient(self, x: Floats) -> tuple[Floats, Floats]:
        """Values (b,) and gradients (b, d) at x, counted."""
        self.tally.values += self.size
        return self.value(x), self.gradient(x)

    def accurate_gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        """Gradients (b, d) at x for certificates: in float64 where the data allow it."""
        return self.gradient(x).astype(np.float64, copy=False)

    def certain_gradient(self, x: Floats) -> tuple[npt.NDArray[np.float64], Vector]:
        """Gradients (b, d) for certificates, and how far rounding may have moved each, (b,).

        Nothing is known here of how a gradient is computed. So the doubt is measured: by what
        changes with the last digits of x.
        """
        g = self.accurate_gradient(x)
        return g, measured_doubt(self.accurate_gradient, x, g)

    # --- second order, of problems that are ``curved`` --------------------------------------

    def hessian(self, x: Floats) -> Vector:
        """Hessians (b, d, d) at x, which is (d,) or (b, d)."""
        raise NotImplementedError

    def majorant(self, x: Floats) -> Vector:
        """The same for a metric, which must not be 0 where f_i bends a little further on."""
        return self.hessian(x)

    def curvature(self, x: Floats, T: Vector | None = None) -> Curvature:
        """Value, gradient and Hessian at x, which is (d,) or (b, d), in T's coordinates."""
        raise NotImplementedError

    def working(self, T: Vector | None = None) -> Curvature:
        """The quadratics that stand for the f_i before anything is known of x, at x = 0."""
        raise NotImplementedError

    def diagonal(self, x: Floats) -> tuple[Vector, Vector]:
        """The diagonals (b, d) of the Hessians at x, and each entry's with its intercept (b, d).

        The second is H[j, problem.intercepts[j]]; 0 where there is no intercept.
        """
        raise NotImplementedError

    def along(self, x: Floats, direction: Floats, t: Vector) -> Vector:
        """Values (b, len(t)) at x + t direction, for some numbers t."""
        return np.stack([self.value(x + s * direction) for s in t.tolist()], axis=-1)

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
            if solution.kink:
                raise ClientError(
                    f"{self.name(i)} has a kink: its gradient jumps where its exact step ends, so "
                    "that gradients do not lead there. Give its proximal step, which is "
                    "Functions(..., prox=[...]), or a method with gradient steps"
                )
            rows[i] = solution.x
            self.tally.gradients += solution.calls
            self.tally.values += solution.calls
            self.tally.error = max(self.tally.error, solution.error)
            if solution.missed:
                self.tally.missed = max(self.tally.missed, solution.error)
        return rows

    def show(self, x: Floats) -> None:
        """Let the watch see the rows at x, which is (d,) or (b, d)."""

    def name(self, i: int) -> str:
        """The i-th client of the block, as messages call it."""
        return "a client's function"

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

    def value_and_gradient(self, x: Floats) -> tuple[Floats, Floats]:
        value, gradient = self.block.value_and_gradient(x)
        return np.asarray(value[0]), np.asarray(gradient[0])

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

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> Block:
        """The functions of some clients, whose mini-batches continue at ``cursor``."""
