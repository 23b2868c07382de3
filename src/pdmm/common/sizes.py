"""How large or small numbers may be, so that a run's squares, products and sums hold them.

A run squares the data, multiplies them with weights and with x, and squares the norms of what
comes of it. With these limits all of that stays away from where a number overflows, or loses its
digits because it is too close to 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

# Of entries of data; the smallest are one divided by it. What is squared already may have squares.
LARGEST = {np.dtype(np.float64): 1e50, np.dtype(np.float32): 1e12}


def check_sizes(
    name: str,
    sizes: npt.NDArray[np.float64],
    dtype: np.dtype[Any],
    label: Callable[[int], str],
    power: int = 1,
) -> None:
    """Refuse data of which the largest entries are too large, or all too small.

    Args:
        name: of the argument.
        sizes: each client's largest absolute entry.
        dtype: of the run.
        label: names the argument and the i-th client.
        power: 2 for what is of the size of squares, such as the matrix of a quadratic.
    """
    most = LARGEST[dtype] ** power
    i = int(sizes.argmax())
    size = float(sizes[i])
    if size > most:
        raise ValueError(
            f"{label(i)} has entries as large as {size:.3g}, but at most {most:g} leaves a run in "
            f"{dtype} room for squares and sums: divide {name} by {_about(size)}, for example"
        )
    if 0 < size < 1 / most:
        raise ValueError(
            f"{name} has no entry above {size:.3g}, but less than {1 / most:g} leaves a run in "
            f"{dtype} no room for squares: divide {name} by {_about(size)}, for example"
        )


def check_start(what: str, size: float, dtype: np.dtype[Any], power: int = 1) -> None:
    """Refuse a start of which a run makes ``what``, if that is too large."""
    most = LARGEST[dtype] ** power
    if size > most:
        raise ValueError(
            f"x0 is too large: {what} has entries of about {size:.3g}, but at most {most:g} leaves "
            f"a run in {dtype} room for squares and sums"
        )


def check_solution(what: str, above: float, below: float, dtype: np.dtype[Any]) -> None:
    """Refuse data whose solution, of about the quotient of two sizes, is too large or small."""
    if above == 0 or below == 0:
        return
    most = LARGEST[dtype] ** 2
    size = above / below
    if not 1 / most <= size <= most:
        raise ValueError(
            f"x would have entries of about {what} = {size:.3g}, but only {1 / most:g} to "
            f"{most:g} leaves a run in {dtype} room for squares and sums: choose another unit for x"
        )


def _about(size: float) -> str:
    """A power of ten of about this size."""
    return f"1e{round(float(np.log10(size)))}"
