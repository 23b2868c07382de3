"""The optimum of a network by a direct solve, for the history's error."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.checks import ClientError
from pdmm.graphs.allowed import Allowed
from pdmm.graphs.incidence import Indices
from pdmm.graphs.kernel import DENSE
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group, ValueAndGradient
from pdmm.graphs.optimum import Optimum
from pdmm.problems.minimise import minimise_with

Vector = npt.NDArray[np.float64]
TOLERANCE = 1e-12  # of the direct solve of smooth functions
FEW = 300  # unknowns up to which the curvature at the minimum is looked at in all directions
Answer = TypeVar("Answer")


def direct(network: Network, groups: list[Group]) -> Optimum | None:
    """The optimum, if there is a direct way to it: None if not, or if there is no optimum."""
    allowed = network.edges.allowed()
    quadratics = _of_all([group.as_quadratics() for group in groups])
    if quadratics is not None:
        return _the_one(allowed.minimise_quadratics(quadratics))
    kinks = _of_all([group.as_kinks() for group in groups])
    if kinks is not None:
        return allowed.minimise_kinks(kinks)
    smooth = _of_all([group.as_smooth() for group in groups])
    if smooth is not None:
        places = [network.entries(group.nodes, group.dimension) for group in groups]
        return _the_one(_minimise_smooth(allowed, smooth, places))
    return None


def _of_all(answers: list[Answer | None]) -> list[Answer] | None:
    """What all groups answered; None if one of them could not."""
    known = [answer for answer in answers if answer is not None]
    return known if len(known) == len(answers) else None


def _the_one(x: Vector | None) -> Optimum | None:
    return None if x is None else Optimum(x, x)


def _minimise_smooth(
    allowed: Allowed, functions: list[ValueAndGradient], places: list[Indices]
) -> Vector | None:
    """Minimise the sum over what the constraints allow, all functions in one place."""
    basis = allowed.basis()
    if basis is None:
        return None
    if basis.size == 0:  # the constraints allow nothing but 0
        return basis.spread(np.zeros(0))

    def total(y: Vector) -> tuple[float, Vector]:
        x = basis.spread(y)
        value = 0.0
        slope = np.empty_like(x)
        for function, index in zip(functions, places, strict=True):
            own, slope[index] = function(x[index])
            value += own
        return value, basis.collect(slope)

    start = np.zeros(basis.size)
    try:
        least = float(np.linalg.norm(total(start)[1]))
        found = minimise_with(total, _zeros(basis.size), start, start, TOLERANCE, least)
    except ClientError:
        return None
    good = found.error <= 1e-9 and np.isfinite(found.x).all()
    return basis.spread(found.x) if good and _bends(total, found.x) else None


def _zeros(size: int) -> npt.NDArray[np.float64] | sparse.csr_array:
    """A matrix of zeros, for a solver that adds 1/2 x'M x."""
    return np.zeros((size, size)) if size <= DENSE else sparse.csr_array((size, size))


def _bends(total: Callable[[Vector], tuple[float, Vector]], y: Vector) -> bool:
    """Whether a sum bends upwards in all directions at its minimum, so that there is no other."""
    size = len(y)
    if size > FEW:
        return False  # too many directions to try
    step = 1e-5 * (1 + float(np.linalg.norm(y)))
    try:
        slopes = [
            (total(y + step * e)[1] - total(y - step * e)[1]) / (2 * step) for e in np.eye(size)
        ]
    except ClientError:
        return False
    H = np.array(slopes)
    values = np.linalg.eigvalsh(0.5 * (H + H.T))
    return bool(values[0] > 1e-6 * values[-1])
