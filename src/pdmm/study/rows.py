"""A site's rows as a model needs them, and what its policy says of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.engines.sites.roster import TableError
from pdmm.privacy.audit import EVALUATION, FITS
from pdmm.privacy.contents import usual_rows
from pdmm.privacy.doors import Doors
from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Reason
from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.problem import GLM
from pdmm.study import lonely_rows
from pdmm.tables import evaluation, predicting
from pdmm.tables.client_table import Rows
from pdmm.tables.design import Table, build
from pdmm.tables.encoding import Encoding
from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]


class Extra(NamedTuple):
    """The expressions of a fit beside its formula."""

    offset: str | None
    weights: str | None


def family_of(name: str, delta: float | None) -> Any:
    """A family as a problem takes it."""
    return name if delta is None else Huber(float(delta))


def table_of(
    rows: Rows,
    encoding: Encoding,
    family: Any,
    ties: str,
    reference: Any,
    doors: Doors,
    part: str = FITS,
    counts: bool = False,
) -> Table:
    """The site's rows as a problem, unless its policy refuses them.

    Args:
        rows: encoded.
        encoding: how.
        family: of the model.
        ties: of Cox's model.
        reference: the class of a multinomial model that has no coefficients.
        doors: the policy at work, which sees the points that are asked about from here on.
        part: which rows of the site these are.
        counts: whether a refusal counts, as where the formula makes columns of its own.
    """
    name = getattr(family, "name", family)
    try:
        table = build({"here": rows}, encoding, family, ties, reference, somewhere=True)
    except ValueError as error:
        # What a problem says of a row quotes it, and stays in the site's own error log.
        raise TableError(
            f"its rows do not suit the family {name!r}: an outcome, a weight or an offset of some "
            "row is not what it must be",
            counts=True,
        ) from error
    table.problem.encoded = len(encoding.formula.outcome)
    for reason in doors.objections(table.problem, part):
        raise Reason(reason, counts=counts)
    doors.watch_over(table.problem)
    return table


def added_columns(rows: Rows, encoding: Encoding, extra: Extra) -> Iterator[tuple[str, Vector]]:
    """What rows have beside the columns of a model: outcomes, offset, weights, by expression."""
    outcomes = np.asarray(rows.y, dtype=np.float64).reshape(len(rows.X), -1)
    yield from zip(encoding.formula.outcome, outcomes.T, strict=True)
    if extra.offset is not None and rows.offset is not None:
        yield extra.offset, rows.offset
    if extra.weights is not None and rows.weights is not None:
        yield extra.weights, rows.weights


def of_formula(rows: Rows, encoding: Encoding, extra: Extra) -> Vector:
    """(n, q): all that a formula makes of a table, of which a combination may be about one row.

    An outcome that is a column of the table stays out: nobody has chosen what it is like.
    """
    own = [
        values
        for text, values in added_columns(rows, encoding, extra)
        if lonely_rows.is_made(text, encoding.columns)
    ]
    return np.column_stack([rows.X, *own])


def check_rows(rows: Rows, encoding: Encoding, extra: Extra, policy: Policy) -> None:
    """Refuse rows of which a formula singles some out."""
    for text, values in added_columns(rows, encoding, extra):
        lonely_rows.check_exceptions(values, policy, repr(text))
    table = of_formula(rows, encoding, extra)
    lonely_rows.check_shares(table, rows.weights, policy, "what the formula makes of the table")


def judged_rows(stored: Stored, frame: pd.DataFrame, doors: Doors) -> tuple[pd.DataFrame, GLM]:
    """Rows on which a model is evaluated, and the problem that they make.

    Rows with a missing entry, or with a level that the model does not know, cannot be judged. Rows
    with a rare value, or a rare combination of values, are left out: a model can be made such that
    what is said of its predictions is about these alone.
    """
    extra = Extra(stored.offset, stored.weights)
    try:
        frame = frame[evaluation.complete_rows(stored, frame)]
        frame = frame[_known(stored, frame)]
        design = predicting.design_matrix(stored, frame)
        # Cox's model has no intercept, whose place in the encoding is left as it was.
        X = design.reindex(columns=list(stored.encoding.names), fill_value=1.0).to_numpy()
        usual = usual_rows(X, doors.policy.min_rows_per_level, doors.policy.min_rows_per_cell)
        frame, rows = _judged(stored, frame[usual], X[usual])
        made = of_formula(rows, stored.encoding, extra)
        usual = lonely_rows.usual(made, rows.weights, doors.policy)
        frame, rows = _judged(stored, frame[usual], rows.X[usual])
        if not len(frame):
            raise ValueError("no row is left without values that are rare at this site")
    except ValueError as error:
        raise TableError(_safe(error)) from error
    for text, values in added_columns(rows, stored.encoding, extra):
        if lonely_rows.is_made(text, stored.encoding.columns):
            lonely_rows.check_exceptions(values, doors.policy, repr(text))
    table = table_of(
        rows,
        stored.encoding,
        family_of(stored.family, stored.delta),
        stored.ties,
        _reference(stored),
        doors,
        EVALUATION,
    )
    return frame, table.problem


def _reference(stored: Stored) -> Any:
    """The class of a multinomial model that has no coefficients, or False where each has some."""
    if stored.family != "multinomial":
        return None
    classes = stored.encoding.classes or ()
    return next((label for label in classes if label not in stored.layout.classes), False)


def _judged(stored: Stored, frame: pd.DataFrame, X: Vector) -> tuple[pd.DataFrame, Rows]:
    """Rows as a problem takes them."""
    parts = [evaluation.outcome(stored, frame, k) for k in range(len(stored.formula.outcome))]
    y = parts[0] if len(parts) == 1 else np.column_stack(parts)
    weights = None if stored.weights is None else evaluation.row_weights(stored, frame)
    offset = None if stored.offset is None else predicting.offset(stored, frame)
    return frame, Rows(X, y.astype(int) if stored.family == "multinomial" else y, weights, offset)


def _known(stored: Stored, frame: pd.DataFrame) -> Any:
    """Which rows have levels that the model knows."""
    encoding = stored.encoding
    read = encoding.read_new(frame, predicting.right_columns(stored))
    kept = pd.Series(True, index=frame.index)
    for factor, levels in encoding.levels.items():
        labels = encoding.labels(factor, read)
        if labels is not None:
            kept &= labels.isin(list(levels))
    if not kept.any():
        raise ValueError("no row has levels that the model knows")
    return kept


def _safe(error: ValueError) -> str:
    """What others may read of an error about columns; none of these texts quotes a row."""
    text = str(error)
    safe = ("the table has no column", "column ", "no row")
    return text if text.startswith(safe) else "its rows cannot be evaluated by this model"
