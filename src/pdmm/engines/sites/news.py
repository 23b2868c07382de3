"""What each site has still to be told of the others, in a run whose sites compute x themselves."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pdmm.engines.sites.answers import Answer

if TYPE_CHECKING:
    from pdmm.engines.sites.hidden_sums import Sealed

Payload = dict[str, Any]


class News:
    """The signed uploads of the rounds that some site has not been told of yet.

    Args:
        names: of all sites.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.told = dict.fromkeys(names, 0)  # how much of the news each site is known to know
        self.items: list[tuple[int, Payload]] = []  # numbered through
        self.count = 0

    def add(self, r: int, answers: Mapping[str, Answer]) -> None:
        """Round r is done: who answered it knew all that went before."""
        sites = {
            name: {"upload": list(answer.upload), "signature": answer.signature}
            for name, answer in answers.items()
        }
        self._add({"round": r, "sites": sites})

    def add_sums(self, r: int, counter: int, answers: "Mapping[str, Sealed]") -> None:
        """All parts of a sum of round r are there, whether or not it can be read at its scales."""
        sites = {
            name: {
                "words": answer.words,
                "clear": answer.clear,
                "signature": answer.signature,
            }
            for name, answer in answers.items()
        }
        self._add({"round": r, "counter": counter, "sites": sites})

    def _add(self, news: Payload) -> None:
        for name in news["sites"]:
            self.told[name] = self.count
        known = min(self.told.values())
        self.items = [(number, item) for number, item in self.items if number > known]
        self.count += 1
        self.items.append((self.count, news))

    def since(self, name: str) -> list[Payload]:
        """What a site has not been told."""
        return [item for number, item in self.items if number > self.told[name]]
