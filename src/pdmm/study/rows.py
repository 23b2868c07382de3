"""A site's rows as a model needs them, and what its policy says of them."""

from typing import Any

import pandas as pd

from pdmm.engines.sites.roster import TableError
from pdmm.privacy.audit import EVALUATION, FITS
from pdmm.privacy.contents import usual_rows
from pdmm.privacy.doors import Doors
from pdmm.privacy.refusals import Reason
from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.problem import GLM
from pdmm.tables import evaluation, predicting
from pdmm.tables.client_table import Rows
from pdmm.tables.design import Table, build
from pdmm.tables.encoding import Encoding
from pdmm.tables.stored import Stored


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
    """
    name = getattr(family, "name", family)
    try:
        table = build({"here": rows}, encoding, family, ties, reference, somewhere=True)
    except ValueError:
        # What a problem says of a row quotes it.
        raise TableError(
            f"its rows do not suit the family {name!r}: an outcome, a weight or an offset of some "
            "row is not what it must be"
        ) from None
    table.problem.encoded = True
    for reason in doors.objections(table.problem, part):
        raise Reason(reason, counts=False)
    doors.watch_over(table.problem)
    return table


def judged_rows(stored: Stored, frame: pd.DataFrame, doors: Doors) -> tuple[pd.DataFrame, GLM]:
    """Rows on which a model is evaluated, and the problem that they make.

    Rows with a missing entry, or with a level that the model does not know, cannot be judged. Rows
    with a rare value, or a rare combination of values, are left out: a model can be made such that
    what is said of its predictions is about these alone.
    """
    try:
        frame = frame[evaluation.complete_rows(stored, frame)]
        frame = frame[_known(stored, frame)]
        X = predicting.design_matrix(stored, frame)[list(stored.encoding.names)].to_numpy()
        usual = usual_rows(X, doors.policy.min_rows_per_level, doors.policy.min_rows_per_cell)
        frame, X = frame[usual], X[usual]
        if not len(frame):
            raise ValueError("no row is left without values that are rare at this site")
        parts = [evaluation.outcome(stored, frame, k) for k in range(len(stored.formula.outcome))]
        weights = None if stored.weights is None else evaluation.row_weights(stored, frame)
        offset = None if stored.offset is None else predicting.offset(stored, frame)
    except ValueError as error:
        raise TableError(_safe(error)) from None
    y = parts[0] if len(parts) == 1 else pd.DataFrame(parts).T.to_numpy()
    classes = stored.encoding.classes or ()
    left = [label for label in classes if label not in stored.layout.classes]
    several = stored.family == "multinomial"
    table = table_of(
        Rows(X, y.astype(int) if several else y, weights, offset),
        stored.encoding,
        family_of(stored.family, stored.delta),
        stored.ties,
        (left[0] if left else False) if several else None,
        doors,
        EVALUATION,
    )
    return frame, table.problem


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
