"""Keeping the history of a run: objective, gap, traffic, calls and time."""

from time import perf_counter
from typing import Any

import numpy as np

from pdmm.common.checks import ClientError
from pdmm.result import History, Traffic
from pdmm.run.state import Accounts


class Recorder:
    """Collects the history's columns.

    A row is opened when its round is done. What it says of F comes at once where the server
    knows F, and with the answers of the next round where clients have to be asked for it.

    Args:
        traffic: of the method.
        clients: how many there are.
        objective: whether F is known, and has a column.
        gap: whether the optimum is known, and the gap has a column.
    """

    def __init__(self, traffic: Traffic, clients: int, objective: bool, gap: bool) -> None:
        self.traffic = traffic
        self.clients = clients
        self.objective = objective
        self.gap = gap
        self.columns: dict[str, list[Any]] = {}
        self.own: list[str] = []  # names of the user's measures
        self.waiting = False
        self.start = perf_counter()

    def open(
        self,
        r: int,
        accounts: Accounts,
        more: dict[str, float],
        measures: dict[str, float] | None = None,
    ) -> None:
        """Begin the row of round r, with some more columns, and those of the user's evaluation."""
        row: dict[str, Any] = {"round": r}
        if self.objective:
            row["objective"] = np.nan
        if self.gap:
            row["gap"] = np.nan
        row |= self._sent(accounts)
        tally = accounts.tally
        row |= {
            "gradient_calls": tally.gradients / self.clients,
            "value_calls": tally.values / self.clients,
            "exact_calls": tally.exact / self.clients,
            "seconds": perf_counter() - self.start,
        }
        own = measures or {}
        self._check({**row, **more}, own)
        row |= {**more, **own}
        if accounts.exact_error is not None:
            row["exact_error"] = accounts.exact_error
            accounts.exact_error = 0.0
        for name, entry in row.items():
            self.columns.setdefault(name, []).append(entry)
        self.waiting = True

    def _check(self, row: dict[str, Any], measures: dict[str, float]) -> None:
        """Refuse measures that come and go, or that have the name of another column."""
        taken = sorted(row.keys() & measures.keys())
        if taken:
            raise ClientError(
                f"evaluate cannot return {taken[0]!r}: the history has a column of it"
            )
        lost = [name for name in measures if self.columns and name not in self.columns]
        lost += [name for name in self.own if name not in measures]
        if lost:
            raise ClientError(
                f"evaluate must return the same names every time, and {lost[0]!r} is not in all"
            )
        self.own = list(measures)

    def _sent(self, accounts: Accounts) -> dict[str, int]:
        t, sent = self.traffic, accounts.sent
        gradients = accounts.checks * self.clients  # of certificates, one vector up from each
        vector = t.bytes_per_vector
        return {
            "bytes_up": sent.bytes_up + gradients * vector,
            "bytes_down": sent.bytes_down,
            "vectors_up": sent.vectors_up + gradients,
            "vectors_down": sent.vectors_down,
            "paper_bytes_up": sent.uploads * t.paper_up * vector,
            "paper_bytes_down": sent.contacts * t.paper_down * vector,
            "paper_vectors_up": sent.uploads * t.paper_up,
            "paper_vectors_down": sent.contacts * t.paper_down,
        }

    def close(self, objective: float, gap: float | None) -> None:
        """Complete the last row: F and the gap are known by now."""
        if self.objective:
            self.columns["objective"][-1] = objective
        if self.gap:
            self.columns["gap"][-1] = gap
        self.waiting = False

    @property
    def last_round(self) -> int:
        """The round of the last row."""
        return int(self.columns["round"][-1])

    def history(self) -> History:
        """The columns as arrays."""
        return History({name: np.array(column) for name, column in self.columns.items()})
