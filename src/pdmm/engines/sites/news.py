"""What each site has still to be told of the others, in a run whose sites compute x themselves."""

from collections.abc import Iterable, Mapping
from typing import Any

from pdmm.engines.sites.answers import Answer

Payload = dict[str, Any]


class News:
    """The signed uploads of the rounds that some site has not been told of yet.

    Args:
        names: of all sites.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.told = dict.fromkeys(names, 0)  # the last round that each site is known to know of
        self.rounds: list[Payload] = []

    def add(self, r: int, answers: Mapping[str, Answer]) -> None:
        """Round r is done: who answered it knew all that went before."""
        for name in answers:
            self.told[name] = r - 1
        known = min(self.told.values())
        self.rounds = [news for news in self.rounds if news["round"] > known]
        sites = {
            name: {"upload": list(answer.upload), "signature": answer.signature}
            for name, answer in answers.items()
        }
        self.rounds.append({"round": r, "sites": sites})

    def since(self, name: str) -> list[Payload]:
        """What a site has not been told."""
        return [news for news in self.rounds if news["round"] > self.told[name]]
