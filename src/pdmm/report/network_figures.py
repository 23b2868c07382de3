"""Pictures of a network, its nodes coloured by their errors."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from pdmm.report.figures import save

Vector = npt.NDArray[np.float64]


class Strip(NamedTuple):
    """Pictures of one method, from left to right."""

    title: str
    errors: list[Vector]


def snapshots(
    strips: list[Strip],
    titles: list[str],
    positions: Vector,
    edges: npt.NDArray[np.intp],
    lowest: float,
    highest: float,
    label: str,
    stem: Path,
) -> list[Path]:
    """Draw the network once for every method and time, and write it as PNG and SVG.

    Args:
        strips: one row of pictures for each method.
        titles: what stands over the columns.
        positions: of the nodes, (n, 2).
        edges: pairs of nodes, (E, 2).
        lowest: the error that is darkest, and all below it.
        highest: the error that is brightest, and all above it.
        label: of the colours.
        stem: path of the files, without suffix.
    """
    plt.rcParams.update({"font.size": 9})
    shape = (len(strips), len(titles))
    figure, axes = plt.subplots(
        *shape,
        figsize=(0.9 + 1.75 * shape[1], 0.3 + 1.75 * shape[0]),
        squeeze=False,
        layout="constrained",
    )
    norm = LogNorm(lowest, highest)
    for row, strip in zip(axes, strips, strict=True):
        for axis, error in zip(row, strip.errors, strict=True):
            lines = LineCollection(list(positions[edges]), colors="#d9d9d9", linewidths=0.35)
            axis.add_collection(lines)
            axis.scatter(
                *positions.T,
                c=error.clip(lowest, highest),
                norm=norm,
                cmap="inferno",
                s=13,
                linewidths=0.3,
                edgecolors="#555555",
                zorder=2,
            )
            _bare(axis)
        row[0].set_ylabel(strip.title)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    colours = ScalarMappable(norm, "inferno")
    figure.colorbar(colours, ax=axes, shrink=0.7, label=label, extend="min")
    return save(figure, stem)


def _bare(axis: Any) -> None:
    axis.set(xticks=[], yticks=[], xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    for spine in axis.spines.values():
        spine.set_visible(False)
