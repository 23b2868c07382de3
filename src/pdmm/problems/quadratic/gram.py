"""Quadratics held as their matrices."""

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import lengths
from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.quadratic.form import Quadratics, times


class Gram(Quadratics):
    """The matrices H_i: best for clients with many samples."""

    def __init__(self, H: Floats, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.H = H

    @property
    def client_bytes(self) -> float:
        return self.H.nbytes / len(self.H)

    def size(self, clients: ClientRows) -> npt.NDArray[np.float64]:
        H = self.H[clients]
        return lengths(H.reshape(len(H), -1))

    def product(self, clients: ClientRows, v: Floats) -> Floats:
        return times(self.H[clients], v)

    def matrices(self, clients: ClientRows) -> Floats:
        return self.H[clients]

    def prox(self, clients: ClientRows, anchor: Floats, rho: float) -> Floats:
        H = self.H[clients]
        right = self.g[clients] - times(H, anchor)
        shifted = H + rho * np.eye(H.shape[-1], dtype=H.dtype)
        return np.asarray(anchor + np.linalg.solve(shifted, right[..., None])[..., 0])
