"""The coefficients as rows of a table: numbers, and how they are put on one axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pdmm.tables.page.words import ratio_name

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

USUAL = 3.0  # a logarithm of a ratio, 20: nobody thinks in ratios of millions
SMALL = 0.01  # and nobody in ratios of 1.001
PARTS = 3  # how much worse a part of a unit is to think of than several
READABLE = 0.1  # a row whose interval ends below this share of the axis says nothing on it


@dataclass(frozen=True)
class Estimate:
    """A coefficient, with NaN for what a penalised fit does not have."""

    group: str
    """Of a multinomial model, the class."""
    name: str
    value: float
    error: float
    z: float
    p: float
    low: float
    high: float
    level: bool
    """Whether it belongs to a level of a category, and not to a number with a unit."""
    units: float = 1.0
    """The plot shows the effect of so many units."""

    @property
    def intercept(self) -> bool:
        """Whether it is one."""
        return self.name == "Intercept"

    @property
    def label(self) -> str:
        """Its name, with its class where there are several."""
        return f"{self.group}: {self.name}" if self.group else self.name

    @property
    def reach(self) -> float:
        """How far from 0 its interval goes."""
        ends = [abs(end) for end in (self.value, self.low, self.high) if math.isfinite(end)]
        return max(ends, default=0.0)


def estimates(fit: "Fit") -> list[Estimate]:
    """A row for each coefficient, in the order of a summary, with its units on the plot."""
    count = len(fit.params)
    values = fit.params.to_numpy()
    errors = np.full(count, np.nan)
    inside = np.full((count, 2), np.nan)
    z = p = errors
    if not fit.why_no_errors:
        errors = fit.bse.to_numpy()
        inside = fit.conf_int().to_numpy()
        z = fit.tvalues.to_numpy()
        p = fit.pvalues.to_numpy()
    layout = fit.stored.layout
    groups = layout.classes or ("",)
    names = [(str(group), name) for group in groups for name in layout.columns]
    found = [
        Estimate(
            group=group,
            name=name,
            value=float(values[j]),
            error=float(errors[j]),
            z=float(z[j]),
            p=float(p[j]),
            low=float(inside[j, 0]),
            high=float(inside[j, 1]),
            level=_is_level(name, list(fit.levels)),
        )
        for j, (group, name) in enumerate(names)
    ]
    return _with_units(found, ratio_name(fit) is not None)


def _is_level(name: str, factors: Sequence[str]) -> bool:
    """Whether a column is of zeros and ones: a level, or a product of levels."""
    if not any(name.startswith(f"{factor}[") for factor in factors):
        return False
    return name.endswith("]") and "]:" not in name.replace("]:C(", "")


def _with_units(found: list[Estimate], ratio: bool) -> list[Estimate]:
    """Choose units that are powers of ten, so that effects of very different size fit one axis.

    Coefficients depend on the unit of their column: that of an age in years looks like nothing
    beside that of a sex. Most rows stay as they are; a level of a category always does, as it has
    no unit.
    """
    shown = [row for row in found if not row.intercept and row.reach > 0]
    limits = [row.reach for row in shown if not ratio or SMALL <= row.reach <= USUAL] or [USUAL]
    most = min(limits, key=lambda limit: (_changed(shown, limit), -limit))
    return [replace(row, units=_units(row, most)) for row in found]


def _changed(rows: list[Estimate], limit: float) -> int:
    """How many rows an axis up to a limit would put in other units, parts of them counted more."""
    larger = sum(1 for row in rows if row.reach > limit)
    smaller = sum(1 for row in rows if row.reach < READABLE * limit)
    return PARTS * larger + smaller


def _units(row: Estimate, most: float) -> float:
    if row.intercept or row.level or row.reach == 0:
        return 1.0
    if row.reach > most:
        return 10.0 ** math.floor(math.log10(most / row.reach))
    if row.reach < READABLE * most:
        return 10.0 ** math.ceil(math.log10(READABLE * most / row.reach))
    return 1.0
