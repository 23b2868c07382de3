"""A round as the server sees it: what it asks of all clients, and what it learns from them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pdmm.common import trees
from pdmm.engines.client_round import Part
from pdmm.engines.traffic import Sent
from pdmm.methods.base import Method
from pdmm.problems.block import Floats, Tally


class Evaluation(NamedTuple):
    """Where the history wants to know F = sum_i w_i f_i."""

    x: Floats
    about: Floats | None = None
    """If given: F(x) - F(about) - grad F(about)·(x - about) instead, without cancellation."""


class Question(NamedTuple):
    """What the server asks of all clients in a round."""

    round: int
    method: Method
    message: Any
    evaluate: Evaluation | None = None
    """Whether the answer has F too, at the x that the message brings."""
    watch: bool = False
    """Whether the answer has the largest L that gradients have shown."""


class Outcome(NamedTuple):
    """What the server learns from a round, and what the round cost."""

    mean: Any
    """The weighted mean of the uploads that arrived; None if none did."""
    share: float
    """The weight of those clients, over the weight of all."""
    tally: Tally
    bad_client: int | None
    """A client whose upload is not finite."""
    disagreement: float | None
    """The weighted mean of ‖x_i - x_s‖²."""
    sent: Sent
    arrived: int
    """How many uploads arrived."""
    value: float | None = None
    """What the question wanted to have evaluated."""
    steepest: float = 0.0
    """The largest L that gradients have shown so far, where it is watched."""


class Sums(NamedTuple):
    """What clients did in a round, added up: those of one process, or all of them."""

    uploads: Any
    """None if none arrived."""
    weight: float
    """Of the clients whose uploads arrived."""
    arrived: int
    tally: Tally
    bad: int | None
    apart: float | None
    """The weighted sum of ‖x_i - x_s‖²."""
    sent: Sent
    value: float | None
    steepest: float

    def outcome(self, weight: float, all_weight: float) -> Outcome:
        """What the server makes of it.

        Args:
            weight: of the uploads that arrived.
            all_weight: of all clients.
        """
        mean = None
        share = 0.0
        disagreement = None
        if self.uploads is not None:
            share = weight / all_weight
            with np.errstate(over="ignore", invalid="ignore"):
                mean = trees.scaled(self.uploads, weight)
            if self.apart is not None:
                disagreement = self.apart / weight
        return Outcome(
            mean=mean,
            share=share,
            tally=self.tally,
            bad_client=self.bad,
            disagreement=disagreement,
            sent=self.sent,
            arrived=self.arrived,
            value=self.value,
            steepest=self.steepest,
        )


def add(
    parts: Sequence[Part], sent: Sent, value: float | None = None, steepest: float = 0.0
) -> Sums:
    """Add up what several blocks of clients did, in their order."""
    tally = Tally()
    bad: int | None = None
    there: list[Part] = []
    for part in parts:
        tally.add(part.tally)
        if bad is None:
            bad = part.bad
        if part.arrived:
            there.append(part)
    uploads = None
    weight = 0.0
    arrived = 0
    apart: float | None = 0.0 if there else None
    with np.errstate(over="ignore", invalid="ignore"):
        if there:
            uploads = trees.added([part.sums for part in there])
        for part in there:
            weight += part.weight
            arrived += part.arrived
            if apart is not None and part.apart is not None:
                apart += part.apart
            else:
                apart = None
    return Sums(
        uploads=uploads,
        weight=weight,
        arrived=arrived,
        tally=tally,
        bad=bad,
        apart=apart,
        sent=sent,
        value=value,
        steepest=steepest,
    )
