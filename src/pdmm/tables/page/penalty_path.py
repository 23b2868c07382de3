"""Cross-validation: the loss on rows that were left out, for each penalty that was tried."""

import math

import pandas as pd

from pdmm.tables.page.axes import percent, spanning
from pdmm.tables.page.curves import curve, figure, height, levels_of, power, ticks_of
from pdmm.tables.page.elements import Html, joined, tag
from pdmm.tables.page.numbers import counted, number


def penalty_path(path: pd.DataFrame | None) -> Html | None:
    """A plot of the loss, where there was cross-validation and the path says it.

    Args:
        path: with the columns ``penalty`` and ``loss``, and ``error`` for a standard error.
    """
    if path is None or not {"penalty", "loss"} <= set(path.columns):
        return None
    points = _points(path)
    if len(points) < 2:
        return None
    across = spanning([x for x, _, _ in points], ratio=False)
    ends = [loss + sign * error for _, loss, error in points for sign in (-1, 1)]
    up = spanning(ends, ratio=False)
    bars = []
    for x, loss, error in points:
        place = percent(across.place(x))
        top = height(up, loss + error)
        bottom = height(up, loss - error)
        bars.append(tag("line", x1=place, x2=place, y1=top, y2=bottom, class_="bar"))
    low = math.ceil(across.low)
    high = math.floor(across.high)
    powers = [(float(k), power(k)) for k in range(low, high + 1)]
    best = min(points, key=lambda point: point[1])
    caption = (
        f"Loss of {counted(len(points), 'penalty', 'penalties')} on rows that were left out, with "
        f"one standard error up and down; it is smallest at a penalty of {10 ** best[0]:.3g}"
    )
    drawn = figure(
        caption=caption,
        title=caption,
        marks=[
            *levels_of(up, up.ticks),
            *bars,
            *curve(across, up, [(x, loss) for x, loss, _ in points]),
        ],
        ticks=ticks_of(across, powers),
        below="Penalty, logarithmic axis",
    )
    return joined([tag("h3", "Cross-validation"), drawn])


def _points(path: pd.DataFrame) -> list[tuple[float, float, float]]:
    """The logarithm of each penalty, its loss and the error of that, from small to large."""
    errors = path["error"] if "error" in path else [0.0] * len(path)
    found = []
    for penalty, loss, error in zip(path["penalty"], path["loss"], errors, strict=True):
        if penalty > 0 and math.isfinite(number(loss)):
            known = number(error)
            found.append((math.log10(penalty), float(loss), known if math.isfinite(known) else 0.0))
    return sorted(found)
