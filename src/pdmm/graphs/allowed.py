"""What the constraints of a network allow, and how to minimise over it directly."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pdmm.graphs.incidence import Indices
from pdmm.graphs.optimum import Optimum

Vector = npt.NDArray[np.float64]


class Quadratics(Protocol):
    """Functions 1/2 x'H_i x - c_i·x of some nodes."""

    nodes: Indices
    dimension: int

    @property
    def diagonal(self) -> bool:
        """Whether the H_i are diagonal."""

    def hessians(self) -> Vector:
        """The H_i in float64: diagonals (k, d), or matrices (k, d, d)."""

    def linear(self) -> Vector:
        """The c_i in float64, (k, d)."""


class Kinks(NamedTuple):
    """Functions that are sums of |x - a_i| over the entries, of some nodes; all others are 0."""

    nodes: Indices
    a: Vector


class Basis(NamedTuple):
    """Free variables y, from which all x that are allowed are made."""

    spread: Callable[[Vector], Vector]
    """All x_i, flat, from y."""
    collect: Callable[[Vector], Vector]
    """Its transpose: slopes along y from slopes along x."""
    size: int
    """How many y there are."""


class Allowed(ABC):
    """All x that satisfy the constraints of a network."""

    @abstractmethod
    def minimise_quadratics(self, functions: Sequence[Quadratics]) -> Vector | None:
        """The minimiser of a sum of quadratics, flat; None if it is not unique."""

    def minimise_kinks(self, functions: Sequence[Kinks]) -> Optimum | None:
        """The minimisers of a sum of absolute values; None if there is no direct way to them."""
        return None

    @abstractmethod
    def basis(self) -> Basis | None:
        """Free variables for a solver; None if there are too many unknowns to find them."""
