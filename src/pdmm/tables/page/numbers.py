"""Numbers as a statistician writes them."""

import math
from typing import Any

from pdmm.tables.page.elements import Html, tag

NOTHING = "–"
KEPT = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"


def written(value: float, decimals: int | None = None) -> str:
    """A number with so many decimals, or with five digits."""
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    plain = size == 0 or 1e-5 <= size < 1e7
    if decimals is None or not plain:
        digits = 5 if decimals is None else 3
        text = f"{value:.{digits}g}"
    else:
        text = f"{value:,.{decimals}f}"
    if float(text.replace(",", "")) == 0:
        text = text.removeprefix("-")
    return text.replace("-", MINUS)


def exact(value: float, shown: str) -> Html:
    """A number as it is shown, with all of its digits for machines."""
    return tag("data", shown, value=repr(float(value)))


def decimals_for(width: float, digits: int = 3) -> int:
    """How many decimals show a standard error, or the width of an interval, with some digits."""
    if not math.isfinite(width) or width <= 0:
        return 4
    return min(max(digits - 1 - math.floor(math.log10(width)), 0), 8)


def whole(value: float) -> str:
    """A count; sums of weights may have a fraction."""
    if math.isnan(value):
        return NOTHING
    return f"{value:,.10g}"


def p_value(p: float) -> str:
    """A p-value with three decimals."""
    if math.isnan(p):
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def p_words(p: float) -> str:
    """A p-value inside a sentence."""
    text = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return text.replace(" ", KEPT)


def exponential(value: float) -> float:
    """exp, infinite where it is too large for a number."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def in_bytes(count: float) -> str:
    """An amount of data in a unit that people read."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.3g} {unit}"


def counted(count: float, one: str, several: str | None = None) -> str:
    """A count and the word for what is counted."""
    word = one if count == 1 else several or f"{one}s"
    return f"{whole(count)} {word}"


def listed(words: list[str], most: int = 6) -> str:
    """Words in a sentence: a, b and c."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: Any) -> float:
    """A number of a model file, in which one that is none is null."""
    return math.nan if value is None else float(value)
