"""Why a run on a network ended, in sentences."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.graphs.network import Network
from pdmm.graphs.result import NetworkHistory
from pdmm.graphs.settings import Settings

CIRCLES = (
    ", but the nodes do not come to agree: with relaxation=1 PDMM may circle for ever "
    "where functions are not smooth and strongly convex; try relaxation=0.9"
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


def circles(relaxation: float, history: NetworkHistory) -> bool:
    """Whether the nodes have stopped coming closer to each other, for want of relaxation."""
    apart = history["consensus"]
    if relaxation < 1 or len(apart) < 100 or apart[-1] <= 1e-3 * apart.max():
        return False
    half = apart[len(apart) // 2 :]
    before, after = np.array_split(half, 2)
    return bool(np.median(after) > 0.9 * np.median(before))
