"""The history of a run on a network, evaluated for many iterations at a time."""

from time import perf_counter
from typing import Any

import numpy as np

from pdmm.common.checks import ClientError
from pdmm.graphs.edges import Constrained
from pdmm.graphs.network import Network
from pdmm.graphs.nodes import GradientGroup, Group, SmoothGroup
from pdmm.graphs.reference import Optimum
from pdmm.graphs.result import NetworkHistory
from pdmm.problems.base import Floats

HELD_BYTES = 2**22  # of iterates that wait to be evaluated together
CACHED = 2**15  # numbers that are worked on at a time


class Recorder:
    """Collects iterates, and makes the history's columns of them.

    Args:
        network: the problem.
        groups: the nodes' functions.
        optimum: if it is known.
    """

    def __init__(self, network: Network, groups: list[Group], optimum: Optimum | None) -> None:
        self.network, self.groups, self.optimum = network, groups, optimum
        size = int(network.dimensions.sum())
        self.places = [network.entries(g.nodes, g.dimension) for g in groups]
        most = max(1, HELD_BYTES // (network.dtype.itemsize * max(1, size)))
        if any(_smooth(group) for group in groups):
            most = 1  # there is nothing to gain, and a user's function may fail
        self.held = np.empty((most, size), network.dtype)
        self.last: Floats = self.held[0]
        self.count = 0
        self.rows: list[tuple[int, int, int, float]] = []
        self.columns: dict[str, list[float]] = {}
        self.begun = perf_counter()

    def record(self, iteration: int, x: Floats, messages: int, sent: int) -> None:
        """Keep an iterate for the history."""
        self.last = self.held[self.count]  # the iterate recorded last
        self.last[...] = x.reshape(-1)
        self.count += 1
        self.rows.append((iteration, messages, sent, perf_counter() - self.begun))
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
        edges, incidence = self.network.edges, self.network.incidence
        if isinstance(edges, Constrained):
            apart = (edges.C[: edges.half] - edges.C[edges.half :]) @ X.T
            return _root_mean(np.asarray(apart).T, incidence.count)
        u, v = incidence.holder[: incidence.count], incidence.sender[: incidence.count]
        points = X.reshape(len(X), *edges.x_shape)
        # As many at a time as stay in cache: the differences are as many as edges.
        few = max(1, CACHED // max(1, incidence.count * (X.shape[1] // incidence.nodes)))
        return np.concatenate(
            [
                _root_mean(np.take(part, u, axis=1) - np.take(part, v, axis=1), incidence.count)
                for part in (points[k : k + few] for k in range(0, len(points), few))
            ]
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
        columns: dict[str, Any] = dict(self.columns)
        for k, name in enumerate(("iteration", "messages", "bytes", "seconds")):
            columns[name] = [row[k] for row in self.rows]
        names = ("iteration", "error", "consensus", "objective", "messages", "bytes", "seconds")
        return NetworkHistory({name: np.array(columns[name]) for name in names if name in columns})


def _root_mean(apart: Floats, count: int) -> Floats:
    """The root of the sum of squares of every row, divided by count."""
    flat = apart.reshape(len(apart), -1)
    return np.asarray(np.sqrt(np.einsum("se,se->s", flat, flat, dtype=np.float64) / max(1, count)))


def _smooth(group: Group) -> bool:
    return isinstance(group.group if isinstance(group, GradientGroup) else group, SmoothGroup)
