"""Functions that are written down rather than made from data: quadratics, absolute values, zero."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.arrays import as_array
from pdmm.common.changes import Watched
from pdmm.common.checks import ClientError, floats, whole
from pdmm.common.matrices import largest_entry
from pdmm.common.per_client import RowLabel, sizes
from pdmm.common.rounding import length
from pdmm.common.sizes import check_sizes, check_solution, check_start
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import Block, ClientRows, Floats
from pdmm.problems.constants import Kind, Which
from pdmm.problems.matrix_checks import check_shapes, ends_of_diagonals, ends_of_matrices
from pdmm.problems.partition import partition
from pdmm.problems.quadratic import Diagonal, Gram, QuadraticBlock, Quadratics
from pdmm.problems.quadratic.total import DenseTotal

Vector = npt.NDArray[np.float64]


def _rows(name: str, value: Any) -> tuple[Floats, tuple[int, ...]]:
    """The clients' vectors (m, d), and the shape that they had.

    They are of one client from a number or (d,), and of many from (m, d).
    """
    given = as_array(name, value)
    if given.ndim > 2:
        raise ValueError(
            f"{name} must be a vector, or an array (clients, d), got shape {given.shape}"
        )
    rows = floats(name, given, given.ndim)
    if rows.size == 0:
        raise ValueError(f"{name} is empty, of shape {rows.shape}")
    return (rows.reshape(1, -1) if rows.ndim < 2 else rows), rows.shape


class _Stacked(Problem):
    """ClientRows whose functions are rows of a few arrays."""

    def _start(self, clients: int, dimension: int, dtype: np.dtype[Any]) -> None:
        self.clients = clients
        self.dimension = dimension
        self.dtype = dtype

    def _take(self, name: str, array: Floats, power: int) -> None:
        """Refuse rows that leave no room for squares and sums, and notice if they are changed."""
        check_sizes(name, sizes(array), self.dtype, RowLabel(name, self.clients), power)
        self.watched += (Watched([array], RowLabel(name)),)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.clients} clients, dimension {self.dimension}, "
            f"{self.dtype})"
        )

    def blocks(self) -> list[slice]:
        row = 12.0 * self.dimension * self.dtype.itemsize
        return partition(self.clients, row, row)


class Quadratic(_Stacked):
    """1/2 x'Hx - c·x, or many of these, one for each client.

    Args:
        H: symmetric, without negative eigenvalues: a matrix (d, d), a diagonal (d,), or a
            number h for h times the identity.
        c: a vector (d,). For many functions at once c is (clients, d), and H is
            (clients, d, d), (clients, d) or a number. They are not copied; a run notices if
            they have been changed.

    Averaging is one of them: the f_i = 1/2 ‖x - a_i‖², up to a constant, are
    ``Quadratic(1.0, a)``, and the minimiser of their sum is the mean of the a_i.

    Example:
        >>> import numpy as np, pdmm
        >>> readings = np.array([[19.0], [20.0], [24.0]])
        >>> pdmm.solve(pdmm.Quadratic(1.0, readings), pdmm.PDMM(rho=1.0)).x.tolist()
        [21.0]
    """

    proven = True

    def __init__(self, H: Any, c: Any) -> None:
        if sparse.issparse(H):
            H = H.toarray()
        g, shape = _rows("c", c)
        m, d = g.shape
        matrix = as_array("H", H)
        matrix = floats("H", matrix, matrix.ndim, whole_as=g.dtype)
        check_shapes(matrix, shape, m, d)
        # A number is no reason to compute in float64.
        dtype = np.promote_types(g.dtype, matrix.dtype) if matrix.ndim else g.dtype
        self._start(m, d, dtype)
        g = g.astype(dtype, copy=False)
        self._take("c", g, power=2)
        self._form: Quadratics
        if matrix.ndim > len(shape) and d > 1:
            stack = matrix.reshape(m, d, d).astype(dtype, copy=False)
            self._take("H", stack, power=2)
            least, largest = ends_of_matrices(stack)
            self._form = Gram(stack, g, np.zeros(m))
        else:
            rows = matrix.reshape(m, d) if matrix.ndim else matrix
            h = np.broadcast_to(rows, (m, d)).astype(dtype, copy=False)
            self._take("H", h, power=2)
            least, largest = ends_of_diagonals(h)
            self._form = Diagonal(h, g, np.zeros(m))
        self._ends: dict[Which, Vector] = {"L": largest, "mu": least}
        check_solution("c / H", largest_entry(g), float(largest.max()), dtype)

    def check(self, x0: Floats, exact: bool) -> None:
        check_start("H x0", self._ends["L"].max() * largest_entry(x0), self.dtype, power=2)

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> QuadraticBlock:
        return self._form.at(clients)

    def quadratics(self, threads: Threads) -> Quadratics:
        return self._form

    def total(self, weights: Vector, threads: Threads, team: Team = ALONE) -> DenseTotal | None:
        form = self._form
        g = weights @ form.g.astype(np.float64, copy=False)
        if isinstance(form, Diagonal):
            H = np.diag(weights @ form.h.astype(np.float64, copy=False))
        else:
            assert isinstance(form, Gram)
            H = np.tensordot(weights, form.H.astype(np.float64, copy=False), 1)
        H = team.sum(H)
        g = team.sum(g)
        sizes = team.sum(weights @ np.abs(form.g, dtype=np.float64))
        total = DenseTotal(
            H,
            g,
            0.0,
            operations=self.clients + 2,
            linear=length(sizes),
            data=None,
            weights=weights,
            least=-np.inf,
            team=team,
        )
        left = length(H @ total.x_min - g)
        if not left <= 1e-8 * length(g):
            return None  # it has no minimum
        return total

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        return {which: (self._ends[which].copy(), "exact")}

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        total = self.total(weights, threads, team)
        if total is None:
            return super()._overall_constant(which, weights, threads, team)
        mu, L = total.extremes()
        return (L if which == "L" else mu), "exact"


class Absolute(_Stacked):
    """The sum over entries |x_k - a_k|, or many of these, one for each client.

    The minimiser of a sum of them is a median: robust where a mean is not. It is neither
    smooth nor strongly convex, so that PDMM needs a relaxation below 1.

    Args:
        a: a number or a vector (d,); for many functions at once (clients, d).

    Example:
        >>> import numpy as np, pdmm
        >>> readings = np.array([[19.0], [20.0], [90.0]])
        >>> pdmm.solve(pdmm.Absolute(readings), pdmm.PDMM(1.0, 0.9), 200).x.round(6).tolist()
        [20.0]
    """

    accurate = False

    def __init__(self, a: Any) -> None:
        self.a, _ = _rows("a", a)
        self._start(len(self.a), self.a.shape[1], self.a.dtype)
        self._take("a", self.a, power=1)

    def check(self, x0: Floats, exact: bool) -> None:
        check_start("it", largest_entry(x0), self.dtype)

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> "AbsoluteBlock":
        return AbsoluteBlock(self.a[clients])

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        if which == "mu":
            return {"mu": (np.zeros(self.clients), "exact")}
        raise ClientError("Absolute has no smoothness L: its gradient jumps")


class AbsoluteBlock(Block):
    """Sums of absolute values of a block of clients."""

    def __init__(self, a: Floats) -> None:
        super().__init__(len(a))
        self.a = a

    def _gradient(self, x: Floats) -> Floats:
        return np.sign(x - self.a)

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        return self.accurate_gradient(x), np.zeros(self.size)  # signs are exact

    def value(self, x: Floats) -> Floats:
        return np.asarray(np.abs(x - self.a).sum(1, dtype=np.float64))

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        self.tally.exact += self.size
        return shrink(anchor, self.a, 1 / rho)


def shrink(v: Floats, a: Floats, t: Any) -> Floats:
    """Argmin over x of |x - a| + (x - v)²/(2 t), entry by entry."""
    away = v - a
    return np.asarray(v - np.clip(away, -t, t))


class Zero(_Stacked):
    """The function that is 0 everywhere: of a server, or of a node that only relays.

    Args:
        d: the dimension of x.
    """

    proven = True

    def __init__(self, d: int) -> None:
        self._start(1, whole("d", d, at_least=1), np.dtype(np.float64))

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> QuadraticBlock:
        return self._form.at(clients)

    @property
    def _form(self) -> Diagonal:
        zeros = np.zeros((1, self.dimension))
        return Diagonal(zeros, zeros, np.zeros(1))

    def quadratics(self, threads: Threads) -> Quadratics:
        return self._form

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        return {which: (np.zeros(1), "exact")}
