"""A fit between sites that were asked over a network: who took part, and how sums were made."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from pdmm.tables.page.numbers import counted
from pdmm.tables.stored import Stored

# What a study notes of itself: the only place where a model file tells it.
SECURE = re.compile(r"sums are secure: .* over (?P<organisations>\d+) organisations? alone")
NOT_SECURE = re.compile(r"sums are not secure, (?P<why>.+): the server saw each site's part")
LEFT_OUT = re.compile(r"site (?P<site>.+?) was left out: (?P<why>.+)", re.DOTALL)


class LeftOut(NamedTuple):
    """A site that was asked, and is no part of the fit."""

    site: str
    why: str


@dataclass(frozen=True)
class BetweenSites:
    """What is known of the sites that a fit asked."""

    names: tuple[str, ...]
    """Of the sites that took part."""
    secure: bool | None
    """Whether sums were secure; None where nobody noted it."""
    why_not: str
    """Why sums were not secure."""
    organisations: int | None
    """How many there are, where sums were secure."""
    left_out: tuple[LeftOut, ...]
    """Sites that were asked, and are no part of the fit."""

    @property
    def counted(self) -> str:
        """The sites that took part, in words."""
        return counted(len(self.names), "site")

    @property
    def as_asked(self) -> bool:
        """Whether the researcher did not want secure sums."""
        return self.secure is False and self.why_not.startswith("as was asked")


def between_sites(stored: Stored) -> BetweenSites | None:
    """Who was asked, and how; None of a fit in one process."""
    names = stored.how.get("sites")
    if not names:
        return None
    said = (*stored.notes, *(str(choice) for choice in stored.how["choices"]))
    secure = _first(SECURE, said)
    not_secure = _first(NOT_SECURE, said)
    known = secure is not None or not_secure is not None
    return BetweenSites(
        names=tuple(str(name) for name in names),
        secure=secure is not None if known else None,
        why_not=not_secure["why"] if not_secure else "",
        organisations=int(secure["organisations"]) if secure else None,
        left_out=tuple(LeftOut(**found.groupdict()) for found in _all(LEFT_OUT, stored.notes)),
    )


def about_sums(text: Any) -> bool:
    """Whether a note is about secure sums, which have a part of the page of their own."""
    return bool(SECURE.fullmatch(str(text)) or NOT_SECURE.fullmatch(str(text)))


def tells_of_each(stored: Stored) -> bool:
    """Whether something is known of each site alone."""
    return bool(stored.sites) and all("rows" in own for own in stored.sites.values())


def _first(pattern: re.Pattern[str], texts: tuple[str, ...]) -> re.Match[str] | None:
    return next(iter(_all(pattern, texts)), None)


def _all(pattern: re.Pattern[str], texts: tuple[str, ...]) -> list[re.Match[str]]:
    found = [pattern.fullmatch(text) for text in texts]
    return [match for match in found if match is not None]
