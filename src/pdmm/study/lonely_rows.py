"""Whether an expression of a formula is about one row, or a few, of a site's table."""

import re
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from pdmm.privacy.contents import off_the_mode
from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Reason

Vector = npt.NDArray[np.float64]

MOST_TURNS = 5  # of leaving out rows, of which honest columns need one or two
NOTHING = 1e-13  # what is left of a column, over its length, that others explain


def shares(columns: Vector, weights: Vector | None = None) -> Vector:
    """(n,): each row's leverage, its largest share in any combination of columns and a constant.

    It is 1 for a row that some combination tells from all others, however the formula hides that.

    >>> import numpy as np
    >>> age = np.array([40.0, 50, 60, 70, 93])
    >>> alone = np.where(age == 93, age + 1e-3, age)
    >>> shares(np.column_stack([age, alone])).round(2).tolist()
    [0.7, 0.3, 0.3, 0.7, 1.0]
    """
    table = np.column_stack([np.ones(len(columns)), columns])
    table /= np.where(table.any(axis=0), np.abs(table).max(axis=0), 1.0)
    if weights is not None:
        table *= np.sqrt(weights / weights.max())[:, None]
    length = np.sqrt((table * table).sum(axis=0))
    basis, triangle = np.linalg.qr(table / np.where(length > 0, length, 1.0))
    turn, left, _ = qr(triangle, pivoting=True)  # of columns that others explain, nothing is left
    kept = np.abs(np.diag(left)) > NOTHING
    return np.asarray(((basis @ turn[:, kept]) ** 2).sum(axis=1))


def check_shares(columns: Vector, weights: Vector | None, policy: Policy, what: str) -> None:
    """Refuse columns of which some combination is about one row alone."""
    if policy.max_row_share >= 1:
        return
    largest = float(shares(columns, weights).max(initial=0.0))
    if not largest <= policy.max_row_share:
        raise Reason(
            f"one row has a share of {largest:.6g} in a combination of {what}, and max_row_share "
            f"is {policy.max_row_share:g}"
        )


def check_exceptions(values: Vector, policy: Policy, what: str) -> None:
    """Refuse numbers that are the same for all but a few rows: what is said is about these."""
    others = off_the_mode(values)
    few = 2 * others < len(values) and 0 < others < policy.min_rows_per_level
    if few:
        raise Reason(
            f"{what} is the same in all but {others} rows, and min_rows_per_level is "
            f"{policy.min_rows_per_level}"
        )


def usual(columns: Vector, weights: Vector | None, policy: Policy) -> npt.NDArray[np.bool_]:
    """Which rows are left once those are out that a combination of columns is about alone."""
    kept = np.ones(len(columns), dtype=bool)
    if policy.max_row_share >= 1:
        return kept
    for _ in range(MOST_TURNS):
        own = None if weights is None else weights[kept]
        alone = shares(columns[kept], own) > policy.max_row_share
        if not alone.any():
            return kept
        kept[np.flatnonzero(kept)[alone]] = False  # of what is left, another may stand alone
    raise Reason("whatever rows are left out, the model's columns are about one of the others")


def is_made(expression: str, columns: Iterable[str]) -> bool:
    """Whether an expression is more than a column: whoever asks has chosen what it is like.

    >>> is_made("C(sex, Sum)", ["sex"]), is_made("I(age > 92.5)", ["age"])
    (False, True)
    """
    plain = re.sub(r"^C\((.*?)(,.*)?\)$", r"\1", expression.strip()).strip("` ")
    return plain not in set(columns)
