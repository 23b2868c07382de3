"""Accuracy against rounds and bytes, with bands over seeds."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pdmm.report.figures import look, save

Floats = npt.NDArray[np.float64]
LINES = {None: "-", 8: (0, (4, 1.5)), 4: (0, (1, 1.2))}  # by bits
SIZE = (10.5, 3.1)  # of a row, in inches
BELOW = 12.0  # percentage points below the lowest end that are shown


class Band(NamedTuple):
    """A method's accuracy in percent, one row for each seed."""

    method: str
    bits: int | None
    rounds: Floats
    megabytes: Floats
    accuracy: Floats

    @property
    def mean(self) -> Floats:
        """The mean over seeds."""
        return np.asarray(self.accuracy.mean(0))


class Row(NamedTuple):
    """A row of panels: what stands left of it, and its curves."""

    title: str
    bands: list[Band]


def draw(rows: list[Row], stem: Path) -> list[Path]:
    """Panels of each row: against rounds, against megabytes, and with few bits if there are such.

    A line is the mean over seeds, and its band reaches from the least to the largest.
    """
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    few = any(band.bits is not None for row in rows for band in row.bands)
    titles = ["by rounds", "by traffic", *["with few bits"] * few]
    figure, axes = plt.subplots(
        len(rows),
        len(titles),
        figsize=(SIZE[0], SIZE[1] * len(rows) + 0.4),
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for left, row in zip(axes, rows, strict=True):
        _draw_row(left, row)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=10)
    for axis in axes[-1, 1:]:
        axis.set_xlabel("megabytes, all clients")
    axes[-1, 0].set_xlabel("round")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=7, frameon=False)
    if few:
        axes[0, 2].legend(handles=_line_handles(), loc="lower right", frameon=False, fontsize=8)
    return save(figure, stem)


def _draw_row(axes: Any, row: Row) -> None:
    rounded = {band.method for band in row.bands if band.bits is not None}
    for band in row.bands:
        if band.bits is None:
            _draw(axes[0], band.rounds, band)
            _draw(axes[1], band.megabytes, band)
        if band.method in rounded:  # with all bits too, to be compared with
            _draw(axes[2], band.megabytes, band)
    ends = [float(band.accuracy[:, -1].min()) for band in row.bands]
    tops = [float(band.accuracy.max()) for band in row.bands]
    axes[0].set_ylim(max(0.0, min(ends) - BELOW), max(tops) + 1)
    axes[0].set_ylabel(f"{row.title}\ntest accuracy, %")
    axes[0].set_xlim(left=0)
    for axis in axes:
        axis.grid(which="major", color="#e8e8e8", linewidth=0.6)
        axis.set_axisbelow(True)
    for axis in axes[1:]:
        _log(axis)


def _draw(axis: Any, across: Floats, band: Band) -> None:
    style = {**look(band.method), "linewidth": 1.5}
    if band.bits is not None:
        style["linestyle"] = LINES[band.bits]
    seen = across > 0 if axis.get_subplotspec().colspan.start else across >= 0
    axis.plot(across[seen], band.mean[seen], label=band.method, **style)
    axis.fill_between(
        across[seen],
        band.accuracy.min(0)[seen],
        band.accuracy.max(0)[seen],
        color=style["color"],
        alpha=0.15,
        linewidth=0,
    )


def _log(axis: Any) -> None:
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _line_handles() -> list[Line2D]:
    return [
        Line2D([], [], color="#333333", linestyle=line, label=f"{bits or 32} bits")  # type: ignore[arg-type]
        for bits, line in LINES.items()
    ]
