"""The exact updates of quadratics, with factors that are made once."""

from typing import Any

import numpy as np

from pdmm.graphs.nodes.group import Group, Rows, Updates, Vector
from pdmm.problems.block import Floats
from pdmm.problems.quadratic import Spectral


class DiagonalUpdates(Updates):
    """x = q_i + p_i r_i, entry by entry.

    Args:
        group: the nodes.
        p: a row for each node.
        q: likewise.
    """

    def __init__(self, group: Group, p: Floats, q: Floats) -> None:
        super().__init__(group)
        self.p = p
        self.q = q

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        new = self.p[rows] * r
        new += self.q[rows]
        return np.asarray(new)


class DenseUpdates(Updates):
    """x = q_i + P_i r_i.

    Args:
        group: the nodes.
        P: a matrix for each node.
        q: a row for each node.
    """

    def __init__(self, group: Group, P: Floats, q: Floats) -> None:
        super().__init__(group)
        self.P = P
        self.q = q

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        new = np.matmul(self.P[rows], r[..., None])[..., 0]
        new += self.q[rows]
        return np.asarray(new)


class SpectralUpdates(Updates):
    """The same where P_i is known by the eigenvectors of H_i, and G_i is a positive number.

    With a = r/G: x - a solves (H + rho G)(x - a) = g - H a, which is in the span of W.

    Args:
        group: the nodes.
        form: their functions.
        G: a number for each node, (k, 1).
        rho: the penalty.
        dtype: of the run.
    """

    def __init__(
        self, group: Group, form: Spectral, G: Vector, rho: float, dtype: np.dtype[Any]
    ) -> None:
        super().__init__(group)
        e = form.e.astype(np.float64)
        W = form.W.astype(np.float64)
        g = form.g.astype(np.float64)
        inverse = 1 / (e + rho * G)
        self.W = W.astype(dtype)
        self.scale = (1 / G).astype(dtype)
        self.shrinks = (e * inverse).astype(dtype)
        self.pulls = (np.matmul(W, g[..., None])[..., 0] * inverse).astype(dtype)

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        W = self.W[rows]
        anchor = r * self.scale[rows]
        inside = np.matmul(W, anchor[..., None])[..., 0]
        inside = self.pulls[rows] - self.shrinks[rows] * inside
        anchor += np.matmul(W.swapaxes(1, 2), inside[..., None])[..., 0]
        return np.asarray(anchor)
