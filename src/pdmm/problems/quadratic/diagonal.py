"""Quadratics whose matrices are diagonal."""

import numpy as np
import numpy.typing as npt

from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.quadratic.form import Quadratics


class Diagonal(Quadratics):
    """Diagonals h_i of the matrices H_i, which are zero elsewhere."""

    def __init__(self, h: Floats, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.h = h

    @property
    def client_bytes(self) -> float:
        return self.h.nbytes / len(self.h)

    def size(self, clients: ClientRows) -> npt.NDArray[np.float64]:
        return np.asarray(np.abs(self.h[clients]).max(1), dtype=np.float64)

    def product(self, clients: ClientRows, v: Floats) -> Floats:
        return np.asarray(self.h[clients] * v)

    def prox(self, clients: ClientRows, anchor: Floats, rho: float) -> Floats:
        h = self.h[clients]
        return np.asarray(anchor + (self.g[clients] - h * anchor) / (h + rho))
