"""Data of several clients, in all shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Data = tuple[list[Array], list[Array]]
SHAPES: dict[str, list[int]] = {  # samples of each client, of 6 features
    "tall": [20, 20, 20],
    "wide": [2, 2, 2, 2, 2],
    "ragged, tall": [9, 4, 30],
    "ragged, wide": [1, 3, 2],
    "ragged, few with one large": [1, 1, 1, 1, 8],
    "one client": [12],
}
DTYPES: list[type[np.floating[Any]]] = [np.float64, np.float32]


def rows_of(samples: Sequence[int], d: int = 6, dtype: Any = np.float64, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    A = [rng.standard_normal((n, d)).astype(dtype) for n in samples]
    return A, [(a @ np.ones(d) + rng.standard_normal(len(a))).astype(dtype) for a in A]


def scaled_rows(
    samples: list[int], d: int, seed: int = 0, dtype: Any = np.float64
) -> tuple[list[Array], list[Array]]:
    rng = np.random.default_rng(seed)
    A = [(1 + i) * rng.standard_normal((n, d)).astype(dtype) for i, n in enumerate(samples)]
    return A, [rng.standard_normal(n).astype(dtype) for n in samples]


def spectra(A: list[Array]) -> tuple[Array, Array]:
    """The smallest and the largest eigenvalue of every A_i'A_i."""
    values = [np.linalg.eigvalsh(a.T.astype(np.float64) @ a.astype(np.float64)) for a in A]
    least = [0.0 if len(a) < a.shape[1] else v[0] for a, v in zip(A, values, strict=True)]
    return np.array(least), np.array([v[-1] for v in values])


def labelled(
    samples: Sequence[int], features: int = 3, classes: int = 4, dtype: Any = np.float64
) -> Data:
    rng = np.random.default_rng(3)
    X = [rng.standard_normal((n, features)).astype(dtype) for n in samples]
    return X, [rng.integers(0, classes, n) for n in samples]


def two_labelled(n: int, p: int, classes: int, dtype: Any = np.float64) -> tuple[Array, Array]:
    rng = np.random.default_rng(n + p)
    return rng.standard_normal((2, n, p)).astype(dtype), rng.integers(0, classes, (2, n))


def frozen(arrays: Sequence[Array]) -> list[Array]:
    for array in arrays:
        array.setflags(write=False)
    return list(arrays)
