"""What the points are like at which a site answers: how far out, and about how many rows."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from pdmm.common.matrices import Matrix, is_sparse
from pdmm.privacy.refusals import Reason
from pdmm.problems.base import Problem
from pdmm.problems.block import Block, ClientRows, Floats, Source

Vector = npt.NDArray[np.float64]
LEAST_START = 0.5  # a mean loss that counts as a start's, however good the start may be
COST = 2e7  # multiplications that the leverage of a question may take


class Start(NamedTuple):
    """What a client's rows are like at x = 0, with which a point is compared."""

    loss: float
    """Their mean loss."""
    curvature: float
    """Their curvatures, added up."""


class Watch:
    """Sees the linear predictors of all rows, wherever a block computes something from them.

    Args:
        max_eta: the largest of them that is allowed.
        min_effective_rows: about so many rows, at least, each of them is.
        tables: the rows of each client, for leverages; None leaves these out.
        max_loss_ratio: the largest mean loss of a client's rows, over that at x = 0.
        min_curvature: what their curvatures add up to, at least, unless it is less at x = 0.
    """

    def __init__(
        self,
        max_eta: float,
        min_effective_rows: float,
        tables: Sequence[Matrix] | None = None,
        max_loss_ratio: float = np.inf,
        min_curvature: float = 0.0,
    ) -> None:
        self.limit = max_eta
        self.fewest = min_effective_rows
        self.tables = tables
        self.worst = max_loss_ratio
        self.least = min_curvature
        self.start: dict[int, Start] = {}
        self.learning = False
        self._lock = threading.Lock()
        self.begin()

    def learn(self, problem: Problem) -> None:
        """Take down what a problem's rows lose at x = 0, with which they are compared."""
        self.start = {}
        self.learning = True
        source = WatchedSource(problem, self, problem.clients)
        try:
            for block in problem.blocks():
                source.at(block).value(np.zeros(problem.dimension, problem.dtype))
        finally:
            self.learning = False

    def begin(self) -> None:
        """Nothing was seen yet, of the next question."""
        self.max_eta: float | None = None
        self.effective_rows: float | None = None
        self.leverage: float | None = None
        self.loss_ratio: float | None = None
        self.looked = False  # whether anything was computed from rows
        self._levered: set[int] = set()

    def __call__(self, client: int, eta: Floats | None, bends: Floats, loss: float) -> None:
        """See one client's rows.

        Args:
            client: its number at the site.
            eta: (n, C): linear predictors; None where the losses are no exponential functions.
            bends: (n, C): how much each row's loss bends along each of them.
            loss: the mean loss of the rows, above the least that there is.
        """
        if self.learning:
            self.start[client] = Start(loss, _curvature(bends))
            return
        far = None
        if eta is not None:
            with np.errstate(invalid="ignore"):
                far = float(np.abs(eta).max(initial=0.0))
        rows = effective_rows(bends)
        with self._lock:
            if far is not None:
                self.max_eta = float(np.fmax(far, self.max_eta or 0.0))
            self.effective_rows = min(rows, self.effective_rows or np.inf)
        if far is not None and not far <= self.limit:
            raise Reason(f"a linear predictor is {far:.4g}, and max_eta is {self.limit:g}")
        if not rows >= self.fewest:
            raise Reason(
                f"the answer would be about {rows:.3g} rows, and min_effective_rows is "
                f"{self.fewest:g}"
            )
        if far is not None:
            self._compare(client, loss, bends)
        self._lever(client, bends)

    def _compare(self, client: int, loss: float, bends: Floats) -> None:
        """Refuse a point that is far worse for the rows than the start: no fit goes there.

        Where most rows are on the wrong side and far out, the few that are not stand alone.
        """
        start = self.start.get(client, Start(0.0, 0.0))
        ratio = loss / max(start.loss, LEAST_START)
        with self._lock:
            self.loss_ratio = float(np.fmax(ratio, self.loss_ratio or 0.0))
        if not ratio <= self.worst:
            raise Reason(
                f"the loss is {ratio:.3g} times that of the start, and max_loss_ratio is "
                f"{self.worst:g}"
            )
        curvature = _curvature(bends)
        if not curvature >= min(self.least, start.curvature):
            raise Reason(
                f"the curvatures of the rows add up to {curvature:.3g}, and min_curvature is "
                f"{self.least:g}"
            )

    def _lever(self, client: int, bends: Floats) -> None:
        """Note the largest leverage of one row at the first point of the question."""
        if self.tables is None or client in self._levered:
            return
        self._levered.add(client)
        table = self.tables[client]
        if is_sparse(table) or len(bends) != len(table):  # of a mini-batch it would mean little
            return
        if table.shape[0] * table.shape[1] ** 2 > COST:
            return
        found = largest_leverage(table, bends.sum(1))
        with self._lock:
            self.leverage = max(found, self.leverage or 0.0)


def _curvature(bends: Floats) -> float:
    """The sum over all rows, along the linear predictor where it is least."""
    return float(bends.sum(0, dtype=np.float64).min(initial=np.inf))


def effective_rows(bends: Floats) -> float:
    """About how many rows an answer is: (sum of bends)² / (sum of their squares), at the least.

    >>> import numpy as np
    >>> effective_rows(np.array([[1.0], [1.0], [1.0], [0.0]]))
    3.0
    """
    largest = bends.max(0, initial=0.0)
    if not (largest > 0).all():
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        shares = bends.astype(np.float64) / largest
        each = shares.sum(0) ** 2 / (shares * shares).sum(0)
    worst = float(each.min())
    return worst if np.isfinite(worst) else 0.0


def largest_leverage(table: Matrix, weights: Floats) -> float:
    """The largest share of one row in a weighted fit: 1 where the fit goes through the row."""
    rows = np.asarray(table, dtype=np.float64) * np.sqrt(weights)[:, None]
    scale = np.sqrt((rows * rows).sum(0))
    rows = rows / np.where(scale > 0, scale, 1.0)
    gram = rows.T @ rows + 1e-12 * np.eye(rows.shape[1])
    try:
        factor = cholesky(gram, lower=True)
    except LinAlgError:
        return 1.0
    solved = solve_triangular(factor, rows.T, lower=True, check_finite=False)
    return float((solved * solved).sum(0).max(initial=0.0))


class WatchedSource:
    """The functions of a site's clients, with a watch on every block.

    Args:
        source: where the functions come from.
        watch: what sees them.
        clients: how many there are.
    """

    def __init__(self, source: Source, watch: Watch, clients: int) -> None:
        self.source = source
        self.watch = watch
        self.numbers = np.arange(clients)

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> Any:
        """The functions of some clients, watched."""
        self.watch.looked = True
        block = self.source.at(clients, cursor)
        return WatchedBlock(block, self.watch, self.numbers[clients])


class WatchedBlock:
    """A block whose linear predictors are seen, but for those on the way of an exact step.

    What leaves the site is where it ends, which tells of where it began if it is cut short.
    """

    def __init__(self, block: Block, watch: Watch, numbers: npt.NDArray[np.int64]) -> None:
        self._block = block
        self._watch = watch
        self._numbers = numbers
        block.watch = self._see

    def _see(self, i: int, eta: Floats | None, bends: Floats, loss: float) -> None:
        self._watch(int(self._numbers[i]), eta, bends, loss)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        self._block.watch = None
        try:
            yield
        finally:
            self._block.watch = self._see

    def prox(self, anchor: Floats, rho: Any, start: Floats, slack: Any = None) -> Floats:
        """An exact step, seen where it begins and where it ends.

        A server that knows how far the step is from its end knows the first of its points too.
        """
        self._block.show(start)
        with self._unseen():
            found = self._block.prox(anchor, rho, start, slack)
        self._block.show(found)
        return found

    def along(self, x: Floats, direction: Floats, t: Vector) -> Vector:
        """Values along a line, infinite where the line has left what is allowed.

        A method looks along it before it knows how far it will go: that is no refusal.
        """
        self._block.show(x)
        with self._unseen():
            values = self._block.along(x, direction, t)
        for k, s in enumerate(t.tolist()):
            try:
                self._block.show(x + s * direction)
            except Reason:
                values[..., k] = np.inf
        return values
