"""The x on which all nodes of a component agree, and direct minimisers over them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import linalg

from pdmm.graphs.allowed import Allowed, Basis, Kinks, Quadratics
from pdmm.graphs.incidence import Indices
from pdmm.graphs.optimum import Optimum

Vector = npt.NDArray[np.float64]


class Agreement(Allowed):
    """One x for every component.

    Args:
        components: a number for every node, the same in a component.
        dimension: of every x_i.
    """

    def __init__(self, components: npt.NDArray[np.int32], dimension: int) -> None:
        self.components = components
        self.dimension = dimension
        self.count = int(components.max()) + 1

    def minimise_quadratics(self, functions: Sequence[Quadratics]) -> Vector | None:
        """Every component's minimiser of the sum of its functions."""
        d = self.dimension
        diagonal = all(part.diagonal for part in functions)
        H = np.zeros((self.count, d) if diagonal else (self.count, d, d))
        c = np.zeros((self.count, d))
        for part in functions:
            h = part.hessians()
            if part.diagonal and not diagonal:
                h = h[:, :, None] * np.eye(d)
            where = self.components[part.nodes]
            np.add.at(H, where, h)
            np.add.at(c, where, part.linear())
        x = np.empty((self.count, d))
        for k in range(self.count):
            one = _solution(np.diag(H[k]) if diagonal else H[k], c[k])
            if one is None:
                return None
            x[k] = one
        return x[self.components].reshape(-1)

    def minimise_kinks(self, functions: Sequence[Kinks]) -> Optimum:
        """Every component's median: from the lower to the upper one, if there are two."""
        d = self.dimension
        low = np.full((len(self.components), d), -np.inf)
        high = np.full((len(self.components), d), np.inf)
        a = np.concatenate([part.a for part in functions])
        where = self.components[np.concatenate([part.nodes for part in functions])]
        for k in np.unique(where):
            ordered = np.sort(a[where == k], axis=0)
            here = self.components == k
            low[here] = ordered[(len(ordered) - 1) // 2]
            high[here] = ordered[len(ordered) // 2]
        entries = self.components[:, None].astype(np.intp) * d + np.arange(d)
        return Optimum(low.reshape(-1), high.reshape(-1), entries.reshape(-1))

    def basis(self) -> Basis:
        count, d = self.count, self.dimension
        where: Indices = self.components.astype(np.intp)

        def spread(y: Vector) -> Vector:
            return y.reshape(count, d)[where].reshape(-1)

        def collect(slope: Vector) -> Vector:
            sums = np.zeros((count, d))
            np.add.at(sums, where, slope.reshape(-1, d))
            return sums.reshape(-1)

        return Basis(spread, collect, count * d)


def _solution(H: Vector, c: Vector) -> Vector | None:
    """The solution of H x = c, None if it is not unique."""
    if len(c) == 1:
        return c / H[0] if H[0, 0] > 0 else None
    try:
        factor = linalg.cho_factor(H)
    except linalg.LinAlgError:
        return None
    x = linalg.cho_solve(factor, c)
    if not np.linalg.norm(H, 1) * np.abs(np.diag(factor[0])).min() ** -2 < 1e14:
        return None
    return np.asarray(x + linalg.cho_solve(factor, c - H @ x))
