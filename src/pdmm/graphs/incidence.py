"""Which edges meet at which nodes, as arrays of rows.

An edge e between u and v has two rows. Row e is held by u: it has what v last sent to u. Row
E + e is held by v. So the partner of a row, the same edge as the other end sees it, is found in
the other half, and a message sent is half an array moved.
"""

from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import sparse

Indices = npt.NDArray[np.intp]


def ranges(starts: Indices, counts: Indices) -> Indices:
    """starts[0], starts[0] + 1, ... (counts[0] of them), starts[1], ..., one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (ends - counts), counts))


class Incidence:
    """Which rows each node holds.

    Args:
        nodes: how many there are.
        u: one end of every edge.
        v: the other end.
    """

    def __init__(self, nodes: int, u: Indices, v: Indices) -> None:
        self.nodes = nodes
        self.count = len(u)
        self.holder: Indices = np.concatenate([u, v])
        self.sender: Indices = np.concatenate([v, u])
        self.degree: Indices = np.bincount(self.holder, minlength=nodes)
        self.rows: Indices = np.argsort(self.holder, kind="stable")  # by node
        self.first: Indices = np.cumsum(self.degree) - self.degree

    @cached_property
    def ends(self) -> tuple[Indices, Indices]:
        """The two ends of every edge."""
        return self.holder[: self.count], self.sender[: self.count]

    @cached_property
    def components(self) -> npt.NDArray[np.int32]:
        """A number for every node, the same for all nodes of a component."""
        links = sparse.coo_array(
            (np.ones(self.count, np.int8), self.ends), shape=(self.nodes, self.nodes)
        )
        labels = sparse.csgraph.connected_components(links, directed=False)[1]
        return np.asarray(labels)

    def of(self, nodes: Indices) -> Indices:
        """The rows of some nodes, node after node."""
        return self.rows[ranges(self.first[nodes], self.degree[nodes])]

    def of_one(self, node: int) -> Indices:
        """The rows of one node."""
        first = self.first[node]
        return self.rows[first : first + self.degree[node]]

    def neighbours(self, node: int) -> Indices:
        """The nodes at the other ends of a node's edges."""
        return self.sender[self.of_one(node)]

    def partner(self, rows: Indices) -> Indices:
        """The rows of the same edges at their other ends."""
        return np.where(rows < self.count, rows + self.count, rows - self.count)
