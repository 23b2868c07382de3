"""Quadratics held as the data that they are made of."""

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import PerClient
from pdmm.common.matrices import entries, nbytes
from pdmm.common.rounding import length
from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.quadratic.form import Quadratics, times, transposed_times


class Rows(Quadratics):
    """The data A_i as they are: best for clients with fewer samples than features."""

    def __init__(self, A: PerClient, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.A = A
        self._bytes = sum(map(nbytes, A)) / len(A)

    @property
    def client_bytes(self) -> float:
        return self._bytes

    def size(self, clients: ClientRows) -> npt.NDArray[np.float64]:
        chosen = np.arange(len(self.A))[clients]
        return np.array([length(entries(self.A[i])) ** 2 for i in chosen])

    def product(self, clients: ClientRows, v: Floats) -> Floats:
        if isinstance(self.A, np.ndarray):
            A = self.A[clients]
            return transposed_times(A, times(A, v))
        chosen = np.arange(len(self.A))[clients]
        rows = np.broadcast_to(v, (len(chosen), v.shape[-1]))
        return np.stack([(self.A[i] @ x) @ self.A[i] for i, x in zip(chosen, rows, strict=True)])

    def prox(self, clients: ClientRows, anchor: Floats, rho: float) -> Floats:
        # (A'A + rho)^-1 v = (v - A'(A A' + rho)^-1 A v) / rho, with n by n matrices only
        chosen = np.arange(len(self.A))[clients]
        right = self.g[clients] - self.product(clients, anchor)
        moves = []
        for i, v in zip(chosen, right, strict=True):
            A = self.A[i]
            shifted = A @ A.T + rho * np.eye(len(A), dtype=A.dtype)
            moves.append((v - np.linalg.solve(shifted, A @ v) @ A) / rho)
        return np.asarray(anchor + np.stack(moves))
