"""The forms that a least-squares problem can be held in, and which of them suits a run."""

from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, dense, is_sparse
from pdmm.common.threads import Threads
from pdmm.problems.block import Floats
from pdmm.problems.least_squares.data import Moments, Samples
from pdmm.problems.partition import partition
from pdmm.problems.quadratic import Gram, Quadratics, Rows, SparseRows, Spectral

Vector = npt.NDArray[np.float64]

HELD_BYTES = 2**29  # a problem whose forms are larger than this holds one form at a time
LARGEST_MATRIX = 3000  # rows of a dense matrix that is made of sparse data


class Forms:
    """The forms of a problem's quadratics: made when they are asked for, then kept.

    Args:
        counts: how many samples each client has.
        dimension: d.
        dtype: of the run.
        samples: the data, if they are there.
        given: their moments, if there are no data.
    """

    def __init__(
        self,
        counts: npt.NDArray[np.int64],
        dimension: int,
        dtype: np.dtype[Any],
        samples: Samples | None,
        given: Moments | None,
    ) -> None:
        self.clients = len(counts)
        self.dimension = dimension
        self.dtype = dtype
        self.samples = samples
        self.given = given
        # H_i has d² entries, A_i is read twice a step and has n_i d, or few of them.
        self.tall = samples is None or 2 * samples.stored >= dimension * dimension
        self.rank = dimension if self.tall else min(int(counts.max()), dimension)
        self.sparse = samples is not None and samples.sparse
        self.held: dict[type[Quadratics], Quadratics] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again is not copied or sent to another process.
        return {**self.__dict__, "held": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    @property
    def rows(self) -> Samples:
        """The data, of a problem that has them."""
        assert self.samples is not None
        return self.samples

    @property
    def matrix_bytes(self) -> int:
        """What a client's matrix takes."""
        return self.rank * self.dimension * self.dtype.itemsize

    @property
    def small(self) -> bool:
        """Whether several forms may be held at the same time."""
        return self.clients * self.matrix_bytes <= HELD_BYTES

    @property
    def compact(self) -> bool:
        """Whether dense matrices of all clients are no waste: of sparse data they may be."""
        if not self.sparse:
            return True
        return self.dimension <= LARGEST_MATRIX and (self.tall or self.small)

    def few(self) -> list[slice]:
        """Blocks of few clients, whose matrices are made at once."""
        return partition(self.clients, self.matrix_bytes, self.matrix_bytes)

    # --- which one -------------------------------------------------------------------------

    def choose(self, rounds: int, steps: int) -> type[Quadratics]:
        """The cheapest form for a run of gradient steps.

        It depends on nothing but the shapes and the run. Costs are in units of one product with
        H_i (or one read of A_i) from memory, measured: later steps of a round find the block in
        cache; a round in the eigenbasis is three products of which two are in cache; the
        eigenbasis itself costs about 60 + 0.7 r.
        """
        if self.sparse and not (self.tall and self.compact):
            return SparseRows
        reads = 1 if self.tall else 2
        saved = rounds * (0.5 + 0.5 * steps * reads - 2)
        if saved > 60 + 0.7 * self.rank:
            return Spectral
        return Gram if self.tall else Rows

    # --- making it -------------------------------------------------------------------------

    def hold(self, form: type[Quadratics], threads: Threads) -> Quadratics:
        """The quadratics in a form, made if they are not held in it yet."""
        # A form is always made from the data, never from another form: a run gives the same
        # bits whatever ran before it.
        with self._lock:
            if form not in self.held:
                if not self.small:
                    self.held.clear()
                self.held[form] = self._make(form, threads)
            return self.held[form]

    def _make(self, form: type[Quadratics], threads: Threads) -> Quadratics:
        if form is Gram:
            return self._gram(threads)
        if form is Spectral:
            return self._spectral(threads)
        g, c = self._linear()

        def fill(clients: slice) -> None:
            for i in range(clients.start, clients.stop):
                g[i], c[i] = _linear_terms(*self.rows.wide(i))

        list(threads.map(fill, self.few()))
        if form is SparseRows:
            return SparseRows(*self.rows, g, c)
        return Rows(self.rows.A, g, c)

    def _linear(self) -> tuple[Floats, npt.NDArray[np.float64]]:
        """Room for g and c."""
        return np.empty((self.clients, self.dimension), self.dtype), np.empty(self.clients)

    def _gram(self, threads: Threads) -> Gram:
        if self.given is not None:
            return Gram(*self.given)
        g, c = self._linear()
        H = np.empty((self.clients, self.dimension, self.dimension), self.dtype)

        def fill(clients: slice) -> None:
            moments = self.moments(clients)
            H[clients] = moments.H
            g[clients] = moments.g
            c[clients] = moments.c

        list(threads.map(fill, self.few()))
        return Gram(H, g, c)

    def _spectral(self, threads: Threads) -> Spectral:
        g, c = self._linear()
        W = np.zeros((self.clients, self.rank, self.dimension), self.dtype)
        e = np.zeros((self.clients, self.rank), self.dtype)

        def fill_tall(clients: slice) -> None:
            moments = self.moments(clients)
            values, vectors = np.linalg.eigh(moments.H)
            W[clients] = vectors.swapaxes(-1, -2)
            e[clients] = values.clip(min=0)
            g[clients] = moments.g
            c[clients] = moments.c

        def fill_wide(clients: slice) -> None:
            for i in range(clients.start, clients.stop):
                A, b = self.rows.wide(i)
                values, vectors = _eigenbasis(A)
                found = slice(0, len(values))
                W[i, found] = vectors
                e[i, found] = values
                g[i], c[i] = _linear_terms(A, b)

        list(threads.map(fill_tall if self.tall else fill_wide, self.few()))
        return Spectral(W, e, g, c, full=self.tall)

    def moments(self, clients: slice) -> Moments:
        """Moments of a block of clients, in float64."""
        held = self.held.get(Gram)
        if isinstance(held, Gram) and self.dtype == np.float64:
            return Moments(held.H[clients], held.g[clients], held.c[clients])
        if self.given is not None:
            return self.given.wide(clients)
        return self.rows.moments(clients)


def _linear_terms(A: Matrix, b: npt.NDArray[np.float64]) -> tuple[Floats, float]:
    """The g = A'b and c = 1/2 ‖b‖² of one client."""
    return b @ A, float(0.5 * b @ b)


def _eigenbasis(A: Matrix) -> tuple[Vector, Vector]:
    """The eigenvalues of A'A that need not be 0, and their eigenvectors as rows."""
    n, d = A.shape
    if is_sparse(A) and n > d:
        values, vectors = np.linalg.eigh(dense(A.T @ A))
        return values.clip(min=0), vectors.T
    svd = np.linalg.svd(dense(A), full_matrices=False)
    return svd.S * svd.S, svd.Vh
