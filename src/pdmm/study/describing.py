"""What a site says of its table before any fit, as its policy allows."""

from typing import Any

import numpy as np
import pandas as pd

from pdmm.privacy.policy import DESCRIBES, Policy
from pdmm.privacy.refusals import Reason
from pdmm.study.questions import Payload
from pdmm.tables.columns import describe

MOST_LEVELS = 50  # of a category; more are names, not levels


def columns_of(frame: pd.DataFrame, policy: Policy) -> Payload:
    """The columns and their kinds, and of each category its levels that are not rare."""
    tells = [what for what in DESCRIBES if policy.describes is None or what in policy.describes]
    reply: Payload = {"tells": tells, "columns": {}, "levels": {}, "rare": []}
    if "columns" not in tells:
        return reply
    for name in frame:
        kind = describe(frame[name]).kind
        reply["columns"][str(name)] = kind
        if "levels" in tells:
            _levels(str(name), frame[name], kind, policy, reply)
    return reply


def _levels(name: str, column: "pd.Series[Any]", kind: str, policy: Policy, reply: Payload) -> None:
    """Add the levels of a column, if it is a category."""
    if kind not in ("text", "label", "bool"):
        return
    counts = column.value_counts()
    counts = counts[counts > 0]
    if len(counts) > MOST_LEVELS:
        return
    usual = counts[counts >= policy.min_rows_per_level]
    reply["levels"][name] = [_plain(level) for level in usual.index]
    if len(usual) < len(counts):
        reply["rare"].append(name)


def _plain(level: Any) -> Any:
    return level.item() if isinstance(level, np.generic) else level


def row_sums(frame: pd.DataFrame, payload: Payload, policy: Policy) -> Payload:
    """How many rows there are, and in how many of them each column has no entry."""
    allowed = policy.describes
    wanted = [str(name) for name in payload["columns"]]
    asked = ["rows", *(["missing"] if wanted else [])]
    for what in asked:
        if allowed is not None and what not in allowed:
            raise Reason(f"{what} are asked for, and describes does not allow that", counts=False)
    if len(frame) < policy.min_rows:
        raise Reason(f"the table has {len(frame)} rows, and min_rows is {policy.min_rows}")
    lacking = [float(frame[name].isna().sum()) for name in wanted]
    return {"sums": {"rows": float(len(frame)), "missing": np.array(lacking)}}
