"""The methods that are compared, one column for each."""

from dataclasses import dataclass

import numpy as np

import pdmm
from benchmarks.rounds.goals import Goal, treated
from benchmarks.rounds.runs import Reached, run, swept

AUTO = ("auto, full", "auto, diagonal", "auto, none")
OURS = (*AUTO, "Newton", "PDMM, own", "PDMM, full")
L_BFGS = ("L-BFGS", "L-BFGS, treated")
SWEPT = ("AGPDMM", "SCAFFOLD", "GD")
METHODS = (*OURS, *L_BFGS)


@dataclass(frozen=True)
class Row:
    """A problem's results."""

    goal: Goal
    by: dict[str, Reached]
    swept: dict[str, Reached]
    """On the columns as they come."""
    swept_treated: dict[str, Reached]

    @property
    def ratio(self) -> float:
        """Rounds with the diagonal metric for each of L-BFGS on equally treated data.

        0 where only the first arrives, infinite where only the second does, NaN where neither.
        """
        ours = self.by["auto, diagonal"].number
        theirs = self.by["L-BFGS, treated"].number
        if np.isinf(ours) and np.isinf(theirs):
            return np.nan
        return ours / theirs


def measured(goal: Goal, sweeps: bool) -> Row:
    """All columns of one problem."""
    common = pdmm.PDMM(rho="auto", relaxation=0.9, acceleration="anderson", metric="full")
    equal = treated(goal)
    by = {
        "auto, full": run(goal, None, "full"),
        "auto, diagonal": run(goal, None, "diagonal"),
        "auto, none": run(goal.plain, None, "none"),
        "Newton": run(goal, pdmm.Newton(), "full"),
        "PDMM, own": run(goal, pdmm.PDMM(rho="auto", metric="own"), "full"),
        "PDMM, full": run(goal, common, "full"),
        "L-BFGS": run(goal.plain, pdmm.LBFGS(memory=10), "none"),
        "L-BFGS, treated": Reached(refused="no such variables"),
    }
    if equal is not None:
        by["L-BFGS, treated"] = run(equal, pdmm.LBFGS(memory=10), "none")
    if not sweeps or goal.synthetic:
        return Row(goal, by, {}, {})
    return Row(goal, by, swept(goal), swept(equal))
