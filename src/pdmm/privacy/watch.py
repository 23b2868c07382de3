"""What the points are like at which a site answers: how far out, and about how many rows."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from pdmm.common.matrices import Matrix, is_sparse
from pdmm.privacy.refusals import Reason
from pdmm.problems.block import Block, ClientRows, Floats, Source

Vector = npt.NDArray[np.float64]
COST = 2e7  # multiplications that the leverage of a question may take


class Watch:
    """Sees the linear predictors of all rows, wherever a block computes something from them.

    Args:
        max_eta: the largest of them that is allowed.
        min_effective_rows: about so many rows, at least, each of them is.
        tables: the rows of each client, for leverages; None leaves these out.
    """

    def __init__(
        self,
        max_eta: float,
        min_effective_rows: float,
        tables: Sequence[Matrix] | None = None,
    ) -> None:
        self.limit = max_eta
        self.fewest = min_effective_rows
        self.tables = tables
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Nothing was seen yet, of the next question."""
        self.max_eta: float | None = None
        self.effective_rows: float | None = None
        self.leverage: float | None = None
        self._levered: set[int] = set()

    def __call__(self, client: int, eta: Floats | None, bends: Floats) -> None:
        """See one client's rows.

        Args:
            client: its number at the site.
            eta: (n, C): linear predictors; None where the losses are no exponential functions.
            bends: (n, C): how much each row's loss bends along each of them.
        """
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
        self._lever(client, bends)

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
        block = self.source.at(clients, cursor)
        return WatchedBlock(block, self.watch, self.numbers[clients])


class WatchedBlock:
    """A block whose linear predictors are seen, but for those on the way of an exact step.

    Nothing of that way leaves the site: only where it ends.
    """

    def __init__(self, block: Block, watch: Watch, numbers: npt.NDArray[np.int64]) -> None:
        self._block = block
        self._watch = watch
        self._numbers = numbers
        block.watch = self._see

    def _see(self, i: int, eta: Floats | None, bends: Floats) -> None:
        self._watch(int(self._numbers[i]), eta, bends)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        self._block.watch = None
        try:
            yield
        finally:
            self._block.watch = self._see

    def prox(self, *given: Any, **named: Any) -> Floats:
        """An exact step, seen where it ends."""
        with self._unseen():
            found = self._block.prox(*given, **named)
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
