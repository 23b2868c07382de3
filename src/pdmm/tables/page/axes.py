"""Axes of plots: where a value stands, in percent of the width, and which ticks are written."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pdmm.tables.page.elements import Html, tag
from pdmm.tables.page.numbers import written

RATIOS = (
    [10.0**k for k in range(-6, 7)],
    [m * 10.0**k for k in range(-4, 5) for m in (1, 3)],
    [m * 10.0**k for k in range(-3, 4) for m in (1, 2, 5)],
    [2.0**k for k in range(-6, 7)],
    [0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10],
)
"""Ticks of a ratio, from those of wide axes to those of narrow ones."""
ENOUGH = 6  # more ticks than that run into each other


@dataclass(frozen=True)
class Axis:
    """A line of numbers. Ratios stand on it by their logarithms."""

    low: float
    high: float
    ratio: bool = False

    def place(self, value: float) -> float:
        """Percent of the width, kept inside the plot."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def holds(self, value: float) -> bool:
        """Whether a value is on the axis, and not beyond one of its ends."""
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Values on the axis and how they are written."""
        return self._ratio_ticks() if self.ratio else self._plain_ticks()

    def _plain_ticks(self) -> list[tuple[float, str]]:
        step = _step(self.high - self.low)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(k * step, written(k * step, decimals)) for k in range(first, last + 1)]

    def _ratio_ticks(self) -> list[tuple[float, str]]:
        width = self.high - self.low
        if width > math.log(1e5):
            return self._powers()
        if width < math.log(2.5):
            # So short an axis is nearly straight: round ratios at equal distances.
            ratios = Axis(math.exp(self.low), math.exp(self.high))._plain_ticks()
            return [(math.log(r), words) for r, words in ratios if r > 0]
        each = [[r for r in one if self.holds(math.log(r))] for one in RATIOS]
        finest = max((one for one in each if len(one) <= ENOUGH), key=len)
        return [(math.log(r), f"{r:g}") for r in finest]

    def _powers(self) -> list[tuple[float, str]]:
        """Powers of ten, where an axis is very wide."""
        decades = (self.high - self.low) / math.log(10)
        step = max(1, round(decades / 4))
        first = math.ceil(self.low / math.log(10) / step)
        last = math.floor(self.high / math.log(10) / step)
        powers = [k * step for k in range(first, last + 1)]
        return [(k * math.log(10), "1" if k == 0 else f"1e{k}") for k in powers]


def spanning(values: Sequence[float], ratio: bool) -> Axis:
    """An axis for all of these values, with room at both ends."""
    finite = [value for value in values if math.isfinite(value)]
    low = min(finite, default=-1.0)
    high = max(finite, default=1.0)
    room = 0.06 * (high - low)
    if room <= 0:
        room = 0.1 * abs(high) or 1.0
    return Axis(low - room, high + room, ratio)


def _step(width: float) -> float:
    """A round distance between ticks: 1, 2 or 5 times a power of ten."""
    rough = width / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.99)


# --- marks ------------------------------------------------------------------------------------


def percent(value: float) -> str:
    """A coordinate that follows the width of the plot."""
    return f"{value:g}%"


def tick_labels(axis: Axis, y: str = "1em") -> list[Html]:
    """The numbers of an axis."""
    return [
        tag("text", words, x=percent(axis.place(at)), y=y, text_anchor="middle")
        for at, words in axis.ticks
    ]


def grid(axis: Axis, bottom: str = "100%") -> list[Html]:
    """A faint line at each tick."""
    return [_vertical(axis.place(at), bottom, "grid") for at, _ in axis.ticks]


def line_at(axis: Axis, value: float, kind: str, bottom: str = "100%") -> Html | None:
    """A vertical line at a value that is on the axis."""
    return _vertical(axis.place(value), bottom, kind) if axis.holds(value) else None


def _vertical(x: float, bottom: str, kind: str) -> Html:
    return tag("line", x1=percent(x), x2=percent(x), y1="0", y2=bottom, class_=kind)


def interval(axis: Axis, low: float, high: float, y: str) -> list[Html]:
    """A line from low to high, with an arrow at an end that is beyond the axis."""
    if not (math.isfinite(low) and math.isfinite(high)) or low > axis.high or high < axis.low:
        return []
    left = axis.place(low)
    right = axis.place(high)
    marks = [tag("line", x1=percent(left), x2=percent(right), y1=y, y2=y, class_="interval")]
    if low < axis.low:
        marks.append(_sign("‹", 0.0, y, "start"))
    if high > axis.high:
        marks.append(_sign("›", 100.0, y, "end"))
    return marks


def point(axis: Axis, value: float, y: str, size: float = 4.0) -> list[Html]:
    """A dot, or an arrow where the value is beyond the axis."""
    if not math.isfinite(value):
        return []
    if value < axis.low:
        return [_sign("«", 0.0, y, "start")]
    if value > axis.high:
        return [_sign("»", 100.0, y, "end")]
    return [tag("circle", cx=percent(axis.place(value)), cy=y, r=size, class_="point")]


def _sign(sign: str, x: float, y: str, anchor: str) -> Html:
    return tag("text", sign, x=percent(x), y=y, dy="0.32em", text_anchor=anchor, class_="beyond")
