"""Which clients are there to take part."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import as_array
from pdmm.common.packing import keepable
from pdmm.links.checks import Flags, probability


@keepable
@dataclass(frozen=True)
class OnOff:
    """Clients that come and go: each is there or away, and stays so a while.

    Args:
        leave: probability that one that is there goes away, a round.
        come: probability that one that is away comes back, a round.
    """

    leave: float
    come: float

    def __post_init__(self) -> None:
        for name in ("leave", "come"):
            object.__setattr__(self, name, probability(name, getattr(self, name)))
        if self.come == 0:
            raise ValueError("come must be above 0: clients that left would never come back")


class Availability:
    """Which clients are there.

    Args:
        given: a probability for every client, :class:`OnOff`, or a table of true and false
            (rounds, clients), repeated.
        clients: how many there are.
        rng: of the random ones.
    """

    def __init__(self, given: Any, clients: int, rng: np.random.Generator) -> None:
        self.given = given
        self.clients = clients
        self.rng = rng
        self.there: Flags | None = None
        if isinstance(given, OnOff):
            steady = given.come / (given.come + given.leave)
            self.there = rng.random(clients) < steady
        else:
            self.table = _read_table(given, clients)

    @property
    def possible(self) -> Flags | None:
        """Who may be there in one round after the other, repeated; None where all may be."""
        if self.there is not None:
            return None
        return np.atleast_2d(self.table > 0)

    def at(self, r: int) -> Flags:
        """Who is there in round r = 1, 2, ..."""
        if self.there is not None:
            if r > 1:
                draw = self.rng.random(self.clients)
                stays, comes = draw >= self.given.leave, draw < self.given.come
                self.there = np.where(self.there, stays, comes)
            return self.there
        if self.table.ndim == 2:
            return np.asarray(self.table[(r - 1) % len(self.table)])
        return np.asarray(self.rng.random(self.clients) < self.table)


def _read_table(given: Any, clients: int) -> npt.NDArray[Any]:
    """A table of true and false, one row per round; or one probability for each client."""
    table = as_array("availability", given)
    if table.ndim == 0 and table.dtype.kind in "fiu":
        table = np.full(clients, table)  # the same for all
    if table.ndim == 2 and table.dtype.kind in "iu" and np.isin(table, (0, 1)).all():
        table = table.astype(bool)
    if table.dtype == bool and table.size and not table.any():
        raise ValueError("availability is false everywhere: nobody would ever take part")
    if table.dtype == bool and table.ndim == 2 and table.shape[1] == clients and len(table):
        return table
    return _probabilities(table, clients)


def _probabilities(table: npt.NDArray[Any], clients: int) -> npt.NDArray[np.float64]:
    if table.shape != (clients,) or table.dtype.kind not in "fiu":
        raise ValueError(
            f"availability must be {clients} probabilities, one a client, a table of true and "
            f"false with {clients} columns, or pdmm.OnOff(leave, come)"
        )
    chances = table.astype(np.float64)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("availability must be probabilities, from 0 to 1")
    if not chances.any():
        raise ValueError("availability is 0 for every client: nobody would ever take part")
    return chances
