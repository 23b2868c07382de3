"""The report: one HTML page about a fit that opens offline."""

from pathlib import Path
from typing import TYPE_CHECKING

from pdmm.common.whole_files import write_whole
from pdmm.tables.page import convergence, diagnostics, site_tests
from pdmm.tables.page.asked import asked
from pdmm.tables.page.coefficients import coefficients
from pdmm.tables.page.elements import Html, joined, tag
from pdmm.tables.page.origins import origins
from pdmm.tables.page.privacy import privacy
from pdmm.tables.page.style import STYLE
from pdmm.tables.page.top import top
from pdmm.tables.page.words import heading

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

__all__ = ["render", "write_report"]

# A browser that obeys this loads nothing, whatever the names of columns and levels may contain.
NOTHING_LOADED = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def write_report(fit: "Fit", path: Path) -> Path:
    """Write the page, whole or not at all.

    Args:
        fit: what it is about.
        path: of the file, which ends in .html or .htm.

    Returns:
        The same path.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is a page: its path must end in .html, got {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"the report cannot be written: {path} is a folder")
    # A name that is no valid text, as a damaged file may have, must not keep the page from readers.
    contents = render(fit).encode("utf-8", errors="backslashreplace")
    try:
        write_whole(path, contents)
    except OSError as error:
        raise ValueError(
            f"the report cannot be written to {path}: {error.strerror or error}"
        ) from None
    return path


def render(fit: "Fit") -> str:
    """The page as text."""
    title = heading(fit)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=NOTHING_LOADED),
        tag("title", f"{title} · pdmm"),
        tag("style", Html(STYLE)),
    )
    sections = [
        asked(fit),
        coefficients(fit),
        site_tests.sites(fit),
        diagnostics.diagnostics(fit),
        convergence.convergence(fit),
        privacy(fit),
        origins(fit),
    ]
    body = tag(
        "body", top(fit, title), tag("main", joined(sections, by="\n")), tag("footer", _foot(fit))
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en-GB')}\n"


def _foot(fit: "Fit") -> str:
    how = fit.stored.how
    return f"Made by pdmm {how['pdmm']}. This page is one file and loads nothing."
