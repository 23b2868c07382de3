"""The top of the page: what it is about, what a reader must know first, and the answer in short."""

from typing import TYPE_CHECKING, Any

from pdmm.tables.page import convergence, diagnostics, site_tests
from pdmm.tables.page.between_sites import BetweenSites, LeftOut, between_sites
from pdmm.tables.page.elements import Html, joined, paragraph, tag
from pdmm.tables.page.headline import headline
from pdmm.tables.page.numbers import whole

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

PARTS = {
    "asked": "What was asked",
    "answer": "The answer",
    "sites": "The sites",
    "diagnostics": "Diagnostics",
    "convergence": "Certificate",
    "privacy": "What left the sites",
    "origins": "Reproduce and cite",
}


def top(fit: "Fit", title: str) -> Html:
    """The header of the page."""
    study = between_sites(fit.stored)
    links = [tag("a", words, href=f"#{name}") for name, words in PARTS.items()]
    return tag(
        "header",
        paragraph(_over(study), kind="over"),
        tag("h1", title),
        paragraph(tag("code", fit.formula), kind="formula"),
        _key_figures(fit, study),
        _left_out(study),
        _short(fit),
        tag("nav", joined(links, by="\n"), aria_label="Parts of this page"),
    )


def _over(study: BetweenSites | None) -> str:
    if study is None:
        return "A model fitted to the tables of its sites, in one process"
    return f"A study between {study.counted}, whose rows stayed where they are"


def _key_figures(fit: "Fit", study: BetweenSites | None) -> Html:
    """A line of numbers."""
    stored = fit.stored
    taking_part = stored.counts.clients
    pairs = [
        ("site" if taking_part == 1 else "sites", whole(taking_part)),
        ("rows" if stored.weights is None else "rows, weighted", whole(fit.nobs)),
    ]
    if fit.family in ("binomial", "cox"):
        pairs.append(("events", whole(stored.counts.events)))
    pairs.append(("rows left out", whole(stored.counts.dropped)))
    pairs.append(("rounds", whole(stored.how["rounds"])))
    if study is not None and study.secure is not None:
        pairs.append(("secure sums", "on" if study.secure else "off"))
    each = [joined([tag("div", tag("dt", name), tag("dd", value))]) for name, value in pairs]
    return tag("dl", *each, class_="key")


def _left_out(study: BetweenSites | None) -> Html | None:
    """Whose rows are missing: nobody should find that out at the end of the page."""
    if study is None or not study.left_out:
        return None
    several = len(study.left_out) > 1
    verb = "sites were" if several else "site was"
    whose = "Their" if several else "Its"
    return tag(
        "div",
        tag("h2", f"{whole(len(study.left_out))} {verb} left out"),
        tag("ul", *(tag("li", *_why(one)) for one in study.left_out)),
        paragraph(f"{whose} rows are in none of the numbers of this page."),
        class_="alert",
        role="note",
    )


def _why(one: LeftOut) -> list[Any]:
    return [tag("b", one.site), f": {one.why}."]


def _short(fit: "Fit") -> Html:
    said = [
        headline(fit),
        site_tests.in_short(fit),
        diagnostics.in_short(fit),
        convergence.in_short(fit),
    ]
    if fit.certificate.gap is None:
        # Nobody should read on as if the numbers were final.
        said = [said[-1], *said[:-1]]
    each = [tag("li", words) for words in said if words]
    return tag("div", tag("h2", "In short"), tag("ul", *each), class_="short")
