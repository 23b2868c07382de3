"""rho="auto": the penalty by the functions' curvature and the graph's spectrum.

Where all f_i are h/2 ‖x - a_i‖² and all nodes have k neighbours, PDMM is linear, and the part of
the error along an eigenvector of the graph with the eigenvalue theta (of A/k) obeys

    (1 + y) e(t + 1) - 2 y theta e(t) + (y - 1) e(t - 1) = 0,      y = rho k/h,

as follows from eq. x_update and lambda_update_2nd by taking out lambda. Its roots tell how fast
that part dies. It is fastest at y = 1/sqrt(1 - theta²), where the two roots meet; what all nodes
have in common (theta = 1) dies by |y - 1|/(y + 1). On other networks this is a model: h and k
become weighted means, h ranges from mu to L, every component has parts of its own, and rho is the
one whose slowest part is fastest. Nodes without an edge do not matter.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from pdmm.common.checks import ClientError
from pdmm.graphs.modes import Curvature, Modes
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group

Vector = npt.NDArray[np.float64]
FLATTEST = 1e-4  # mu/L below this does not lower rho any further
Choice = tuple[float, tuple[str, ...]]  # rho, and why


def choose_rho(network: Network, groups: list[Group]) -> Choice:
    """rho, and why."""
    if network.incidence.count == 0:
        return 1.0, ("rho 1: without edges it does not matter",)
    modes = network.edges.modes()
    try:
        common = modes.common.curvature(groups)
        slow = modes.slow.curvature(groups)
    except ClientError:
        return _by_scale(network, groups)
    scale = np.where(np.isnan(common.most), slow.most, common.most)
    some = scale > 0
    if not some.any():
        return 1.0, ("rho 1: the functions have no curvature to judge by",)
    h = _known(common, scale, some)
    slow_h = _known(slow, scale, some & ~np.isnan(modes.gap))
    slow_gap = np.tile(modes.gap[some & ~np.isnan(modes.gap)], 2)

    def slowest_rate(log_rho: float) -> float:
        rho = math.exp(log_rho)
        return max(
            float((np.abs(rho - h) / (rho + h)).max(initial=0.0)),
            float(mode_rate(rho / slow_h, slow_gap).max(initial=0.0)),
        )

    reach = 1 / np.sqrt(slow_gap.min(initial=1.0))
    every = np.concatenate([h, slow_h])
    first = math.log(every.min()) - 3
    last = math.log(every.max() * reach) + 3
    rho = math.exp(_lowest(slowest_rate, first, last))
    seen = h if len(h) else slow_h
    return rho, (
        f"rho {rho:.3g}: curvature {seen.min():.3g} .. {seen.max():.3g} a neighbour, "
        f"{_shown(modes)}",
    )


def _known(curvature: Curvature, scale: Vector, some: npt.NDArray[np.bool_]) -> Vector:
    """The bounds of some components, all in one, but none that is too flat for its scale."""
    both = np.concatenate([curvature.least[some], curvature.most[some]])
    floored = np.maximum(both, FLATTEST * np.tile(scale[some], 2))
    return np.asarray(floored[~np.isnan(floored)])


def mode_rate(y: Vector, gap: Vector) -> Vector:
    """The larger root, in size, of (1 + y) s² - 2 y theta s + (y - 1) = 0, theta = 1 - gap."""
    inside = 1 - y * y * gap * (2 - gap)
    with np.errstate(invalid="ignore"):
        apart = (y * (1 - gap) + np.sqrt(inside)) / (1 + y)
        together = np.sqrt((y - 1) / (y + 1))
    return np.asarray(np.where(inside < 0, together, apart))


def _lowest(rate: Callable[[float], float], first: float, last: float) -> float:
    """Where a rate is lowest: on a grid, then between the neighbours of the best point of it."""
    grid = np.linspace(first, last, 400)
    best = grid[int(np.argmin([rate(t) for t in grid]))]
    step = grid[1] - grid[0]
    found = minimize_scalar(rate, bounds=(best - step, best + step), method="bounded")
    return float(found.x)


def _shown(modes: Modes) -> str:
    if np.isnan(modes.gap).all():
        return "and the graph has no slower part"
    gap = float(np.nanmin(modes.gap))
    theta = f"{round(1 - gap, 9):.4g}" if gap > 5e-4 else f"1 - {gap:.2g}"
    doubt = f" ({modes.doubt})" if modes.doubt else ""
    return f"slowest eigenvalue of the graph {theta}{doubt}"


def _by_scale(network: Network, groups: list[Group]) -> Choice:
    """The rho where slopes jump: so that an update moves x by about the distance it has to go."""
    spread = _spread(network, groups)
    stiffness = network.edges.mean_stiffness()
    held = stiffness > 0
    rho = 1.0
    if spread > 0 and held.any():
        rho = 1 / (float(stiffness[held].mean()) * spread)
    return rho, (f"rho {rho:.3g}: by the spread {spread:.3g} of the a_i, there is no curvature",)


def _spread(network: Network, groups: list[Group]) -> float:
    """How far the a_i are from the mean of their component, or of each other if each is alone."""
    away: list[Vector] = [np.zeros(0)]
    all_of_them: list[Vector] = [np.zeros(0)]
    for group in groups:
        kinks = group.as_kinks()
        if kinks is None:
            continue
        held = network.incidence.degree[kinks.nodes] > 0
        a = kinks.a[held]
        names, labels = np.unique(network.components[kinks.nodes[held]], return_inverse=True)
        sums = np.zeros((len(names), a.shape[1]))
        np.add.at(sums, labels, a)
        means = sums / np.bincount(labels)[:, None]
        away.append((a - means[labels]).ravel())
        all_of_them.append(a.ravel())
    distances = np.concatenate(away)
    if not len(distances):
        return 0.0
    return float(np.sqrt(np.mean(distances**2)) or np.std(np.concatenate(all_of_them)))
