"""The history of a run on a network, evaluated for many iterations at a time."""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from pdmm.common.checks import ClientError
from pdmm.graphs.network import Network
from pdmm.graphs.nodes.group import Group
from pdmm.graphs.optimum import Optimum
from pdmm.graphs.result import NetworkHistory
from pdmm.problems.block import Floats

HELD_BYTES = 2**22  # of iterates that wait to be evaluated together
COLUMNS = ("iteration", "error", "consensus", "objective", "messages", "bytes", "seconds")


class Row(NamedTuple):
    """What is known of a recorded iteration without looking at its iterate."""

    iteration: int
    messages: int
    bytes: int
    seconds: float


class Recorder:
    """Collects iterates, and makes the history's columns of them.

    Args:
        network: the problem.
        groups: the nodes' functions.
        optimum: if it is known.
    """

    def __init__(self, network: Network, groups: list[Group], optimum: Optimum | None) -> None:
        self.network = network
        self.groups = groups
        self.optimum = optimum
        self.places = [network.entries(g.nodes, g.dimension) for g in groups]
        size = int(network.dimensions.sum())
        self.held = np.empty((self._most(size), size), network.dtype)
        self.last: Floats = self.held[0]  # the iterate recorded last
        self.count = 0
        self.rows: list[Row] = []
        self.columns: dict[str, list[float]] = {}
        self.begun = perf_counter()

    def _most(self, size: int) -> int:
        """How many iterates wait for each other."""
        if not all(group.stacked for group in self.groups):
            return 1
        return max(1, HELD_BYTES // (self.network.dtype.itemsize * max(1, size)))

    def start_clock(self) -> None:
        """Count the history's seconds from here."""
        self.begun = perf_counter()

    def record(self, iteration: int, x: Floats, messages: int, sent: int) -> None:
        """Keep an iterate for the history."""
        self.last = self.held[self.count]
        self.last[...] = x.reshape(-1)
        self.count += 1
        self.rows.append(Row(iteration, messages, sent, perf_counter() - self.begun))
        if self.count == len(self.held):
            self.flush()

    def flush(self) -> None:
        """Evaluate what waits."""
        X = self.held[: self.count]
        if len(X) == 0:
            return
        self.count = 0
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                values = {"consensus": self._consensus(X), "objective": self._objective(X)}
            except ClientError:
                del self.rows[-len(X) :]
                raise
            if self.optimum is not None:
                away = self.optimum.distance(X.astype(np.float64, copy=False))
                values["error"] = _root_mean(away, len(self.network.nodes))
        for name, column in values.items():
            self.columns.setdefault(name, []).extend(column.tolist())

    def _consensus(self, X: Floats) -> Floats:
        """Root mean square over edges of ‖B_{i|j} x_i - B_{j|i} x_j‖."""
        count = self.network.incidence.count
        return np.concatenate(
            [_root_mean(apart, count) for apart in self.network.edges.differences(X)]
        )

    def _objective(self, X: Floats) -> Floats:
        total = np.zeros(len(X))
        for group, index in zip(self.groups, self.places, strict=True):
            whole = index.size == X.shape[1]
            points = X.reshape(len(X), *index.shape) if whole else X[:, index]
            total += group.values(points)
        return total

    def history(self) -> NetworkHistory:
        """The columns as arrays."""
        self.flush()
        columns: dict[str, list[Any]] = dict(self.columns)
        for name in Row._fields:
            columns[name] = [getattr(row, name) for row in self.rows]
        return NetworkHistory(
            {name: np.array(columns[name]) for name in COLUMNS if name in columns}
        )


def _root_mean(apart: Floats, count: int) -> Floats:
    """The root of the sum of squares of every row, divided by count."""
    flat = apart.reshape(len(apart), -1)
    return np.asarray(np.sqrt(np.einsum("se,se->s", flat, flat, dtype=np.float64) / max(1, count)))
