"""Random choices that several fuzzers make."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Generator = np.random.Generator
Array = npt.NDArray[Any]
Thing = TypeVar("Thing")


def pick(rng: Generator, things: Sequence[Thing]) -> Thing:
    return things[int(rng.integers(len(things)))]


def chance(rng: Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def spread(rng: Generator, low: float, high: float) -> float:
    """A number between two, each order of magnitude as likely as any other."""
    return float(10.0 ** rng.uniform(np.log10(low), np.log10(high)))


def whole(rng: Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(rng.integers(low, high + 1))
