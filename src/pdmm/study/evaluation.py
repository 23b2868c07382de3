"""How well a model predicts, from sums over the rows that sites have set aside."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

Vector = npt.NDArray[np.float64]

FEWEST = 20  # rows that a bin of the AUC has on average
FEWEST_OF_A_SITE = 5  # rows that each site has in it on average: bins with fewer are put together
MOST_BINS = 400
GROUPS = 10  # of the calibration table


@dataclass(frozen=True)
class Evaluation:
    """Measures of a model on rows that no fit has seen."""

    family: str
    measures: dict[str, float]
    """Of all sites together, by name, as ``fit.evaluate`` has them."""
    calibration: pd.DataFrame | None
    """Of a binomial model: rows, expected and observed frequencies in groups of the prediction."""
    sites: pd.DataFrame | None
    """A row for each site, where all policies allow results of single sites."""
    choices: tuple[str, ...] = ()
    """How the sites were asked, a sentence each."""

    @property
    def auc_width(self) -> float:
        """The AUC is known to so much: pairs in one bin have no known order."""
        return self.measures.get("AUC width", 0.0)

    def __repr__(self) -> str:
        first = ", ".join(f"{name} {value:.4g}" for name, value in self.measures.items())
        return f"Evaluation({first})"


def bin_edges(sums: Mapping[str, Any], sites: int) -> Vector:
    """Bins of linear predictors with about the same number of rows each, if these are normal."""
    each = max(FEWEST, FEWEST_OF_A_SITE * sites)
    many = int(np.clip(float(sums["rows"]) // each, 2, MOST_BINS))
    mean = float(sums["eta"]) / float(sums["weight"])
    variance = float(sums["eta_squares"]) / float(sums["weight"]) - mean * mean
    spread = np.sqrt(max(variance, 1e-12))
    return np.asarray(mean + spread * stats.norm.ppf(np.arange(1, many) / many))


def auc(events: Vector, others: Vector) -> tuple[float, float]:
    """The AUC from counts in bins, lowest first, and by how much it may be off.

    Pairs in one bin count one half.

    >>> import numpy as np
    >>> auc(np.array([0.0, 2.0]), np.array([2.0, 0.0]))
    (1.0, 0.0)
    """
    pairs = float(events.sum() * others.sum())
    if not pairs > 0:
        return np.nan, np.nan
    below = np.cumsum(others) - others
    inside = float((events * others).sum())
    return float((events * below).sum() + inside / 2) / pairs, inside / 2 / pairs


def group_edges(edges: Vector, rows: Vector) -> Vector:
    """Those edges of bins between which there are groups of about the same number of rows.

    >>> import numpy as np
    >>> group_edges(np.arange(19.0), np.full(20, 10.0)).tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0, 17.0]
    """
    below = np.cumsum(rows)[:-1] / float(rows.sum())
    wanted = np.arange(1, GROUPS) / GROUPS
    nearest = np.abs(below[None] - wanted[:, None]).argmin(axis=1)
    return np.asarray(edges[np.unique(nearest)])


def calibration_table(groups: Mapping[str, Vector]) -> pd.DataFrame:
    """The calibration table: rows, and the frequencies that are expected and observed."""
    table = pd.DataFrame({name: np.asarray(own) for name, own in groups.items()})
    table = table[table["rows"] > 0]
    table["expected"] /= table["rows"]
    table["observed"] /= table["rows"]
    table.index = pd.RangeIndex(1, len(table) + 1, name="group")
    return table[["rows", "expected", "observed"]]


def measures_of(family: str, sums: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, float]:
    """Measures by name, from sums.

    Args:
        family: of the model.
        sums: the first ones.
        more: those that needed the first.
    """
    w = float(sums["weight"])
    rows = {"rows": float(sums["rows"])}
    if family == "binomial":
        return rows | {
            "Brier": float(sums["squares"]) / w,
            "log-loss": float(sums["losses"]) / w,
            "observed": float(sums["observed"]) / w,
            "expected": float(sums["expected"]) / w,
        }
    if family == "multinomial":
        return rows | {
            "accuracy": float(sums["right"]) / w,
            "Brier": float(sums["squares"]) / w,
            "log-loss": float(sums["losses"]) / w,
        }
    if family == "cox":
        known = float(sums["known"])
        return rows | {
            "events": float(sums["events"]),
            "concordance": float(sums["agreed"]) / known if known else np.nan,
        }
    spread = float(more["spread"])
    found = rows | {
        "R²": 1 - float(sums["squares"]) / spread if spread > 0 else np.nan,
        "RMSE": float(np.sqrt(float(sums["squares"]) / w)),
        "MAE": float(sums["absolute"]) / w,
        "observed": float(sums["observed"]) / w,
        "expected": float(sums["expected"]) / w,
    }
    if "null" in more:
        null = float(more["null"])
        found["D²"] = 1 - float(more["deviance"]) / null if null > 0 else np.nan
    return found
