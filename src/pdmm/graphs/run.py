"""PDMM on a graph: one vector z_{j|i} for each end of every edge, what i last heard from j.

x_i   = argmin f_i(x) + rho/2 sum_j ‖B_{i|j} x - z_{j|i}‖²             eq. x_update
lam_{i|j} = rho (z_{j|i} - B_{i|j} x_i)                                eq. lambda_update_2nd
i sends j the message 2 B_{i|j} x_i - z_{j|i} = B_{i|j} x_i - lam_{i|j}/rho
z_{i|j} <- z_{i|j} + relaxation (message - z_{i|j}), at the receiver j
"""

import numpy as np
import numpy.typing as npt

from pdmm.graphs.edges import Flags
from pdmm.graphs.incidence import Indices, ranges
from pdmm.graphs.moves import Moves
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Updates
from pdmm.graphs.schedule import Plan
from pdmm.problems.block import Floats


class Run:
    """The state of a run, and the two ways to go on.

    Args:
        network: the problem.
        updates: of the nodes, prepared for ``rho``.
        x0: the start, flat.
        rho: the penalty.
        relaxation: 1 is PDMM, 1/2 is ADMM.
        loss: the probability that a message is lost.
        seed: of the losses.
    """

    def __init__(
        self,
        network: Network,
        updates: list[Updates],
        x0: Floats,
        rho: float,
        relaxation: float,
        loss: float,
        seed: int,
    ) -> None:
        self.network = network
        self.edges = network.edges
        self.rho = rho
        self.relaxation = relaxation
        self.loss = loss
        self.rng = np.random.default_rng([seed, 1])
        self.x: Floats = x0.astype(network.dtype).reshape(self.edges.x_shape)
        self.moves = Moves(network, updates, self.x)
        # lam = 0 at the start, so that z_{j|i} = B_{j|i} x_j.
        self.z: Floats = np.empty(self.edges.shape, network.dtype)
        self.buffer: Floats = np.empty_like(self.z)
        self.used: Floats = self.edges.spread(self.x, np.empty_like(self.z))
        half = len(self.z) // 2
        self.z[:half] = self.used[half:]
        self.z[half:] = self.used[:half]
        self.messages = 0
        self.sent = 0
        self._message_bytes = self._bytes_of_messages()
        self._all_bytes = int(self._message_bytes.sum())
        self._node_bytes = self._bytes_by_node()

    def _bytes_of_messages(self) -> npt.NDArray[np.int64]:
        """The bytes of the message from each end of every edge."""
        return np.concatenate([self.edges.sizes, self.edges.sizes]) * self.x.itemsize

    def _bytes_by_node(self) -> npt.NDArray[np.int64]:
        """The bytes of all messages that a node sends when it moves."""
        incidence = self.network.incidence
        sums = np.bincount(incidence.holder, self._message_bytes, minlength=incidence.nodes)
        return sums.astype(np.int64)

    @property
    def dual(self) -> Floats:
        """lam_{i|j} = rho (z_{j|i} - B_{i|j} x_i), with the z_{j|i} that x_i was made from."""
        return np.asarray(self.rho * (self.used - self.edges.spread(self.x, self.buffer)))

    # --- synchronous ----------------------------------------------------------------------

    def synchronous(self) -> None:
        """All nodes move, from what they heard before."""
        z = self.z
        self.moves.all(self.edges.gather(z))
        doubled = self.edges.spread(2 * self.x, self.buffer)
        new = self.used  # what it had is not needed any more
        half = len(z) // 2
        np.subtract(doubled[half:], z[half:], out=new[:half])
        np.subtract(doubled[:half], z[:half], out=new[half:])
        if self.relaxation != 1:
            self._relax(new, z)
        if self.loss:
            lost = self.rng.random(len(self._message_bytes)) < self.loss  # by the receivers' rows
            np.copyto(new, z, where=self.edges.entries_of(None, lost))
        self.z = new
        self.used = z
        self.messages += len(self._message_bytes)
        self.sent += self._all_bytes

    def _relax(self, new: Floats, old: Floats) -> None:
        """Put old + relaxation (new - old) in place of new."""
        new -= old
        new *= self.relaxation
        new += old

    # --- asynchronous ---------------------------------------------------------------------

    def asynchronous(self, plan: Plan) -> None:
        """Nodes move one after the other, each from the newest that it heard."""
        nodes = plan.sequence[plan.order]
        lost = self._lost(plan) if self.loss else None
        begin = 0
        first = 0  # of the messages
        for part, end in zip(
            self.edges.parts(nodes, plan.cuts), [*plan.cuts, len(nodes)], strict=True
        ):
            heard = self.z[part.rows]
            x = self.moves.some(nodes[begin:end], part.gather(heard))
            new = 2 * part.spread(x)
            new -= heard
            self.used[part.rows] = heard
            last = first + len(part.messages)
            if self.relaxation != 1 or lost is not None:
                old = self.z[part.partner]
                self._relax(new, old)
                if lost is not None:
                    flags = self.edges.entries_of(part.messages, lost[first:last])
                    np.copyto(new, old, where=flags)
            self.z[part.partner] = new
            begin = end
            first = last
        self.messages += int(self.network.incidence.degree[nodes].sum())
        self.sent += int(self._node_bytes[nodes].sum())

    def _lost(self, plan: Plan) -> Flags:
        """Which messages are lost, level by level; drawn in the order in which they are sent."""
        degree: Indices = self.network.incidence.degree[plan.sequence]
        drawn = self.rng.random(int(degree.sum())) < self.loss
        begins = np.cumsum(degree) - degree
        return np.asarray(drawn[ranges(begins[plan.order], degree[plan.order])])
