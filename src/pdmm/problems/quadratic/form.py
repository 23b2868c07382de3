"""What every form of many quadratics can do, and a block of clients whose functions they are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length, lengths
from pdmm.problems.block import ClientRows, Floats, Vector, descend
from pdmm.problems.constant_curvature import ConstantCurvature

CACHE_BYTES = 4 * 2**20  # matrices that are used several times in a row


def times(matrices: Floats, x: Floats) -> Floats:
    """Products of a stack of matrices (b, r, d) with the rows of x (b, d), or with x (d,)."""
    return np.asarray(np.matmul(matrices, x[..., None]))[..., 0]


def transposed_times(matrices: Floats, y: Floats) -> Floats:
    """Products of the transposed matrices with the rows of y (b, r)."""
    return np.asarray(np.matmul(matrices.transpose(0, 2, 1), y[..., None]))[..., 0]


def some_rows(x: Floats, rows: slice) -> Floats:
    """Some rows of x (b, d); of x (d,), which is the same for all, itself."""
    return x if x.ndim == 1 else x[rows]


class Quadratics(ABC):
    """Quadratics of many clients; a subclass knows how to multiply with their H_i."""

    def __init__(self, g: Floats, c: npt.NDArray[np.float64]) -> None:
        self.g = g
        self.c = c

    @property
    @abstractmethod
    def client_bytes(self) -> float:
        """What a product with one H_i reads."""

    @abstractmethod
    def size(self, clients: ClientRows) -> npt.NDArray[np.float64]:
        """Bounds of the norms ‖H_i‖, (b,)."""

    @abstractmethod
    def product(self, clients: ClientRows, v: Floats) -> Floats:
        """H_i v_i."""

    def matrices(self, clients: ClientRows) -> Floats:
        """The H_i (b, d, d) of some clients."""
        d = self.g.shape[1]
        units = np.eye(d, dtype=self.g.dtype)
        return np.stack([self.product(clients, unit) for unit in units], axis=-1)

    @abstractmethod
    def prox(self, clients: ClientRows, anchor: Floats, rho: float) -> Floats:
        """Argmin f_i(x) + rho/2 ‖x - anchor‖²."""

    def steps(
        self,
        clients: ClientRows,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats] | None:
        """K gradient steps at once, if there is a faster way than one after the other."""
        return None

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> "QuadraticBlock":
        """The functions of some clients."""
        return QuadraticBlock(self, clients)

    def in_cache(self, clients: ClientRows) -> Iterator[tuple[ClientRows, slice]]:
        """Parts of the clients whose matrices stay in cache, with their rows in the block."""
        count = len(self.c[clients])
        most = max(1, int(CACHE_BYTES // max(1, self.client_bytes)))
        for i in range(0, count, most):
            end = min(i + most, count)
            if isinstance(clients, slice):
                first = clients.start or 0
                yield slice(first + i, first + end), slice(i, end)
            else:
                yield clients[i:end], slice(i, end)


class QuadraticBlock(ConstantCurvature):
    """The quadratics of a block of clients."""

    def __init__(self, all_clients: Quadratics, clients: ClientRows) -> None:
        self.all = all_clients
        self.clients = clients
        self.g = all_clients.g[clients]
        self.c = all_clients.c[clients]
        self.dimension = self.g.shape[1]
        super().__init__(len(self.c))

    def _gradient(self, x: Floats) -> Floats:
        product = self.all.product(self.clients, x)
        product -= self.g
        return product

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        g = self.accurate_gradient(x)
        terms = self.all.size(self.clients) * length(x) + lengths(self.g)
        # d products for each number, and as many again where H_i is held in another form.
        unit = float(np.finfo(self.g.dtype).eps)
        return g, (8 * len(x) + 8) * unit * terms

    def value(self, x: Floats) -> Floats:
        slope = self._gradient(x).astype(np.float64) - self.g
        return np.asarray(0.5 * (slope * x).sum(-1) + self.c)

    def hessian(self, x: Floats) -> Vector:
        return np.asarray(self.all.matrices(self.clients))

    def divergence(self, x: Floats, y: Floats) -> Floats:
        v = x - y
        Hv = self.all.product(self.clients, v).astype(np.float64)
        return np.asarray(0.5 * (Hv * v).sum(-1))

    def _steps(
        self,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        at_once = self.all.steps(self.clients, start, step, count, pull, rho, average)
        if at_once is not None:
            return at_once
        last = np.empty((self.size, self.g.shape[1]), self.g.dtype)
        mean = np.empty_like(last) if average else last
        for part, rows in self.all.in_cache(self.clients):
            last[rows], mean[rows] = descend(
                QuadraticBlock(self.all, part)._gradient,
                some_rows(start, rows),
                step,
                count,
                None if pull is None else some_rows(pull, rows),
                rho,
                average,
            )
        return last, mean

    def prox(self, anchor: Floats, rho: Any, start: Floats, slack: Floats | None = None) -> Floats:
        self.tally.exact += self.size
        if np.ndim(rho) == 0:
            return self.all.prox(self.clients, anchor, rho)
        H = self.hessian(anchor)
        right = self.g - times(H, anchor)
        return np.asarray(anchor + np.linalg.solve(H + rho, right[..., None])[..., 0])
