"""New x of the nodes of a run, whichever groups they are in."""

import numpy as np

from pdmm.graphs.incidence import Indices
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Updates
from pdmm.problems.block import Floats


class Moves:
    """Writes new x_i into the array of all, group by group.

    Args:
        network: the problem.
        updates: of all nodes.
        x: all x_i, which are changed in place.
    """

    def __init__(self, network: Network, updates: list[Updates], x: Floats) -> None:
        self.dimensions = network.dimensions
        self.updates = updates
        self.x = x.reshape(-1)
        self.whole = len(updates) == 1  # then all nodes are in it, in order
        self.places: list[Indices] = []
        if not self.whole:
            self.places = [network.entries(group.nodes, group.dimension) for group in updates]
        self.group_of: Indices = np.empty(len(network.nodes), dtype=np.intp)
        self.row_of: Indices = np.empty(len(network.nodes), dtype=np.intp)
        for k, group in enumerate(updates):
            self.group_of[group.nodes] = k
            self.row_of[group.nodes] = np.arange(len(group.nodes))

    def all(self, r: Floats) -> None:
        """New x of all nodes, from their r."""
        right = r.reshape(-1)
        if self.whole:
            group = self.updates[0]
            shape = (len(group.nodes), group.dimension)
            own = self.x.reshape(shape)
            own[...] = group.solve(slice(None), right.reshape(shape), own)
            return
        for group, index in zip(self.updates, self.places, strict=True):
            self.x[index] = group.solve(slice(None), right[index], self.x[index])

    def some(self, nodes: Indices, r: Floats) -> Floats:
        """New x of some nodes, from r of these; both have them one after the other."""
        return self._of_one_group(nodes, r) if self.whole else self._of_several(nodes, r)

    def _of_one_group(self, nodes: Indices, r: Floats) -> Floats:
        group = self.updates[0]
        own = self.x.reshape(-1, group.dimension)
        new = group.solve(nodes, r.reshape(len(nodes), group.dimension), own[nodes])
        own[nodes] = new
        return new.reshape(r.shape)

    def _of_several(self, nodes: Indices, r: Floats) -> Floats:
        right = r.reshape(-1)
        new = np.empty_like(right)
        lengths = self.dimensions[nodes]
        begins = np.cumsum(lengths) - lengths
        groups = self.group_of[nodes]
        for k in np.unique(groups):
            group = self.updates[k]
            chosen = groups == k
            rows = self.row_of[nodes[chosen]]
            here = begins[chosen][:, None] + np.arange(group.dimension)
            there = self.places[k][rows]
            new[here] = group.solve(rows, right[here], self.x[there])
            self.x[there] = new[here]
        return new.reshape(r.shape)
