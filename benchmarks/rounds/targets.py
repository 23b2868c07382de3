"""What was asked of the methods, and whether the measurements meet it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.rounds.columns import Row

# Rounds to a gap of 1e-6 of the first on the synthetic problems: what a prototype needed in a
# full metric, and what full auto needed when methods had vectors alone.
FULL = {
    "ill-conditioned": 7,
    "very ill-conditioned": 7,
    "singular F": 7,
    "two clients": 16,
    "1000 clients": 9,
    "polynomial": 18,
    "power law": 13,
    "sensor network": 27,
    "d > all rows": 7,
    "4 to 2000 rows": 14,
}
VECTORS = {
    "paper": 4,
    "iid": 4,
    "iid, bad columns": 13,
    "different optima": 7,
    "hard clients, easy F": 16,
    "scales": 15,
    "ill-conditioned": 50,
    "very ill-conditioned": 69,
    "wide clients": 16,
    "singular F": 43,
    "two clients": 22,
    "softmax": 30,
    "1000 clients": 38,
    "polynomial": 213,
    "power law": 43,
    "one outlier": 11,
    "duplicates": 18,
    "sensor network": 60,
    "d > all rows": 27,
    "logistic mixture": 15,
    "log-cosh": 18,
    "Huber": 11,
    "softmax, bad scales": 79,
    "4 to 2000 rows": 26,
}


class Verdict(NamedTuple):
    """A target, whether it is met, and what was measured."""

    asked: str
    word: str
    found: str


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """All of them; a target without any measurement is said to be open."""
    real = [row for row in rows if not row.goal.synthetic]
    synthetic = [row for row in rows if row.goal.synthetic]
    likelihoods = [row for row in real if row.goal.l2 == 0 or row.goal.l2 >= 1]
    ratios = [row for row in real if not np.isnan(row.ratio)]
    middle = float(np.median([row.ratio for row in ratios])) if ratios else np.nan
    better = [min(row.ratio, 1.0) for row in ratios]
    return [
        _limit("Newton, tables with l2 = 0 or at least 1: at most 12", likelihoods, "Newton", 12),
        _limit("PDMM in each client's own metric, tables: at most 40", real, "PDMM, own", 40),
        _most("the same: at most 15 on most", real, "PDMM, own", 15),
        _where(
            '"diagonal", tables: at most 3 times L-BFGS on equally treated data',
            ratios,
            lambda row: row.ratio <= 3,
            lambda row: f"{row.ratio:.1f}",
        ),
        Verdict(
            "the same: a median of at most 1.1",
            _word(middle <= 1.1) if ratios else "open",
            f"{middle:.2f}; {np.median(better):.2f} if the better of both were chosen"
            if ratios
            else "not measured",
        ),
        _where(
            '"full", synthetic problems, to 1e-6: at most as a prototype in a full metric, or as '
            "many as with vectors alone",
            [row for row in synthetic if not row.by["auto, full"].refused],
            lambda row: _coarse(row, "auto, full") <= full_limit(row.goal.name),
            lambda row: f"{_coarse(row, 'auto, full'):g}",
        ),
        _where(
            '"none", synthetic problems, to 1e-6: no more than in docs/auto_results.md',
            synthetic,
            lambda row: _coarse(row, "auto, none") <= VECTORS[row.goal.name],
            lambda row: f"{_coarse(row, 'auto, none'):g}",
        ),
    ]


def full_limit(name: str) -> int:
    """Rounds with a full metric; the easy problems need as many as without one."""
    return FULL.get(name, VECTORS[name])


def _coarse(row: Row, column: str) -> float:
    rounds = row.by[column].coarse
    return np.inf if rounds is None else rounds


def _limit(asked: str, rows: Sequence[Row], column: str, most: int) -> Verdict:
    there = [row for row in rows if not row.by[column].refused]
    return _where(
        asked,
        there,
        lambda row: row.by[column].number <= most,
        lambda row: str(row.by[column]),
    )


def _most(asked: str, rows: Sequence[Row], column: str, most: int) -> Verdict:
    there = [row for row in rows if not row.by[column].refused]
    if not there:
        return Verdict(asked, "open", "not measured")
    good = sum(row.by[column].number <= most for row in there)
    return Verdict(asked, _word(2 * good > len(there)), f"on {good} of {len(there)}")


def _where(
    asked: str,
    rows: Sequence[Row],
    good: Callable[[Row], bool],
    told: Callable[[Row], str],
) -> Verdict:
    if not rows:
        return Verdict(asked, "open", "not measured")
    bad = [row for row in rows if not good(row)]
    missed = ", ".join(f"{row.goal.name} ({told(row)})" for row in bad)
    found = f"on {len(rows) - len(bad)} of {len(rows)}"
    return Verdict(asked, _word(not bad), f"{found}; missed on {missed}" if bad else found)


def _word(met: bool) -> str:
    return "met" if met else "MISSED"
