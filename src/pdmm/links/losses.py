"""Which messages are lost."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.common.packing import keepable
from pdmm.links.checks import Flags, Indices, probability


@keepable
@dataclass(frozen=True)
class Bursts:
    """Losses that come in bursts (Gilbert-Elliott): a link is good or bad, and stays so a while.

    Args:
        start: probability that a good link turns bad, a round.
        end: probability that a bad link turns good, a round.
        loss: probability that a message is lost on a bad link.
        otherwise: the same on a good link.
    """

    start: float
    end: float
    loss: float = 1.0
    otherwise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("start", "end", "loss", "otherwise"):
            object.__setattr__(self, name, probability(name, getattr(self, name)))
        if self.start + self.end == 0:
            raise ValueError("start and end are both 0: the links would never change")

    @property
    def mean(self) -> float:
        """The share of messages that is lost in the long run."""
        bad = self.start / (self.start + self.end)
        return bad * self.loss + (1 - bad) * self.otherwise


class Losses:
    """Which messages are lost, on one of the links (down, up, or back) of every client."""

    def __init__(self, given: Any, clients: int, rng: np.random.Generator) -> None:
        self.rng, self.bursts = rng, given if isinstance(given, Bursts) else None
        self.loss = 0.0
        self.bad: Flags | None = None
        if self.bursts is None:
            self.loss = probability("loss", given)
            if self.loss == 1:
                raise ValueError("loss is 1: nothing would ever arrive")
            return
        if self.bursts.mean == 1:
            raise ValueError("loss is 1 in the long run: nothing would ever arrive")
        self.share = self.bursts.start / (self.bursts.start + self.bursts.end)
        self.bad = rng.random(clients) < self.share
        self.since = np.ones(clients, dtype=np.int64)  # the round that ``bad`` refers to

    @property
    def none(self) -> bool:
        """Whether nothing is ever lost."""
        return self.bursts is None and self.loss == 0

    def arrive(self, clients: Indices, r: int) -> Flags:
        """Which messages of these clients arrive in round r."""
        if self.none:
            return np.ones(len(clients), dtype=bool)
        loss: Any = self.loss
        if self.bursts is not None and self.bad is not None:
            # A chain of two states, several rounds on: what is left of where it was.
            memory = (1 - self.bursts.start - self.bursts.end) ** (r - self.since[clients])
            bad = self.share + (self.bad[clients] - self.share) * memory
            self.bad[clients] = self.rng.random(len(clients)) < bad
            self.since[clients] = r
            loss = np.where(self.bad[clients], self.bursts.loss, self.bursts.otherwise)
        return np.asarray(self.rng.random(len(clients)) >= loss)
