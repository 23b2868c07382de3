"""What a run on a network returns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.graphs.edges import Constrained
from pdmm.graphs.network import Network, NodeVectors
from pdmm.problems.base import Floats
from pdmm.result import History


class NetworkHistory(History):
    """Columns of equal length, one row per recorded iteration; row 0 is the start."""

    def __missing__(self, name: str) -> Any:
        if name == "error":
            raise KeyError(
                "the history has no 'error', because the optimum is not known: give "
                "solve_network(optimum=...) the minimiser"
            )
        raise KeyError(f"the history has no {name!r}, only {', '.join(self)}")

    def iterations_to(self, error: float) -> int | None:
        """The first recorded iteration from which on the error is at most this, None if none."""
        above = np.flatnonzero(~(self["error"] <= error))
        first = int(above[-1]) + 1 if len(above) else 0
        return int(self["iteration"][first]) if first < len(self["error"]) else None


class EdgeVectors(Mapping[tuple[Any, Any], Floats]):
    """A vector for each end of every edge: ``duals[i, j]`` is lam_{i|j}, which i holds."""

    def __init__(self, network: Network, values: Floats) -> None:
        self.network, self._values = network, values
        holder, sender = network.incidence.holder, network.incidence.sender
        order = np.lexsort((sender, holder))
        self._order, self._keys = order, holder[order] * len(network.nodes) + sender[order]

    def __getitem__(self, ends: tuple[Any, Any]) -> Floats:
        row = self._row(ends)
        if row is None:
            raise KeyError(f"the network has no edge {ends!r}")
        edges = self.network.edges
        if isinstance(edges, Constrained):
            return self._values[edges.entries(np.array([row]))]
        return np.atleast_1d(self._values[row])

    def _row(self, ends: Any) -> int | None:
        position = self.network.position
        if not isinstance(ends, tuple) or len(ends) != 2:
            return None
        try:
            i, j = position[ends[0]], position[ends[1]]
        except (KeyError, TypeError):
            return None
        key = i * len(self.network.nodes) + j
        k = int(np.searchsorted(self._keys, key))
        return int(self._order[k]) if k < len(self._keys) and self._keys[k] == key else None

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return (self.network.edge(int(row)) for row in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"EdgeVectors({len(self)} ends of {len(self) // 2} edges)"


@dataclass(frozen=True)
class NetworkResult:
    """The outcome of :func:`pdmm.solve_network`."""

    x: NodeVectors
    """Every node's final x_i: ``result.x[node]``; ``numpy.asarray`` of it has them as rows."""
    dual: EdgeVectors
    """``result.dual[i, j]`` is lam_{i|j}, node i's dual variable of the edge to j."""
    history: NetworkHistory
    """Columns recorded along the run; see :func:`pdmm.solve_network`."""
    reason: str
    """Why the run stopped, in words."""
    diverged: bool
    """Whether it stopped because it diverged; x is then the last finite one that was recorded."""
    iterations: int
    """Iterations that were done."""
    rho: float
    """The rho that was used."""
    optimum: NodeVectors | None
    """The optimum that ``error`` refers to, if it is known."""
    setup_seconds: float
    """Time spent before the first iteration: factorisations and the direct solve."""
    seed: int
    """The seed that was given."""
    choices: tuple[str, ...] = ()
    """What was chosen for the user, and why, a sentence each."""
