"""What a site's policy allows of questions about its table, before there are any functions."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Reason
from pdmm.privacy.table_limits import listed

Vector = npt.NDArray[np.float64]


def check_columns(wanted: Iterable[str], policy: Policy, label: str | None) -> None:
    """Refuse columns that studies may not use."""
    if label is not None and not policy.per_site_results:
        raise Reason(
            f"the column {label!r} tells the sites apart, and per_site_results is false",
            counts=False,
        )
    if policy.columns is None:
        return
    more = sorted({name for name in wanted if name != label} - set(policy.columns))
    if more:
        raise Reason(f"columns does not allow {listed(more)}", counts=False)


def check_family(family: str, policy: Policy) -> None:
    """Refuse a family that the policy does not allow."""
    if policy.families is not None and family not in policy.families:
        raise Reason(f"the family is {family}, and families allows {listed(policy.families)}")


def check_enough(rows: int, policy: Policy, what: str) -> None:
    """Refuse a sum over few rows."""
    if rows < policy.min_rows:
        raise Reason(
            f"{what} is about {rows} rows, and min_rows is {policy.min_rows}", counts=False
        )


def check_left_out(rows: int, policy: Policy) -> None:
    """Refuse an expression that has no value for a few rows: how many there are tells them."""
    if 0 < rows < policy.min_rows_per_level:
        raise Reason(
            f"an expression has no value for {rows} rows that have all entries, and "
            f"min_rows_per_level is {policy.min_rows_per_level}"
        )


def check_weightless(rows: int, policy: Policy) -> None:
    """Refuse weights that take a few rows out: the same fit with these rows tells them."""
    if 0 < rows < policy.min_rows_per_level:
        raise Reason(
            f"the weights are 0 in {rows} rows, and min_rows_per_level is "
            f"{policy.min_rows_per_level}"
        )


def check_spread(values: Vector, policy: Policy) -> None:
    """Refuse a sum over values that are the same for all but a few rows: it is about these."""
    if len(values) < policy.min_rows:
        check_enough(len(values), policy, "a mean")
    counts = np.unique(values, return_counts=True)[1]
    others = len(values) - int(counts.max(initial=0))
    if 0 < others < policy.min_rows_per_level:
        raise Reason(
            f"a mean is about an expression that differs in {others} rows alone, and "
            f"min_rows_per_level is {policy.min_rows_per_level}"
        )
