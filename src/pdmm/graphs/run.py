"""PDMM on a graph: one vector z_{j|i} for each end of every edge, what i last heard from j.

x_i   = argmin f_i(x) + rho/2 sum_j ‖B_{i|j} x - z_{j|i}‖²             eq. x_update
lam_{i|j} = rho (z_{j|i} - B_{i|j} x_i)                                eq. lambda_update_2nd
i sends j the message 2 B_{i|j} x_i - z_{j|i} = B_{i|j} x_i - lam_{i|j}/rho
z_{i|j} <- z_{i|j} + relaxation (message - z_{i|j}), at the receiver j
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.graphs.edges import Indices, ranges
from pdmm.graphs.network import Network
from pdmm.graphs.nodes import GradientGroup, Group
from pdmm.graphs.schedule import Activations, Plan
from pdmm.problems.base import Floats


class Run:
    """The state of a run, and the two ways to go on.

    Args:
        network: the problem.
        groups: the nodes' functions, prepared for ``rho``.
        x0: the start, flat.
        rho: the penalty.
        relaxation: 1 is PDMM, 1/2 is ADMM.
        loss: the probability that a message is lost.
        seed: of the losses.
    """

    def __init__(
        self,
        network: Network,
        groups: list[Group],
        x0: Floats,
        rho: float,
        relaxation: float,
        loss: float,
        seed: int,
    ) -> None:
        self.network, self.groups, self.edges = network, groups, network.edges
        self.rho, self.relaxation, self.loss = rho, relaxation, loss
        self.rng = np.random.default_rng([seed, 1])
        dtype, shape = network.dtype, self.edges.shape
        self.x: Floats = x0.astype(dtype).reshape(self.edges.x_shape)
        # lam = 0 at the start, so that z_{j|i} = B_{j|i} x_j.
        self.z: Floats = np.empty(shape, dtype)
        self.buffer: Floats = np.empty(shape, dtype)
        self.used: Floats = self.edges.spread(self.x, np.empty(shape, dtype))
        half = len(self.z) // 2
        self.z[:half], self.z[half:] = self.used[half:], self.used[:half]
        self.messages = self.sent = 0
        self._sizes = np.concatenate([self.edges.sizes, self.edges.sizes])
        self._all_bytes = int(self._sizes.sum()) * self.x.itemsize
        senders = network.incidence.holder
        self._node_bytes = np.bincount(senders, self._sizes, minlength=len(network.nodes))
        self._node_bytes = self._node_bytes.astype(np.int64) * self.x.itemsize
        d = network.dimensions
        self._places: list[Any] = []
        for group in groups:
            index = network.entries(group.nodes, group.dimension)
            self._places.append(None if index.size == self.x.size else index)
            if isinstance(group, GradientGroup):
                group.start(self.x.reshape(-1)[index])
        self._group_of = np.empty(len(d), dtype=np.intp)
        self._row_of = np.empty(len(d), dtype=np.intp)
        for k, group in enumerate(groups):
            self._group_of[group.nodes] = k
            self._row_of[group.nodes] = np.arange(len(group.nodes))

    @property
    def dual(self) -> Floats:
        """lam_{i|j} = rho (z_{j|i} - B_{i|j} x_i), with the z_{j|i} that x_i was made from."""
        return np.asarray(self.rho * (self.used - self.edges.spread(self.x, self.buffer)))

    # --- synchronous ----------------------------------------------------------------------

    def synchronous(self) -> None:
        """All nodes move, from what they heard before."""
        edges, z = self.edges, self.z
        self._move_all(edges.gather(z))
        doubled = edges.spread(2 * self.x, self.buffer)
        new = self.used  # what it had is not needed any more
        half = len(z) // 2
        np.subtract(doubled[half:], z[half:], out=new[:half])
        np.subtract(doubled[:half], z[:half], out=new[half:])
        if self.relaxation != 1:
            new -= z
            new *= self.relaxation
            new += z
        if self.loss:
            lost = self.rng.random(len(self._sizes)) < self.loss  # by the receivers' rows
            np.copyto(new, z, where=edges.entries_of(None, lost))
        self.z, self.used = new, z
        self.messages += len(self._sizes)
        self.sent += self._all_bytes

    def _move_all(self, r: Floats) -> None:
        flat, right = self.x.reshape(-1), r.reshape(-1)
        for group, index in zip(self.groups, self._places, strict=True):
            if index is None:
                shape = (len(group.nodes), group.dimension)
                own = flat.reshape(shape)
                own[...] = group.solve(slice(None), right.reshape(shape), own)
            else:
                flat[index] = group.solve(slice(None), right[index], flat[index])

    # --- asynchronous ---------------------------------------------------------------------

    def asynchronous(self, plan: Plan) -> None:
        """Nodes move one after the other, each from the newest that it heard."""
        incidence = self.network.incidence
        nodes = plan.sequence[plan.order]
        sent = incidence.degree[nodes]
        lost: npt.NDArray[np.bool_] | None = None
        if self.loss:  # drawn in the order in which messages are sent
            degree = incidence.degree[plan.sequence]
            drawn = self.rng.random(int(degree.sum())) < self.loss
            lost = drawn[ranges((np.cumsum(degree) - degree)[plan.order], sent)]
        begin, first = 0, 0
        for part, end in zip(
            self.edges.parts(nodes, plan.cuts), [*plan.cuts, len(nodes)], strict=True
        ):
            heard = self.z[part.rows]
            x = self._move(nodes[begin:end], part.gather(heard))
            new = 2 * part.spread(x)
            new -= heard
            self.used[part.rows] = heard
            if self.relaxation != 1 or lost is not None:
                old = self.z[part.partner]
                new -= old
                new *= self.relaxation
                new += old
                if lost is not None:
                    flags = lost[first : first + len(part.messages)]
                    np.copyto(new, old, where=self.edges.entries_of(part.messages, flags))
            self.z[part.partner] = new
            begin, first = end, first + len(part.messages)
        self.messages += int(sent.sum())
        self.sent += int(self._node_bytes[nodes].sum())

    def _move(self, nodes: Indices, r: Floats) -> Floats:
        """New x of some nodes, from r of these; both have them one after the other."""
        flat, right = self.x.reshape(-1), r.reshape(-1)
        if len(self.groups) == 1 and self._places[0] is None:
            shape = (len(nodes), self.groups[0].dimension)
            own = flat.reshape(-1, shape[1])
            new = self.groups[0].solve(nodes, right.reshape(shape), own[nodes])
            own[nodes] = new
            return new.reshape(len(nodes), *self.edges.x_shape[1:]) if r.ndim > 1 else new.ravel()
        d = self.network.dimensions
        begin = np.cumsum(d[nodes]) - d[nodes]
        made = np.empty_like(right)
        for k in np.unique(self._group_of[nodes]):
            group, chosen = self.groups[k], self._group_of[nodes] == k
            across = np.arange(group.dimension)
            here = begin[chosen][:, None] + across
            rows = self._row_of[nodes[chosen]]
            there = (
                rows[:, None] * group.dimension + across
                if self._places[k] is None
                else self._places[k][rows]
            )
            flat[there] = made[here] = group.solve(rows, right[here], flat[there])
        return made.reshape(r.shape)


def activations_of(network: Network, order: Any, seed: int) -> Activations:
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
