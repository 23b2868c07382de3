"""A site's table: read once in a run, of the columns that studies may use, in two parts."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.engines.sites.roster import TableError
from pdmm.tables.reading import read_table

Mask = npt.NDArray[np.bool_]


class HeldTable:
    """What a site has read of its file.

    Args:
        source: the file, or a table that is at hand.
        columns: those that studies may use; None for all.
        share: of the rows, that no fit sees.
    """

    def __init__(
        self, source: Path | pd.DataFrame, columns: Sequence[str] | None, share: float
    ) -> None:
        self.checksum = ""
        if isinstance(source, pd.DataFrame):
            frame = source if columns is None else source[[c for c in columns if c in source]]
        else:
            frame = read_table(source, columns)
            self.checksum = checksum_of(source)
        names = [str(name) for name in frame]
        lacking = [name for name in columns or () if name not in names]
        if lacking:
            raise TableError(f"its table has no column {lacking[0]!r}, which --columns names")
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise TableError(f"its table has two columns {twice[0]!r}: rename one of them")
        if not len(frame):
            raise TableError("its table has no rows")
        frame = frame if all(isinstance(c, str) for c in frame) else frame.rename(columns=str)
        aside = set_aside(frame, share)
        self.for_fits = frame[~aside]
        self.for_evaluation = frame[aside]

    def check_rows(self, fits: bool) -> pd.DataFrame:
        """The rows that a fit, or an evaluation, is about."""
        rows = self.for_fits if fits else self.for_evaluation
        if len(rows):
            return rows
        if fits:
            raise TableError("all of its rows are set aside for evaluation: leave the site out")
        raise TableError(
            "no rows are set aside for evaluation: its policy must say evaluation_share, for "
            "example 0.2"
        )


def set_aside(frame: pd.DataFrame, share: float) -> Mask:
    """Which rows no fit sees.

    A row's own entries decide, so that it stays where it is when rows are added, and rows that are
    equal are not split between fits and evaluations.
    """
    if share <= 0:
        return np.zeros(len(frame), dtype=bool)
    numbers = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    return np.asarray(numbers.astype(np.float64) / 2.0**64 < share)


def checksum_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
