"""Penalties chosen by cross-validation."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.tables.design import Table

if TYPE_CHECKING:
    from pdmm.tables.fitting import Settings

Vector = npt.NDArray[np.float64]


def choose(
    table: Table,
    l1: Any,
    l2: Any,
    widths: Vector | None,
    folds: Any,
    penalties: int,
    seed: int,
    settings: "Settings",
) -> tuple[float, float, pd.DataFrame]:
    """The penalties, and a row for each value that was tried."""
    raise NotImplementedError
