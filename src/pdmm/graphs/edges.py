"""What all kinds of edges answer: C x puts node vectors on edges, C'z sums them at nodes.

C maps all x_i to B_{i|j} x_i, one row for the end i of every edge; see ``incidence`` for the rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pdmm.graphs.allowed import Allowed
from pdmm.graphs.incidence import Incidence, Indices
from pdmm.graphs.modes import Modes
from pdmm.problems.block import Floats

Flags = npt.NDArray[np.bool_]


class Part(ABC):
    """Some nodes, none of them neighbours, and what they hold."""

    rows: Indices
    """Where they hold it."""
    partner: Indices
    """Where their neighbours hold the same edges."""
    messages: Indices
    """The messages that they send, by their own rows."""

    @abstractmethod
    def spread(self, x: Floats) -> Floats:
        """B_{i|j} x_i on the rows, from the nodes' entries of x one after the other."""

    @abstractmethod
    def gather(self, z: Floats) -> Floats:
        """The sum over j of B_{i|j}' z_{j|i}, from what is on the rows."""


class Edges(ABC):
    """C of all edges."""

    consensus: ClassVar[bool]
    """Whether all constraints are x_i = x_j."""
    why_singular: ClassVar[str]
    """Why the update of a node with neighbours may have no unique solution, for messages."""
    incidence: Incidence
    sizes: Indices
    """How many numbers a message has, edge by edge."""
    shape: tuple[int, ...]
    """The shape of an array with all rows."""
    x_shape: tuple[int, ...]
    """The shape of an array with all x_i."""

    # --- what a run needs -----------------------------------------------------------------

    @abstractmethod
    def spread(self, x: Floats, out: Floats) -> Floats:
        """C x: B_{i|j} x_i on every row."""

    @abstractmethod
    def gather(self, z: Floats) -> Floats:
        """C'z: the sum over j of B_{i|j}' z_{j|i} at every node."""

    @abstractmethod
    def parts(self, nodes: Indices, cuts: Sequence[int]) -> Iterator[Part]:
        """Nodes in parts, cut where the cuts say; no two of a part are neighbours."""

    @abstractmethod
    def entries_of(self, messages: Indices | None, flags: Flags) -> Flags:
        """A flag for every entry, from one for every message (None: of all rows)."""

    @abstractmethod
    def stiffness(self, nodes: Indices, dimension: int) -> npt.NDArray[np.float64]:
        """Sums over j of B_{i|j}'B_{i|j}: (k, 1) or (k, d) if these are diagonal, or (k, d, d)."""

    # --- what the history and the result need ---------------------------------------------

    @abstractmethod
    def differences(self, X: Floats) -> Iterator[Floats]:
        """B_{i|j} x_i - B_{j|i} x_j on every edge, for several flat x: a few of these at a time."""

    @abstractmethod
    def of_row(self, values: Floats, row: int) -> Floats:
        """The vector that an array with all rows has in one of them."""

    # --- what rho="auto" and the direct solve need ----------------------------------------

    @abstractmethod
    def mean_stiffness(self) -> npt.NDArray[np.float64]:
        """For each node, the mean eigenvalue of the sum over j of B_{i|j}'B_{i|j}."""

    @abstractmethod
    def modes(self) -> Modes:
        """The parts of the error that decide how fast it dies."""

    @abstractmethod
    def allowed(self) -> Allowed:
        """All x that satisfy the constraints."""
