"""The problem itself: its data and labels, predictions, and the constants that are proven."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import not_negative, per_client, same_dtype, whole
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.constants import Kind, Which
from pdmm.problems.eigenvalues import curvature, curvature_of_rows
from pdmm.problems.partition import partition
from pdmm.problems.softmax.block import Labels, SoftmaxBlock


class SoftmaxRegression(Problem):
    """Multinomial logistic regression: f_i is the mean cross-entropy on client i's samples.

    x is the (features + 1) x classes matrix in row order, the bias its last row.

    Args:
        X: a list of matrices (n_i, features), one for each client, or one array (clients, n,
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
        >>> y = [np.full(30, 0), np.full(30, 1)]          # each client has one class
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
        self.clients = len(self.X)
        self.features = int(self.X[0].shape[1])
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
        pairs = enumerate(zip(self.X, y, strict=True))
        return [self._client_labels(i, rows, given) for i, (rows, given) in pairs]

    def _client_labels(self, i: int, rows: Floats, given: Any) -> Labels:
        labels = np.asarray(given)
        if rows.shape[1] != self.features:
            raise ValueError(
                f"X[{i}] (client {i}) has {rows.shape[1]} columns, but X[0] has {self.features}"
            )
        if labels.shape != (len(rows),):
            raise ValueError(
                f"y[{i}] (client {i}) has shape {labels.shape}, but X[{i}] has {len(rows)} rows"
            )
        if labels.dtype.kind not in "iu":
            raise ValueError(
                f"y[{i}] (client {i}) must hold whole numbers, got {labels.dtype}: "
                "try y.astype(int)"
            )
        least, largest = labels.min(), labels.max()
        if least < 0 or largest >= self.classes:
            bad = least if least < 0 else largest
            raise ValueError(
                f"y[{i}] (client {i}) has the label {bad}, outside 0 .. {self.classes - 1}"
            )
        return labels.astype(np.intp)  # bytes would overflow as indices

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
        # ClientRows of a block work on equally many rows: cut where the number changes.
        cuts = np.flatnonzero(np.diff(rows)) + 1
        blocks: list[slice] = []
        for start, stop in zip([0, *cuts], [*cuts, self.clients], strict=True):
            client = rows[start] * per_row
            # Every number read is used once a class, forwards and backwards.
            parts = partition(stop - start, client, 2 * self.classes * client, fewest=4)
            first = int(start)
            blocks.extend(slice(first + p.start, first + p.stop) for p in parts)
        return blocks

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> SoftmaxBlock:
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

        X and y are a matrix and its labels, or lists of them, one for each client.
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
            labels = np.asarray(given)
            predicted = self.predict(x, rows)
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
            rows = self.X[i]
            size = self.batch_size or len(rows)
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
        steepest = curvature(self.X, weights / self.samples, threads, team)
        return 0.5 * steepest + l2, "bound"
