"""How many local steps each client takes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import refuse_masked
from pdmm.common.checks import whole
from pdmm.links.checks import Indices, is_list


class LocalSteps:
    """How many local steps the clients take: fast ones more, stragglers fewer.

    Args:
        given: a number for every client, or a callable of round and client.
        clients: how many there are.
    """

    def __init__(self, given: Any, clients: int) -> None:
        self.call: Callable[[int, int], Any] | None = given if callable(given) else None
        if self.call is not None:
            return
        refuse_masked("local_steps", given)
        if not is_list(given) or len(given) != clients:
            raise ValueError(
                f"local_steps must be a number for each of the {clients} clients, or a callable of "
                f"round and client, got {given!r}"
            )
        self.counts = np.array(
            [whole(f"local_steps[{i}] (client {i})", v, at_least=1) for i, v in enumerate(given)]
        )

    def at(self, r: int, clients: Indices) -> npt.NDArray[np.int64]:
        """Steps of some clients in round r = 1, 2, ..."""
        if self.call is None:
            return np.asarray(self.counts[clients])
        counts = [
            whole(f"local_steps({r}, {i})", self.call(r, int(i)), at_least=1) for i in clients
        ]
        return np.array(counts, dtype=np.int64)
