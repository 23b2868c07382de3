"""What a table is, and how its rows become clients."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

Family = Literal["gaussian", "binomial", "poisson", "gamma", "multinomial", "cox"]
Groups = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose rows belong to clients."""

    name: str
    family: Family
    X: Sequence[pd.DataFrame]
    """The columns of each client, in their own units."""
    y: Sequence[Any]
    """The outcomes of each client: an array, or for Cox the columns time and event."""
    what: str
    """What is explained by what, in one sentence."""
    split: str
    """How the rows came to the clients, in one sentence."""
    l2: tuple[float, ...] = (0.0,)
    """Penalties that make sense: 0 where there is a maximum without one."""
    offset: Sequence[npt.NDArray[np.float64]] | None = None
    sample_weight: Sequence[npt.NDArray[np.float64]] | None = None
    held_out: bool = False
    """Whether nobody has looked at it while tuning."""

    @property
    def clients(self) -> int:
        return len(self.X)

    @property
    def rows(self) -> int:
        return sum(map(len, self.X))

    @property
    def columns(self) -> int:
        return int(self.X[0].shape[1])

    @property
    def classes(self) -> int:
        """How many classes a multinomial outcome has."""
        return len(np.unique(np.concatenate(self.y)))

    @property
    def dimension(self) -> int:
        """The length of x, with an intercept where the family has one."""
        if self.family == "cox":
            return self.columns
        if self.family == "multinomial":
            return (self.columns + 1) * (self.classes - 1)
        return self.columns + 1


def split(
    frame: pd.DataFrame,
    outcome: Any,
    groups: Groups,
    **described: Any,
) -> Table:
    """The rows of each group are a client's; an offset and weights are divided alike."""
    which = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    for name in ("offset", "sample_weight"):
        if name in described:
            values = np.asarray(described[name], dtype=np.float64)
            described[name] = [values[rows] for rows in which]
    frame = frame.astype(np.float64)
    X = [frame.iloc[rows].reset_index(drop=True) for rows in which]
    return Table(X=X, y=_outcomes(outcome, which), **described)


def _outcomes(outcome: Any, which: list[npt.NDArray[np.int64]]) -> list[Any]:
    if isinstance(outcome, pd.DataFrame):  # time and event
        pairs = outcome.astype(np.float64)
        return [pairs.iloc[rows].reset_index(drop=True) for rows in which]
    values = np.asarray(outcome)
    return [values[rows] for rows in which]


# --- which client a row belongs to ----------------------------------------------------------


def by(values: Sequence[Hashable] | Any) -> Groups:
    """One client for each value, in their order."""
    return np.unique(np.asarray(values), return_inverse=True)[1].astype(np.int64)


def sorted_into(values: Any, clients: int) -> Groups:
    """Rows sorted by a column and cut into clients of equal size, so that these differ."""
    order = np.argsort(np.asarray(values), kind="stable")
    return _cut(order, clients)


def at_random(rows: int, clients: int, seed: int = 0) -> Groups:
    """Clients of equal size that are alike."""
    return _cut(np.random.default_rng(seed).permutation(rows), clients)


def by_label(labels: Any, parts: int = 1) -> Groups:
    """Clients that have seen one label only, some of them for each label."""
    groups = parts * by(labels)
    for label in np.unique(groups):
        rows = np.flatnonzero(groups == label)
        groups[rows] += np.arange(len(rows)) * parts // len(rows)
    return groups


def _cut(order: npt.NDArray[np.int64], clients: int) -> Groups:
    groups = np.empty(len(order), dtype=np.int64)
    for number, rows in enumerate(np.array_split(order, clients)):
        groups[rows] = number
    return groups


def indicators(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of words become columns of 0 and 1, one less than there are words."""
    return pd.get_dummies(frame, drop_first=True, dtype=np.float64)
