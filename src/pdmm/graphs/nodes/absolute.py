"""Nodes with absolute values: the update is a shrinkage."""

import numpy as np
from scipy import linalg
from scipy.optimize import lsq_linear

from pdmm.graphs.allowed import Kinks
from pdmm.graphs.incidence import Indices
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group, Rows, Updates, Vector
from pdmm.graphs.nodes.inverses import inverses
from pdmm.problems.block import Floats
from pdmm.problems.elementary import shrink

Factors = tuple[Vector, Vector]  # a root of a matrix, and the root's inverse


class AbsoluteGroup(Group):
    """Sums over entries of |x - a_i|.

    Args:
        nodes: their positions in the network.
        a: a row for each node.
    """

    def __init__(self, nodes: Indices, a: Floats) -> None:
        super().__init__(nodes, a.shape[1])
        self.a = a

    def exact(self, network: Network, rho: float) -> Updates:
        G = self.stiffness(network)
        a = self.a.astype(network.dtype)
        if G.ndim == 2:
            return Shrinkage(self, a, G, rho)
        return ShrinkageAlong(self, a, G, rho, network)

    def values(self, X: Floats) -> Vector:
        return np.asarray(np.abs(X.astype(np.float64) - self.a).sum((1, 2)))

    def as_kinks(self) -> Kinks:
        return Kinks(self.nodes, self.a.astype(np.float64))


class Shrinkage(Updates):
    """Entry by entry, where G_i is diagonal.

    Args:
        group: the nodes.
        a: a row for each node, in the run's dtype.
        G: (k, 1) or (k, d).
        rho: the penalty.
    """

    def __init__(self, group: Group, a: Floats, G: Vector, rho: float) -> None:
        super().__init__(group)
        self.a = a
        with np.errstate(divide="ignore", over="ignore"):
            self.reach = (1 / (rho * G)).astype(a.dtype)  # inf where nothing holds x
            # Any number will do there: the update is a.
            self.scale = np.where(G > 0, 1 / G, 0).astype(a.dtype)

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        return shrink(r * self.scale[rows], self.a[rows], self.reach[rows])


class ShrinkageAlong(Updates):
    """Node by node, where G_i is any matrix.

    Args:
        group: the nodes.
        a: a row for each node, in the run's dtype.
        G: (k, d, d).
        rho: the penalty.
        network: the problem, for messages.
    """

    def __init__(self, group: Group, a: Floats, G: Vector, rho: float, network: Network) -> None:
        super().__init__(group)
        self.a = a
        self.rho = rho
        held = np.abs(G).max((1, 2)) > 0  # the update of the others is a
        _, bad = inverses(rho * G)
        bad &= held
        if bad.any():
            i = int(self.nodes[int(bad.argmax())])
            raise ValueError(
                f"{network.name(i)} has no unique update: its B matrices have a common kernel, and "
                "an absolute value bends nowhere"
            )
        self.factors: list[Factors | None] = [
            _factors(rho * G_i) if some else None for G_i, some in zip(G, held, strict=True)
        ]

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        a = self.a[rows]
        new = np.empty_like(x)
        for k, i in enumerate(np.arange(len(self.nodes))[rows]):
            factors = self.factors[i]
            new[k] = a[k] if factors is None else _shrunk(factors, self.rho * r[k], a[k])
        return new


def _factors(M: Vector) -> Factors:
    root = np.asarray(np.linalg.cholesky(M))
    return root, np.asarray(linalg.solve_triangular(root, np.eye(len(M)), lower=True))


def _shrunk(factors: Factors, right: Floats, a: Floats) -> Vector:
    """Argmin of ‖x - a‖_1 + 1/2 x'M x - right·x, M = root root', by its dual.

    With u in [-1, 1]^d for the slopes, x = M^-1 (right - u), and u is the nearest point of the
    box to right - M a in the norm of M^-1: least squares with bounds, solved exactly.
    """
    root, inverse = factors
    aim = inverse @ right - root.T @ a
    u = lsq_linear(inverse, aim, bounds=(-1, 1), method="bvls", tol=1e-15).x
    x = inverse.T @ (inverse @ (right - u))
    inside = np.abs(u) < 1 - 1e-9  # there the slope is free: x is at the kink
    return np.asarray(np.where(inside, a, x))
