"""What every kind of node function answers, and what a run asks of its nodes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.graphs.allowed import Kinks, Quadratics
from pdmm.graphs.incidence import Indices
from pdmm.graphs.network import Network
from pdmm.problems.block import Floats

Rows = slice | Indices
Vector = npt.NDArray[np.float64]
ValueAndGradient = Callable[[Vector], tuple[float, Vector]]


@contextmanager
def naming(node: str) -> Iterator[None]:
    """An error in a user's function names the node."""
    try:
        yield
    except ClientError as error:
        raise ClientError(f"{node}: {error}") from error


class LocalSteps(NamedTuple):
    """Gradient steps instead of exact updates, as GPDMM takes them."""

    number: int
    """K."""
    step_size: float | None
    """eta of all nodes, or None for 1/L_i of each."""
    start: Vector
    """All x_i at the start, flat."""


class Updates(ABC):
    """The updates of a group's nodes in a run, prepared for its rho.

    Args:
        group: the nodes.
    """

    missed: tuple[float, int] = (0.0, 0)
    """The largest residual above a solver's tolerance, and its node."""

    def __init__(self, group: "Group") -> None:
        self.nodes = group.nodes
        self.dimension = group.dimension

    @abstractmethod
    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        """The new x of some of the nodes, from their r and their last x, (k, d) each."""


class Group(ABC):
    """Nodes whose functions are of a kind and have equally many variables.

    Args:
        nodes: their positions in the network.
        dimension: of x.
    """

    stacked: ClassVar[bool] = True
    """Whether values at many points at once are cheaper than one after the other."""

    def __init__(self, nodes: Indices, dimension: int) -> None:
        self.nodes = nodes
        self.dimension = dimension

    def stiffness(self, network: Network) -> Vector:
        """G_i of the nodes: (k, 1), (k, d) or (k, d, d)."""
        return network.edges.stiffness(self.nodes, self.dimension)

    # --- in a run -------------------------------------------------------------------------

    def check(self, x: Vector, exact: bool) -> None:
        """Try out at the start x (k, d) what can only be checked by calling it."""

    @abstractmethod
    def exact(self, network: Network, rho: float) -> Updates:
        """The exact updates."""

    def inexact(self, network: Network, rho: float, steps: LocalSteps) -> Updates:
        """Gradient steps, if the functions have gradients worth following; else exact updates."""
        return self.exact(network, rho)

    @abstractmethod
    def values(self, X: Floats) -> Vector:
        """Sums of f_i over the group at several points, (s, k, d) -> (s,)."""

    # --- for rho="auto" -------------------------------------------------------------------

    def strong_convexity(self) -> Vector:
        """mu_i of every node."""
        raise ClientError("a function without curvature")

    def smoothness(self) -> Vector:
        """L_i of every node."""
        raise ClientError("a function without curvature")

    # --- for the direct solve: each is None if the functions are not of that form ---------

    def as_quadratics(self) -> Quadratics | None:
        """The functions as quadratics."""
        return None

    def as_kinks(self) -> Kinks | None:
        """The functions as sums of absolute values."""
        return None

    def as_smooth(self) -> ValueAndGradient | None:
        """The sum of the functions and its slopes (k, d) at a point (k, d)."""
        return None
