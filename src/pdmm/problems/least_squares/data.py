"""The clients' data of a least-squares problem: checked, squared, and as residuals."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import PerClient, per_client, same_dtype
from pdmm.common.rounding import gamma, length
from pdmm.problems.block import Block, ClientRows, Floats

Vector = npt.NDArray[np.float64]

CHUNK = 512  # rows whose products are summed up at once: sums of sums are rounded less


class Samples(NamedTuple):
    """The data as they were given: a matrix (n_i, d) and a vector (n_i,) for each client."""

    A: PerClient
    b: PerClient

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many samples each client has."""
        if isinstance(self.A, np.ndarray):
            return np.full(len(self.A), self.A.shape[1])
        return np.array([len(matrix) for matrix in self.A])

    def wide(self, i: int) -> tuple[Vector, Vector]:
        """Client i's A_i and b_i, in float64."""
        A = self.A[i].astype(np.float64, copy=False)
        b = self.b[i].astype(np.float64, copy=False)
        return A, b

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

    def wide(self, clients: slice) -> "Moments":
        """Those of some clients, in float64."""
        H = self.H[clients].astype(np.float64, copy=False)
        g = self.g[clients].astype(np.float64, copy=False)
        return Moments(H, g, self.c[clients])


def moments(A: Floats, b: Floats) -> Moments:
    """Moments of one client (n, d), or of a stack of clients (k, n, d), in float64."""
    A = A.astype(np.float64, copy=False)
    b = b.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # refused by name where it is used
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


def checked(A: Any, b: Any) -> tuple[Samples, np.dtype[Any]]:
    """What the user gave as A and b, once it is known to go together, and its dtype."""
    A = per_client("A", A, 2)
    b = per_client("b", b, 1, whole_as=A[0].dtype)
    if len(A) != len(b):
        raise ValueError(f"A has {len(A)} clients and b has {len(b)}: they must be the same")
    dtype = same_dtype(("A", A), ("b", b))
    if isinstance(A, list) or isinstance(b, list):
        for i, (matrix, vector) in enumerate(zip(A, b, strict=True)):
            if matrix.shape[1] != A[0].shape[1]:
                raise ValueError(
                    f"A[{i}] (client {i}) has {matrix.shape[1]} columns, "
                    f"but A[0] has {A[0].shape[1]}"
                )
            _same_length(i, matrix, vector)
    else:
        _same_length(0, A[0], b[0])
    return Samples(A, b), dtype


def _same_length(i: int, matrix: Floats, vector: Floats) -> None:
    if len(matrix) != len(vector):
        raise ValueError(
            f"A[{i}] (client {i}) has {len(matrix)} rows and b[{i}] has {len(vector)} entries: "
            "they must be the same"
        )


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


class ResidualBlock(Block):
    """1/2 ‖A_i x - b_i‖² from the residuals, in float64."""

    def __init__(self, data: list[tuple[Floats, Floats]]) -> None:
        super().__init__(len(data))
        self.data = data

    def value(self, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        residuals = (A @ wide - b for A, b in self.data)
        return np.array([0.5 * float(r @ r) for r in residuals])

    def _gradient(self, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        return np.stack([(A @ wide - b) @ A for A, b in self.data])

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        wide = x.astype(np.float64)
        doubt = [_rounding(A, b, wide) for A, b in self.data]
        return self.accurate_gradient(wide), np.array(doubt)


def _rounding(A: Floats, b: Floats, x: Vector) -> float:
    """How far rounding can move A'(A x - b)."""
    n, d = A.shape
    sizes = np.abs(A)
    return gamma(n + d + 4) * length((sizes @ np.abs(x) + np.abs(b)) @ sizes)
