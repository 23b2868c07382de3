"""Which sites were left out of which rounds, and for how long they have been silent."""

import time
from collections.abc import Container, Iterable
from typing import Any

from pdmm.engines.sites.roster import Roster


class Absences:
    """Remembers who did not answer.

    Args:
        names: of all sites.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.taken = dict.fromkeys(names, time.monotonic())  # when an upload last counted
        self.notes: list[str] = []
        self.missing: dict[str, int] = {}  # the round since which a site has been left out
        self.done = 0

    def note(self, r: int, answered: Container[str], roster: Roster) -> None:
        """Round r is done; stops the run for a site that has been silent for too long."""
        self.done = r
        now = time.monotonic()
        self.taken |= {name: now for name in self.taken if name in answered}
        roster.check({name: when for name, when in self.taken.items() if name not in answered})
        for name in self.taken:
            since = self.missing.get(name)
            if name not in answered and since is None:
                self.missing[name] = r
            elif name in answered and since is not None:
                del self.missing[name]
                self.notes.append(_sentence(name, since, r - 1))

    def sentences(self) -> tuple[str, ...]:
        """Who was left out of which rounds, in words."""
        still = (_sentence(name, since, self.done) for name, since in self.missing.items())
        return (*self.notes, *still)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint keeps."""
        return {"done": self.done, "notes": self.notes, "missing": self.missing}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.done = state["done"]
        self.notes = list(state["notes"])
        self.missing = dict(state["missing"])


def _sentence(name: str, first: int, last: int) -> str:
    rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
    return f"site {name} did not answer in {rounds}: the run went on without it"
