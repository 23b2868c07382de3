"""What the sites of a federation have: common columns, kinds, levels, rows, missing entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from pdmm.tables.columns import Column, agree, sorted_levels


@dataclass(frozen=True)
class Description:
    """The tables of all sites, as far as their policies tell."""

    sites: tuple[str, ...]
    rows: int | None
    """Of all sites together; None where a policy does not tell it."""
    columns: pd.DataFrame
    """A row for each column that all sites have: its kind, its levels, and the share of rows in
    which it has no entry."""
    elsewhere: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns that only some sites have, with the sites that have them."""
    site_rows: dict[str, int] | None = None
    """For each site, where all policies allow results of single sites."""
    choices: tuple[str, ...] = ()
    """How the sites were asked, a sentence each."""

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows:,} rows"
        return f"Description({len(self.sites)} sites{rows}, {len(self.columns)} common columns)"


def common_columns(kinds: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The columns that all sites have, in the order of the first."""
    first = next(iter(kinds.values()), {})
    return [name for name in first if all(name in own for own in kinds.values())]


def columns_elsewhere(kinds: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """The columns that only some sites have, with these."""
    common = set(common_columns(kinds))
    every = dict.fromkeys(name for own in kinds.values() for name in own)
    return {
        name: tuple(site for site, own in kinds.items() if name in own)
        for name in every
        if name not in common
    }


def kind_in_words(name: str, each: Mapping[str, str]) -> str:
    """What all sites would read a column as, or that they do not agree."""
    try:
        found = agree(name, {site: Column(kind, 0) for site, kind in each.items()})
    except ValueError:
        told = sorted({f"{kind} at {site}" for site, kind in each.items()})
        return "differs: " + ", ".join(told)
    words = {"float": "number", "int": "whole number", "bool": "true/false", "label": "category"}
    return words[found.kind]


def united_levels(each: Mapping[str, list[Any]], rare: list[str]) -> str:
    """The union of the levels that sites have told."""
    union = sorted_levels([level for levels in each.values() for level in levels], None)
    told = ", ".join(map(str, union))
    return f"{told} and rare ones" if rare else told
