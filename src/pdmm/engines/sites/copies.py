"""What the server of a federation keeps of each client, so that a site may forget everything."""

import itertools
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from pdmm.engines.client_round import committed
from pdmm.engines.client_tables import Tables
from pdmm.engines.memories import EveryMemory
from pdmm.methods.base import Method
from pdmm.problems.block import Floats


class Copies:
    """A copy of every client's memory, and the name under which its site keeps it too.

    Args:
        method: whose memories they are.
        x0: the start, in the run's dtype.
        places: the clients of each site.
    """

    def __init__(self, method: Method, x0: Floats, places: Mapping[str, slice]) -> None:
        self.places = places
        clients = max(place.stop for place in places.values())
        self.memories = EveryMemory(
            method.client_start(np.repeat(x0[None], clients, axis=0)), clients
        )
        # Names are of this object alone: after a restart no site has one of them.
        self._token = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()
        self.names = {name: self.new_name() for name in places}
        self.held = dict.fromkeys(places, False)  # whether the site is thought to have it

    def new_name(self) -> str:
        """A name for a memory that no other has."""
        return f"{self._token}.{next(self._numbers)}"

    def to_send(self, name: str) -> list[Any] | None:
        """The memories of a site's clients, if the site has not got them."""
        if self.held[name]:
            return None
        return list(self.memories.read(self.places[name]))

    def take(self, name: str, method: Method, message: Any, draft: Any, upload: Any) -> None:
        """The uploads of a site's clients count: bring their memories up to date."""
        place = self.places[name]
        after = committed(method, message, self.memories.read(place), draft, upload)
        self.memories.write(place, after)

    def tables(self) -> Tables:
        """All of it, for a checkpoint."""
        return {"memory": self.memories.table(0)}

    def load(self, tables: Tables) -> None:
        """Take that over: no site is thought to have it."""
        self.memories.load(tables["memory"], 0)
        self.held = dict.fromkeys(self.held, False)
