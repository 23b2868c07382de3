"""Softmax regression: mean cross-entropy of a linear classifier, plus l2/2 ‖x‖²."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp

from pdmm.common.checks import not_negative, per_client, same_dtype, whole
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Block, Clients, Floats, Problem, partition
from pdmm.problems.constants import Kind, Which
from pdmm.problems.eigenvalues import curvature, curvature_of_rows

Labels = npt.NDArray[np.integer]


class SoftmaxRegression(Problem):
    """Multinomial logistic regression: f_i is the mean cross-entropy on client i's samples.

    x is the (features + 1) x classes matrix in row order, the bias its last row.

    Args:
        X: a list of matrices (n_i, features), one a client, or one array (clients, n,
            features). A bias is added; the data are not copied.
        y: the labels 0 .. classes - 1, a list of vectors (n_i,) or one array (clients, n).
        classes: how many classes there are.
        l2: weight of l2/2 ‖x‖² in every f_i (the bias included).
        batch_size: take gradients of mini-batches of so many samples, in stored order (the
            last partial batch is left out, then the order starts again); None for all.

    Example:
        >>> import numpy as np, pdmm
        >>> rng = np.random.default_rng(0)
        >>> X = [rng.standard_normal((30, 2)) + 2 * c for c in (-1, 1)]
        >>> y = [np.full(30, 0), np.full(30, 1)]          # a class a client
        >>> problem = pdmm.SoftmaxRegression(X, y, classes=2, l2=0.1)
        >>> result = pdmm.solve(problem, pdmm.AGPDMM(0.2, 10), rounds=50)
        >>> bool(problem.accuracy(result.x) > 0.95)
        True
    """

    proven = True

    def __init__(
        self, X: Any, y: Any, classes: int, l2: float = 0.0, batch_size: int | None = None
    ) -> None:
        self.X = per_client("X", X, 2)
        self.dtype = same_dtype(("X", self.X))
        self.clients, self.features = len(self.X), int(self.X[0].shape[1])
        self.classes = whole("classes", classes, at_least=2)
        self.l2 = not_negative("l2", l2)
        self.dimension = (self.features + 1) * self.classes
        self.y = self._labels(y)
        self.samples = np.array([len(y) for y in self.y])
        self.batch_size = batch_size
        if batch_size is not None:
            self.batch_size = whole("batch_size", batch_size, at_least=1)
            small = int(self.samples.argmin())
            if self.samples[small] < self.batch_size:
                raise ValueError(
                    f"batch_size is {batch_size}, but client {small} has only "
                    f"{self.samples[small]} samples"
                )

    def _labels(self, y: Any) -> list[Labels]:
        try:
            if len(y) != self.clients:
                raise ValueError(f"X has {self.clients} clients and y has {len(y)}")
        except TypeError:
            raise ValueError(f"y must be a list of label vectors, got {type(y)}") from None
        labels: list[Labels] = []
        for i, (rows, given) in enumerate(zip(self.X, y, strict=True)):
            label = np.asarray(given)
            if rows.shape[1] != self.features:
                raise ValueError(
                    f"X[{i}] (client {i}) has {rows.shape[1]} columns, but X[0] has {self.features}"
                )
            if label.shape != (len(rows),):
                raise ValueError(
                    f"y[{i}] (client {i}) has shape {label.shape}, but X[{i}] has {len(rows)} rows"
                )
            if label.dtype.kind not in "iu":
                raise ValueError(
                    f"y[{i}] (client {i}) must hold whole numbers, got {label.dtype}: "
                    "try y.astype(int)"
                )
            if label.min() < 0 or label.max() >= self.classes:
                bad = label.min() if label.min() < 0 else label.max()
                raise ValueError(
                    f"y[{i}] (client {i}) has the label {bad}, outside 0 .. {self.classes - 1}"
                )
            labels.append(label.astype(np.intp))  # bytes would overflow as indices
        return labels

    def __repr__(self) -> str:
        batch = "" if self.batch_size is None else f", batches of {self.batch_size}"
        return (
            f"SoftmaxRegression({self.clients} clients, {self.samples.sum()} samples, "
            f"{self.features} features, {self.classes} classes, l2={self.l2:g}{batch}, "
            f"{self.dtype})"
        )

    def blocks(self) -> list[slice]:
        rows = self.samples if self.batch_size is None else np.full(self.clients, self.batch_size)
        per_row = (self.features + 3 * self.classes) * self.dtype.itemsize
        # Clients of a block work on equally many rows: cut where the number changes.
        cuts = np.flatnonzero(np.diff(rows)) + 1
        blocks: list[slice] = []
        for start, stop in zip([0, *cuts], [*cuts, self.clients], strict=True):
            client = rows[start] * per_row
            # Every number read is used once a class, forwards and backwards.
            parts = partition(stop - start, client, 2 * self.classes * client, fewest=4)
            blocks.extend(slice(int(start) + p.start, int(start) + p.stop) for p in parts)
        return blocks

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> "SoftmaxBlock":
        return SoftmaxBlock(self, np.arange(self.clients)[clients], cursor)

    def predict(self, x: Any, X: Any) -> npt.NDArray[np.int64]:
        """The most likely class of every row of X."""
        if np.shape(x) != (self.dimension,):
            raise ValueError(f"x must have shape ({self.dimension},), got {np.shape(x)}")
        W = np.asarray(x).reshape(self.features + 1, self.classes)
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"X must have shape (rows, {self.features}), got {rows.shape}")
        return np.asarray((rows @ W[:-1] + W[-1]).argmax(axis=1))

    def accuracy(self, x: Any, X: Any = None, y: Any = None) -> float:
        """The share of rows whose class is predicted rightly; of the training data by default.

        X and y are a matrix and its labels, or lists of them, one a client.
        """
        if (X is None) != (y is None):
            raise ValueError("give X and y together, or neither for the training data")
        if X is None:
            X, y = self.X, self.y
        elif isinstance(X, np.ndarray) and X.ndim == 2:
            X, y = [X], [y]
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} parts and y has {len(y)}")
        right = []
        for rows, given in zip(X, y, strict=True):
            labels, predicted = np.asarray(given), self.predict(x, rows)
            if labels.shape != predicted.shape or labels.dtype.kind not in "iu":
                raise ValueError(
                    f"y must hold a whole number for each row of X, ({len(predicted)},), "
                    f"got {labels.dtype} of shape {labels.shape}"
                )
            right.append(predicted == labels)
        return float(np.concatenate(right).mean())

    # The Hessian of the mean cross-entropy of the rows of R = [X 1] is at most 1/2 R'R/n: for
    # every row it is rr' times diag(p) - pp', whose largest eigenvalue is at most 1/2.

    def _client_constants(
        self, which: Which, threads: Threads
    ) -> dict[Which, tuple[npt.NDArray[np.float64], Kind]]:
        if which == "mu":
            return {"mu": (np.full(self.clients, self.l2), "bound")}

        def steepest(i: int) -> float:
            """Of all rows, or of the mini-batch that needs the smallest step."""
            rows, size = self.X[i], self.batch_size or len(self.X[i])
            starts = range(0, len(rows) - size + 1, size)
            return max(curvature_of_rows(rows[s : s + size]) for s in starts)

        curvatures = np.array(list(threads.map(steepest, range(self.clients))))
        return {"L": (0.5 * curvatures + self.l2, "bound")}

    def _overall_constant(
        self,
        which: Which,
        weights: npt.NDArray[np.float64],
        threads: Threads,
        team: Team = ALONE,
    ) -> tuple[float, Kind]:
        l2 = self.l2 * float(team.total(weights.sum))
        if which == "mu":
            return l2, "bound"
        return 0.5 * curvature(self.X, weights / self.samples, threads, team) + l2, "bound"


def _logits(rows: Floats, W: Floats) -> npt.NDArray[np.float64]:
    """Logits (classes, rows) of one client, widened to float64."""
    return np.asarray((rows @ W[:-1] + W[-1]).T.astype(np.float64))


def _exp_remainder(t: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(t) - 1 - t, to full relative accuracy also for small t."""
    series = np.zeros_like(t)
    for k in range(12, 1, -1):
        series = (series + 1) * t / k if k > 2 else (series + 1) * t * t / 2
    with np.errstate(over="ignore"):
        return np.where(np.abs(t) < 0.25, series, np.expm1(t) - t)


class SoftmaxBlock(Block):
    """The functions of a block of clients, which work on equally many rows.

    Logits are kept as (b, classes, rows): the softmax then runs along contiguous rows.
    """

    def __init__(
        self,
        problem: SoftmaxRegression,
        clients: npt.NDArray[np.int64],
        cursor: npt.NDArray[np.int64] | None,
    ) -> None:
        super().__init__(len(clients))
        self.problem, self.clients = problem, clients
        self.X = [problem.X[i] for i in clients]
        self.y = [problem.y[i] for i in clients]
        self.cursor = cursor
        self.shape = (problem.features + 1, problem.classes)
        self._space: tuple[Floats, Floats, Floats, npt.NDArray[np.int64]] | None = None

    def _matrices(self, x: Floats) -> Floats:
        return np.broadcast_to(x, (self.size, self.problem.dimension)).reshape(
            self.size, *self.shape
        )

    def _batch(self, k: int) -> tuple[list[Floats], list[Labels]]:
        """The rows of step k: the next mini-batch of every client, or all."""
        size = self.problem.batch_size
        if size is None or self.cursor is None:
            return self.X, self.y
        starts = [
            int(c + k) % (len(y) // size) * size for c, y in zip(self.cursor, self.y, strict=True)
        ]
        return (
            [rows[s : s + size] for rows, s in zip(self.X, starts, strict=True)],
            [labels[s : s + size] for labels, s in zip(self.y, starts, strict=True)],
        )

    def _descent(self, W: Floats, k: int, out: Floats, scale: float) -> None:
        """The gradient, times scale, of the mean cross-entropy of step k's rows, into out."""
        rows, labels = self._batch(k)
        n, p = len(rows[0]), self.shape[0] - 1
        logits, P, ones, first = self._workspace(n)
        for i, r in enumerate(rows):
            np.matmul(r, W[i, :p], out=logits[i])
        P[...] = logits.transpose(0, 2, 1)
        P += W[:, p, :, None]
        P -= P.max(1, keepdims=True)
        np.exp(P, out=P)
        P *= (scale / n) / P.sum(1, keepdims=True)
        flat = P.reshape(-1)
        for i, label in enumerate(labels):
            flat[first[i] + n * label] -= scale / n  # P[i, label, row]
        for i, r in enumerate(rows):
            np.matmul(r.T, P[i].T, out=out[i, :p])
        np.matmul(P, ones, out=out[:, p])

    def _workspace(self, n: int) -> tuple[Floats, Floats, Floats, npt.NDArray[np.int64]]:
        """Arrays that every step uses again, for n rows a client."""
        if self._space is None or len(self._space[2]) != n:
            classes, dtype = self.shape[1], self.problem.dtype
            first = np.arange(self.size)[:, None] * (classes * n) + np.arange(n)
            self._space = (
                np.empty((self.size, n, classes), dtype),
                np.empty((self.size, classes, n), dtype),
                np.ones(n, dtype),
                first,
            )
        return self._space

    def _gradient(self, x: Floats) -> Floats:
        W = self._matrices(x)
        out = np.empty(W.shape, self.problem.dtype)
        if self.cursor is None and len({len(y) for y in self.y}) > 1:
            for i in range(self.size):  # whole clients of different sizes
                one = SoftmaxBlock(self.problem, self.clients[i : i + 1], None)
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
        return last, (last if total is None else total.reshape(self.size, -1) * (1 / count))

    def value(self, x: Floats) -> Floats:
        values = []
        for rows, labels, W in zip(self.X, self.y, self._matrices(x), strict=True):
            logits = np.ascontiguousarray((rows @ W[:-1]).T)
            logits += W[-1][:, None]
            logits -= logits.max(0)
            right = logits[labels, np.arange(len(rows))]
            entropy = np.log(np.exp(logits, out=logits).sum(0)) - right
            values.append(float(entropy.mean(dtype=np.float64)) + self.problem.l2 / 2 * _square(W))
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
        wide = x.astype(np.float64)
        return np.stack([self.smooth(i)(wide)[1] for i in range(self.size)])

    def smooth(self, i: int) -> Callable[[npt.NDArray[np.float64]], tuple[float, Floats]]:
        p, problem = self.shape[0] - 1, self.problem
        rows, labels = self.X[i].astype(np.float64, copy=False), self.y[i]
        n, index = len(rows), np.arange(len(rows))

        def value_and_gradient(x: npt.NDArray[np.float64]) -> tuple[float, Floats]:
            W = x.reshape(self.shape)
            logits = (rows @ W[:p] + W[p]).T
            logits = logits - logits.max(0)
            right = logits[labels, index]
            P = np.exp(logits)
            sums = P.sum(0)
            value = float((np.log(sums) - right).mean() + problem.l2 / 2 * (x @ x))
            P /= sums
            P[labels, index] -= 1
            gradient = np.empty(self.shape)
            gradient[:p] = (P @ rows).T / n
            gradient[p] = P.mean(1)
            return value, gradient.ravel() + problem.l2 * x

        return value_and_gradient


def _square(W: Floats) -> float:
    return float((W.astype(np.float64) ** 2).sum())
