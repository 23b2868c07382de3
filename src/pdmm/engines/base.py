"""What a run asks of the place where its clients are."""

from typing import Any, Protocol

from pdmm.engines.client_tables import Tables
from pdmm.engines.outcome import Outcome, Owed
from pdmm.methods.base import Method


class Engine(Protocol):
    """Sends the server's messages to all clients, and averages what comes back."""

    method: Method
    source: Any
    """What values are taken from, for ``Problem.summed``."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What happened that the user should know, a sentence each."""

    def round(self, message: Any, owed: Owed) -> Outcome:
        """One round of messages."""

    def state(self) -> dict[str, Any]:
        """All that changes, but for what belongs to single clients."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""

    def tables(self) -> Tables:
        """What belongs to the clients that are here."""

    def load_tables(self, tables: Tables) -> None:
        """Take that over."""
