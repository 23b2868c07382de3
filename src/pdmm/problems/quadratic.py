"""Three ways to hold the quadratics f_i(x) = 1/2 x'H_i x - g_i·x + c_i of many clients.

Rows holds the data A_i themselves (H_i = A_i'A_i), Gram the matrices H_i, Spectral their
eigenvectors. Which is best depends on the shapes and on the run: see ``least_squares``.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.checks import PerClient
from pdmm.problems.base import Block, Clients, Floats


def _times(matrices: Floats, x: Floats) -> Floats:
    """Products of a stack of matrices (b, r, d) with the rows of x (b, d), or with x (d,)."""
    return np.asarray(np.matmul(matrices, x[..., None]))[..., 0]


def _transposed(matrices: Floats, y: Floats) -> Floats:
    return np.asarray(np.matmul(matrices.transpose(0, 2, 1), y[..., None]))[..., 0]


class Quadratics:
    """Quadratics of many clients; a subclass knows how to multiply with their H_i."""

    def __init__(self, g: Floats, c: npt.NDArray[np.float64]) -> None:
        self.g, self.c = g, c

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> "Quadratic":
        """The functions of some clients."""
        return Quadratic(self, clients)

    def product(self, clients: Clients, v: Floats) -> Floats:
        """H_i v_i."""
        raise NotImplementedError

    def steps(
        self,
        clients: Clients,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats] | None:
        """K gradient steps at once, if there is a faster way than one after the other."""
        return None

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        """Argmin f_i(x) + rho/2 ‖x - anchor‖²."""
        raise NotImplementedError


class Quadratic(Block):
    """The quadratics of a block of clients."""

    def __init__(self, all_clients: Quadratics, clients: Clients) -> None:
        self.all, self.clients = all_clients, clients
        self.g, self.c = all_clients.g[clients], all_clients.c[clients]
        super().__init__(len(self.c))

    def _gradient(self, x: Floats) -> Floats:
        product = self.all.product(self.clients, x)
        product -= self.g
        return product

    def value(self, x: Floats) -> Floats:
        slope = self._gradient(x).astype(np.float64) - self.g
        return np.asarray(0.5 * (slope * x).sum(-1) + self.c)

    def divergence(self, x: Floats, y: Floats) -> Floats:
        v = x - y
        return np.asarray(0.5 * (self.all.product(self.clients, v).astype(np.float64) * v).sum(-1))

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
        return super()._steps(start, step, count, pull, rho, average)

    def prox(self, anchor: Floats, rho: float, start: Floats) -> Floats:
        self.tally.exact += self.size
        return self.all.prox(self.clients, anchor, rho)


class Rows(Quadratics):
    """The data as they are: best for clients with fewer samples than features."""

    def __init__(self, A: PerClient, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.A = A

    def product(self, clients: Clients, v: Floats) -> Floats:
        if isinstance(self.A, np.ndarray):
            A = self.A[clients]
            return _transposed(A, _times(A, v))
        chosen = np.arange(len(self.A))[clients]
        rows = np.broadcast_to(v, (len(chosen), v.shape[-1]))
        return np.stack([(self.A[i] @ x) @ self.A[i] for i, x in zip(chosen, rows, strict=True)])

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        # (A'A + rho)^-1 v = (v - A'(A A' + rho)^-1 A v) / rho, with n by n matrices only
        right = self.g[clients] - self.product(clients, anchor)
        moves = []
        for i, v in zip(np.arange(len(self.A))[clients], right, strict=True):
            A = self.A[i]
            shifted = A @ A.T + rho * np.eye(len(A), dtype=A.dtype)
            moves.append((v - np.linalg.solve(shifted, A @ v) @ A) / rho)
        return np.asarray(anchor + np.stack(moves))


class Gram(Quadratics):
    """The matrices H_i: best for clients with many samples."""

    def __init__(self, H: Floats, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.H = H

    def product(self, clients: Clients, v: Floats) -> Floats:
        return _times(self.H[clients], v)

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        H = self.H[clients]
        right = self.g[clients] - _times(H, anchor)
        shifted = H + rho * np.eye(H.shape[-1], dtype=H.dtype)
        return np.asarray(anchor + np.linalg.solve(shifted, right[..., None])[..., 0])


class Spectral(Quadratics):
    """Eigenvectors W_i (rows) and eigenvalues e_i: H_i = W_i' diag(e_i) W_i.

    K gradient steps on a quadratic are one affine map, diagonal in this basis: a round costs
    three products whatever K, step and rho, and an exact step two. The rows of W_i may be
    fewer than d; H_i is zero on what they leave out.
    """

    def __init__(
        self, W: Floats, e: Floats, g: Floats, c: npt.NDArray[np.float64], full: bool = False
    ) -> None:
        super().__init__(g, c)
        self.W, self.e = W, e
        self.full = full  # whether every W_i is a whole basis
        self.h = np.empty_like(e)  # g in the basis
        for i in range(len(W)):
            self.h[i] = W[i] @ g[i]
        self._lock = Lock()
        self._known: dict[Any, Floats] = {}

    def product(self, clients: Clients, v: Floats) -> Floats:
        W = self.W[clients]
        y = _times(W, v)
        y *= self.e[clients]
        return _transposed(W, y)

    def _diagonal(self, key: Any, make: Callable[[], Any]) -> Any:
        """Functions of the eigenvalues, kept for the parameters last used."""
        with self._lock:
            if key not in self._known:
                self._known.clear()
                with np.errstate(all="ignore"):  # too large a step overflows here: it is seen later
                    self._known[key] = make()
            return self._known[key]

    def _powers(self, step: float, count: int, rho: float) -> list[tuple[Floats, float]]:
        """What becomes of every eigencomponent, and of what W leaves out: q of last and mean.

        Eigencomponents move by x_k = x_0 - q_k r, where r is the gradient at the start and
        q_{k+1} = (1 - step (e + rho)) q_k + step: no division by an eigenvalue.
        """

        def of(e: Any) -> tuple[Any, Any]:
            shrink = 1 - step * (np.asarray(e, dtype=np.float64) + rho)
            q, total = np.zeros_like(shrink), np.zeros_like(shrink)
            for _ in range(count):
                q = shrink * q + step
                total += q
            return q, total / count

        last, mean = np.empty_like(self.e), np.empty_like(self.e)
        for i in range(0, len(self.e), 1024):  # in parts: temporaries stay small
            last[i : i + 1024], mean[i : i + 1024] = of(self.e[i : i + 1024])
        return [(q, float(q0)) for q, q0 in zip((last, mean), of(0.0), strict=True)]

    def steps(
        self,
        clients: Clients,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        weights = self._diagonal((step, count, rho), lambda: self._powers(step, count, rho))
        W = self.W[clients]
        r = _times(W, start)
        r *= self.e[clients]
        r -= self.h[clients]
        rest = None
        push = pull if not rho else rho * start if pull is None else rho * start + pull
        if push is not None:
            rest = _times(W, push)
            r += rest

        def end(q: Floats, q0: float) -> Floats:
            inside = q[clients] * r
            if self.full or push is None or rest is None:
                return np.subtract(start, _transposed(W, inside))
            inside -= q0 * rest
            return np.subtract(start - q0 * push, _transposed(W, inside))

        last = end(*weights[0])
        return last, (end(*weights[1]) if average else last)

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        # x - anchor solves (H + rho) (x - anchor) = g - H anchor, which lies in the span of W.
        W = self.W[clients]
        inverse = self._diagonal(rho, lambda: (1 / (self.e + rho)).astype(self.e.dtype))
        y = _times(W, anchor)
        y *= self.e[clients]
        y -= self.h[clients]
        y *= inverse[clients]
        return np.subtract(anchor, _transposed(W, y))
