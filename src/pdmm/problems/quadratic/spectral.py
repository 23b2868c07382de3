"""Quadratics held as the eigenvectors and eigenvalues of their matrices."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.quadratic.form import Quadratics, some_rows, times, transposed_times

KEPT_BYTES = 64 * 2**20  # functions of the eigenvalues, for parameters used before
PART = 1024  # clients whose powers are computed at once: temporaries stay small

T = TypeVar("T")


class Reach(NamedTuple):
    """How far some gradient steps go: x_0 - q r, where r is the gradient at the start."""

    inside: Floats
    """q of every eigencomponent of every client."""
    outside: float
    """q of what the eigenvectors leave out, where H is zero."""


class Reaches(NamedTuple):
    """How far the last of some steps is from the start, and how far their mean."""

    last: Reach
    mean: Reach


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
        self.W = W
        self.e = e
        self.full = full  # whether every W_i is a whole basis
        self.h = np.empty_like(e)  # g in the basis
        for i in range(len(W)):
            self.h[i] = W[i] @ g[i]
        self._lock = Lock()
        self._known: dict[Hashable, Any] = {}

    @property
    def client_bytes(self) -> float:
        return self.W.nbytes / len(self.W)

    def size(self, clients: ClientRows) -> npt.NDArray[np.float64]:
        return np.asarray(self.e[clients].max(1), dtype=np.float64)

    def product(self, clients: ClientRows, v: Floats) -> Floats:
        W = self.W[clients]
        y = times(W, v)
        y *= self.e[clients]
        return transposed_times(W, y)

    def prox(self, clients: ClientRows, anchor: Floats, rho: float) -> Floats:
        # x - anchor solves (H + rho) (x - anchor) = g - H anchor, which lies in the span of W.
        inverse = self._kept(rho, lambda: (1 / (self.e + rho)).astype(self.e.dtype))
        x = np.empty_like(anchor)
        for part, rows in self.in_cache(clients):
            W = self.W[part]
            y = self._slope(part, W, anchor[rows])
            y *= inverse[part]
            x[rows] = transposed_times(W, y)
        return np.subtract(anchor, x, out=x)

    def steps(
        self,
        clients: ClientRows,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        reaches = self._kept((step, count, rho), lambda: self._reaches(step, count, rho))
        last = np.empty((len(self.c[clients]), self.g.shape[1]), self.g.dtype)
        mean = last
        wanted = [(last, reaches.last)]
        if average:
            mean = np.empty_like(last)
            wanted.append((mean, reaches.mean))
        push = _push(start, pull, rho)
        outside = None if self.full else push
        for part, rows in self.in_cache(clients):
            W = self.W[part]
            r = self._slope(part, W, some_rows(start, rows))
            if push is not None:
                pushed = times(W, some_rows(push, rows))
                r += pushed
            for end, q in wanted:
                inside = q.inside[part] * r
                if outside is not None:  # it goes q.outside everywhere, below: not in the span
                    inside -= q.outside * pushed
                end[rows] = transposed_times(W, inside)
        for end, q in wanted:
            np.subtract(start, end, out=end)
            if outside is not None:
                end -= q.outside * outside
        return last, mean

    def _slope(self, part: ClientRows, W: Floats, x: Floats) -> Floats:
        """The gradients H_i x - g_i in the basis: e W x - h."""
        slope = times(W, x)
        slope *= self.e[part]
        slope -= self.h[part]
        return slope

    def _reaches(self, step: float, count: int, rho: float) -> Reaches:
        """How far ``count`` steps go in every eigencomponent, and in what W leaves out."""
        last = np.empty_like(self.e)
        mean = np.empty_like(self.e)
        for i in range(0, len(self.e), PART):
            part = slice(i, i + PART)
            last[part], mean[part] = _reach(self.e[part], step, count, rho)
        outside_last, outside_mean = _reach(0.0, step, count, rho)
        return Reaches(Reach(last, float(outside_last)), Reach(mean, float(outside_mean)))

    def _kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Functions of the eigenvalues, kept for the parameters used lately."""
        with self._lock:
            if key not in self._known:
                if len(self._known) * self.e.nbytes > KEPT_BYTES:  # clients may differ in K
                    self._known.clear()
                with np.errstate(all="ignore"):  # too large a step overflows here: it is seen later
                    self._known[key] = make()
            kept: T = self._known[key]
            return kept


def _push(start: Floats, pull: Floats | None, rho: float) -> Floats | None:
    """The part rho x_0 + pull of the gradient at the start that is not of the f_i."""
    if not rho:
        return pull
    if pull is None:
        return rho * start
    return rho * start + pull


def _reach(e: Any, step: float, count: int, rho: float) -> tuple[Any, Any]:
    """The q of the last of some steps and of their mean, of components of curvature e.

    Components move by x_k = x_0 - q_k r, where r is the gradient at the start and
    q_{k+1} = (1 - step (e + rho)) q_k + step: no division by an eigenvalue.
    """
    shrink = 1 - step * (np.asarray(e, dtype=np.float64) + rho)
    q = np.zeros_like(shrink)
    total = np.zeros_like(shrink)
    for _ in range(count):
        q = shrink * q + step
        total += q
    return q, total / count
