"""HTML from Python, in which all text is escaped unless it is markup already."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

VOID = ("meta", "br")  # elements that have no end


class Html(str):
    """Text that is markup already. All other text is escaped where it is put in."""


def tag(name: str, /, *inside: Any, **attributes: Any) -> Html:
    """An element.

    Args:
        name: such as "p".
        inside: text, which is escaped, or markup. None is left out.
        attributes: their underscores become hyphens, that at the end is dropped (``class_``), and
            those that are None are left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(inside)}</{name}>")


def joined(parts: Iterable[Any], by: str = "") -> Html:
    """Several pieces one after the other."""
    return Html(by.join(_markup(part) for part in parts if part is not None))


def _markup(part: Any) -> str:
    return part if isinstance(part, Html) else escape(str(part))


def section(name: str, heading: str, *inside: Any) -> Html:
    """A part of the page, which links can go to by its name."""
    return tag(
        "section", tag("h2", heading, id=f"{name}-heading"), *inside, **_labelled(name), id=name
    )


def _labelled(name: str) -> dict[str, str]:
    return {"aria-labelledby": f"{name}-heading"}


def paragraph(*inside: Any, kind: str | None = None) -> Html:
    """A paragraph, of a class."""
    return tag("p", *inside, class_=kind)


def scrolled(table: Html, label: str) -> Html:
    """A table that scrolls in its own box where the screen is too narrow, also by the keyboard."""
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=label)


def terms(pairs: Iterable[tuple[str, Any]], kind: str = "facts") -> Html:
    """Names and what they are, as a list of definitions."""
    each = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("dl", *each, class_=kind)


def captioned(words: str) -> Html:
    """What a table is about, which stays on the screen where the table is wider than that."""
    return tag("caption", tag("span", words))


def table(
    caption: str, heads: Sequence[Any], rows: Iterable[Sequence[Any]], kind: str | None = None
) -> Html:
    """A table of which the first column names the rows. Cells may be elements already."""
    head = tag("tr", *(_cell("th", one, scope="col") for one in heads))
    body = [
        tag("tr", _cell("th", row[0], scope="row"), *(_cell("td", one) for one in row[1:]))
        for row in rows
    ]
    return tag("table", captioned(caption), tag("thead", head), tag("tbody", *body), class_=kind)


def _cell(name: str, inside: Any, **attributes: str) -> Html:
    if isinstance(inside, Html) and inside.startswith(("<td", "<th")):
        return inside
    return tag(name, inside, **attributes)
