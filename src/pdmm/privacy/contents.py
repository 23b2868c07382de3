"""What a site's table is like, as far as a policy asks: rows, columns, values that are rare."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.matrices import Matrix, dense
from pdmm.problems.base import Problem

DISCRETE = 10  # values that a column has at most, to count as discrete
LOOK = 1000  # rows in which a column that is not discrete mostly shows more values

Vector = npt.NDArray[np.float64]


class Contents(NamedTuple):
    """What is known of the rows of a site: where clients differ, of the one that is worst off."""

    known: bool
    """Whether the problem knows its rows."""
    rows: int
    """Of all clients."""
    columns: int
    """That are not constant, at the client that has the fewest; at least one."""
    fewest: int
    """Rows of the smallest client, or of its mini-batch."""
    rarest_level: int | None
    """Rows with the rarest value of a discrete column; None where no column is discrete."""
    rarest_column: int
    """Which column that is."""
    rarest_cell: int | None
    """Rows with the rarest combination of the values of all discrete columns."""

    @property
    def size(self) -> int:
        """Numbers in the table."""
        return self.rows * self.columns


def whole_table(rows: int, columns: int) -> Contents:
    """What is known of a table before any study has said which columns it needs."""
    return Contents(True, rows, columns, rows, None, 0, None)


def usual_rows(table: Matrix, level: int, cell: int) -> npt.NDArray[np.bool_]:
    """The rows whose values, and combinations of values, of discrete columns are not rare.

    Args:
        table: of one client.
        level: rows in which a value of a discrete column must stand.
        cell: rows in which a combination of the values of all discrete columns must stand.
    """
    kept = np.ones(table.shape[0], dtype=bool)
    while kept.any():
        common = _common(table[kept], level, cell)
        if common.all():
            return kept
        kept[np.flatnonzero(kept)[~common]] = False  # what is left may be rare by now
    return kept


def _common(table: Matrix, level: int, cell: int) -> npt.NDArray[np.bool_]:
    """The rows of a table that have no value, and no combination of values, that is rare in it."""
    n, width = table.shape
    common = np.ones(n, dtype=bool)
    codes = []
    for j in range(width):
        column = _column(table, j)
        values, code, counts = np.unique(column, return_inverse=True, return_counts=True)
        if _levels(column) is not None:
            common &= counts[code] >= level
            codes.append(code)
        elif 2 * off_the_mode(column) < n and off_the_mode(column) < level:
            common &= column == values[counts.argmax()]
    if codes:
        cells = _cells(codes, n)
        common &= np.bincount(cells)[cells] >= cell
    return common


def contents_of(problem: Problem, rows: int = 0, columns: int = 0) -> Contents:
    """Look at a problem's table.

    Args:
        problem: of a site.
        rows: what the site's policy states, of a problem that does not know them.
        columns: likewise.
    """
    tables = problem.tables()
    if tables is None:
        return _uncounted(problem, rows, columns)
    batch = getattr(problem, "batch_size", None)
    counts = [int(table.shape[0]) for table in tables]
    looked = [_looked(table) for table in tables]
    levels = [(rare, column) for rare, column, _, _ in looked if rare is not None]
    cells = [cell for _, _, cell, _ in looked if cell is not None]
    rare, column = min(levels, default=(None, 0))
    return Contents(
        known=True,
        rows=sum(counts),
        columns=max(1, min(varying for _, _, _, varying in looked)),
        fewest=min(counts) if batch is None else min(batch, *counts),
        rarest_level=rare,
        rarest_column=column,
        rarest_cell=min(cells, default=None),
    )


def _uncounted(problem: Problem, rows: int, columns: int) -> Contents:
    """Of a problem whose rows are not at hand: what it knows of them, or else what was stated."""
    counts = getattr(problem, "samples", None)
    if counts is None:
        return Contents(False, rows, columns, rows // problem.clients, None, 0, None)
    fewest = int(getattr(problem, "smallest_batch", np.min(counts)))
    width = int(getattr(problem, "sample_size", problem.dimension))
    return Contents(True, int(np.sum(counts)), width, fewest, None, 0, None)


class _Looked(NamedTuple):
    rarest_level: int | None
    column: int
    rarest_cell: int | None
    varying: int


def _looked(table: Matrix) -> _Looked:
    """What one client's table is like."""
    n, width = table.shape
    varying = 0
    rarest: tuple[int, int] | None = None
    codes: list[npt.NDArray[np.int64]] = []
    for j in range(width):
        column = _column(table, j)
        found = _levels(column)
        if found is not None and len(found) == 1:
            continue
        varying += 1
        rare = off_the_mode(column) if found is None else int(found.min())
        if found is not None:
            codes.append(np.unique(column, return_inverse=True)[1])
        if found is not None or 2 * rare < n:
            rarest = min(rarest or (rare, j), (rare, j))
    cell = _rarest_cell(codes, n)
    if rarest is None:
        return _Looked(None, 0, cell, varying)
    return _Looked(rarest[0], rarest[1], cell, varying)


def _column(table: Matrix, j: int) -> Vector:
    return np.asarray(dense(table[:, [j]])).ravel()


def _levels(column: Vector) -> npt.NDArray[np.int64] | None:
    """How often each value of a discrete column stands there; None if it is not discrete."""
    if len(np.unique(column[:LOOK])) > DISCRETE:
        return None
    counts = np.unique(column, return_counts=True)[1]
    return None if len(counts) > DISCRETE else counts


def off_the_mode(column: Vector) -> int:
    """Rows that do not have the most frequent value: a column may be 0 nearly everywhere."""
    return len(column) - int(np.unique(column, return_counts=True)[1].max())


def _rarest_cell(codes: Sequence[npt.NDArray[np.int64]], rows: int) -> int | None:
    if not codes:
        return None
    return int(np.bincount(_cells(codes, rows)).min())


def _cells(codes: Sequence[npt.NDArray[np.int64]], rows: int) -> npt.NDArray[np.int64]:
    """For each row, a number for the combination of its values."""
    cell = np.zeros(rows, dtype=np.int64)
    for code in codes:
        # Numbered anew after each column, so that the numbers stay small.
        cell = np.unique(cell * (DISCRETE + 1) + code, return_inverse=True)[1]
    return cell
