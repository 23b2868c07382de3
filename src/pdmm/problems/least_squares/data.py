"""The clients' data of a least-squares problem: checked, squared, and as residuals."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import Names
from pdmm.common.changes import Watched
from pdmm.common.checks import PerClient
from pdmm.common.matrices import Matrix, dense, is_sparse, stored
from pdmm.common.per_client import (
    aligned,
    alongside,
    check_same_count,
    check_same_rows,
    given,
    read_matrices,
    read_targets,
    same_columns,
    same_dtype,
    sizes,
    watch,
)
from pdmm.common.rounding import gamma, length
from pdmm.common.sizes import check_sizes
from pdmm.common.variables import Variables
from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.constant_curvature import ConstantCurvature
from pdmm.problems.curvature import Curvature

Vector = npt.NDArray[np.float64]

CHUNK = 512  # rows whose products are summed up at once: sums of sums are rounded less


class Samples(NamedTuple):
    """The data as they were given: a matrix (n_i, d) and a vector (n_i,) for each client.

    Some of the matrices may be sparse, if they are a list.
    """

    A: PerClient
    b: PerClient

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many samples each client has."""
        if isinstance(self.A, np.ndarray):
            return np.full(len(self.A), self.A.shape[1])
        return np.array([matrix.shape[0] for matrix in self.A])

    @property
    def stored(self) -> float:
        """How many entries of an A_i are stored, in the mean."""
        if isinstance(self.A, np.ndarray):
            return self.A.size / len(self.A)
        return sum(map(stored, self.A)) / len(self.A)

    @property
    def sparse(self) -> bool:
        """Whether an A_i is sparse."""
        return not isinstance(self.A, np.ndarray) and any(map(is_sparse, self.A))

    def wide(self, i: int) -> tuple[Matrix, Vector]:
        """Client i's A_i and b_i, in float64."""
        A = self.A[i].astype(np.float64, copy=False)
        b = self.b[i].astype(np.float64, copy=False)
        return A, b

    def dense(self) -> "Samples":
        """The data with all of their entries."""
        if not self.sparse:
            return self
        return Samples([dense(matrix) for matrix in self.A], self.b)

    def in_variables(self, variables: Variables) -> "Samples":
        """The data of the same functions of y, where x = centre + T y."""
        T = variables.matrix()
        A = [dense(matrix @ T).astype(matrix.dtype) for matrix in self.A]
        b = [
            (vector - matrix @ variables.centre).astype(vector.dtype)
            for matrix, vector in zip(self.A, self.b, strict=True)
        ]
        return Samples(A, b)

    def moments(self, clients: slice) -> "Moments":
        """Moments of a block of clients, in float64."""
        A, b = self
        if isinstance(A, np.ndarray) and isinstance(b, np.ndarray):
            return moments(A[clients], b[clients])
        each = [moments(A[i], b[i]) for i in range(clients.start, clients.stop)]
        return Moments(*(np.stack(part) for part in zip(*each, strict=True)))


class Moments(NamedTuple):
    """All that a method needs of the data: A_i'A_i, A_i'b_i and 1/2 ‖b_i‖²."""

    H: Floats
    g: Floats
    c: Any

    def in_variables(self, variables: Variables) -> "Moments":
        """Those of the same functions of y, where x = centre + T y."""
        T = variables.matrix()
        centre = variables.centre
        Hc = self.H @ centre
        c = self.c - self.g @ centre + 0.5 * Hc @ centre
        H = (T.T @ self.H @ T).astype(self.H.dtype)
        return Moments(H, ((self.g - Hc) @ T).astype(self.g.dtype), c)

    def wide(self, clients: slice) -> "Moments":
        """Those of some clients, in float64."""
        H = self.H[clients].astype(np.float64, copy=False)
        g = self.g[clients].astype(np.float64, copy=False)
        return Moments(H, g, self.c[clients])


def moments(A: Matrix, b: Floats) -> Moments:
    """Moments of one client (n, d), or of a stack of clients (k, n, d), in float64."""
    A = A.astype(np.float64, copy=False)
    b = b.astype(np.float64, copy=False)
    if is_sparse(A):
        return Moments(dense(A.T @ A), b @ A, 0.5 * float(b @ b))
    parts = (_moments(A[..., s : s + CHUNK, :], b[..., s : s + CHUNK]) for s in _starts(A))
    total = next(parts)
    for part in parts:
        total = Moments(total.H + part.H, total.g + part.g, total.c + part.c)
    return total


def _starts(A: Floats) -> range:
    return range(0, max(1, A.shape[-2]), CHUNK)


def _moments(A: Floats, b: Floats) -> Moments:
    """Moments of a few rows."""
    At = A.swapaxes(-1, -2)
    return Moments(At @ A, (At @ b[..., None])[..., 0], 0.5 * (b * b).sum(-1))


def products_in_a_row(samples: int) -> int:
    """How many products stand one after the other in a moment of so many samples."""
    return min(samples, CHUNK) + samples // CHUNK + 1


class Checked(NamedTuple):
    """What the user gave as A and b, once it is known to go together."""

    samples: Samples
    dtype: np.dtype[Any]
    columns: Names | None
    """The names of A's columns, where they have names."""
    size: float
    """The largest absolute entry of A."""
    watched: tuple[Watched, ...]


def checked(A: Any, b: Any) -> Checked:
    """What the user gave as A and b, refused or made what a run needs."""
    tables, columns = aligned(given("A", A))
    values = alongside(tables, given("b", b))
    matrices = read_matrices(tables)
    vectors = read_targets(values, whole_as=matrices[0].dtype)
    check_same_count(tables, matrices, values, vectors)
    check_same_rows(tables, values)
    dtype = same_dtype((tables.label, matrices), (values.label, vectors))
    same_columns(tables.label, matrices)
    for i, (matrix, vector) in enumerate(zip(matrices, vectors, strict=True)):
        if matrix.shape[0] != len(vector):
            raise ValueError(
                f"{tables.label(i)} has {matrix.shape[0]} rows and {values.label(i)} has "
                f"{len(vector)} entries: they must be the same"
            )
    largest = sizes(matrices)
    check_sizes("A", largest, dtype, tables.label)
    check_sizes("b", sizes(vectors), dtype, values.label)
    watched = (watch(tables.label, matrices), watch(values.label, vectors))
    return Checked(Samples(matrices, vectors), dtype, columns, float(largest.max()), watched)


class Residuals:
    """The clients' data, for values that do not cancel."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> "ResidualBlock":
        A, b = self.samples
        chosen = np.arange(len(A))[clients]
        return ResidualBlock([(A[i], b[i]) for i in chosen])


class ResidualBlock(ConstantCurvature):
    """1/2 ‖A_i x - b_i‖² from the residuals, in float64."""

    def __init__(self, data: list[tuple[Matrix, Floats]]) -> None:
        super().__init__(len(data))
        self.data = data
        self.dimension = data[0][0].shape[1]

    def value(self, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        residuals = (A @ wide - b for A, b in self.data)
        return np.array([0.5 * float(r @ r) for r in residuals])

    def divergence(self, x: Floats, y: Floats) -> Floats:
        v = np.subtract(x, y, dtype=np.float64)
        changes = (A @ v for A, _ in self.data)
        return np.array([0.5 * float(r @ r) for r in changes])

    def _gradient(self, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        return np.stack([(A @ wide - b) @ A for A, b in self.data])

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        wide = x.astype(np.float64)
        doubt = [_rounding(A, b, wide) for A, b in self.data]
        return self.accurate_gradient(wide), np.array(doubt)

    def hessian(self, x: Floats) -> Vector:
        return np.stack([dense(A.T @ A) for A, _ in self._wide()]).astype(np.float64)

    def curvature(self, x: Floats, T: Vector | None = None) -> Curvature:
        """As for every quadratic, but from the rows times T, so that a good T spares digits."""
        if T is None:
            return super().curvature(x)
        parts = [_in_coordinates(A, b, x.astype(np.float64), T) for A, b in self._wide()]
        gradient, doubt, hessian = (np.stack(part) for part in zip(*parts, strict=True))
        none = np.zeros(self.size)
        return Curvature(
            np.asarray(self.value(x), dtype=np.float64), gradient, doubt, hessian, none, none + 1
        )

    def _wide(self) -> Iterator[tuple[Matrix, Vector]]:
        return ((A.astype(np.float64), b.astype(np.float64)) for A, b in self.data)


def _in_coordinates(A: Matrix, b: Vector, x: Vector, T: Vector) -> tuple[Vector, float, Vector]:
    """T'A'(A x - b), how far rounding can move it, and T'A'A T."""
    n, d = A.shape
    Z = np.asarray(dense(A @ T))
    residual = A @ x - b
    sizes = abs(A) @ np.abs(x) + np.abs(b)
    rows = np.asarray(abs(A) @ np.abs(T))
    doubt = gamma(n + 2 * d + 8) * length(sizes @ rows)
    return residual @ Z, doubt, Z.T @ Z


def _rounding(A: Matrix, b: Floats, x: Vector) -> float:
    """How far rounding can move A'(A x - b)."""
    n, d = A.shape
    sizes = abs(A)
    return gamma(n + d + 4) * length((sizes @ np.abs(x) + np.abs(b)) @ sizes)
