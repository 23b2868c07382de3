"""Which nodes may move at the same time without anyone noticing.

In an asynchronous iteration nodes move one after the other. Two that are not neighbours do not
see each other, so that their order does not matter: a node waits only for those of its
neighbours (and its own earlier moves) that come before it. Nodes that wait equally long form a
level and are updated together, with the numbers that one after the other would give.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pdmm.graphs.edges import Incidence, Indices


def levels(incidence: Incidence, sequence: Indices) -> list[Indices]:
    """Positions in a sequence of activations, level by level."""
    level = (
        _of_permutation(incidence, sequence)
        if len(np.unique(sequence)) == len(sequence) == incidence.nodes
        else _of_any(incidence, sequence)
    )
    order = np.argsort(level, kind="stable")
    return np.split(order, np.cumsum(np.bincount(level))[:-1])


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
    later = place[incidence.holder] > place[incidence.sender]  # rows whose sender comes first
    waiting = np.bincount(incidence.holder[later], minlength=n)
    level = np.zeros(n, dtype=np.intp)
    ready = np.flatnonzero(waiting == 0)
    depth = 0
    while len(ready):
        level[place[ready]] = depth
        rows = incidence.of(ready)
        told = incidence.sender[rows]
        told = told[place[told] > place[incidence.holder[rows]]]
        waiting -= np.bincount(told, minlength=n)
        ready = np.unique(told[waiting[told] == 0])
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
        self._known: dict[int, tuple[Indices, list[Indices]]] = {}

    def __iter__(self) -> Iterator[tuple[Indices, list[Indices]]]:
        """Sequences of nodes, with their levels."""
        n = self.incidence.nodes
        while True:
            if self.order is None:
                sequence = self.rng.permutation(n)
                yield sequence, levels(self.incidence, sequence)
                continue
            start = self.begun % len(self.order)
            if start not in self._known:
                sequence = np.take(self.order, np.arange(start, start + n), mode="wrap")
                if len(self._known) > 64:
                    self._known.clear()
                self._known[start] = sequence, levels(self.incidence, sequence)
            self.begun += n
            yield self._known[start]


def message_starts(incidence: Incidence, sequence: Indices) -> Indices:
    """Where each activation's messages begin among all that a sequence sends."""
    sent = incidence.degree[sequence]
    return np.cumsum(sent) - sent
