"""Vectors by the names of nodes and edges: as a result has them, and as a user gives them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import as_array
from pdmm.common.checks import vector
from pdmm.graphs.network import Network
from pdmm.problems.block import Floats


class NodeVectors(Mapping[Any, Floats]):
    """A vector for every node, by its name; ``numpy.asarray`` of it has them as rows."""

    def __init__(self, network: Network, flat: Floats) -> None:
        self.network = network
        self.flat = flat.reshape(-1)

    def __getitem__(self, node: Any) -> Floats:
        try:
            i = self.network.position[node]
        except (KeyError, TypeError):
            raise KeyError(f"the network has no node {node!r}") from None
        first = self.network.offsets[i]
        return self.flat[first : first + self.network.dimensions[i]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.network.nodes)

    def __len__(self) -> int:
        return len(self.network.nodes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        d = self.network.dimensions
        if not (d == d[0]).all():
            raise ValueError("the nodes' vectors have different lengths: they are not one array")
        rows = self.flat.reshape(len(d), d[0])
        return np.array(rows, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"NodeVectors({len(self)} nodes)"


class EdgeVectors(Mapping[tuple[Any, Any], Floats]):
    """A vector for each end of every edge: ``duals[i, j]`` is lam_{i|j}, which i holds."""

    def __init__(self, network: Network, values: Floats) -> None:
        self.network = network
        self._values = values
        holder, sender = network.incidence.holder, network.incidence.sender
        self._order = np.lexsort((sender, holder))
        self._keys = holder[self._order] * len(network.nodes) + sender[self._order]

    def __getitem__(self, ends: tuple[Any, Any]) -> Floats:
        row = self._row(ends)
        if row is None:
            raise KeyError(f"the network has no edge {ends!r}")
        return self.network.edges.of_row(self._values, row)

    def _row(self, ends: Any) -> int | None:
        if not isinstance(ends, tuple) or len(ends) != 2:
            return None
        try:
            i, j = (self.network.position[node] for node in ends)
        except (KeyError, TypeError):
            return None
        key = i * len(self.network.nodes) + j
        k = int(np.searchsorted(self._keys, key))
        found = k < len(self._keys) and self._keys[k] == key
        return int(self._order[k]) if found else None

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return (self.network.edge(int(row)) for row in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"EdgeVectors({len(self)} ends of {len(self) // 2} edges)"


def read_vectors(name: str, given: Any, network: Network) -> npt.NDArray[np.float64]:
    """Vectors of all nodes, flat: from a dict, an array of rows, or one vector for all."""
    d = network.dimensions
    size = int(d.sum())
    if given is None:
        return np.zeros(size)
    if isinstance(given, Mapping):
        return _from_dict(name, given, network)
    if not (d == d[0]).all():
        raise ValueError(f"{name} must be a dict from nodes to vectors: their lengths differ")
    array = as_array(name, given)
    if array.ndim != 2:
        return np.tile(vector(name, np.atleast_1d(array), int(d[0])), len(d))
    shape = (len(d), int(d[0]))
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return vector(name, array.reshape(-1), size)


def _from_dict(name: str, given: Mapping[Any, Any], network: Network) -> npt.NDArray[np.float64]:
    for node in given:
        if node not in network.position:
            raise ValueError(f"{name} has {node!r}, which is not a node of the graph")
    lacking = [node for node in network.nodes if node not in given]
    if lacking:
        raise ValueError(f"{name} has no vector for node {lacking[0]!r}")
    rows = []
    for node, length in zip(network.nodes, network.dimensions, strict=True):
        label = f"{name}[{node!r}]"
        row = np.atleast_1d(as_array(label, given[node]))
        rows.append(vector(label, row, int(length)))
    return np.concatenate(rows)
