"""The paper's figures, in the paper's arrangement: a panel for each K."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pdmm.report.figures import look, save


class Curve(NamedTuple):
    """A curve of a panel: its name says its colour."""

    name: str
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]


class Panel(NamedTuple):
    """A panel: what stands over it, its curves, and whether the horizontal axis is a log axis."""

    title: str
    curves: list[Curve]
    log_across: bool = False


def grid(
    rows: list[list[Panel]],
    row_titles: list[str],
    across: str | list[str],
    up: str | list[str],
    stem: Path,
    floor: float | None = None,
    top: float | None = None,
    panel_size: tuple[float, float] = (2.1, 1.9),
) -> list[Path]:
    """Draw panels row by row with one legend below, and write them as PNG and SVG.

    Args:
        rows: the panels.
        row_titles: what stands left of each row.
        across: label of the horizontal axes; a list with one for each row if these differ.
        up: label of the vertical axes; a list with one for each row if these differ.
        stem: path of the files, without suffix.
        floor: lowest value to show, where curves end in rounding noise.
        top: highest value to show, where curves of less than a decade begin above all else; more
            in a row with a curve that would not come below it.
        panel_size: width and height of a panel, in inches.
    """
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    columns = max(len(row) for row in rows)
    one_across = isinstance(across, str)
    across_labels = [across] * len(rows) if isinstance(across, str) else across
    up_labels = [up] * len(rows) if isinstance(up, str) else up
    figure, axes = plt.subplots(
        len(rows),
        columns,
        figsize=(1.2 + panel_size[0] * columns, 0.9 + panel_size[1] * len(rows)),
        sharex=True if one_across else "row",
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for row_axes, row in zip(axes, rows, strict=True):
        for axis, panel in zip(row_axes, row, strict=True):
            _draw(axis, panel)
            if floor is not None:
                axis.set_ylim(bottom=floor)
            if top is not None:
                _less_than_a_decade(axis, *_limits(row, top))
    for row_axes, title, label in zip(axes, row_titles, up_labels, strict=True):
        row_axes[0].set_ylabel(f"{title}\n{label}" if title else label)
    # Rows that share their horizontal axis are labelled once, below the last.
    labelled = len(rows) - 1 if one_across else 0
    for row_axes, label in zip(axes[labelled:], across_labels[labelled:], strict=True):
        for axis in row_axes:
            axis.set_xlabel(label)
    _legend(figure, axes.flat)
    return save(figure, stem)


def _draw(axis: Any, panel: Panel) -> None:
    for curve in panel.curves:
        y = np.where(curve.y > 0, curve.y, np.nan)
        style = {**look(curve.name), "linewidth": 1.5}
        axis.semilogy(curve.x, y, label=curve.name, **style)
    axis.set_title(panel.title, fontsize=9)
    axis.grid(which="major", color="#e8e8e8", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.margins(x=0.01)
    if panel.log_across:
        axis.set_xscale("log")
        seen = np.concatenate([curve.x[curve.x > 0] for curve in panel.curves])
        if seen.max() < 30 * seen.min():  # powers of ten would be too few ticks
            _plain_ticks(axis.xaxis, (1.0, 2.0, 5.0))


def _limits(row: list[Panel], top: float) -> tuple[float, float]:
    """The lowest and highest value of a row of which every curve is to be seen."""
    curves = [curve for panel in row for curve in panel.curves]
    lowest = [float(np.nanmin(curve.y)) for curve in curves]
    if max(lowest) < top:
        return 0.93 * min(lowest), top
    return 0.93 * min(lowest), max(float(np.nanmax(curve.y)) for curve in curves)


def _less_than_a_decade(axis: Any, lowest: float, highest: float) -> None:
    """Limits of a vertical axis so short that powers of ten would be too few ticks."""
    axis.set_ylim(lowest, highest)
    _plain_ticks(axis.yaxis, (1.0, 2.0, 3.0, 4.0, 6.0))


def _plain_ticks(axis: Any, multiples: tuple[float, ...]) -> None:
    """Numbers at these multiples of powers of ten."""
    axis.set_major_locator(LogLocator(subs=multiples))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(figure: Figure, axes: Iterable[Any]) -> None:
    """One entry for each name, below all panels, where it covers no curve."""
    entries: dict[str, Any] = {}
    for axis in axes:
        handles, names = axis.get_legend_handles_labels()
        entries.update(zip(names, handles, strict=True))
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=3 if len(entries) == 6 else 5,  # no row of one
        frameon=False,
    )
