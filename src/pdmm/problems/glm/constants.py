"""L and mu of generalised linear models: proven where there are such numbers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import client_weights
from pdmm.common.matrices import Matrix, is_sparse
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.common.variables import Variables
from pdmm.problems.constants import Constants, Kind, Which, WithConstants
from pdmm.problems.eigenvalues import ends_of_rows, largest_of_sum
from pdmm.problems.glm.data import Rows
from pdmm.problems.glm.families import Family

Vector = npt.NDArray[np.float64]

LARGEST_GRAM = 1000  # columns up to which the sum over clients is formed


class GLMConstants(WithConstants):
    """The part of a generalised linear model that knows its L and mu.

    The Hessian of a client is at most ``steepest`` times the A'WA of its rows and weights.
    """

    family: str
    _rowwise: Family | None
    _A: list[Matrix]
    _rows: Rows
    _turn: Variables | None

    def smoothness(self, weights: Any = None) -> Constants:
        """The L of every f_i and of F = sum_i w_i f_i: how fast their gradients can change.

        Those of "poisson" and "gamma" change as fast as exp, which has no L: all are infinite.
        For "cox", "auto" goes by estimates, which are smaller than these bounds.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        if self.family == "cox":
            self.check_data()
            bounds = np.array([self._cox_bound(i) for i in range(self.clients)])
            overall = float(client_weights(weights, self.clients) @ bounds)
            return Constants(bounds, overall, "bound", "bound", 0.0)
        if self._rowwise is None or self._rowwise.smooth:
            return super().smoothness(weights)
        self.check_data()
        none = np.full(self.clients, np.inf)
        return Constants(none, np.inf, "unbounded", "unbounded", 0.0)

    def _cox_bound(self, i: int) -> float:
        """Each event adds a variance of rows at risk: at most a quarter of their spread squared."""
        f = self._rows.likelihoods[i]
        start = int(self._rows.starts[i])
        weight = float(self._rows.w[start + f.events].sum())
        return 1.001 * weight * f.reach(self._A[i]) / 4

    @property
    def _steepest(self) -> float | None:
        """The largest curvature of a row, where that bounds the Hessian."""
        if self.family == "multinomial":
            return 0.5
        if self._rowwise is not None and self._rowwise.smooth:
            return self._rowwise.steepest
        return None

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        steepest = self._steepest
        if which == "mu" and self.family != "gaussian":
            return {"mu": (np.zeros(self.clients), "bound")}
        if steepest is None or which not in ("L", "mu") or self._turn is not None:
            found = super()._client_constants(which, threads)
            return {name: kept for name, kept in found.items() if name != "mu"}

        def ends(i: int) -> tuple[float, float]:
            return ends_of_rows(self._weighed(i))

        mu, L = np.array(list(threads.map(ends, range(self.clients)))).T.copy()
        if self.family != "gaussian":
            return {"L": (steepest * L * 1.001, "bound")}
        few = np.diff(self._rows.starts) < self.dimension
        mu[few] = 0.0  # whatever rounding says
        return {"L": (L, "exact"), "mu": (mu, "exact")}

    def _weighed(self, i: int) -> Matrix:
        """Client i's rows, times the square roots of their weights."""
        A = self._A[i]
        rows = self._rows
        root = np.sqrt(rows.w[rows.starts[i] : rows.starts[i + 1]])[:, None]
        return A.multiply(root).tocsr() if is_sparse(A) else A * root

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        steepest = self._steepest
        if steepest is None or self._turn is not None or which not in ("L", "mu"):
            return super()._overall_constant(which, weights, threads, team)
        if self.family == "gaussian" and self.dimension <= LARGEST_GRAM:
            mu, L = self._ends_of_sum(weights, threads, team)
            return (L if which == "L" else mu), "exact"
        if which == "mu":
            return 0.0, "bound"
        rows = [self._weighed(i) for i in range(self.clients)]
        return steepest * largest_of_sum(rows, weights, threads, team), "bound"

    def _ends_of_sum(self, weights: Vector, threads: Threads, team: Team) -> tuple[float, float]:
        def total() -> Vector:
            def part(i: int) -> Vector:
                A = self._weighed(i)
                return np.asarray(weights[i] * _gram(A))

            return np.asarray(sum(threads.map(part, range(self.clients))))

        values = np.linalg.eigvalsh(team.total(total))
        least = float(values[0])
        largest = float(values[-1])
        few = least <= len(values) * np.finfo(np.float64).eps * largest
        return (0.0 if few else least), largest


def _gram(A: Matrix) -> Vector:
    product = A.T @ A
    return np.asarray(product.toarray() if is_sparse(A) else product)
