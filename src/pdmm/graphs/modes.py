"""Parts of the error of a run on a network, and how strongly the functions bend along them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.graphs.allowed import Quadratics
from pdmm.graphs.blocks import block_diagonal
from pdmm.graphs.incidence import Indices

Vector = npt.NDArray[np.float64]


class Curvature(NamedTuple):
    """Bounds of the curvature along some directions, for each component; NaN without directions."""

    least: Vector
    most: Vector


class Curved(Protocol):
    """Functions of some nodes, as far as their curvature is concerned."""

    nodes: Indices
    dimension: int

    def strong_convexity(self) -> Vector:
        """mu_i of every node."""

    def smoothness(self) -> Vector:
        """L_i of every node."""

    def as_quadratics(self) -> Quadratics | None:
        """The functions as quadratics, if they are."""


class Directions(ABC):
    """Directions x, for each component, of which ‖C x‖ = 1."""

    @abstractmethod
    def curvature(self, functions: Sequence[Curved]) -> Curvature:
        """How strongly the sum of the functions bends along them."""


class Modes(NamedTuple):
    """For each component that has an edge, the parts of the error that decide how fast it dies."""

    common: Directions
    """What the constraints leave free."""
    slow: Directions
    """What dies last of all else."""
    gap: Vector
    """1 - |theta| of the latter's eigenvalue theta; NaN if there is nothing else."""
    doubt: str = ""
    """Why that is not what it is but a guess."""


class ByNode(Directions):
    """The same entries of all x_i move together, by different amounts.

    Args:
        weights: the squares of these amounts, 0 for nodes without an edge.
        components: a number for every node.
        count: how many components there are.
    """

    def __init__(self, weights: Vector, components: Indices, count: int) -> None:
        self.weights = weights
        self.components = components
        self.count = count

    def curvature(self, functions: Sequence[Curved]) -> Curvature:
        """Of the weighted sum: exact if all functions are quadratic and equally long."""
        if len({group.dimension for group in functions}) == 1:
            quadratics = [group.as_quadratics() for group in functions]
            known = [part for part in quadratics if part is not None]
            if len(known) == len(functions):
                return self._of_quadratics(known)
        least = np.zeros(self.count)
        most = np.zeros(self.count)
        for group in functions:
            own = self._sums(group.nodes)
            least += own @ group.strong_convexity()
            most += own @ group.smoothness()
        return Curvature(least, most)

    def _of_quadratics(self, parts: Sequence[Quadratics]) -> Curvature:
        d = parts[0].dimension
        diagonal = all(part.diagonal for part in parts)
        total = np.zeros((self.count, d) if diagonal else (self.count, d, d))
        for part in parts:
            hessians = part.hessians()
            one = self._sums(part.nodes) @ hessians.reshape(len(hessians), -1)
            if part.diagonal and not diagonal:
                total += one[:, :, None] * np.eye(d)
            else:
                total += one.reshape(total.shape)
        values = total if diagonal else np.linalg.eigvalsh(total)
        return Curvature(np.maximum(values.min(1), 0), values.max(1))

    def _sums(self, nodes: Indices) -> sparse.csr_array:
        """A matrix that adds up what belongs to nodes, weighted, for each component."""
        places = (self.components[nodes], np.arange(len(nodes)))
        return sparse.csr_array((self.weights[nodes], places), shape=(self.count, len(nodes)))


class Along(Directions):
    """Any directions.

    Args:
        places: for each component, where its entries are in an array of all.
        bases: for each component, the directions as columns; there may be none.
        offsets: where each node's entries begin in an array of all.
        size: of that array.
    """

    def __init__(
        self, places: list[Indices], bases: list[Vector], offsets: Indices, size: int
    ) -> None:
        self.places = places
        self.bases = bases
        self.offsets = offsets
        self.size = size

    def curvature(self, functions: Sequence[Curved]) -> Curvature:
        low, high = self._bounds(functions)
        least = np.full(len(self.bases), np.nan)
        most = np.full(len(self.bases), np.nan)
        for k, (index, X) in enumerate(zip(self.places, self.bases, strict=True)):
            if X.shape[1] == 0:
                continue
            bottom = np.linalg.eigvalsh(X.T @ (low[index][:, index] @ X))
            top = bottom
            if high is not low:
                top = np.linalg.eigvalsh(X.T @ (high[index][:, index] @ X))
            least[k] = max(0.0, bottom[0])
            most[k] = top[-1]
        return Curvature(least, most)

    def _bounds(self, functions: Sequence[Curved]) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The Hessian of all functions, or what it is at least and at most."""
        low: list[tuple[Indices, Vector]] = []
        high: list[tuple[Indices, Vector]] = []
        for group in functions:
            index = self.offsets[group.nodes][:, None] + np.arange(group.dimension)
            quadratics = group.as_quadratics()
            if quadratics is not None:
                low.append((index, quadratics.hessians()))
                high.append(low[-1])
                continue
            shape = index.shape
            low.append((index, np.broadcast_to(group.strong_convexity()[:, None], shape)))
            high.append((index, np.broadcast_to(group.smoothness()[:, None], shape)))
        lower = block_diagonal(low, self.size)
        exact = all(group.as_quadratics() is not None for group in functions)
        return lower, lower if exact else block_diagonal(high, self.size)
