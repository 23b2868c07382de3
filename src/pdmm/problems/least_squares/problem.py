"""The problem itself: what a run, a certificate and a choice of parameters ask of it."""

import copy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import Names
from pdmm.common.matrices import Matrix, largest_entry
from pdmm.common.sizes import check_start
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.common.variables import Variables
from pdmm.problems.base import Problem
from pdmm.problems.block import ClientRows, Floats, Source
from pdmm.problems.constants import Kind, Which
from pdmm.problems.eigenvalues import EPS, largest_of_sum
from pdmm.problems.least_squares.data import Moments, Residuals, Samples, checked
from pdmm.problems.least_squares.forms import Forms
from pdmm.problems.least_squares.random_data import RandomData
from pdmm.problems.least_squares.spectra import Spectra, spectra
from pdmm.problems.least_squares.weighted_sum import weighted_sum
from pdmm.problems.partition import partition
from pdmm.problems.quadratic import Gram, QuadraticBlock, Quadratics, Spectral
from pdmm.problems.quadratic.total import QuadraticTotal

Vector = npt.NDArray[np.float64]


class KeptTotal(NamedTuple):
    """F as it was last asked for, and with which weights and whom."""

    team: Team
    weights: bytes
    total: QuadraticTotal | None


class LeastSquares(Problem):
    """The sum over clients of 1/2 ‖A_i x - b_i‖² (not divided by the number of samples).

    Args:
        A: a list of matrices (n_i, d), one for each client, or one array (clients, n, d). The
            matrices may be arrays, sparse matrices of SciPy or tables of pandas, whose columns
            are brought into the order of the first table (arrays beside tables are taken to be
            in their order, and refused where tables differ in it); a dict names the clients.
        b: a list of vectors (n_i,) or (n_i, 1), one for each client, one array (clients, n), or
            a dict with the keys of A.

    The data are not copied; a run notices if they have been changed. The run's dtype is theirs,
    float32 or float64. What is accepted: docs/inputs.md.

    Example:
        >>> import numpy as np, pdmm
        >>> A = [np.eye(2), 2 * np.eye(2)]
        >>> b = [np.array([1.0, 0.0]), np.array([0.0, 4.0])]
        >>> result = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.PDMM(rho=2.0), rounds=60)
        >>> result.x.round(6).tolist()
        [0.2, 1.6]
    """

    proven = True
    curved = True

    columns: Names | None = None
    """The names of the unknowns, where A has names."""

    def __init__(self, A: Any, b: Any) -> None:
        found = checked(A, b)
        data = found.samples
        self.columns = found.columns
        self.watched = found.watched
        self._size = found.size
        self._start(data.counts, int(data.A[0].shape[1]), found.dtype, data=data)

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
        self._size = 1.0
        counts = np.full(len(drawn.clients), drawn.samples)
        self._start(counts, drawn.features, drawn.dtype, given=moments)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # What can be made again is not copied or sent to another process.
        return {**self.__dict__, "_forms": copy.copy(self._forms), "_totals": {}}

    def tables(self) -> list[Matrix] | None:
        data = self._forms.samples
        return None if data is None else [data.A[i] for i in range(self.clients)]

    def __repr__(self) -> str:
        n = self.samples
        shape = f"{n[0]}" if (n == n[0]).all() else f"{n.min()}..{n.max()}"
        return (
            f"LeastSquares({self.clients} clients, {shape} samples each, "
            f"{self.dimension} features, {self.dtype})"
        )

    # --- the form that a run works on -------------------------------------------------------

    @property
    def alike(self) -> dict[str, Any]:
        return {"columns": self.columns}

    @property
    def rank(self) -> int:
        """The largest rank that an A_i'A_i can have."""
        return self._forms.rank

    @property
    def eigenbasis_size(self) -> int:
        return self.rank

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Quadratics:
        if (exact or self._factorised) and self._forms.compact:
            return self._forms.hold(Spectral, threads)
        return self._forms.hold(self._forms.choose(rounds, steps), threads)

    def quadratics(self, threads: Threads) -> Quadratics | Any:
        if not self._forms.compact:
            return None
        form = Gram if 2 * self.rank > self.dimension else Spectral
        return self._forms.hold(form, threads)

    def factorise(self) -> Self:
        """Compute all eigenbases now, so that every later run uses them.

        A single run does this by itself where it pays; before many runs on one problem it
        is worth asking for. Returns the problem itself.
        """
        self.check_data()
        forms = self._forms
        if not forms.compact:
            raise ValueError(
                f"the eigenbases of these sparse A would be {forms.clients} dense matrices of "
                f"{forms.rank} x {forms.dimension}, "
                f"{forms.clients * forms.matrix_bytes / 1e9:.3g} GB: runs work without them"
            )
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

    def in_variables(self, variables: Variables) -> "LeastSquares":
        """The same functions of other variables y, where x = centre + T y."""
        other = copy.copy(self)
        other.__dict__.pop("_known_constants", None)
        data = self._forms.samples
        given = self._forms.given
        other._start(
            self.samples,
            self.dimension,
            self.dtype,
            data=None if data is None else data.in_variables(variables),
            given=None if given is None else given.in_variables(variables),
        )
        return other

    def evaluator(self, source: Source) -> Source:
        data = self._forms.samples
        return source if data is None else Residuals(data)

    def check(self, x0: Floats, exact: bool) -> None:
        check_start("A x0", self._size * largest_entry(x0), self.dtype)

    def as_given(self) -> Source:
        given = self._forms.given
        return Residuals(self._forms.rows) if given is None else Gram(*given)

    # --- the sum --------------------------------------------------------------------------

    def total(
        self, weights: npt.NDArray[np.float64], threads: Threads, team: Team = ALONE
    ) -> QuadraticTotal | Any:
        """F, of which everything is known: its minimum too, by a direct solve.

        It is None for sparse data with so many features that a matrix of them is too large.
        """
        key = weights.tobytes()
        kept = self._totals.get(team.size > 1)
        known = kept is not None and kept.team is team and kept.weights == key
        # Members must agree on it: the others' clients may have new weights, or be new ones.
        agreed = team.sum(np.array([known], dtype=np.float64))[0] == team.size
        if kept is None or not agreed:
            kept = KeptTotal(
                team, key, weighted_sum(self._forms, self.samples, weights, threads, team)
            )
            self._totals[team.size > 1] = kept
        return kept.total

    # --- constants ------------------------------------------------------------------------

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        """L_i and mu_i: the ends of the spectrum of A_i'A_i."""
        if self._spectrum is None:
            found = spectra(self._forms, threads)
        else:
            mu, L = (end.copy() for end in self._spectrum)
            mu[mu <= self.dimension * EPS * L] = 0.0
            found = Spectra(mu, L, complete=True)
        few = self.samples < self.dimension
        found.mu[few] = 0.0  # whatever rounding says
        exact = found.complete or few.all()
        return {"L": (found.L, "exact"), "mu": (found.mu, "exact" if exact else "bound")}

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        total = self.total(weights, threads, team)
        if total is not None:
            mu, L = total.extremes()
            return (L if which == "L" else mu), "exact"
        if which == "mu":
            return 0.0, "bound"
        return largest_of_sum(self._forms.rows.A, weights, threads, team), "bound"
