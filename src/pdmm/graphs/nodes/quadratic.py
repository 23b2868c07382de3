"""Nodes with quadratics 1/2 x'H_i x - g_i·x + c_i: the update is x = q_i + P_i r_i."""

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from pdmm.graphs.allowed import Kinks
from pdmm.graphs.incidence import Indices
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.gradient_steps import Cursor, DifferentiableGroup
from pdmm.graphs.nodes.group import LocalSteps, Rows, Updates, ValueAndGradient, Vector
from pdmm.graphs.nodes.inverses import inverses
from pdmm.graphs.nodes.quadratic_updates import DenseUpdates, DiagonalUpdates, SpectralUpdates
from pdmm.problems.block import Floats
from pdmm.problems.quadratic import Diagonal, Gram, Quadratics, Spectral


class QuadraticGroup(DifferentiableGroup):
    """Quadratics that are held in one form.

    Args:
        nodes: their positions in the network.
        form: the functions.
    """

    arrays: ClassVar[tuple[str, ...]]
    """The arrays of the form that make the H_i, a row for each node."""
    diagonal: bool = False

    def __init__(self, nodes: Indices, form: Quadratics) -> None:
        super().__init__(nodes, form.g.shape[1])
        self.form = form

    @abstractmethod
    def hessians(self) -> Vector:
        """The H_i in float64: diagonals (k, d), or matrices (k, d, d)."""

    def linear(self) -> Vector:
        """The g_i in float64."""
        return self.form.g.astype(np.float64)

    def exact(self, network: Network, rho: float) -> Updates:
        G = self.stiffness(network)
        H = self.hessians()
        if H.ndim == 2 and G.ndim == 2:
            M = H + rho * G
            self._refuse(network, M.min(1) <= 0)
            p = rho / M
            q = self.linear() / M
            return DiagonalUpdates(self, p.astype(network.dtype), q.astype(network.dtype))
        inverse, bad = inverses(self._matrices(H) + rho * self._matrices(G))
        self._refuse(network, bad)
        P = rho * inverse
        q = (inverse @ self.linear()[..., None])[..., 0]
        return DenseUpdates(self, P.astype(network.dtype), q.astype(network.dtype))

    def _matrices(self, diagonals: Vector) -> Vector:
        """Matrices (k, d, d) from diagonals (k, 1) or (k, d); matrices as they are."""
        if diagonals.ndim == 3:
            return diagonals
        return np.asarray(diagonals[:, :, None] * np.eye(self.dimension))

    def _refuse(self, network: Network, bad: npt.NDArray[np.bool_]) -> None:
        if bad.any():
            i = int(self.nodes[int(bad.argmax())])
            alone = network.incidence.degree[i] == 0
            why = "it is isolated" if alone else network.edges.why_singular
            raise ValueError(
                f"{network.name(i)} has no unique update: its function is flat in a direction "
                f"that nothing else holds ({why})"
            )

    def values(self, X: Floats) -> Vector:
        points = X.astype(np.float64, copy=False)
        total = float(self.form.c.sum()) - np.einsum("skd,kd->s", points, self.form.g)
        return np.asarray(total + 0.5 * self._squares(points))

    @abstractmethod
    def _squares(self, points: Vector) -> Vector:
        """Sums of x_i'H_i x_i at several points, (s, k, d) -> (s,)."""

    def gradients(self, rows: Rows, x: Floats, cursor: Cursor) -> Floats:
        return self.form.at(rows).gradient(x)

    @cached_property
    def _extremes(self) -> tuple[Vector, Vector]:
        H = self.hessians()
        ends = H if self.diagonal else np.linalg.eigvalsh(H)
        return ends.min(1), ends.max(1)

    def strong_convexity(self) -> Vector:
        return self._extremes[0]

    def smoothness(self) -> Vector:
        return self._extremes[1]

    def as_quadratics(self) -> "QuadraticGroup":
        return self

    def as_smooth(self) -> ValueAndGradient:
        return self._value_and_gradient

    @cached_property
    def _kept_hessians(self) -> Vector:
        return self.hessians()

    def _value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        H = self._kept_hessians
        g = self.linear()
        Hx = H * x if self.diagonal else np.matmul(H, x[..., None])[..., 0]
        return float((x * (0.5 * Hx - g)).sum()), Hx - g


class DiagonalGroup(QuadraticGroup):
    """Quadratics whose H_i are diagonal."""

    arrays = ("h",)
    diagonal = True
    form: Diagonal

    def hessians(self) -> Vector:
        return self.form.h.astype(np.float64)

    def _squares(self, points: Vector) -> Vector:
        return np.asarray(np.einsum("skd,skd,kd->s", points, points, self.form.h))


class ZeroGroup(DiagonalGroup):
    """Functions that are 0: nodes that only relay."""

    def inexact(self, network: Network, rho: float, steps: LocalSteps) -> Updates:
        return self.exact(network, rho)

    def as_kinks(self) -> Kinks:
        return Kinks(np.empty(0, dtype=np.intp), np.empty((0, self.dimension)))


class GramGroup(QuadraticGroup):
    """Quadratics whose matrices H_i are at hand."""

    arrays = ("H",)
    form: Gram

    def hessians(self) -> Vector:
        return self.form.H.astype(np.float64)

    def _squares(self, points: Vector) -> Vector:
        by_node = points.transpose(1, 2, 0)
        return np.asarray(np.einsum("kds,kds->s", by_node, self.form.H @ by_node))


class SpectralGroup(QuadraticGroup):
    """Quadratics with the eigenvectors of H_i: H_i = W_i' diag(e_i) W_i."""

    arrays = ("W", "e")
    form: Spectral

    def hessians(self) -> Vector:
        W = self.form.W.astype(np.float64)
        return np.asarray((W.swapaxes(1, 2) * self.form.e.astype(np.float64)[:, None]) @ W)

    def exact(self, network: Network, rho: float) -> Updates:
        G = self.stiffness(network)
        if G.shape[1:] == (1,) and (G > 0).all():
            return SpectralUpdates(self, self.form, G, rho, network.dtype)
        return super().exact(network, rho)

    def _squares(self, points: Vector) -> Vector:
        inside = np.matmul(self.form.W, points.transpose(1, 2, 0))
        return np.asarray(np.einsum("krs,krs,kr->s", inside, inside, self.form.e))


GROUPS: dict[type[Quadratics], type[QuadraticGroup]] = {
    Diagonal: DiagonalGroup,
    Gram: GramGroup,
    Spectral: SpectralGroup,
}
