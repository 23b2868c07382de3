"""The problem itself: what a run, a certificate and a choice of parameters ask of it."""

import copy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import ClientRows, Source
from pdmm.problems.constants import Kind, Which
from pdmm.problems.eigenvalues import EPS, ends, ends_of_rows
from pdmm.problems.least_squares.data import (
    Moments,
    Residuals,
    Samples,
    checked,
    products_in_a_row,
)
from pdmm.problems.least_squares.forms import Forms
from pdmm.problems.least_squares.random_data import RandomData
from pdmm.problems.partition import partition
from pdmm.problems.quadratic import Gram, QuadraticBlock, Quadratics, Spectral
from pdmm.problems.quadratic.total import DenseTotal, QuadraticTotal, WideTotal, stacked

Vector = npt.NDArray[np.float64]


class KeptTotal(NamedTuple):
    """F as it was last asked for, and with which weights and whom."""

    team: Team
    weights: bytes
    total: QuadraticTotal


class LeastSquares(Problem):
    """The sum over clients of 1/2 ‖A_i x - b_i‖² (not divided by the number of samples).

    Args:
        A: a list of matrices (n_i, d), one for each client, or one array (clients, n, d).
        b: a list of vectors (n_i,), one for each client, or one array (clients, n).

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
        data, dtype = checked(A, b)
        self._start(data.counts, data.A[0].shape[1], dtype, data=data)

    def _start(
        self,
        samples: npt.NDArray[np.int64],
        dimension: int,
        dtype: np.dtype[Any],
        *,
        data: Samples | None = None,
        given: Moments | None = None,
    ) -> None:
        self.samples = samples
        self.clients = len(samples)
        self.dimension = dimension
        self.dtype = dtype
        self._forms = Forms(samples, dimension, dtype, data, given)
        self._factorised = False
        self._spectrum: tuple[Vector, Vector] | None = None
        self._totals: dict[bool, KeptTotal] = {}  # alone, in a team

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
        drawn = RandomData.checked(clients, samples, features, noise, seed, dtype)
        with Threads() as threads:
            if drawn.wide:
                return cls(*drawn.rows(threads))
            moments = drawn.moments(threads)
        self = cls.__new__(cls)  # there are no data to begin with
        counts = np.full(len(drawn.clients), drawn.samples)
        self._start(counts, drawn.features, drawn.dtype, given=moments)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again is not copied or sent to another process.
        return {**self.__dict__, "_forms": copy.copy(self._forms), "_totals": {}}

    def __repr__(self) -> str:
        n = self.samples
        shape = f"{n[0]}" if (n == n[0]).all() else f"{n.min()}..{n.max()}"
        return (
            f"LeastSquares({self.clients} clients, {shape} samples each, "
            f"{self.dimension} features, {self.dtype})"
        )

    # --- the form that a run works on -------------------------------------------------------

    @property
    def rank(self) -> int:
        """The largest rank that an A_i'A_i can have."""
        return self._forms.rank

    @property
    def eigenbasis_size(self) -> int:
        return self.rank

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Quadratics:
        if exact or self._factorised:
            return self._forms.hold(Spectral, threads)
        return self._forms.hold(self._forms.choose(rounds, steps), threads)

    def quadratics(self, threads: Threads) -> Quadratics:
        form = Gram if 2 * self.rank > self.dimension else Spectral
        return self._forms.hold(form, threads)

    def factorise(self) -> Self:
        """Compute all eigenbases now, so that every later run uses them.

        A single run does this by itself where it pays; before many runs on one problem it
        is worth asking for. Returns the problem itself.
        """
        with Threads() as threads:
            held = self._forms.hold(Spectral, threads)
        self._factorised = True
        assert isinstance(held, Spectral)
        # Only what was asked for is read off: a run that happened to make the eigenbases must
        # not change the last bits of L and mu, from which a later run may choose its step.
        self._spectrum = held.e.min(1).astype(np.float64), held.e.max(1).astype(np.float64)
        self._known.clear()
        return self

    def blocks(self) -> list[slice]:
        # A dozen vectors for each client; matrices are kept in cache within a block.
        vectors = 12 * self.dimension * self.dtype.itemsize
        return partition(self.clients, vectors, vectors + self._forms.matrix_bytes)

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> QuadraticBlock:
        with Threads(1 if self.clients == 1 else None) as threads:
            return self.prepare(1, 1, False, threads).at(clients)

    def evaluator(self, source: Source) -> Source:
        data = self._forms.samples
        return source if data is None else Residuals(data)

    def as_given(self) -> Source:
        given = self._forms.given
        return Residuals(self._forms.rows) if given is None else Gram(*given)

    # --- the sum --------------------------------------------------------------------------

    def total(
        self, weights: npt.NDArray[np.float64], threads: Threads, team: Team = ALONE
    ) -> QuadraticTotal:
        """F, of which everything is known: its minimum too, by a direct solve."""
        key = weights.tobytes()
        kept = self._totals.get(team.size > 1)
        known = kept is not None and kept.team is team and kept.weights == key
        # Members must agree on it: the others' clients may have new weights, or be new ones.
        agreed = team.sum(np.array([known], dtype=np.float64))[0] == team.size
        if kept is None or not agreed:
            kept = KeptTotal(team, key, self._sum(weights, threads, team))
            self._totals[team.size > 1] = kept
        return kept.total

    def _sum(self, weights: Vector, threads: Threads, team: Team) -> QuadraticTotal:
        data = self._forms.samples
        samples, without = team.sum(np.array([self.samples.sum(), data is None], float))
        if without:  # at one member at least
            data = None
        if data is not None and samples < self.dimension:
            A = team.gather(stacked(data.A, weights))
            b = team.gather(stacked(data.b, weights))
            return WideTotal(np.concatenate(A), np.concatenate(b))
        here = self._weighted_moments(weights, threads)
        H = team.sum(np.asarray(here.H, dtype=np.float64))
        g = team.sum(np.asarray(here.g, dtype=np.float64))
        c = team.sum(np.asarray(here.c))
        columns = np.sqrt(np.diagonal(H))
        return DenseTotal(
            H,
            g,
            float(c),
            operations=self._operations(),
            linear=length(columns) * float(np.sqrt(2 * c)),  # |a_j|·|b| <= ‖a_j‖ ‖b‖
            data=data,
            weights=weights,
            team=team,
        )

    def _operations(self) -> int:
        """How many operations stand one after the other in a number of a weighted sum."""
        blocks = self._forms.few()
        clients = max(len(range(block.start, block.stop)) for block in blocks)
        return products_in_a_row(int(self.samples.max())) + clients + len(blocks) + 2

    def _weighted_moments(self, weights: Vector, threads: Threads) -> Moments:
        """The sums over clients of w_i H_i, w_i g_i and w_i c_i."""

        def weigh(clients: slice) -> Moments:
            w = weights[clients]
            part = self._forms.moments(clients)
            return Moments(np.tensordot(w, part.H, 1), w @ part.g, float(w @ part.c))

        H = np.zeros((self.dimension, self.dimension))
        g = np.zeros(self.dimension)
        c = 0.0
        for part in threads.map(weigh, self._forms.few()):
            H += part.H
            g += part.g
            c += part.c
        return Moments(H, g, c)

    # --- constants ------------------------------------------------------------------------

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        """L_i and mu_i: the ends of the spectrum of A_i'A_i."""
        if self._spectrum is None:
            mu, L = self._ends(threads)
        else:
            mu, L = (end.copy() for end in self._spectrum)
            mu[mu <= self.dimension * EPS * L] = 0.0
        mu[self.samples < self.dimension] = 0.0  # whatever rounding says
        return {"L": (L, "exact"), "mu": (mu, "exact")}

    def _ends(self, threads: Threads) -> tuple[Vector, Vector]:
        """The smallest and the largest eigenvalue of every A_i'A_i."""
        forms = self._forms
        mu = np.zeros(self.clients)
        L = np.zeros(self.clients)

        def fill_tall(clients: slice) -> None:
            H = forms.moments(clients).H
            forms.check_range(H, clients.start)
            mu[clients], L[clients] = ends(H.astype(np.float64, copy=False))

        def fill_wide(clients: slice) -> None:
            for i in range(clients.start, clients.stop):
                A, _ = forms.rows.wide(i)
                with np.errstate(over="ignore"):
                    size = np.vdot(A, A)
                    forms.check_range(np.reshape(size, (1, 1, 1)), i)
                mu[i], L[i] = ends_of_rows(A)

        # In float64 a run works on the same matrices, or makes its own from them.
        if forms.tall and forms.small and self.dtype == np.float64:
            forms.hold(Gram, threads)
        list(threads.map(fill_tall if forms.tall else fill_wide, forms.few()))
        return mu, L

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        mu, L = self.total(weights, threads, team).extremes()
        return (L if which == "L" else mu), "exact"
