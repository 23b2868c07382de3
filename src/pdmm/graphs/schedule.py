"""Which nodes may move at the same time without anyone noticing.

In an asynchronous iteration nodes move one after the other. Two that are not neighbours do not
see each other, so that their order does not matter: a node waits only for those of its
neighbours (and its own earlier moves) that come before it. Nodes that wait equally long form a
level and are updated together, with the numbers that one after the other would give.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pdmm.graphs.edges import Incidence, Indices, ranges


class Plan(NamedTuple):
    """A sequence of activations, and how to go through it."""

    sequence: Indices
    """Nodes, as they are activated."""
    order: Indices
    """Positions in the sequence, level by level."""
    cuts: list[int]
    """Where the second level, the third, ... begin."""


def plan(incidence: Incidence, sequence: Indices) -> Plan:
    """The levels of a sequence of activations."""
    level = (
        _of_permutation(incidence, sequence)
        if len(np.unique(sequence)) == len(sequence) == incidence.nodes
        else _of_any(incidence, sequence)
    )
    order = np.argsort(level, kind="stable")
    return Plan(sequence, order, np.cumsum(np.bincount(level))[:-1].tolist())


def _of_any(incidence: Incidence, sequence: Indices) -> Indices:
    last = np.full(incidence.nodes, -1)
    level = np.empty(len(sequence), dtype=np.intp)
    for k, node in enumerate(sequence):
        before = last[incidence.neighbours(node)].max(initial=last[node])
        level[k] = last[node] = before + 1
    return level


def _of_permutation(incidence: Incidence, sequence: Indices) -> Indices:
    """The same where every node occurs once, without a loop over nodes."""
    n = incidence.nodes
    place = np.empty(n, dtype=np.intp)
    place[sequence] = np.arange(n)
    # Rows whose holder moves before their sender, sorted by holder: whom a node keeps waiting.
    sender = incidence.sender[incidence.rows]
    later = place[incidence.holder[incidence.rows]] < place[sender]
    told, ends = sender[later], np.cumsum(later)
    last = incidence.first + incidence.degree
    end = np.where(last > 0, ends[last - 1] if len(ends) else 0, 0)
    count = np.diff(end, prepend=0)
    start = end - count
    waiting = np.bincount(told, minlength=n)
    level = np.zeros(n, dtype=np.intp)
    ready = np.flatnonzero(waiting == 0)
    depth = 0
    while len(ready):
        level[place[ready]] = depth
        next_ones = told[ranges(start[ready], count[ready])]
        if len(next_ones) > n // 8:
            waiting -= np.bincount(next_ones, minlength=n)
        else:
            np.subtract.at(waiting, next_ones, 1)
        ready = np.unique(next_ones[waiting[next_ones] == 0])
        depth += 1
    return level


class Activations:
    """The activations of every iteration, as many as there are nodes.

    Args:
        incidence: of the graph.
        order: positions of nodes, repeated; None for a fresh random permutation each time.
        seed: of the permutations.
    """

    def __init__(self, incidence: Incidence, order: Sequence[int] | None, seed: int) -> None:
        self.incidence, self.rng = incidence, np.random.default_rng(seed)
        self.order = None if order is None else np.array(order, dtype=np.intp)
        self.begun = 0
        self._known: dict[int, Plan] = {}

    def __iter__(self) -> Iterator[Plan]:
        """The plans of one iteration after the other."""
        n = self.incidence.nodes
        while True:
            if self.order is None:
                yield plan(self.incidence, self.rng.permutation(n))
                continue
            start = self.begun % len(self.order)
            if start not in self._known:
                sequence = np.take(self.order, np.arange(start, start + n), mode="wrap")
                if len(self._known) * n > 2**22:  # bounded memory
                    self._known.clear()
                self._known[start] = plan(self.incidence, sequence)
            self.begun += n
            yield self._known[start]
