"""Which nodes may move at the same time without anyone noticing.

In an asynchronous iteration nodes move one after the other. Two that are not neighbours do not
see each other, so that their order does not matter: a node waits only for those of its
neighbours (and its own earlier moves) that come before it. Nodes that wait equally long form a
level and are updated together, with the numbers that one after the other would give.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdmm.graphs.incidence import Incidence, Indices, ranges
from pdmm.graphs.network import Network

KEPT = 2**22  # activations whose plans are kept


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
    if len(np.unique(sequence)) == len(sequence) == incidence.nodes:
        level = _of_permutation(incidence, sequence)
    else:
        level = _of_any(incidence, sequence)
    order = np.argsort(level, kind="stable")
    return Plan(sequence, order, np.cumsum(np.bincount(level))[:-1].tolist())


def _of_any(incidence: Incidence, sequence: Indices) -> Indices:
    """The level of every activation: one more than that of the last that it has to wait for."""
    last = np.full(incidence.nodes, -1)
    level = np.empty(len(sequence), dtype=np.intp)
    for k, node in enumerate(sequence):
        before = last[incidence.neighbours(node)].max(initial=last[node])
        level[k] = last[node] = before + 1
    return level


def _of_permutation(incidence: Incidence, sequence: Indices) -> Indices:
    """The same where every node occurs once, without a loop over nodes."""
    place = np.empty(incidence.nodes, dtype=np.intp)
    place[sequence] = np.arange(incidence.nodes)
    later = _later_neighbours(incidence, place)
    waiting = np.bincount(later.nodes, minlength=incidence.nodes)  # for how many neighbours
    level = np.zeros(incidence.nodes, dtype=np.intp)
    ready = np.flatnonzero(waiting == 0)
    depth = 0
    while len(ready):
        level[place[ready]] = depth
        told = later.of(ready)
        _count_down(waiting, told)
        ready = np.unique(told[waiting[told] == 0])
        depth += 1
    return level


class _LaterNeighbours(NamedTuple):
    """For each node, those of its neighbours that move after it and have to wait for it."""

    nodes: Indices
    """Of the first node, of the second, ..."""
    first: Indices
    """Where those of each node begin."""
    end: Indices
    """Where they end."""

    def of(self, nodes: Indices) -> Indices:
        """Those of some nodes, one after the other."""
        return self.nodes[ranges(self.first[nodes], self.end[nodes] - self.first[nodes])]


def _later_neighbours(incidence: Incidence, place: Indices) -> _LaterNeighbours:
    """The neighbours that move later, if ``place`` says when each node moves."""
    holder = incidence.holder[incidence.rows]  # sorted
    sender = incidence.sender[incidence.rows]
    later = place[holder] < place[sender]
    before = np.concatenate([[0], np.cumsum(later)])  # how many of the rows up to here
    return _LaterNeighbours(
        nodes=sender[later],
        first=before[incidence.first],
        end=before[incidence.first + incidence.degree],
    )


def _count_down(waiting: Indices, told: Indices) -> None:
    """One less for every time that a node is told."""
    if len(told) > len(waiting) // 8:
        waiting -= np.bincount(told, minlength=len(waiting))
    else:
        np.subtract.at(waiting, told, 1)


class Activations:
    """The activations of every iteration, as many as there are nodes.

    Args:
        incidence: of the graph.
        order: positions of nodes, repeated; None for a fresh random permutation each time.
        seed: of the permutations.
    """

    def __init__(self, incidence: Incidence, order: Sequence[int] | None, seed: int) -> None:
        self.incidence = incidence
        self.rng = np.random.default_rng(seed)
        self.order = None if order is None else np.array(order, dtype=np.intp)

    def __iter__(self) -> Iterator[Plan]:
        """The plans of one iteration after the other."""
        return self._random() if self.order is None else self._repeated(self.order)

    def _random(self) -> Iterator[Plan]:
        while True:
            yield plan(self.incidence, self.rng.permutation(self.incidence.nodes))

    def _repeated(self, order: Indices) -> Iterator[Plan]:
        n = self.incidence.nodes
        known: dict[int, Plan] = {}
        start = 0
        while True:
            if start not in known:
                sequence = np.take(order, np.arange(start, start + n), mode="wrap")
                if len(known) * n > KEPT:
                    known.clear()
                known[start] = plan(self.incidence, sequence)
            yield known[start]
            start = (start + n) % len(order)


def read_order(network: Network, order: Any, seed: int) -> Activations:
    """The activations that a user asked for."""
    if order is None:
        return Activations(network.incidence, None, seed)
    try:
        given = list(order)
    except TypeError:
        raise ValueError(f"order must be a sequence of nodes, got {order!r}") from None
    if not given:
        raise ValueError("order is empty: it must name every node at least once")
    positions = []
    for k, node in enumerate(given):
        try:
            positions.append(network.position[node])
        except (KeyError, TypeError):
            raise ValueError(f"order[{k}] is {node!r}, which is not a node of the graph") from None
    missing = set(range(len(network.nodes))) - set(positions)
    if missing:
        raise ValueError(f"order never activates {network.name(min(missing))}")
    return Activations(network.incidence, positions, seed)
