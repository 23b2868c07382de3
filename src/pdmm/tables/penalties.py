"""Penalties along a path: which values are tried, and one step of prox-Newton for each."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor

from pdmm.regularisers.active_set import minimise
from pdmm.tables.fold_sums import Answer

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FAINT = 100.0  # times the largest curvature: with such an l2, coefficients are 1% of what they were
FLAT = 1e-9  # of a curvature: what rounding may have left of none
SHIFT = 1e-7  # of the curvatures: what keeps a step finite where data determine nothing


@dataclass(frozen=True)
class Sweep:
    """Which penalties are tried at c: numbers are given, None is to be chosen."""

    l1: float | None
    l2: float | None

    def at(self, c: float) -> tuple[float, float]:
        """l1 and l2. Where both are to be chosen, each is c/2."""
        if self.l1 is None and self.l2 is None:
            return c / 2, c / 2
        return (c if self.l1 is None else self.l1), (c if self.l2 is None else self.l2)


class Net(NamedTuple):
    """An elastic net in the coordinates of the path, and which entries may move at all."""

    l1: Vector
    l2: Vector
    moving: Mask

    def value(self, x: Vector) -> float:
        """h(x)."""
        return float(self.l1 @ np.abs(x) + self.l2 @ (x * x) / 2)


class Step(NamedTuple):
    """Where to go from a point."""

    direction: Vector
    fall: float
    """By how much F would fall at its slope, without curvature."""
    length: float
    """lam²: the square of the step, in standard errors where F is a likelihood."""


def step(seen: Answer, x: Vector, net: Net) -> Step:
    """The step to the minimum of the quadratic at x and the penalty together."""
    some = net.moving
    l1 = net.l1[some]
    l2 = net.l2[some]
    here = x[some]
    A = seen.hessian[np.ix_(some, some)] + np.diag(l2)
    g = seen.gradient[some] + l2 * here
    direction = np.zeros_like(x)
    if not here.size:
        return Step(direction, 0.0, 0.0)
    free = np.full(here.size, np.inf)
    d = minimise(_determined(A), here, g, l1, -free, free) - here
    direction[some] = d
    length = float(d @ A @ d)
    fall = float(-g @ d + l1 @ (np.abs(here) - np.abs(here + d)))
    # An exact step falls by lam² at least; less is rounding of the difference.
    return Step(direction, max(fall, length), length)


def _determined(A: Vector) -> Vector:
    """The matrix, held away from singular ones: by a proximal term, which moves no minimum."""
    curvature = np.diag(A)
    size = np.where(curvature > 0, curvature, 1.0)
    A = A + np.diag(size - curvature)
    root = np.sqrt(size)
    try:
        cho_factor(A / root / root[:, None] - FLAT * np.eye(len(A)), check_finite=False)
    except LinAlgError:
        return np.asarray(A + SHIFT * np.diag(size))
    return A


def grid(sweep: Sweep, null: Answer, unit: Vector, count: int, wide: bool) -> Vector:
    """The values of c from the largest to the smallest, each the same factor below the last.

    Args:
        sweep: what c stands for.
        null: the sums of all rows where nothing but free coefficients is in the model.
        unit: (d,): the weight of each entry in l1, 0 where it is free; its square is that in l2.
        count: how many.
        wide: whether there are more rows than coefficients, so that small penalties make sense.
    """
    counted = unit > 0
    if not counted.any():
        raise ValueError("there is no coefficient to penalise: 'cv' needs a column that varies")
    if sweep.l1 is None:
        # Here the last coefficient becomes 0. The range is that of glmnet.
        top = float((np.abs(null.gradient[counted]) / unit[counted]).max())
        lowest = 1e-4 if wide else 1e-2
        if sweep.l2 is None:
            top *= 2
    else:
        top = FAINT * _largest_curvature(null.hessian, unit)
        lowest = 1e-7 if wide else 1e-5
    if not 0 < top < np.inf:
        raise ValueError(
            "no column says anything of the outcome beside the intercept, so that there is no "
            "penalty to choose: is the outcome constant?"
        )
    return np.asarray(top * np.geomspace(1.0, lowest, count))


def _largest_curvature(H: Vector, unit: Vector) -> float:
    """Of the penalised entries in units of their penalty, where free ones follow."""
    counted = unit > 0
    inner = H[np.ix_(counted, counted)]
    if not counted.all():
        across = H[np.ix_(~counted, counted)]
        inner = inner - across.T @ np.linalg.lstsq(H[np.ix_(~counted, ~counted)], across)[0]
    own = unit[counted]
    return float(np.linalg.eigvalsh(inner / own / own[:, None])[-1])
