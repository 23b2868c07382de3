"""rho="auto": the penalty by the functions' curvature and the graph's spectrum.

Where all f_i are h/2 ‖x - a_i‖² and all nodes have k neighbours, PDMM is linear, and the part of
the error along an eigenvector of the graph with the eigenvalue theta (of A/k) obeys

    (1 + y) e(t + 1) - 2 y theta e(t) + (y - 1) e(t - 1) = 0,      y = rho k/h,

as follows from eq. x_update and lambda_update_2nd by taking out lambda. Its roots tell how fast
that part dies. It is fastest at y = 1/sqrt(1 - theta²), where the two roots meet; what all nodes
have in common (theta = 1) dies by |y - 1|/(y + 1). On other networks this is a model: h and k
become weighted means, h ranges from mu to L, and rho is the one whose slowest part is fastest.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from pdmm.common.checks import ClientError
from pdmm.graphs.allowed import Quadratics
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.spectrum import Slowest

Vector = npt.NDArray[np.float64]
FLATTEST = 1e-4  # mu/L below this does not lower rho any further
Choice = tuple[float, tuple[str, ...]]  # rho, and why


class Curvature(NamedTuple):
    """Bounds mu and L of a sum of functions."""

    least: float
    most: float

    def at_least(self, floor: float) -> "Curvature":
        """The same, where less than the floor counts as the floor."""
        return Curvature(max(self.least, floor), max(self.most, floor))


def choose_rho(network: Network, groups: list[Group]) -> Choice:
    """rho, and why."""
    if network.incidence.count == 0:
        return 1.0, ("rho 1: without edges it does not matter",)
    slowest = network.edges.slowest()
    degree = network.edges.mean_stiffness()
    try:
        common = curvature(groups, np.full(len(degree), 1 / degree.sum()))
        slow = curvature(groups, slowest.mode**2 / degree)
    except ClientError:
        return _by_scale(groups, float(degree.mean()))
    if common.most <= 0:
        return 1.0, ("rho 1: the functions have no curvature to judge by",)
    flat = FLATTEST * common.most
    common = common.at_least(flat)
    slow = slow.at_least(flat)

    def slowest_rate(log_rho: float) -> float:
        rho = math.exp(log_rho)
        return max(
            *(abs(rho - h) / (rho + h) for h in common),
            *(mode_rate(rho / h, slowest.theta) for h in slow),
        )

    rho = math.exp(_lowest(slowest_rate, math.log(common.least) - 3, math.log(common.most) + 12))
    return rho, (
        f"rho {rho:.3g}: curvature {common.least:.3g} .. {common.most:.3g} a neighbour, slowest "
        f"eigenvalue of the graph {_shown(slowest)}",
    )


def mode_rate(y: float, theta: float) -> float:
    """The larger root, in size, of (1 + y) s² - 2 y theta s + (y - 1) = 0."""
    inside = 1 - y * y * (1 - theta * theta)
    if inside < 0:
        return math.sqrt((y - 1) / (y + 1))
    return (y * abs(theta) + math.sqrt(inside)) / (1 + y)


def _lowest(rate: Callable[[float], float], first: float, last: float) -> float:
    """Where a rate is lowest: on a grid, then between the neighbours of the best point of it."""
    grid = np.linspace(first, last, 400)
    best = grid[int(np.argmin([rate(t) for t in grid]))]
    step = grid[1] - grid[0]
    found = minimize_scalar(rate, bounds=(best - step, best + step), method="bounded")
    return float(found.x)


def _shown(slowest: Slowest) -> str:
    theta = slowest.theta
    near = f"{theta:.4g}" if theta < 0.9995 else f"1 - {1 - theta:.2g}"
    return f"{near} (assumed)" if slowest.assumed else near


def curvature(groups: list[Group], weights: Vector) -> Curvature:
    """Bounds of the weighted sum of the functions; exact if all are quadratic and equally long."""
    if len({group.dimension for group in groups}) == 1:
        quadratics = [group.as_quadratics() for group in groups]
        known = [part for part in quadratics if part is not None]
        if len(known) == len(groups):
            return _curvature_of_quadratics(known, weights)
    least = most = 0.0
    for group in groups:
        own = weights[group.nodes]
        least += float(own @ group.strong_convexity())
        most += float(own @ group.smoothness())
    return Curvature(least, most)


def _curvature_of_quadratics(groups: list[Quadratics], weights: Vector) -> Curvature:
    parts = [np.tensordot(weights[group.nodes], group.hessians(), 1) for group in groups]
    if all(group.diagonal for group in groups):
        total = sum(parts)
        return Curvature(float(np.min(total)), float(np.max(total)))
    H = sum(np.diag(part) if part.ndim == 1 else part for part in parts)
    values = np.linalg.eigvalsh(np.asarray(H))
    return Curvature(max(float(values[0]), 0.0), float(values[-1]))


def _by_scale(groups: list[Group], degree: float) -> Choice:
    """The rho where slopes jump: so that an update moves x by about the distance it has to go."""
    kinks = [group.as_kinks() for group in groups]
    points = [part.a.ravel() for part in kinks if part is not None and part.a.size]
    spread = float(np.std(np.concatenate(points))) if points else 0.0
    rho = 1 / (degree * spread) if spread > 0 else 1.0
    return rho, (f"rho {rho:.3g}: by the spread {spread:.3g} of the a_i, there is no curvature",)
