"""Ways to hold the quadratics f_i(x) = 1/2 x'H_i x - g_i·x + c_i of many clients.

Rows holds the data A_i themselves (H_i = A_i'A_i), Gram the matrices H_i, Spectral their
eigenvectors, Diagonal their diagonals where they have no more. Which is best depends on the
shapes and on the run: see ``least_squares``.
"""

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import PerClient
from pdmm.problems.base import Block, Clients, Floats, descend

CACHE_BYTES = 4 * 2**20  # matrices that are used several times in a row
KEPT_BYTES = 64 * 2**20  # functions of the eigenvalues, for parameters used before


def _times(matrices: Floats, x: Floats) -> Floats:
    """Products of a stack of matrices (b, r, d) with the rows of x (b, d), or with x (d,)."""
    return np.asarray(np.matmul(matrices, x[..., None]))[..., 0]


def _transposed(matrices: Floats, y: Floats) -> Floats:
    return np.asarray(np.matmul(matrices.transpose(0, 2, 1), y[..., None]))[..., 0]


def _of(x: Floats, rows: slice) -> Floats:
    """Some rows of x (b, d); of x (d,), which is the same for all, itself."""
    return x if x.ndim == 1 else x[rows]


class Quadratics:
    """Quadratics of many clients; a subclass knows how to multiply with their H_i."""

    def __init__(self, g: Floats, c: npt.NDArray[np.float64]) -> None:
        self.g, self.c = g, c

    @property
    def client_bytes(self) -> float:
        """What a product with one H_i reads."""
        raise NotImplementedError

    def in_cache(self, clients: Clients) -> Iterator[tuple[Clients, slice]]:
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

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> "QuadraticBlock":
        """The functions of some clients."""
        return QuadraticBlock(self, clients)

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


class QuadraticBlock(Block):
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
        last = np.empty((self.size, self.g.shape[1]), self.g.dtype)
        mean = np.empty_like(last) if average else last
        for part, rows in self.all.in_cache(self.clients):
            last[rows], mean[rows] = descend(
                QuadraticBlock(self.all, part)._gradient,
                _of(start, rows),
                step,
                count,
                None if pull is None else _of(pull, rows),
                rho,
                average,
            )
        return last, mean

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        self.tally.exact += self.size
        return self.all.prox(self.clients, anchor, rho)


class Rows(Quadratics):
    """The data as they are: best for clients with fewer samples than features."""

    def __init__(self, A: PerClient, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.A = A
        self._bytes = sum(a.nbytes for a in A) / len(A)

    @property
    def client_bytes(self) -> float:
        return self._bytes

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

    @property
    def client_bytes(self) -> float:
        return self.H.nbytes / len(self.H)

    def product(self, clients: Clients, v: Floats) -> Floats:
        return _times(self.H[clients], v)

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        H = self.H[clients]
        right = self.g[clients] - _times(H, anchor)
        shifted = H + rho * np.eye(H.shape[-1], dtype=H.dtype)
        return np.asarray(anchor + np.linalg.solve(shifted, right[..., None])[..., 0])


class Diagonal(Quadratics):
    """Diagonals h_i of the matrices H_i, which are zero elsewhere."""

    def __init__(self, h: Floats, g: Floats, c: npt.NDArray[np.float64]) -> None:
        super().__init__(g, c)
        self.h = h

    @property
    def client_bytes(self) -> float:
        return self.h.nbytes / len(self.h)

    def product(self, clients: Clients, v: Floats) -> Floats:
        return np.asarray(self.h[clients] * v)

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        h = self.h[clients]
        return np.asarray(anchor + (self.g[clients] - h * anchor) / (h + rho))


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
        self._known: dict[Any, Any] = {}

    @property
    def client_bytes(self) -> float:
        return self.W.nbytes / len(self.W)

    def product(self, clients: Clients, v: Floats) -> Floats:
        W = self.W[clients]
        y = _times(W, v)
        y *= self.e[clients]
        return _transposed(W, y)

    def _diagonal(self, key: Any, make: Callable[[], Any]) -> Any:
        """Functions of the eigenvalues, kept for the parameters used lately."""
        with self._lock:
            if key not in self._known:
                if len(self._known) * self.e.nbytes > KEPT_BYTES:  # clients may differ in K
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
        push = pull if not rho else rho * start if pull is None else rho * start + pull
        last = np.empty((len(self.c[clients]), self.g.shape[1]), self.g.dtype)
        mean = np.empty_like(last) if average else last
        outputs = [(last, *weights[0]), (mean, *weights[1])][: 2 if average else 1]
        for part, rows in self.in_cache(clients):
            W = self.W[part]
            r = _times(W, _of(start, rows))
            r *= self.e[part]
            r -= self.h[part]
            rest = None
            if push is not None:
                rest = _times(W, _of(push, rows))
                r += rest
            for end, q, q0 in outputs:
                inside = q[part] * r
                if rest is not None and not self.full:
                    inside -= q0 * rest
                end[rows] = _transposed(W, inside)
        for end, _, q0 in outputs:
            np.subtract(start, end, out=end)
            if push is not None and not self.full:
                end -= q0 * push
        return last, mean

    def prox(self, clients: Clients, anchor: Floats, rho: float) -> Floats:
        # x - anchor solves (H + rho) (x - anchor) = g - H anchor, which lies in the span of W.
        inverse = self._diagonal(rho, lambda: (1 / (self.e + rho)).astype(self.e.dtype))
        x = np.empty_like(anchor)
        for part, rows in self.in_cache(clients):
            W = self.W[part]
            y = _times(W, anchor[rows])
            y *= self.e[part]
            y -= self.h[part]
            y *= inverse[part]
            x[rows] = _transposed(W, y)
        return np.subtract(anchor, x, out=x)
