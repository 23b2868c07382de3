"""Least squares: f_i(x) = 1/2 ‖A_i x - b_i‖², held in whatever form suits its shape."""

from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import PerClient, not_negative, per_client, same_dtype, whole
from pdmm.common.team import Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Block, Clients, Floats, Problem, Source, partition
from pdmm.problems.constants import Kind, Which
from pdmm.problems.eigenvalues import EPS, ends, ends_of_rows
from pdmm.problems.least_squares_total import DenseTotal, QuadraticTotal, WideTotal
from pdmm.problems.quadratic import Gram, QuadraticBlock, Quadratics, Rows, Spectral

HELD_BYTES = 2**29  # a problem whose forms are larger than this holds one form at a time


class Moments(NamedTuple):
    """All that a method needs of the data: A_i'A_i, A_i'b_i and 1/2 ‖b_i‖²."""

    H: Floats
    g: Floats
    c: npt.NDArray[np.float64]


def _moments(A: Floats, b: Floats) -> tuple[Floats, Floats, Any]:
    """Moments of one client (n, d), or of a stack of clients (k, n, d), in float64."""
    A, b = A.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
    At = A.swapaxes(-1, -2)
    with np.errstate(over="ignore", invalid="ignore"):  # refused by name where it is used
        return At @ A, (At @ b[..., None])[..., 0], 0.5 * (b * b).sum(-1)


class Residuals:
    """The clients' data, for values that do not cancel."""

    def __init__(self, A: PerClient, b: PerClient) -> None:
        self.A, self.b = A, b

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> "ResidualBlock":
        chosen = np.arange(len(self.A))[clients]
        return ResidualBlock([(self.A[i], self.b[i]) for i in chosen])


class ResidualBlock(Block):
    """1/2 ‖A_i x - b_i‖² from the residuals, in float64."""

    def __init__(self, data: list[tuple[Floats, Floats]]) -> None:
        super().__init__(len(data))
        self.data = data

    def value(self, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        return np.array([0.5 * float(r @ r) for r in (A @ wide - b for A, b in self.data)])

    def _gradient(self, x: Floats) -> Floats:
        wide = x.astype(np.float64)
        return np.stack([(A @ wide - b) @ A for A, b in self.data])


class LeastSquares(Problem):
    """The sum over clients of 1/2 ‖A_i x - b_i‖² (not divided by the number of samples).

    Args:
        A: a list of matrices (n_i, d), one a client, or one array (clients, n, d).
        b: a list of vectors (n_i,), one a client, or one array (clients, n).

    The data are not copied. The run's dtype is theirs, float32 or float64.

    Example:
        >>> import numpy as np, pdmm
        >>> A = [np.eye(2), 2 * np.eye(2)]
        >>> b = [np.array([1.0, 0.0]), np.array([0.0, 4.0])]
        >>> result = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.PDMM(rho=2.0), rounds=60)
        >>> result.x.round(6).tolist()
        [0.2, 1.6]
    """

    proven = True

    def __init__(self, A: Any, b: Any) -> None:
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
        self._data: tuple[PerClient, PerClient] | None = (A, b)
        self._given: Moments | None = None
        samples = [A.shape[1]] * len(A) if isinstance(A, np.ndarray) else [len(a) for a in A]
        self._start(samples, A[0].shape[1], dtype)

    def _start(self, samples: list[int], dimension: int, dtype: np.dtype[Any]) -> None:
        self.samples = np.array(samples)
        self.clients, self.dimension, self.dtype = len(samples), dimension, dtype
        # H_i has d² entries, A_i is read twice a step and has n_i d.
        self._tall = self._data is None or 2 * self.samples.mean() >= dimension
        self._factorised = False
        self._spectrum: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None
        self._lock = Lock()
        self._held: dict[type[Quadratics], Quadratics] = {}
        self._totals: dict[bool, tuple[Team, bytes, QuadraticTotal]] = {}  # alone, in a team

    @classmethod
    def random(
        cls,
        clients: int | range = 25,
        samples: int = 5000,
        features: int = 500,
        noise: float = 0.5,
        seed: int = 0,
        dtype: npt.DTypeLike = np.float64,
    ) -> Self:
        """The paper's problem: A_i ~ N(0, 1), b_i = A_i y_0 + v_i, v_i ~ N(0, noise²).

        y_0 ~ N(0, I). Every client has its own stream of random numbers, so client i's data
        are the same whatever the number of clients.

        Args:
            clients: m, or which of them, e.g. ``range(100, 200)``: the part of one process.
            samples: rows of each A_i.
            features: d.
            noise: standard deviation of v_i; the paper's variance of 0.25 is 0.5.
            seed: of all random numbers.
            dtype: float64 or float32.
        """
        if isinstance(clients, range):
            if not len(clients) or min(clients) < 0:
                raise ValueError(f"clients must be a range of client numbers, got {clients!r}")
            numbers = clients
        else:
            numbers = range(whole("clients", clients, at_least=1))
        m = len(numbers)
        n, d = whole("samples", samples, at_least=1), whole("features", features, at_least=1)
        noise, seed = not_negative("noise", noise), whole("seed", seed, at_least=0)
        try:
            kind = np.dtype(dtype)
        except TypeError:
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}") from None
        if kind not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {kind}")
        y0 = np.random.default_rng([seed, 0]).standard_normal(d)

        def make(i: int) -> tuple[Floats, Floats]:
            rng = np.random.default_rng([seed, 1, numbers[i]])
            A = rng.standard_normal((n, d))
            return A, A @ y0 + noise * rng.standard_normal(n)

        with Threads() as threads:
            if 2 * n < d:
                made = list(threads.map(make, range(m)))
                return cls(
                    np.stack([A.astype(kind) for A, _ in made]),
                    np.stack([b.astype(kind) for _, b in made]),
                )
            H, g, c = np.empty((m, d, d), kind), np.empty((m, d), kind), np.empty(m)

            def fill(i: int) -> None:  # the data are used and dropped: H is all that is kept
                H[i], g[i], c[i] = _moments(*make(i))

            list(threads.map(fill, range(m)))
        self = cls.__new__(cls)
        self._data, self._given = None, Moments(H, g, c)
        self._start([n] * m, d, kind)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again is not copied or sent to another process.
        return {**self.__dict__, "_held": {}, "_totals": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def __repr__(self) -> str:
        n = self.samples
        shape = f"{n[0]}" if (n == n[0]).all() else f"{n.min()}..{n.max()}"
        return (
            f"LeastSquares({self.clients} clients, {shape} samples each, "
            f"{self.dimension} features, {self.dtype})"
        )

    # --- which form to hold ---------------------------------------------------------------

    @property
    def rank(self) -> int:
        """The largest rank that an A_i'A_i can have."""
        return int(self.dimension if self._tall else min(self.samples.max(), self.dimension))

    @property
    def eigenbasis_size(self) -> int:
        return self.rank

    def _choose(self, rounds: int, steps: int, exact: bool) -> type[Quadratics]:
        """The cheapest form for a run. It depends on nothing but the shapes and the run.

        Costs in units of one product with H_i (or one read of A_i) from memory, measured:
        later steps of a round find the block in cache; a round in the eigenbasis is three
        products of which two are in cache; the eigenbasis itself costs about 60 + 0.7 r.
        """
        plain: type[Quadratics] = Gram if self._tall else Rows
        if exact or self._factorised:
            return Spectral
        saved = rounds * (0.5 + 0.5 * steps * (1 if self._tall else 2) - 2)
        return Spectral if saved > 60 + 0.7 * self.rank else plain

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Quadratics:
        return self._hold(self._choose(rounds, steps, exact), threads)

    def quadratics(self, threads: Threads) -> Quadratics:
        return self._hold(Gram if 2 * self.rank > self.dimension else Spectral, threads)

    def factorise(self) -> Self:
        """Compute all eigenbases now, so that every later run uses them.

        A single run does this by itself where it pays; before many runs on one problem it
        is worth asking for. Returns the problem itself.
        """
        with Threads() as threads:
            held = self._hold(Spectral, threads)
        self._factorised = True
        assert isinstance(held, Spectral)
        # Only what was asked for is read off: a run that happened to make the eigenbases must
        # not change the last bits of L and mu, from which a later run may choose its step.
        self._spectrum = held.e.min(1).astype(np.float64), held.e.max(1).astype(np.float64)
        self._known.clear()
        return self

    def _hold(self, form: type[Quadratics], threads: Threads) -> Quadratics:
        # A form is always made from the data, never from another form: a run gives the same
        # bits whatever ran before it.
        with self._lock:
            if form not in self._held:
                if self.clients * self._matrix_bytes > HELD_BYTES:
                    self._held.clear()
                self._held[form] = self._make(form, threads)
            return self._held[form]

    def _make(self, form: type[Quadratics], threads: Threads) -> Quadratics:
        m, d, r = self.clients, self.dimension, self.rank
        if form is Gram and self._given is not None:
            return Gram(*self._given)
        H = np.empty((m, d, d) if form is Gram else (0, 0, 0), self.dtype)
        W = np.zeros((m, r, d) if form is Spectral else (0, 0, 0), self.dtype)
        e = np.zeros((m, r), self.dtype)
        g, c = np.empty((m, d), self.dtype), np.empty(m)

        def fill(clients: slice) -> None:
            if self._tall:
                H_block, g[clients], c[clients] = self._block_moments(clients)
                self._check_range(H_block, clients.start)
                if form is Gram:
                    H[clients] = H_block
                else:
                    values, vectors = np.linalg.eigh(H_block)
                    e[clients] = values.clip(min=0)
                    W[clients] = vectors.swapaxes(-1, -2)
                return
            for i in range(clients.start, clients.stop):
                A, b = (part[i].astype(np.float64, copy=False) for part in self._rows())
                g[i], c[i] = b @ A, 0.5 * b @ b
                if form is Spectral:
                    _, s, vectors = np.linalg.svd(A, full_matrices=False)
                    e[i, : len(s)], W[i, : len(s)] = s * s, vectors

        list(threads.map(fill, self._few()))
        if form is Gram:
            return Gram(H, g, c)
        return (
            Spectral(W, e, g, c, full=self._tall)
            if form is Spectral
            else Rows(self._rows()[0], g, c)
        )

    def _check_range(self, H: Floats, first: int) -> None:
        """Refuse data whose squares the run's precision cannot hold."""
        largest = np.abs(H).max((1, 2))
        over = ~(largest <= np.finfo(self.dtype).max)
        if over.any():
            i = first + int(over.argmax())
            raise ValueError(
                f"A[{i}] (client {i}) is too large: its squares overflow {self.dtype}; rescale it"
            )

    def _rows(self) -> tuple[PerClient, PerClient]:
        assert self._data is not None
        return self._data

    def _block_moments(self, clients: slice) -> tuple[Floats, Floats, Any]:
        """Moments of a block of clients, in float64."""
        held = self._held.get(Gram)
        if isinstance(held, Gram) and self.dtype == np.float64:
            return held.H[clients], held.g[clients], held.c[clients]
        if self._given is not None:
            H, g, c = (part[clients] for part in self._given)
            return H.astype(np.float64, copy=False), g.astype(np.float64, copy=False), c
        A, b = self._rows()
        if isinstance(A, np.ndarray) and isinstance(b, np.ndarray):
            return _moments(A[clients], b[clients])
        parts = [_moments(A[i], b[i]) for i in range(clients.start, clients.stop)]
        H, g, c = (np.stack(part) for part in zip(*parts, strict=True))
        return H, g, c

    def blocks(self) -> list[slice]:
        # A dozen vectors a client; matrices are kept in cache within a block.
        vectors = 12 * self.dimension * self.dtype.itemsize
        return partition(self.clients, vectors, vectors + self._matrix_bytes)

    def _few(self) -> list[slice]:
        """Blocks of few clients, whose matrices are made at once."""
        return partition(self.clients, self._matrix_bytes, self._matrix_bytes)

    @property
    def _matrix_bytes(self) -> int:
        return self.rank * self.dimension * self.dtype.itemsize

    def at(self, clients: Clients, cursor: npt.NDArray[np.int64] | None = None) -> QuadraticBlock:
        with Threads(1 if self.clients == 1 else None) as threads:
            return self.prepare(1, 1, False, threads).at(clients)

    def evaluator(self, source: Source) -> Source:
        return source if self._data is None else Residuals(*self._data)

    # --- the sum --------------------------------------------------------------------------

    def total(self, weights: npt.NDArray[np.float64], threads: Threads) -> QuadraticTotal:
        """F, of which everything is known: its minimum too, by a direct solve."""
        team, key = threads.team, weights.tobytes()
        kept = self._totals.get(team.size > 1)
        known = kept is not None and kept[0] is team and kept[1] == key
        # Members must agree on it: the others' clients may have new weights, or be new ones.
        if team.sum(np.array([known], dtype=np.float64))[0] != team.size or kept is None:
            kept = self._totals[team.size > 1] = (team, key, self._sum(weights, threads))
        return kept[2]

    def _sum(self, weights: npt.NDArray[np.float64], threads: Threads) -> QuadraticTotal:
        team = threads.team
        samples, without = team.sum(np.array([self.samples.sum(), self._data is None], float))
        if not without and samples < self.dimension:
            A, b = (
                np.concatenate([np.sqrt(w) * a for w, a in zip(weights, part, strict=True)])
                for part in self._rows()
            )
            return WideTotal(*(np.concatenate(team.gather(part)) for part in (A, b)))

        def weigh(clients: slice) -> tuple[Floats, Floats, float]:
            w = weights[clients]
            H, g, c = self._block_moments(clients)
            return np.tensordot(w, H, 1), w @ g, float(w @ c)

        d = self.dimension
        H, g, c = np.zeros((d, d)), np.zeros(d), 0.0
        blocks = self._few()
        for H_block, g_block, c_block in threads.map(weigh, blocks):
            H += H_block
            g += g_block
            c += c_block
        H, g, offset = (team.sum(np.asarray(part)) for part in (H, g, c))
        data = None if without else self._data
        return DenseTotal(H, g, float(offset), data, weights, team=team)

    # --- constants ------------------------------------------------------------------------

    def _client_constants(
        self, which: Which, threads: Threads
    ) -> dict[Which, tuple[npt.NDArray[np.float64], Kind]]:
        """L_i and mu_i: the ends of the spectrum of A_i'A_i."""
        mu, L = np.zeros(self.clients), np.zeros(self.clients)

        def fill(clients: slice) -> None:
            if self._tall:
                H = self._block_moments(clients)[0]
                self._check_range(H, clients.start)
                mu[clients], L[clients] = ends(H.astype(np.float64, copy=False))
                return
            for i in range(clients.start, clients.stop):
                A = self._rows()[0][i].astype(np.float64, copy=False)
                with np.errstate(over="ignore"):
                    self._check_range(np.reshape(np.vdot(A, A), (1, 1, 1)), i)
                mu[i], L[i] = ends_of_rows(A)

        if self._spectrum is not None:
            mu, L = (end.copy() for end in self._spectrum)
            mu[mu <= self.dimension * EPS * L] = 0.0
        else:
            # In float64 a run works on the same matrices, or makes its own from them.
            small = self.clients * self._matrix_bytes <= HELD_BYTES
            if self._tall and self.dtype == np.float64 and small:
                self._hold(Gram, threads)
            list(threads.map(fill, self._few()))
        mu[self.samples < self.dimension] = 0.0  # whatever rounding says
        return {"L": (L, "exact"), "mu": (mu, "exact")}

    def _overall_constant(
        self, which: Which, weights: npt.NDArray[np.float64], threads: Threads
    ) -> tuple[float, Kind]:
        mu, L = self.total(weights, threads).extremes()
        return (L if which == "L" else mu), "exact"


def _same_length(i: int, matrix: Floats, vector: Floats) -> None:
    if len(matrix) != len(vector):
        raise ValueError(
            f"A[{i}] (client {i}) has {len(matrix)} rows and b[{i}] has {len(vector)} entries: "
            "they must be the same"
        )
