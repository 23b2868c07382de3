"""Where tables are. A fit asks its silos for counts, sums, unions and a problem: for no row."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.statistics import Statistics
from pdmm.regularisers import Regulariser
from pdmm.result import Result
from pdmm.solve import solve
from pdmm.tables.client_table import Counts, Moments
from pdmm.tables.columns import Column
from pdmm.tables.design import Layout
from pdmm.tables.encoding import Encoding
from pdmm.tables.expressions import Call

if TYPE_CHECKING:
    from pdmm.tables.agreement import Agreement
    from pdmm.tables.cross_validation import Folded
    from pdmm.tables.fitted import Fit
    from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Options:
    """What a fit is asked for, beside its formula and its data; see :func:`pdmm.fit`."""

    family: Any = "binomial"
    l1: Any = 0.0
    l2: Any = 0.0
    standardise: bool = False
    missing: str = "error"
    covariance: str = "model"
    offset: str | None = None
    weights: str | None = None
    scale: Any = None
    ties: str = "efron"
    reference: Any = None
    folds: Any = 5
    penalties: int = 50
    seed: int = 0
    curvature: Any = "auto"
    rounds: int | None = None
    progress: bool = False
    threads: int | None = None

    @property
    def name(self) -> str:
        """The family's name."""
        return self.family.name if isinstance(self.family, Huber) else str(self.family)

    @property
    def extra(self) -> tuple[str, ...]:
        """Expressions that rows need beside those of the formula."""
        return tuple(text for text in (self.offset, self.weights) if text is not None)

    @property
    def chooses(self) -> bool:
        """Whether cross-validation chooses a penalty."""
        return "cv" in (self.l1, self.l2)

    @property
    def penalised(self) -> bool:
        """Whether there is a penalty."""
        return self.chooses or self.l1 > 0 or self.l2 > 0

    def minimise(self, problem: Any, regulariser: Regulariser | None, **more: Any) -> Result:
        """Minimise over all clients."""
        return solve(
            problem,
            rounds=self.rounds,
            regulariser=regulariser,
            curvature=self.curvature,
            progress=self.progress,
            threads=self.threads,
            optimum=False,
            **more,
        )


class Totals(NamedTuple):
    """What all clients say together at the estimate."""

    sums: Statistics
    clients: int
    """That have rows."""
    scores: Vector | None = None
    """(d, d): the sum over clients of g_i g_i', of their gradients, where it was asked for."""


class SilosModel(Protocol):
    """The clients' rows, encoded where they are."""

    @property
    def layout(self) -> Layout:
        """Which coefficients there are."""

    @property
    def no_errors(self) -> str:
        """Why there can be no standard errors, in a sentence; empty where there can."""

    def spreads(self) -> Vector:
        """(q,): the standard deviation of each column over all rows; 1 for the intercept."""

    def folded(self, options: Options) -> "AbstractContextManager[Folded]":
        """What cross-validation asks, with the rows split into folds."""

    def minimise(self, regulariser: Regulariser | None) -> Result:
        """Minimise over all clients."""

    def hessian(self, x: Vector) -> Vector:
        """(d, d): of F."""

    def totals(self, x: Vector, robust: bool, clusters: bool) -> Totals:
        """What all clients say at x."""

    def fit(self, stored: "Stored", result: Result) -> "Fit":
        """The fit, with what may be known of each client."""


class Silos(Protocol):
    """The clients' tables."""

    label: str | None
    """The column of the clients' names, if formulas may use it."""
    unlabelled: int
    """Rows that belong to no client."""

    def describe(self, wanted: Sequence[str]) -> dict[str, dict[str, Column]]:
        """For each client, the kinds of those of these columns that it has."""

    def present(self, encoding: Encoding, names: Sequence[str]) -> dict[str, Moments]:
        """Of columns of numbers, counts and sums over all clients of the entries that are there."""

    def count(
        self, encoding: Encoding, extra: Sequence[str], missing: str, weights: str | None
    ) -> Counts:
        """How many rows all clients have together, and how many are complete."""

    def moments(self, encoding: Encoding, call: Call, mean: float | None) -> Moments:
        """Sums over all complete rows, of what center or scale is computed of."""

    def levels(self, encoding: Encoding) -> dict[str, list[Any]]:
        """The union of the levels of each category."""

    def classes(self, encoding: Encoding, numbers: bool) -> list[Any] | None:
        """The union of the classes of the outcomes; None where these are numbers."""

    def model(self, agreement: "Agreement", options: Options) -> SilosModel:
        """Have each client encode its rows."""
