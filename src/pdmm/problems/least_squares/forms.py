"""The forms that a least-squares problem can be held in, and which of them suits a run."""

from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.problems.block import Floats
from pdmm.problems.least_squares.data import Moments, Samples
from pdmm.problems.partition import partition
from pdmm.problems.quadratic import Gram, Quadratics, Rows, Spectral

HELD_BYTES = 2**29  # a problem whose forms are larger than this holds one form at a time


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
        # H_i has d² entries, A_i is read twice a step and has n_i d.
        self.tall = samples is None or bool(2 * counts.mean() >= dimension)
        self.rank = dimension if self.tall else min(int(counts.max()), dimension)
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
            self.check_range(moments.H, clients.start)
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
            self.check_range(moments.H, clients.start)
            values, vectors = np.linalg.eigh(moments.H)
            W[clients] = vectors.swapaxes(-1, -2)
            e[clients] = values.clip(min=0)
            g[clients] = moments.g
            c[clients] = moments.c

        def fill_wide(clients: slice) -> None:
            for i in range(clients.start, clients.stop):
                A, b = self.rows.wide(i)
                svd = np.linalg.svd(A, full_matrices=False)
                found = slice(0, len(svd.S))
                W[i, found] = svd.Vh
                e[i, found] = svd.S * svd.S
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

    def check_range(self, H: Floats, first: int) -> None:
        """Refuse data whose squares the run's precision cannot hold."""
        largest = np.abs(H).max((1, 2))
        over = ~(largest <= np.finfo(self.dtype).max)
        if over.any():
            i = first + int(over.argmax())
            raise ValueError(
                f"A[{i}] (client {i}) is too large: its squares overflow {self.dtype}; rescale it"
            )


def _linear_terms(A: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> tuple[Floats, float]:
    """The g = A'b and c = 1/2 ‖b‖² of one client."""
    return b @ A, float(0.5 * b @ b)
