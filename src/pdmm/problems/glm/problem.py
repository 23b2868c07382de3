"""The problem itself: its data, names, predictions and likelihood."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import client_weights, one_of, vector
from pdmm.common.matrices import Matrix, dense, is_sparse, largest_entry, stored
from pdmm.common.sizes import check_start
from pdmm.common.variables import Mixed, Variables
from pdmm.problems.base import Problem
from pdmm.problems.block import ClientRows, Floats
from pdmm.problems.glm.block import GLMBlock
from pdmm.problems.glm.constants import GLMConstants
from pdmm.problems.glm.data import Rows, read_rows, sort_for_cox
from pdmm.problems.glm.design import Design
from pdmm.problems.glm.families import Binomial, Family, Gamma, Gaussian, Huber, Poisson
from pdmm.problems.glm.models import Model, RowModel
from pdmm.problems.glm.multinomial import MultinomialModel
from pdmm.problems.glm.predictions import Predictions
from pdmm.problems.glm.survival import CoxModel
from pdmm.problems.partition import partition

Vector = npt.NDArray[np.float64]

FAMILIES: dict[str, Family] = {
    family.name: family for family in (Gaussian(), Binomial(), Poisson(), Gamma())
}
NAMES = (*FAMILIES, "multinomial", "cox")
LARGEST_MATRIX = 20_000  # columns of a matrix that still fits into the memory of a workstation


class GLM(GLMConstants, Predictions, Problem):
    """Generalised linear models: f_i is minus the log-likelihood of client i's rows, summed.

    With weights of 1, F is minus the log-likelihood of all rows in one table, up to constants and
    the scale. x has an entry for each column of X in their order, and the intercept last;
    "multinomial" has a row of x for each of them, with an entry for each class but the reference.
    A run is in float64, whatever the data are.

    Args:
        X: a list of matrices (n_i, columns), one for each client: arrays, sparse matrices of SciPy
            or tables of pandas, whose columns are brought into one order; a dict names the clients.
        y: the outcomes, a list of vectors (n_i,). "binomial": 0 and 1, fractions between them,
            booleans or two strings; "multinomial": whole numbers, strings or booleans; "cox":
            tables with the columns time and event, or arrays (n_i, 2) of these.
        family: "gaussian", "binomial" (logit), "poisson" (log), "gamma" (log), "multinomial",
            "cox" (every client has risk sets of its own: it is a stratum) or ``pdmm.Huber(delta)``.
        intercept: whether there is one. Cox's model never has any.
        sample_weight: how often each row counts, a list of vectors; 1 if not given.
        offset: what is added to the linear predictors, a list of vectors.
        reference: of "multinomial", the class whose coefficients are 0: the first of the sorted
            classes if not given. False keeps all classes, whose coefficients are then only
            determined with an l2 penalty.
        ties: of "cox", "efron" or "breslow".
        classes: of "multinomial", all classes, where the clients given here may not have each;
            those that stand in y if not given.

    Example:
        >>> import numpy as np, pdmm
        >>> X = [np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0]])]
        >>> y = [np.array([1, 0, 1]), np.array([0, 1])]
        >>> problem = pdmm.GLM(X, y)
        >>> problem.names
        ('x0', 'intercept')
        >>> result = pdmm.solve(problem)
        >>> problem.predict_mean(result.x, [[2.0]]).round(4).tolist()
        [0.7083]
    """

    curved = True
    likelihood = True
    proven = True
    dtype = np.dtype(np.float64)

    encoded = 0
    """Of rows that a formula has made from a table, how many outcomes they have; else 0."""

    names: tuple[str, ...]
    """What each entry of x belongs to; of "multinomial", column:class."""
    classes: tuple[Any, ...] | None
    """The classes of the outcome, the second of two being the one whose odds are modelled."""

    def __init__(
        self,
        X: Any,
        y: Any,
        family: Any = "binomial",
        intercept: bool = True,
        sample_weight: Any = None,
        offset: Any = None,
        reference: Any = None,
        ties: Any = "efron",
        classes: Any = None,
    ) -> None:
        self.family, self._rowwise = named_family(family)
        one_of("ties", ties, ("efron", "breslow"))
        if not isinstance(intercept, bool | np.bool_):
            raise ValueError(f"intercept must be True or False, got {intercept!r}")
        if reference is not None and self.family != "multinomial":
            raise ValueError(
                f"reference is a class of the family 'multinomial', and the family is "
                f"{self.family!r}"
            )
        if classes is not None and self.family != "multinomial":
            raise ValueError(
                f"classes are those of the family 'multinomial', and the family is {self.family!r}"
            )
        if offset is not None and self.family == "multinomial":
            raise ValueError("the family 'multinomial' takes no offset")
        self.intercept = bool(intercept) and self.family != "cox"
        self._variables: Variables | None = None
        self._turn: Variables | None = None
        rows = read_rows(
            X, y, self.family, self.intercept, sample_weight, offset, reference, classes
        )
        if self.family == "cox":
            sort_for_cox(rows, ties)
        self.ties = ties
        self._take(rows)

    def _take(self, rows: Rows) -> None:
        self.clients = len(rows.A)
        self.features = rows.features
        self.samples = np.diff(rows.starts)
        self.columns = rows.columns
        self.classes = rows.classes
        self.watched = rows.watched
        self._rows = rows
        self._A = rows.A
        self._offset = np.zeros_like(rows.y) if rows.kept else rows.given
        q = self.features + self.intercept
        count = max(1, len(rows.kept))
        self.dimension = q * count
        if self.dimension == 0:
            raise ValueError("X has no columns and there is no intercept: nothing is left to find")
        self.names = self._names()
        if self.intercept:
            self.intercepts = np.tile(self.features * count + np.arange(count), q)

    @property
    def rows(self) -> Rows:
        """The clients' rows, for what is computed where they are."""
        return self._rows

    def _names(self) -> tuple[str, ...]:
        names = self.columns
        own = [f"x{j}" for j in range(self.features)] if names is None else [str(n) for n in names]
        if self.intercept:
            if "intercept" in own:
                raise ValueError(
                    "X has a column called 'intercept', and intercept=True adds one: rename the "
                    "column, or give intercept=False"
                )
            own.append("intercept")
        if not self._rows.kept:
            return tuple(own)
        return tuple(f"{name}:{label}" for name in own for label in self._rows.kept)

    def check(self, x0: Floats, exact: bool) -> None:
        check_start("it", largest_entry(x0), self.dtype)

    @property
    def alike(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "classes": self.classes,
            "family": repr(self._rowwise) if self.family == "huber" else self.family,
            "intercept": self.intercept,
            "reference": self._rows.kept,
        }

    def tables(self) -> list[Matrix]:
        own = (self._rows.own(i) for i in range(self.clients))
        return [A[self._rows.w[rows] > 0] for A, rows in zip(self._rows.A, own, strict=True)]

    def __repr__(self) -> str:
        classes = f", {len(self.classes or ())} classes" if self._rows.kept else ""
        plus = " and an intercept" if self.intercept else ""
        return (
            f"GLM({self.family}, {self.clients} clients, {self.samples.sum()} rows, "
            f"{self.features} columns{plus}{classes})"
        )

    # --- the functions ------------------------------------------------------------------------

    def blocks(self) -> list[slice]:
        entries = sum(map(stored, self._A)) / self.clients
        held = 8 * (2 * entries + 8 * self._rows.w.size / self.clients)
        held += 8 * 4 * min(self.dimension, 1000) ** 2
        return partition(self.clients, held, 2 * held)

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> GLMBlock:
        chosen = np.arange(self.clients)[clients]
        starts = np.append(0, np.cumsum(self.samples[chosen]))
        rows = self._rows_of(chosen)
        design = Design(
            [self._A[i] for i in chosen],
            starts,
            self._offset[rows],
            self._given_to(rows),
            self._turn,
        )
        return GLMBlock(
            design,
            self._model(chosen, starts, rows),
            lambda some: self.at(chosen[some]),
            self.intercepts,
        )

    def _rows_of(self, chosen: npt.NDArray[np.int64]) -> Any:
        """Which rows some clients have: a slice where these follow each other."""
        first, last = int(chosen[0]), int(chosen[-1])
        if np.array_equal(chosen, np.arange(first, last + 1)):
            return slice(int(self._rows.starts[first]), int(self._rows.starts[last + 1]))
        return np.concatenate(
            [np.arange(self._rows.starts[i], self._rows.starts[i + 1]) for i in chosen.tolist()]
        )

    def _given_to(self, rows: Any) -> Vector:
        own = self._rows.given[rows]
        return np.asarray(own[:, None] if self._rows.kept else own)

    def _model(
        self, chosen: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], rows: Any
    ) -> Model:
        w = self._rows.w[rows]
        if self.family == "cox":
            return CoxModel(starts, w, [self._rows.likelihoods[i] for i in chosen])
        if self.family == "multinomial":
            return MultinomialModel(starts, w, self._rows.y[rows], self._rows.kept != self.classes)
        assert self._rowwise is not None
        return RowModel(self._rowwise, starts, w, self._rows.y[rows])

    def hessian(self, x: Any, weights: Any = None) -> Vector:
        """The Hessian (d, d) of F = sum_i w_i f_i at x."""
        w = client_weights(weights, self.clients)
        point = vector("x", x, self.dimension)
        if self.dimension > LARGEST_MATRIX:
            size = 8 * self.dimension**2 / 1e9
            raise ValueError(
                f"a Hessian of {self.dimension:,} by {self.dimension:,} numbers would take "
                f"{size:,.0f} GB: it is made up to {LARGEST_MATRIX:,} columns"
            )
        total = np.zeros((self.dimension, self.dimension))
        for block in self.blocks():
            total += np.tensordot(w[block], self.at(block).hessian(point), axes=1)
        return total

    def in_variables(self, variables: Variables) -> "GLM":
        """The same functions of other variables y, where x = centre + T y."""
        other = copy.copy(self)
        other.__dict__.pop("_known_constants", None)
        other.start = None
        whole = self.at(slice(0, self.clients)).design
        other._offset = self._offset + whole.change(variables.centre)
        if isinstance(variables, Mixed):
            other.intercepts = None
        other._variables = variables
        sparse_rows = any(is_sparse(A) for A in self._A)
        if self._rows.kept or (sparse_rows and not isinstance(variables, Mixed)):
            other._turn = variables
            if self._turn is not None:
                other._turn = Mixed(variables.centre, self._turn.times(variables.matrix().T).T)
        else:
            T = variables.matrix()
            if self._turn is not None:
                T = self._turn.times(T.T).T
                other._turn = None
            other._A = [np.asarray(dense(A @ T)) for A in self._A]
        return other

    def subset(self, chosen: Sequence[Any]) -> "GLM":
        """The same model of some of the rows; clients of which there are none are left out.

        Args:
            chosen: for each client, which of its rows: a slice or an array of indices.
        """
        if self._variables is not None:
            raise ValueError("a part of the rows is taken from the problem that was given")
        other = copy.copy(self)
        other.__dict__.pop("_known_constants", None)
        rows = self._rows.subset(chosen)
        if self.family == "cox":
            sort_for_cox(rows, self.ties)
        other._take(rows)
        return other

    def reweighted(self, w: Vector) -> "GLM":
        """The same rows with other sample weights; those of weight 0 are as good as absent.

        No row is copied, so that a fold of cross-validation costs one number for each row. Cox's
        model sorts its rows by their weights too: take ``subset`` there.

        Args:
            w: (N,), zero or more, for the rows of one client after the other.
        """
        if self.family == "cox":
            raise ValueError("rows of Cox's model are sorted by their weights: take a subset")
        other = copy.copy(self)
        other.__dict__.pop("_known_constants", None)
        other._rows = replace(self._rows, w=w)
        return other

    # --- what a model says ------------------------------------------------------------------

    def log_likelihood(self, x: Any) -> float:
        """The log-likelihood of all rows at x, with its constants, as sm.GLM of statsmodels has it.

        The scale of "gaussian" is the one that makes it largest, that of "gamma" Pearson's
        chi²/(n - d), n being the sum of the sample weights. Cox's is partial.
        """
        point = vector("x", x, self.dimension)
        block = self.at(slice(0, self.clients))
        if self._rowwise is None:
            return -float(block.value(point).sum())
        eta = block.design.eta(point)
        return self._rowwise.likelihood(eta, self._rows.y, self._rows.w, self.dimension)


def named_family(family: Any) -> tuple[str, Family | None]:
    """Its name, and what a row's loss is where rows have one linear predictor."""
    if isinstance(family, Huber):
        return family.name, family
    if not isinstance(family, str) or family not in NAMES:
        words = ", ".join(repr(name) for name in NAMES)
        raise ValueError(f"family must be {words} or pdmm.Huber(delta), got {family!r}")
    return family, FAMILIES.get(family)
