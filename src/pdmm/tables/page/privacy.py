"""What left the sites, and how it was protected, as far as it is known."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pdmm.tables.page.between_sites import BetweenSites, between_sites, tells_of_each
from pdmm.tables.page.elements import Html, joined, paragraph, section, tag, terms
from pdmm.tables.page.numbers import counted, in_bytes, listed
from pdmm.tables.page.own_estimates import has_own_estimates
from pdmm.tables.page.words import capital

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit


def privacy(fit: "Fit") -> Html:
    """The section."""
    study = between_sites(fit.stored)
    if study is None:
        return section("privacy", "What left the sites", *_in_one_process(fit))
    return section(
        "privacy",
        "What left the sites, and how it was protected",
        paragraph(_lead(study), kind="lead"),
        *(paragraph(words) for words in _meaning(fit, study)),
        terms(_facts(fit, study)),
        paragraph(_readers(fit), kind="after"),
    )


# --- in one process -----------------------------------------------------------------------------


def _in_one_process(fit: "Fit") -> Iterator[Html]:
    numbers = len(fit.stored.x)
    yield paragraph(
        "This fit was made in one process, which read the tables of all sites: nothing had to "
        "leave anyone."
    )
    yield paragraph(
        "The same fit can be made between sites that keep their tables (",
        tag("code", "pdmm federate fit"),
        "). It needs no more than what sites can say in sums: which columns and levels they have, "
        "how many rows and missing entries, and in each round sums over rows of gradients "
        f"({counted(numbers, 'number')}) and, where the method or the standard errors need them, "
        f"of Hessians (a table of {numbers} × {numbers}). No row is among them. A server that adds "
        f"these up sees the sums of each site unless secure sums are used.{_few_rows(fit)}",
    )
    yield paragraph(_readers(fit))


def _few_rows(fit: "Fit") -> str:
    fewest = fit.stored.fewest
    if fewest is None:
        return ""
    return (
        " Sums over few rows can tell much of them: the smallest site here has "
        f"{counted(fewest, 'row')}."
    )


# --- between sites ------------------------------------------------------------------------------


def _lead(study: BetweenSites) -> str:
    if study.secure is None:
        return "No row left a site. Whether sums were secure was not noted."
    if study.secure:
        return (
            "No row left a site. Sums were secure: the server could read the sums of all sites "
            "together, and no site’s part of them."
        )
    return (
        f"No row left a site. Sums were not secure, {study.why_not}: the server saw each site’s "
        "part of every sum."
    )


def _meaning(fit: "Fit", study: BetweenSites) -> Iterator[str]:
    if study.secure:
        yield (
            "Each site masked its part of every sum, and the masks cancel in the sum over all "
            "sites. So nobody can tell which site a number came from. What is added up, and the "
            "coefficients themselves, still say something about all rows together."
        )
    else:
        yield f"Sums over rows are no rows, and still say something about them.{_few_rows(fit)}"


def _facts(fit: "Fit", study: BetweenSites) -> Iterator[tuple[str, Any]]:
    yield "Sites that took part", f"{_who(study)}."
    if study.left_out:
        yield "Left out", f"{listed([one.site for one in study.left_out], 20)}."
    yield "Added up over the sites", f"{capital(_sums(fit))}."
    yield "Told by each site for itself", f"{capital(_told(fit, study))}."
    yield "How much", _amount(fit)
    yield (
        "Rows for evaluation",
        joined(
            [
                "Rows that a site’s policy sets aside for evaluation (",
                tag("code", "evaluation_share"),
                ") take no part in a fit. Sites do not tell it whether they have any.",
            ]
        ),
    )


def _who(study: BetweenSites) -> str:
    names = listed(list(study.names), 20)
    if study.organisations is None:
        return names
    return f"{names}, of {counted(study.organisations, 'organisation')}"


def _sums(fit: "Fit") -> str:
    stored = fit.stored
    numbers = len(stored.x)
    said = (
        "counts of rows and of complete rows; in the rounds, values and gradients "
        f"({counted(numbers, 'number')})"
    )
    if stored.no_errors:
        return f"{said}. Whole Hessians stayed at the sites"
    return (
        f"{said} and, where the method or the standard errors need them, Hessians "
        f"({numbers} × {numbers})"
    )


def _told(fit: "Fit", study: BetweenSites) -> str:
    rounded = ", of two digits" if study.secure else ""
    said = (
        "kinds of the columns that the formula names, and whether entries are missing; levels and "
        f"classes; bounds on how strongly its objective curves{rounded}"
    )
    if not tells_of_each(fit.stored):
        return said
    more = [words for known, words in _of_each(fit) if known]
    return f"{said}; and, since all policies allow results of single sites, its {listed(more)}"


def _of_each(fit: "Fit") -> Iterator[tuple[bool, str]]:
    columns = {str(name) for own in fit.stored.sites.values() for name in own}
    yield True, "rows"
    yield "events" in columns and fit.family in ("binomial", "cox"), "events"
    yield "pvalue" in columns, "score test"
    yield "pvalue" in columns and any(name.startswith("own ") for name in columns), "own estimate"


def _amount(fit: "Fit") -> str:
    how = fit.stored.how
    return (
        f"In {counted(how['rounds'], 'round')}, the sites sent {in_bytes(how['bytes_up'])} and "
        f"received {in_bytes(how['bytes_down'])}, all together. Questions before and after the "
        "rounds are not counted."
    )


# --- this page ----------------------------------------------------------------------------------


def _readers(fit: "Fit") -> str:
    """What the page itself shows of single sites."""
    if not tells_of_each(fit.stored):
        return "This page shows the names of the sites, and nothing else of a single site."
    what = " and own estimates" if has_own_estimates(fit) else ""
    return f"This page shows counts{what} of each site: make sure that its readers may see them."
