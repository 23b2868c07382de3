"""The problem itself: its data and labels, predictions, and the constants that are proven."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.arrays import Names, as_array, in_order, is_table
from pdmm.common.checks import not_negative, vector, whole
from pdmm.common.matrices import Matrix, is_sparse, largest_entry, stored
from pdmm.common.per_client import (
    aligned,
    alongside,
    check_same_count,
    check_same_rows,
    given,
    read_matrices,
    refuse_other_rows,
    same_columns,
    same_dtype,
    sizes,
    watch,
)
from pdmm.common.sizes import check_sizes, check_start
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.constants import Kind, Which
from pdmm.problems.eigenvalues import curvature, curvature_of_rows
from pdmm.problems.partition import partition
from pdmm.problems.softmax.block import SoftmaxBlock
from pdmm.problems.softmax.labels import coding, label_array, read_labels


class SoftmaxRegression(Problem):
    """Multinomial logistic regression: f_i is the mean cross-entropy on client i's samples.

    x is the (features + 1) x classes matrix in row order, the bias its last row.

    Args:
        X: a list of matrices (n_i, features), one for each client, or one array (clients, n,
            features). The matrices may be arrays, sparse matrices of SciPy or tables of pandas,
            whose columns are brought into the order of the first table (arrays beside tables are
            taken to be in their order, and refused where tables differ in it); a dict names the
            clients. A bias is added. The data are not copied; a run notices if they have been
            changed.
        y: the labels, a list of vectors (n_i,) or (n_i, 1), one array (clients, n), or a dict
            with the keys of X: whole numbers 0 .. classes - 1, strings or booleans.
        classes: how many classes there are, or a list of all labels. Of strings and booleans it
            may be left out: the classes are then all labels of all clients, sorted.
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

    columns: Names | None
    """The names of the features, where X has names."""
    classes: int | tuple[Any, ...]
    """How many classes there are, of labels 0, 1, ...; of other labels, which there are."""

    def __init__(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        l2: float = 0.0,
        batch_size: int | None = None,
    ) -> None:
        tables, self.columns = aligned(given("X", X))
        self.X = read_matrices(tables)
        self.dtype = same_dtype((tables.label, self.X))
        self.clients = len(self.X)
        labels = alongside(tables, given("y", y))
        check_same_count(tables, self.X, labels, labels.values)
        self.features = same_columns(tables.label, self.X)
        self.samples = np.array([rows.shape[0] for rows in self.X])
        arrays, kind = read_labels(labels, self.samples.tolist(), "X")
        check_same_rows(tables, labels)
        self._coding = coding(classes, arrays, kind)
        self.classes = self._coding.classes
        self.class_count = self._coding.count
        self.y = [self._coding.codes(labels.label(i), part) for i, part in enumerate(arrays)]
        self.l2 = not_negative("l2", l2)
        self.dimension = (self.features + 1) * self.class_count
        check_sizes("X", sizes(self.X), self.dtype, tables.label)
        self.watched = (watch(tables.label, self.X),)
        self.batch_size = batch_size
        if batch_size is not None:
            self.batch_size = whole("batch_size", batch_size, at_least=1)
            small = int(self.samples.argmin())
            if self.samples[small] < self.batch_size:
                raise ValueError(
                    f"batch_size is {batch_size}, but client {small} has only "
                    f"{self.samples[small]} samples"
                )

    def check(self, x0: Floats, exact: bool) -> None:
        check_start("it", largest_entry(x0), self.dtype)

    @property
    def alike(self) -> dict[str, Any]:
        return {"columns": self.columns, "classes": self.classes, "l2": self.l2}

    def tables(self) -> list[Matrix]:
        return list(self.X)

    def __repr__(self) -> str:
        batch = "" if self.batch_size is None else f", batches of {self.batch_size}"
        return (
            f"SoftmaxRegression({self.clients} clients, {self.samples.sum()} samples, "
            f"{self.features} features, {self.class_count} classes, l2={self.l2:g}{batch}, "
            f"{self.dtype})"
        )

    def blocks(self) -> list[slice]:
        rows = self.samples if self.batch_size is None else np.full(self.clients, self.batch_size)
        features = sum(map(stored, self.X)) / self.samples.sum()  # of sparse rows, few are stored
        per_row = (features + 3 * self.class_count) * self.dtype.itemsize
        # ClientRows of a block work on equally many rows: cut where the number changes.
        cuts = np.flatnonzero(np.diff(rows)) + 1
        blocks: list[slice] = []
        for start, stop in zip([0, *cuts], [*cuts, self.clients], strict=True):
            client = rows[start] * per_row
            # Every number read is used once a class, forwards and backwards.
            parts = partition(stop - start, client, 2 * self.class_count * client, fewest=4)
            first = int(start)
            blocks.extend(slice(first + p.start, first + p.stop) for p in parts)
        return blocks

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> SoftmaxBlock:
        return SoftmaxBlock(self, np.arange(self.clients)[clients], cursor)

    def predict(self, x: Any, X: Any) -> npt.NDArray[Any]:
        """The most likely class of every row of X: labels such as the clients have.

        A table of pandas is brought into the order of the columns that the problem was made with.
        """
        return self._coding.labels(self._codes(x, X, "X"))

    def _codes(self, x: Any, X: Any, name: str) -> npt.NDArray[np.int64]:
        """The most likely class of every row, counted from 0."""
        array = as_array("x", x)
        point = vector("x", array, self.dimension)
        if array.dtype == np.float32:
            point = array  # a product of float32 matrices takes half the time
        W = point.reshape(self.features + 1, self.class_count)
        rows = self._rows(name, X)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = rows @ W[:-1] + W[-1]
        bad = ~np.isfinite(scores).all(axis=1)
        if bad.any():
            raise ValueError(
                f"{name} has no class in row {int(bad.argmax())}: there is a NaN or an infinity "
                "in it, or it is too large"
            )
        return np.asarray(scores.argmax(axis=1))

    def _rows(self, name: str, X: Any) -> Matrix:
        """Rows of features, in the order of the problem's."""
        if self.columns is not None:
            X = in_order(name, X, self.columns, "the problem")
        rows = sparse.csr_array(X) if is_sparse(X) else as_array(name, X)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"{name} must have shape (rows, {self.features}), got {rows.shape}")
        if rows.dtype.kind not in "fiub":
            raise ValueError(f"{name} must hold numbers, got {rows.dtype}")
        return rows

    def accuracy(self, x: Any, X: Any = None, y: Any = None) -> float:
        """The share of rows whose class is predicted rightly; of the training data by default.

        X and y are a matrix and its labels, or lists of them, one for each client.
        """
        if (X is None) != (y is None):
            raise ValueError("give X and y together, or neither for the training data")
        if X is None:
            pairs = zip(self.X, self.y, strict=True)
            return _share([self._codes(x, rows, "X") == codes for rows, codes in pairs])
        if is_table(X) or is_sparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
            return _share([self._right(x, "X", X, "y", y)])
        parts = given("X", X)
        labels = alongside(parts, given("y", y))
        if len(parts.values) != len(labels.values):
            raise ValueError(f"X has {len(parts.values)} parts and y has {len(labels.values)}")
        return _share(
            [
                self._right(x, parts.label(i), rows, labels.label(i), own)
                for i, (rows, own) in enumerate(zip(parts.values, labels.values, strict=True))
            ]
        )

    def _right(self, x: Any, name: str, X: Any, label: str, y: Any) -> npt.NDArray[np.bool_]:
        """Which rows of one matrix are predicted rightly."""
        predicted = self._coding.labels(self._codes(x, X, name))
        refuse_other_rows(name, X, label, y)
        labels, kind = label_array(label, y)
        if labels.shape != predicted.shape or kind != self._coding.kind:
            one = self._coding.kind.removesuffix("s")
            raise ValueError(
                f"{label} must hold a {one} for each row of X, ({len(predicted)},), "
                f"got {labels.dtype} of shape {labels.shape}"
            )
        return np.asarray(predicted == labels)

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
            n = int(self.samples[i])
            size = self.batch_size or n
            starts = range(0, n - size + 1, size)
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


def _share(right: list[npt.NDArray[np.bool_]]) -> float:
    return float(np.concatenate(right).mean())
