"""Which clients the server asks to take part."""

from typing import Any

import numpy as np

from pdmm.common.arrays import refuse_masked
from pdmm.common.checks import number, whole
from pdmm.links.checks import Indices, is_list


class Participation:
    """How many, or which, of the clients take part in a round.

    Args:
        given: a fraction, a count, a list of these (or of lists of clients) for one round after
            the other, repeated, or a callable of the round that returns one of these.
        clients: how many there are.
    """

    def __init__(self, given: Any, clients: int) -> None:
        self.given, self.clients = given, clients
        self.all = False
        self.entries: list[int | Indices] | None = None
        """What a list says of one round after the other."""
        if callable(given):
            return
        refuse_masked("participation", given)
        if is_list(given):
            if len(given) == 0:
                raise ValueError("participation is empty: give a number for at least one round")
            self.entries = [self._entry(v, f"participation[{k}]") for k, v in enumerate(given)]
            if all(np.size(entry) == 0 for entry in self.entries):
                raise ValueError(
                    "participation lists no client for any round: nobody would ever take part"
                )
            return
        found = self._entry(given, "participation")
        self.all = found == clients

    def at(self, r: int) -> int | Indices:
        """A count, or the clients themselves, of round r = 1, 2, ..."""
        if callable(self.given):
            return self._entry(self.given(r), f"participation({r})")
        if is_list(self.given):
            k = (r - 1) % len(self.given)
            return self._entry(self.given[k], f"participation[{k}]")
        return self._entry(self.given, "participation")

    def _entry(self, entry: Any, name: str) -> int | Indices:
        refuse_masked(name, entry)
        if is_list(entry):
            chosen = np.unique(np.asarray(entry, dtype=None if len(entry) else np.intp))
            if (
                chosen.dtype.kind not in "iu"
                or (chosen < 0).any()
                or (chosen >= self.clients).any()
            ):
                raise ValueError(f"{name} must list clients from 0 to {self.clients - 1}")
            return chosen.astype(np.intp)
        if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
            count = whole(name, entry, at_least=1)
            if count > self.clients:
                raise ValueError(f"{name} is {count}, but there are {self.clients} clients")
            return count
        share = number(name, entry.item() if isinstance(entry, np.ndarray) else entry)
        if not 0 < share <= 1:
            raise ValueError(
                f"{name} must be a fraction above 0 and at most 1, or a whole number of clients, "
                f"got {entry!r}"
            )
        return max(1, round(share * self.clients))
