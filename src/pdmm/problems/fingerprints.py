"""By what a run that is taken up recognises its clients: a number for each, from its function.

Data are not compared bit by bit: what was computed on another machine may differ in its last
bits. So the number is the function's value at a random point (or near the start, where there is
none), which costs one pass over the data, and says of every client, in its place, whether it is
the one of then. Where mini-batches make the order of rows matter, each row has a weight of its
own in it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.common.threads import Threads
from pdmm.problems.block import Block, Floats

if TYPE_CHECKING:
    from pdmm.problems.base import Problem

Vector = npt.NDArray[np.float64]
RELATIVE = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-5}  # what rounding may change


def points_to_try(x0: Vector, dtype: np.dtype[Any]) -> list[Floats]:
    """A random point, always the same, and what to try where a function is not defined there."""
    x = np.random.default_rng(0).standard_normal(len(x0))
    return [point.astype(dtype) for point in (x, x0 + x / 1000, x0)]


def fingerprints(problem: "Problem", points: Sequence[Floats], threads: Threads) -> Vector:
    """A number for each client; NaN where its function has no value at any of the points."""
    source = problem.as_given()

    def look(clients: slice) -> Floats:
        return of_block(source.at(clients), points)

    return np.concatenate([np.empty(0), *threads.map(look, problem.blocks())])


def of_block(block: Block, points: Sequence[Floats]) -> Vector:
    """The same of one block."""
    found = np.full(block.size, np.nan)
    for x in points:
        unknown = ~np.isfinite(found)
        if unknown.any():
            found[unknown] = _at(block, x)[unknown]
    return found


def _at(block: Block, x: Floats) -> Vector:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(block.fingerprint(x), dtype=np.float64)
    except ClientError:
        return np.full(block.size, np.nan)


def alike(now: Any, then: Any, dtype: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers are the same but for rounding."""
    same: npt.NDArray[np.bool_] = np.isclose(
        now, then, rtol=RELATIVE[dtype], atol=0, equal_nan=True
    )
    return same


def check_same(now: Vector, then: Vector, dtype: np.dtype[Any], name: Callable[[int], str]) -> None:
    """Refuse clients that are not those of then.

    Args:
        now: what they give.
        then: what they gave.
        dtype: of the run.
        name: what the k-th of them is called.
    """
    changed = np.flatnonzero(~alike(now, then, dtype))
    if len(changed):
        k = int(changed[0])
        raise ValueError(
            f"problem is not the one of the checkpoint: at a random point {name(k)} gives "
            f"{now[k]:.9g}, and it gave {then[k]:.9g}. Clients must be the same and in the same "
            "order, and so must their rows where there are mini-batches"
        )
