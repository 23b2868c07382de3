"""A block of quadratics: what it says of its curvature, which is the same everywhere."""

import numpy as np

from pdmm.problems.block import Block, Floats, Vector
from pdmm.problems.curvature import Curvature, in_coordinates


class ConstantCurvature(Block):
    """A block whose clients know their Hessians, of which x is no part."""

    dimension: int
    """The length of x."""

    def curvature(self, x: Floats, T: Vector | None = None) -> Curvature:
        g, doubt = self.certain_gradient(x)
        H = self.hessian(x).astype(np.float64, copy=False)
        none = np.zeros(self.size)
        value = np.asarray(self.value(x), dtype=np.float64)
        return in_coordinates(value, g, doubt, H, T, none, none + 1)

    def working(self, T: Vector | None = None) -> Curvature:
        return self.curvature(np.zeros(self.dimension), T)  # a quadratic stands for itself

    def diagonal(self, x: Floats) -> tuple[Vector, Vector]:
        own = np.einsum("bdd->bd", self.hessian(x)).astype(np.float64)
        return own, np.zeros_like(own)  # there are no intercepts
