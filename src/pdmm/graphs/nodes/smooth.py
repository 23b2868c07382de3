"""Nodes with functions that have no closed form: exact updates by a solver, or a user's prox."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pdmm.graphs.incidence import Indices
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.gradient_steps import Cursor, DifferentiableGroup
from pdmm.graphs.nodes.group import LocalSteps, Rows, Updates, ValueAndGradient, Vector, naming
from pdmm.problems.base import Problem
from pdmm.problems.block import Block, Floats
from pdmm.problems.functions import Functions
from pdmm.problems.minimise import minimise_with


class SmoothGroup(DifferentiableGroup):
    """The clients of a problem, one for each node.

    Args:
        nodes: their positions in the network.
        problem: their functions.
        name: of the i-th node of the network, for messages.
    """

    stacked = False  # there is nothing to gain, and a user's function may fail

    def __init__(self, nodes: Indices, problem: Problem, name: Callable[[int], str]) -> None:
        super().__init__(nodes, problem.dimension)
        self.problem = problem
        self.names = [name(int(i)) for i in nodes]
        self.blocks = [problem.at(slice(k, k + 1)) for k in range(problem.clients)]
        together = problem.blocks()
        self.part_of = np.repeat(
            np.arange(len(together)), [part.stop - part.start for part in together]
        )

    def exact(self, network: Network, rho: float) -> Updates:
        G = self.stiffness(network)
        multiples = [self._usable(k, G[k]) for k in range(len(self.nodes))]
        return SolverUpdates(self, G, multiples, rho, network.dtype)

    def _usable(self, k: int, G: Vector) -> float | None:
        """The s for which G is s times the identity and a prox is the update; None if not."""
        s = _multiple(G)
        return s if s is not None and s > 0 else None

    def values(self, X: Floats) -> Vector:
        totals = np.zeros(len(X))
        for s, points in enumerate(X):
            for name, block, point in zip(self.names, self.blocks, points, strict=True):
                with naming(name):
                    totals[s] += float(block.value(point)[0])
        return totals

    def gradients(self, rows: Rows, x: Floats, cursor: Cursor) -> Floats:
        clients = np.arange(self.problem.clients)[rows]
        slopes = np.empty_like(x)
        for here in self._worked_on_together(clients):
            own = clients[here]
            slopes[here] = self.problem.at(own, cursor[own]).gradient(x[here])
        return slopes

    def _worked_on_together(self, clients: Indices) -> list[Indices]:
        """Positions of clients, by the blocks of the problem: others may not be mixed."""
        parts = self.part_of[clients]
        order = np.argsort(parts, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(parts[order])) + 1)

    def strong_convexity(self) -> Vector:
        return self.problem.strong_convexity().clients

    def smoothness(self) -> Vector:
        return self.problem.smoothness().clients

    def as_smooth(self) -> ValueAndGradient | None:
        return self._value_and_gradient

    def _value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        both = [block.smooth(0)(point) for block, point in zip(self.blocks, x, strict=True)]
        return float(sum(value for value, _ in both)), np.stack([g for _, g in both])


class FunctionGroup(SmoothGroup):
    """A user's functions, which may fail: each is called on its own, and errors name the node."""

    problem: Functions

    def check(self, x: Vector, exact: bool) -> None:
        for client, (name, point) in enumerate(zip(self.names, x, strict=True)):
            with naming(name):
                self.problem.check_client(client, point, exact)

    def gradients(self, rows: Rows, x: Floats, cursor: Cursor) -> Floats:
        slopes = np.empty_like(x)
        for k, i in enumerate(np.arange(len(self.nodes))[rows]):
            with naming(self.names[i]):
                slopes[k] = self.blocks[i].gradient(x[k])[0]
        return slopes


class ProxGroup(FunctionGroup):
    """A user's functions with a prox: then a gradient may not be all there is to know."""

    def inexact(self, network: Network, rho: float, steps: LocalSteps) -> Updates:
        return self.exact(network, rho)

    def _usable(self, k: int, G: Vector) -> float:
        s = _multiple(G)
        if s is None:
            raise ValueError(
                f"{self.names[k]} has a function with a prox, which is for "
                "multiples of the identity, but its B matrices do not add up to one: the sum of "
                f"B'B is {np.array2string(G, precision=3)}"
            )
        return s

    def as_smooth(self) -> None:
        return None


def _multiple(G: Vector) -> float | None:
    """The s for which G, a matrix or a diagonal, is s times the identity; None if it is not."""
    diagonal = np.diag(G) if G.ndim == 2 else G
    s = float(diagonal[0])
    off = np.abs(G - np.diag(diagonal)).max() if G.ndim == 2 else 0.0
    uneven = float(np.abs(diagonal - s).max())
    return s if max(off, uneven) <= 1e-12 * s else None


class SolverUpdates(Updates):
    """Exact updates, node by node.

    Args:
        group: the nodes.
        G: G_i of the nodes, (k, 1), (k, d) or (k, d, d).
        multiples: for each node, the s for which its prox with s rho is the update; None where a
            general solver is needed.
        rho: the penalty.
        dtype: of the run.
    """

    def __init__(
        self,
        group: SmoothGroup,
        G: Vector,
        multiples: list[float | None],
        rho: float,
        dtype: np.dtype[Any],
    ) -> None:
        super().__init__(group)
        self.names = group.names
        self.blocks = group.blocks
        self.G = G
        self.multiples = multiples
        self.rho = rho
        self.dtype = dtype
        self.first_slopes: dict[int, float] = {}

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        new = np.empty_like(x)
        for k, i in enumerate(np.arange(len(self.nodes))[rows]):
            with naming(self.names[i]):
                new[k] = self._one(int(i), r[k], x[k])
        return new

    def _one(self, i: int, right: Floats, start: Floats) -> Floats:
        multiple = self.multiples[i]
        if multiple is None:
            return self._by_solver(i, right, start)
        if multiple == 0:
            # Where nothing holds x, steps of the proximal point method lead to the minimum.
            return self._by_prox(i, start, self.rho, start)
        return self._by_prox(i, right / multiple, self.rho * multiple, start)

    def _by_prox(self, i: int, anchor: Floats, rho: float, start: Floats) -> Floats:
        block = self.blocks[i]
        x = block.prox(anchor[None].astype(self.dtype), rho, start)
        self._watch(i, block.tally.missed)
        return np.asarray(x[0])

    def _by_solver(self, i: int, right: Floats, start: Floats) -> Floats:
        f = self.blocks[i].smooth(0)
        if i not in self.first_slopes:
            self.first_slopes[i] = float(np.linalg.norm(f(start.astype(np.float64))[1]))
        solution = minimise_with(
            f,
            self.rho * self._matrix(i),
            self.rho * right.astype(np.float64),
            start,
            Block.tolerance,
            least=self.first_slopes[i],
        )
        if solution.missed:
            self._watch(i, solution.error)
        return solution.x

    def _matrix(self, i: int) -> Vector:
        """G_i as a matrix."""
        G = self.G[i]
        return G if G.ndim == 2 else np.diag(np.broadcast_to(G, (self.dimension,)))

    def _watch(self, i: int, residual: float) -> None:
        """Remember the worst update that missed its tolerance."""
        self.missed = max(self.missed, (residual, int(self.nodes[i])))
