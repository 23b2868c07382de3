"""How far rounding may have moved gradients that are computed in ways nobody knows."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import lengths

Vector = npt.NDArray[np.float64]

LAST_DIGITS = 8  # by so many units in the last place x is changed
SAFETY = 4  # rounding is random: another x could have met more of it


def measured_doubt(
    gradient: Callable[[npt.NDArray[np.floating]], Vector],
    x: npt.NDArray[np.floating],
    g: Vector,
) -> Vector:
    """How far rounding may have moved each of the gradients g (b, d) at x, (b,).

    A computation that is stable gives the exact gradient of a point that differs from x in its
    last digits. So it is looked at what such a change of x does to the gradient. Where it does
    nothing at all, the computation may have been made in float32, and x is changed by more.
    This measures; it proves nothing.

    Args:
        gradient: x -> the gradients of b clients.
        x: a point (d,).
        g: the gradients there.
    """
    own = float(np.finfo(x.dtype).eps)
    single = float(np.finfo(np.float32).eps)
    moved = lengths(gradient(_beside(x, own)) - g)
    doubt = SAFETY * moved + 16 * own * lengths(g)
    unmoved = moved == 0
    if not unmoved.any() or own == single:
        return doubt
    moved = lengths(gradient(_beside(x, single)) - g)
    coarse = SAFETY * moved + 16 * single * lengths(g)
    # A gradient that is the same there too is constant, and no coarser than its last digits.
    return np.where(unmoved & (moved > 0), coarse, doubt)


def _beside(x: npt.NDArray[np.floating], unit: float) -> npt.NDArray[np.floating]:
    """A point beside x: every other entry a few last digits up, the rest down, zeros up."""
    up = np.arange(len(x)) % 2 == 0
    sign = np.where(up | (x == 0), 1, -1)
    size = np.abs(x)
    largest = size.max(initial=0.0) or 1.0
    change = LAST_DIGITS * unit * np.where(size > 0, size, largest)
    return np.asarray(x + sign * change, dtype=x.dtype)
