"""A block of softmax regression's clients: gradients, steps, values and gaps."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp, softmax

from pdmm.common.checks import PerClient
from pdmm.common.matrices import Matrix, product, row_squares
from pdmm.common.rounding import gamma, length
from pdmm.problems.block import Block, Floats, Vector, Watching

Labels = npt.NDArray[np.integer]


class SoftmaxData(Protocol):
    """What a block reads of its problem."""

    X: PerClient
    y: list[Labels]
    features: int
    class_count: int
    dimension: int
    dtype: np.dtype[Any]
    l2: float
    batch_size: int | None


class Space(NamedTuple):
    """Arrays that every step uses again, for n rows of each client."""

    logits: Floats
    """(b, n, classes), as the products give them."""
    P: Floats
    """(b, classes, n): the probabilities."""
    ones: Floats
    """(n,), which sum over rows."""
    first: npt.NDArray[np.int64]
    """(b, n): where in P, as one vector, the probability of a row's class 0 is."""


class SoftmaxBlock(Block):
    """The functions of a block of clients, which work on equally many rows.

    Logits are kept as (b, classes, rows): the softmax then runs along contiguous rows.
    """

    def __init__(
        self,
        problem: SoftmaxData,
        clients: npt.NDArray[np.int64],
        cursor: npt.NDArray[np.int64] | None,
    ) -> None:
        super().__init__(len(clients))
        self.problem = problem
        self.clients = clients
        self.X = [problem.X[i] for i in clients]
        self.y = [problem.y[i] for i in clients]
        self.cursor = cursor
        self.shape = (problem.features + 1, problem.class_count)
        self._space: Space | None = None

    def _matrices(self, x: Floats) -> Floats:
        rows = np.broadcast_to(x, (self.size, self.problem.dimension))
        return rows.reshape(self.size, *self.shape)

    def _batch(self, k: int) -> tuple[list[Matrix], list[Labels]]:
        """The rows of step k: the next mini-batch of every client, or all."""
        size = self.problem.batch_size
        if size is None or self.cursor is None:
            return self.X, self.y
        batches = []
        for cursor, labels in zip(self.cursor, self.y, strict=True):
            number = int(cursor + k) % (len(labels) // size)  # the last partial one is left out
            batches.append(slice(number * size, (number + 1) * size))
        X = [rows[batch] for rows, batch in zip(self.X, batches, strict=True)]
        y = [labels[batch] for labels, batch in zip(self.y, batches, strict=True)]
        return X, y

    def _descent(self, W: Floats, k: int, out: Floats, scale: float) -> None:
        """The gradient, times scale, of the mean cross-entropy of step k's rows, into out."""
        rows, labels = self._batch(k)
        n = len(labels[0])
        p = self.shape[0] - 1
        space = self._workspace(n)
        for i, r in enumerate(rows):
            product(r, W[i, :p], out=space.logits[i])
        P = space.P
        P[...] = space.logits.transpose(0, 2, 1)
        P += W[:, p, :, None]
        self._seen(list(P), labels)
        P -= P.max(1, keepdims=True)
        np.exp(P, out=P)
        P *= (scale / n) / P.sum(1, keepdims=True)
        flat = P.reshape(-1)
        for i, label in enumerate(labels):
            flat[space.first[i] + n * label] -= scale / n  # P[i, label, row]
        for i, r in enumerate(rows):
            product(r.T, P[i].T, out=out[i, :p])
        np.matmul(P, space.ones, out=out[:, p])

    def show(self, x: Floats) -> None:
        if self.watch is None:
            return
        for i, (rows, W) in enumerate(zip(self.X, self._matrices(x), strict=True)):
            self._seen([(rows @ W[:-1]).T + W[-1][:, None]], [self.y[i]], i)

    def _watch_of(self, i: int) -> Watching | None:
        """The watch of a block that is one client of this one."""
        watch = self.watch
        return None if watch is None else lambda _, *seen: watch(i, *seen)

    def _seen(self, logits: Iterable[Floats], labels: Sequence[Labels], first: int = 0) -> None:
        """Let the watch see the rows of some clients, of which (classes, n) logits are given."""
        if self.watch is None:
            return
        for i, (own, label) in enumerate(zip(logits, labels, strict=True), start=first):
            eta = (own - own.mean(0)).T.astype(np.float64)
            p = softmax(eta, axis=1)
            loss = -log_softmax(eta, axis=1)[np.arange(len(label)), label]
            self.watch(i, eta, p * (1 - p), float(loss.mean()))

    def _workspace(self, n: int) -> Space:
        """Arrays that every step uses again, for n rows of each client."""
        if self._space is None or len(self._space.ones) != n:
            classes, dtype = self.shape[1], self.problem.dtype
            self._space = Space(
                logits=np.empty((self.size, n, classes), dtype),
                P=np.empty((self.size, classes, n), dtype),
                ones=np.ones(n, dtype),
                first=np.arange(self.size)[:, None] * (classes * n) + np.arange(n),
            )
        return self._space

    def _gradient(self, x: Floats) -> Floats:
        W = self._matrices(x)
        out = np.empty(W.shape, self.problem.dtype)
        if self.cursor is None and len({len(y) for y in self.y}) > 1:
            for i in range(self.size):  # whole clients of different sizes
                one = SoftmaxBlock(self.problem, self.clients[i : i + 1], None)
                one.watch = self._watch_of(i)
                one._descent(W[i : i + 1], 0, out[i : i + 1], 1.0)
        else:
            self._descent(W, 0, out, 1.0)
        if self.problem.l2:
            out += self.problem.l2 * W
        return out.reshape(self.size, -1)

    def _steps(
        self,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        # x -= step (grad + (rho + l2) x + pull), with as few passes over x as possible
        W = self._matrices(start).copy()
        push = None if pull is None else self._matrices(step * pull)
        keep = 1 - step * (rho + self.problem.l2)
        change = np.empty_like(W)
        total = np.zeros_like(W) if average else None
        for k in range(count):
            self._descent(W, k, change, step)
            if keep != 1:
                W *= keep
            if push is not None:
                W -= push
            W -= change
            if total is not None:
                total += W
        last = W.reshape(self.size, -1)
        if total is None:
            return last, last
        return last, total.reshape(self.size, -1) * (1 / count)

    def value(self, x: Floats) -> Floats:
        return self._values(x, lambda entropy: float(entropy.mean(dtype=np.float64)))

    def fingerprint(self, x: Floats) -> Floats:
        size = self.problem.batch_size
        if size is None:
            return self.value(x)

        def in_order(entropy: Floats) -> float:
            weights = np.random.default_rng(size).uniform(1, 2, len(entropy))
            return float(weights @ entropy) / len(entropy)

        return self._values(x, in_order)

    def _values(self, x: Floats, mean: Callable[[Floats], float]) -> Floats:
        """Values, where the mean over a client's rows may be another than the plain one."""
        values: list[float] = []
        for rows, labels, W in zip(self.X, self.y, self._matrices(x), strict=True):
            logits = np.ascontiguousarray((rows @ W[:-1]).T)
            logits += W[-1][:, None]
            self._seen([logits], [labels], len(values))
            logits -= logits.max(0)
            right = logits[labels, np.arange(len(labels))]
            entropy = np.log(np.exp(logits, out=logits).sum(0)) - right
            values.append(mean(entropy) + self.problem.l2 / 2 * _square(W))
        return np.array(values)

    def divergence(self, x: Floats, y: Floats) -> Floats:
        # Per sample, with p the probabilities at y and t the change of the logits about its
        # mean under p: log sum_j p_j exp(t_j) = log1p(sum_j p_j (exp(t_j) - 1 - t_j)).
        start = self._matrices(np.asarray(y, self.problem.dtype))
        change = self._matrices(np.subtract(x, y, dtype=np.float64))
        values = []
        for rows, Y, D in zip(self.X, start, change, strict=True):
            log_p = log_softmax(_logits(rows, Y), axis=0)
            p = np.exp(log_p)
            t = _logits(rows, D.astype(self.problem.dtype))
            t -= (p * t).sum(0)
            with np.errstate(over="ignore", invalid="ignore"):
                small = np.log1p((p * _exp_remainder(t)).sum(0))
            far = np.abs(t).max(0) >= 1
            small[far] = logsumexp(log_p[:, far] + t[:, far], axis=0)
            values.append(float(small.mean()) + self.problem.l2 / 2 * _square(D))
        return np.array(values)

    def accurate_gradient(self, x: Floats) -> npt.NDArray[np.float64]:
        if x.dtype == np.float64:
            return super().accurate_gradient(x)
        self.show(x)
        self.tally.gradients += self.size
        wide = x.astype(np.float64)
        return np.stack([self.smooth(i)(wide)[1] for i in range(self.size)])

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        W = x.astype(np.float64).reshape(self.shape)
        doubt = [self._rounding(rows, W) for rows in self.X]
        return self.accurate_gradient(x), np.array(doubt)

    def _rounding(self, rows: Matrix, W: Vector) -> float:
        """How far rounding can move the mean of r (p - y)' over rows r = [x 1], and l2 W."""
        n = rows.shape[0]
        p, classes = self.shape
        sizes = np.sqrt(1 + row_squares(rows))
        # The logits r W_k are off by gamma ‖r‖ ‖W_k‖, and ‖dp/dlogits‖ is at most 1/2.
        logits = gamma(p + 4) * np.sqrt(classes) * float(np.sqrt((W * W).sum(0)).max())
        exponents = gamma(classes + 16)  # subtracting the largest, exp, sum, quotient
        probabilities = logits / 2 * sizes + exponents
        # ‖p - y‖ is at most 1.5, and n products add up.
        each = probabilities + 1.5 * gamma(n + 4)
        return float((sizes * each).mean()) + gamma(4) * self.problem.l2 * length(W.ravel())

    def smooth(self, i: int) -> Callable[[npt.NDArray[np.float64]], tuple[float, Floats]]:
        p = self.shape[0] - 1
        l2 = self.problem.l2
        rows = self.X[i].astype(np.float64, copy=False)
        labels = self.y[i]
        n = len(labels)
        index = np.arange(n)

        def value_and_gradient(x: npt.NDArray[np.float64]) -> tuple[float, Floats]:
            W = x.reshape(self.shape)
            logits = (rows @ W[:p] + W[p]).T
            logits = logits - logits.max(0)
            right = logits[labels, index]
            P = np.exp(logits)
            sums = P.sum(0)
            value = float((np.log(sums) - right).mean() + l2 / 2 * (x @ x))
            P /= sums
            P[labels, index] -= 1
            gradient = np.empty(self.shape)
            gradient[:p] = (P @ rows).T / n
            gradient[p] = P.mean(1)
            return value, gradient.ravel() + l2 * x

        return value_and_gradient


def _square(W: Floats) -> float:
    return float((W.astype(np.float64) ** 2).sum())


def _logits(rows: Matrix, W: Floats) -> npt.NDArray[np.float64]:
    """Logits (classes, rows) of one client, widened to float64."""
    return np.asarray((rows @ W[:-1] + W[-1]).T.astype(np.float64))


def _exp_remainder(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(t) - 1 - t, to full relative accuracy also for small t."""
    series = np.zeros_like(t)
    for k in range(12, 2, -1):
        series = (series + 1) * t / k
    series = (series + 1) * t * t / 2
    with np.errstate(over="ignore"):
        return np.where(np.abs(t) < 0.25, series, np.expm1(t) - t)
