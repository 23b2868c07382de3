"""Why a run on a network ended, in sentences."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.result import NetworkHistory
from pdmm.graphs.settings import Settings

CIRCLES = (
    "with relaxation=1 PDMM may circle for ever where functions are not smooth and strongly "
    "convex; try relaxation=0.9, or another rho"
)


def diverged(network: Network, x: npt.NDArray[Any], iteration: int, settings: Settings) -> str:
    """Where it was seen first, and what may help."""
    worst = _worst_node(network, x)
    return f"diverged by iteration {iteration}: {worst}. {_advice(settings)}"


def _worst_node(network: Network, x: npt.NDArray[Any]) -> str:
    owner = np.repeat(np.arange(len(network.nodes)), network.dimensions)
    size = np.where(np.isfinite(x), np.abs(x), np.inf)
    k = int(size.argmax())
    what = f"has reached {x[k]:.3g}" if np.isfinite(x[k]) else "is not finite"
    return f"x of {network.name(int(owner[k]))} {what}"


def _advice(settings: Settings) -> str:
    if settings.exact:
        return "are all functions convex?"
    if settings.step_size is None:
        return "are all functions convex, with gradients that change no faster than near 0?"
    return (
        f"step_size={settings.step_size:g} may be too large: 1/L of the steepest function is safe"
    )


def stuck(history: NetworkHistory) -> bool:
    """Whether the nodes have stopped coming closer to each other."""
    apart = history["consensus"]
    if len(apart) < 100 or apart[-1] <= 1e-3 * apart.max():
        return False
    half = apart[len(apart) // 2 :]
    before, after = np.array_split(half, 2)
    return bool(np.median(after) > 0.9 * np.median(before))


def why_stuck(groups: list[Group], relaxation: float, rho: float, chosen: bool) -> str:
    """What may be at fault, to be added to a reason.

    Args:
        groups: the nodes' functions.
        relaxation: of the run; 1 is safe where all functions are smooth and strongly convex.
        rho: of the run.
        chosen: whether rho was "auto".
    """
    if relaxation == 1 and not _bend_everywhere(groups):
        what = CIRCLES
    elif chosen:
        what = f"rho={rho:.3g}, which auto chose by a model, may be far from a good one; try others"
    else:
        what = f"rho={rho:.3g} may be far from a good one; try rho='auto'"
    return f", but in its second half the nodes have hardly come closer to each other: {what}"


def _bend_everywhere(groups: list[Group]) -> bool:
    """Whether all functions are smooth and strongly convex, as far as is known."""
    try:
        return all(
            bool((group.strong_convexity() > 0).all() and np.isfinite(group.smoothness()).all())
            for group in groups
        )
    except ClientError:
        return False
