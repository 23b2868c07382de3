"""Small plots of a curve: their width is that of the page, their height is set."""

from collections.abc import Sequence
from itertools import pairwise

from pdmm.tables.page.axes import Axis, percent
from pdmm.tables.page.elements import Html, tag

HEIGHT = 170
MOST_DOTS = 60  # more of them would hide the curve


def height(up: Axis, value: float) -> float:
    """Where a value stands, in pixels from the top."""
    return round(HEIGHT * (1 - up.place(value) / 100), 1)


def power(k: int) -> str:
    """A power of ten."""
    return "1" if k == 0 else f"1e{k}"


def levels_of(up: Axis, levels: Sequence[tuple[float, str]]) -> list[Html]:
    """Faint lines across, with their numbers on the left."""
    marks = []
    for value, words in levels:
        y = height(up, value)
        marks.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid"))
        marks.append(tag("text", words, x=-6, y=y, dy="0.32em", text_anchor="end"))
    return marks


def ticks_of(across: Axis, ticks: Sequence[tuple[float, str]]) -> list[Html]:
    """Numbers below the plot."""
    return [
        tag("text", words, x=percent(across.place(value)), y="1em", text_anchor="middle")
        for value, words in ticks
    ]


def curve(across: Axis, up: Axis, points: Sequence[tuple[float, float]]) -> list[Html]:
    """Points and the lines between them."""
    places = [(percent(across.place(x)), height(up, y)) for x, y in points]
    marks = [
        tag("line", x1=a, y1=b, x2=c, y2=d, class_="curve") for (a, b), (c, d) in pairwise(places)
    ]
    if len(places) <= MOST_DOTS:
        marks += [tag("circle", cx=x, cy=y, r=3, class_="dot") for x, y in places]
    return marks


def figure(
    caption: str, title: str, marks: Sequence[Html], ticks: Sequence[Html], below: str
) -> Html:
    """The plot with its caption above and the name of its axis below."""
    plot = tag("svg", tag("title", title), *marks, role="img", height=HEIGHT, class_="open")
    numbers = tag("svg", *ticks, class_="ticks", aria_hidden="true")
    inside = tag("div", plot, numbers, tag("div", below, class_="below"), class_="curves")
    return tag("figure", tag("figcaption", caption), inside)
