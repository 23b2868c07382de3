"""Checksums of arrays: every byte counts, however the array lies in memory."""

from typing import Any

import numpy as np
import pytest

from pdmm.common.changes import CHUNK, Watched
from pdmm.common.per_client import RowLabel


@pytest.mark.parametrize("order", ["C", "F", "scattered"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_byte_counts(order: str, dtype: Any) -> None:
    shape = (3 * CHUNK // 800, 100 if dtype is np.float64 else 201)
    array = np.zeros(shape, dtype)
    if order == "F":
        array = np.asfortranarray(array)
    if order == "scattered":
        array = np.zeros((2 * shape[0], 2 * shape[1]), dtype)[::2, ::2]
    watched = Watched([array], RowLabel("A"))
    rng = np.random.default_rng(0)
    for _ in range(20):
        where = tuple(rng.integers(0, shape))
        array[where] = np.finfo(dtype).smallest_subnormal
        with pytest.raises(ValueError, match="A was changed"):
            watched.check()
        array[where] = 0
        watched.check()
