"""The clients' rows of a generalised linear model, as they were given and as a run needs them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.arrays import Names
from pdmm.common.changes import Watched
from pdmm.common.matrices import Matrix, dense, is_sparse, largest_entry
from pdmm.common.per_client import (
    Given,
    aligned,
    alongside,
    check_same_count,
    check_same_rows,
    given,
    read_matrices,
    same_columns,
    sizes,
    watch,
)
from pdmm.common.sizes import check_sizes
from pdmm.problems.glm.cox import PartialLikelihood
from pdmm.problems.glm.entries import entries, numbers, refuse_words
from pdmm.problems.glm.outcomes import Outcomes, read_outcomes
from pdmm.problems.glm.risk_sets import Ties

Vector = npt.NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)


@dataclass
class Rows:
    """All clients' rows, one after the other."""

    A: list[Matrix]
    """(n_i, q) for each client, with a column of ones where there is an intercept."""
    y: Vector
    """(N,); of several classes (N, C), 1 where a row is of a class but the reference; times and
    events (N, 2)."""
    w: Vector
    """(N,): sample weights."""
    given: Vector
    """(N,): the offset."""
    starts: npt.NDArray[np.int64]
    """(m + 1,): where each client's rows begin, and the end."""
    columns: Names | None
    features: int
    """How many columns X has."""
    classes: tuple[Any, ...] | None
    kept: tuple[Any, ...]
    """Of several classes, those that have coefficients."""
    likelihoods: list[PartialLikelihood]
    """Of Cox's model, one for each client, whose rows are in its order."""
    watched: tuple[Watched, ...]

    def own(self, i: int) -> slice:
        """Where the i-th client's rows are among all of them."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    def subset(self, chosen: Sequence[Any]) -> "Rows":
        """Some rows of each client, without the clients of which there are none."""
        own = [np.arange(a, b) for a, b in itertools.pairwise(self.starts.tolist())]
        kept = [rows[some] for rows, some in zip(own, chosen, strict=True)]
        there = [i for i, rows in enumerate(kept) if rows.size and self.w[rows].any()]
        if not there:
            raise ValueError("none of the rows that were chosen has a weight")
        everything = np.concatenate([kept[i] for i in there])
        return replace(
            self,
            A=[self.A[i][kept[i] - self.starts[i]] for i in there],
            y=self.y[everything],
            w=self.w[everything],
            given=self.given[everything],
            starts=np.append(0, np.cumsum([kept[i].size for i in there])),
            likelihoods=[],
            watched=(),
        )


def read_rows(
    X: Any,
    y: Any,
    family: str,
    intercept: bool,
    sample_weight: Any,
    offset: Any,
    reference: Any,
    classes: Any = None,
) -> Rows:
    """What the user gave, refused or made what a run needs: float64, ones for the intercept."""
    tables, columns = aligned(given("X", X))
    refuse_words(tables)
    matrices = read_matrices(tables)
    features = same_columns(tables.label, matrices)
    counts = [int(matrix.shape[0]) for matrix in matrices]
    outcomes = _outcomes(tables, matrices, y, family, counts, (reference, classes))
    check_sizes("X", sizes(matrices).astype(np.float64), FLOAT64, tables.label)
    w = _per_row("sample_weight", tables, matrices, sample_weight, counts)
    added = _per_row("offset", tables, matrices, offset, counts)
    if w is not None:
        _check_weights(alongside(tables, given("sample_weight", sample_weight)), w)
    N = sum(counts)
    rows = Rows(
        A=[_with_ones(matrix, intercept, family == "cox") for matrix in matrices],
        y=np.concatenate(outcomes.values),
        w=np.ones(N) if w is None else np.concatenate(w),
        given=np.zeros(N) if added is None else np.concatenate(added),
        starts=np.append(0, np.cumsum(counts)),
        columns=columns,
        features=features,
        classes=outcomes.classes,
        kept=(),
        likelihoods=[],
        watched=(watch(tables.label, matrices),),
    )
    if family == "multinomial":
        _mark_classes(rows, reference)
    return rows


def _mark_classes(rows: Rows, reference: Any) -> None:
    """Put a row of zeros and ones in the place of each class."""
    assert rows.classes is not None
    first = rows.classes[0] if reference is None else reference
    rows.kept = rows.classes
    if reference is not False:
        rows.kept = tuple(label for label in rows.classes if label != first)
    columns = [rows.classes.index(label) for label in rows.kept]
    rows.y = (rows.y[:, None] == columns).astype(np.float64)


def sort_for_cox(rows: Rows, ties: Ties) -> None:
    """Bring each client's rows into the order of its partial likelihood."""
    for i, A in enumerate(rows.A):
        own = slice(int(rows.starts[i]), int(rows.starts[i + 1]))
        found = PartialLikelihood(rows.y[own, 0], rows.y[own, 1], rows.w[own], ties)
        rows.likelihoods.append(found)
        rows.A[i] = _centred(np.asarray(A)[found.order])
        rows.w[own] = rows.w[own][found.order]
        rows.given[own] = rows.given[own][found.order]
        rows.y[own] = rows.y[own][found.order]


def _centred(A: Vector) -> Vector:
    """Columns less their means, which does not change a partial likelihood, where that is exact.

    a - c is exact where a is between c/2 and 2 c (Sterbenz). So it is in all columns whose mean is
    large for their spread, a calendar year for example, which would cost digits as they are.
    """
    c = A.mean(axis=0)
    near = (np.abs(A) <= 2 * np.abs(c)) & (np.abs(c) <= 2 * np.abs(A))
    exact = (near & (np.sign(A) == np.sign(c))).all(axis=0)
    return np.asarray(A - np.where(exact, c, 0.0))


def _outcomes(
    tables: Given,
    matrices: Any,
    y: Any,
    family: str,
    counts: list[int],
    named: tuple[Any, Any],
) -> Outcomes:
    values = alongside(tables, given("y", y))
    check_same_count(tables, matrices, values, values.values)
    check_same_rows(tables, values)
    return read_outcomes(family, values, counts, *named)


def _per_row(
    name: str, tables: Given, matrices: Any, values: Any, counts: list[int]
) -> list[Vector] | None:
    """One number for each row of each client; None where nothing was given."""
    if values is None:
        return None
    found = alongside(tables, given(name, values))
    check_same_count(tables, matrices, found, found.values)
    check_same_rows(tables, found)
    each = []
    for i, count in enumerate(counts):
        array = entries(found.label(i), found.values[i])
        if array.shape != (count,):
            raise ValueError(
                f"{found.label(i)} has shape {array.shape}, but client {i} has {count} rows"
            )
        each.append(numbers(found.label(i), array))
    check_sizes(name, np.array([largest_entry(own) for own in each]), FLOAT64, found.label)
    return each


def _check_weights(given_weights: Given, w: list[Vector]) -> None:
    for i, own in enumerate(w):
        if (own < 0).any():
            row = int((own < 0).argmax())
            raise ValueError(
                f"{given_weights.label(i)} has {own[row]:g} in row {row}: weights are not negative"
            )
        if not own.any():
            raise ValueError(
                f"{given_weights.label(i)} adds up to 0: leave the client out, or give one of its "
                "rows a weight"
            )


def _with_ones(matrix: Matrix, intercept: bool, full: bool) -> Matrix:
    """[X 1] in float64, a copy; without the ones where there is no intercept."""
    if full:
        matrix = dense(matrix)
    wide = matrix.astype(np.float64)
    if not intercept:
        return wide
    ones = np.ones((matrix.shape[0], 1))
    if is_sparse(matrix):
        return sparse.hstack([wide, sparse.csr_array(ones)], format="csr")
    return np.column_stack([wide, ones])
