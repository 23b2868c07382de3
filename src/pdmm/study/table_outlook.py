"""What a policy would allow of a table: for a data officer, before any study asks."""

from typing import Any, NamedTuple

import pandas as pd

from pdmm.privacy.contents import DISCRETE
from pdmm.privacy.policy import Policy
from pdmm.study.describing import MOST_LEVELS
from pdmm.study.held_table import HeldTable
from pdmm.tables.columns import WORDS, describe

KINDS = {
    "float": "number",
    "int": "whole number",
    "bool": "true/false",
    "text": "category",
    "label": "category",
    "digits": "category of digits",
    "empty": "empty",
    **{kind: WORDS[kind] for kind in ("date", "mixed")},
}


class ColumnOutlook(NamedTuple):
    """One column, and what a study may do with it."""

    name: str
    kind: str
    missing: float
    """The share of rows without an entry."""
    levels: int | None
    """How many values a discrete column has; None for others."""
    rarest: int | None
    """Rows with the rarest of these values."""
    remark: str
    """What a study should know; empty where it may use the column as it is."""


class TableOutlook(NamedTuple):
    """What a policy says of a table."""

    rows: int
    """That fits are about."""
    aside: int
    """That are set aside for evaluation."""
    columns: list[ColumnOutlook]
    objections: list[str]
    """Why no study may ask about the table; none if one may."""


def table_outlook(held: HeldTable, policy: Policy) -> TableOutlook:
    """See what a policy would allow of a site's table, whatever the model.

    Args:
        held: the table as a study would find it.
        policy: what the site allows.
    """
    frame = held.for_fits
    return TableOutlook(
        rows=len(frame),
        aside=len(held.for_evaluation),
        columns=[_column(str(name), frame[name], policy) for name in frame],
        objections=_objections(len(frame), policy),
    )


def _objections(rows: int, policy: Policy) -> list[str]:
    if rows >= policy.min_rows:
        return []
    return [f"fits are about {rows:,} rows, and min_rows is {policy.min_rows:,}"]


def _column(name: str, column: "pd.Series[Any]", policy: Policy) -> ColumnOutlook:
    kind = describe(column).kind
    counts = column.value_counts()
    counts = counts[counts > 0]
    category = kind in ("text", "label", "digits", "bool")
    discrete = bool(len(counts)) and (category or len(counts) <= DISCRETE)
    rarest = int(counts.min()) if discrete else None
    return ColumnOutlook(
        name=name,
        kind=KINDS[kind],
        missing=float(column.isna().mean()) if len(column) else 0.0,
        levels=len(counts) if discrete else None,
        rarest=rarest,
        remark=_remark(name, kind, len(counts), rarest, policy),
    )


def _remark(name: str, kind: str, levels: int, rarest: int | None, policy: Policy) -> str:
    """What stands in the way of a study that uses a column."""
    if policy.columns is not None and name not in policy.columns:
        return "the policy's columns do not name it"
    if kind == "empty":
        return "no row has an entry"
    if kind in ("date", "mixed"):
        return "no model can use it: make it numbers or text"
    if levels == 1:
        return "it is the same in all rows"
    if kind in ("text", "label") and levels > MOST_LEVELS:
        return f"{levels:,} levels: these look like names"
    if rarest is None or rarest >= policy.min_rows_per_level:
        return ""
    fewer = f"fewer than {policy.min_rows_per_level} rows with its rarest value"
    if kind in ("text", "label") and policy.rare_levels == "merge":
        return f"{fewer}: rare levels are merged"
    return f"{fewer}: studies with it are refused"
