"""K gradient steps instead of an exact update, as GPDMM takes them."""

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group, LocalSteps, Rows, Updates
from pdmm.problems.block import Floats

Cursor = npt.NDArray[np.int64]


class DifferentiableGroup(Group):
    """Nodes whose functions have gradients worth following."""

    @abstractmethod
    def gradients(self, rows: Rows, x: Floats, cursor: Cursor) -> Floats:
        """Gradients of some of the nodes, (k, d); mini-batches continue at the cursor."""

    def inexact(self, network: Network, rho: float, steps: LocalSteps) -> Updates:
        return GradientSteps(self, network, rho, steps)


class GradientSteps(Updates):
    """K gradient steps for each node, which start at its own last iterate.

    What is sent, and what the dual is made of, is the mean of the K iterates (Alg. 1).

    Args:
        group: the nodes.
        network: the problem.
        rho: the penalty.
        steps: how many, how large, and where they start.
    """

    def __init__(
        self, group: DifferentiableGroup, network: Network, rho: float, steps: LocalSteps
    ) -> None:
        super().__init__(group)
        self.gradients = group.gradients
        self.count = steps.number
        self.rho = rho
        dtype = network.dtype
        G = group.stiffness(network)
        largest = np.linalg.eigvalsh(G)[:, -1:] if G.ndim == 3 else G.max(1, keepdims=True)
        if steps.step_size is None:
            eta = 1 / np.maximum(group.smoothness(), 1e-300)
        else:
            eta = np.full(len(group.nodes), steps.step_size)
        self.step = (1 / (1 / eta[:, None] + rho * largest)).astype(dtype)
        self.G = (rho * G).astype(dtype)
        places = network.entries(group.nodes, group.dimension)
        self.last: Floats = steps.start.astype(dtype)[places]
        self.cursor = np.zeros(len(group.nodes), dtype=np.int64)

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        x = self.last[rows].copy()
        total = np.zeros_like(x)
        G = self.G[rows]
        step = self.step[rows]
        right = self.rho * r
        for _ in range(self.count):
            pull = np.matmul(G, x[..., None])[..., 0] if G.ndim == 3 else G * x
            x = x - step * (self.gradients(rows, x, self.cursor) + pull - right)  # Alg. 1, line 7
            total += x
            self.cursor[rows] += 1
        self.last[rows] = x
        return np.asarray(total * (1 / self.count))
