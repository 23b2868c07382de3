"""The constraints that a user gives for the edges of a network, checked: B_{i|j} by row."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from pdmm.common.checks import floats
from pdmm.graphs.incidence import Incidence, Indices
from pdmm.problems.block import Floats

Ends = tuple[int, int]  # positions of i and j


class ConstraintReader:
    """Reads matrices for the edges of a graph, and says which are wrong.

    Args:
        nodes: as a user names them.
        position: of a node among them.
        incidence: of the graph.
        dimensions: of every x_i.
    """

    def __init__(
        self,
        nodes: list[Any],
        position: Mapping[Hashable, int],
        incidence: Incidence,
        dimensions: Indices,
    ) -> None:
        self.nodes = nodes
        self.position = position
        self.incidence = incidence
        self.dimensions = dimensions

    def read(self, constraints: Any) -> list[Floats | None] | None:
        """B_{i|j} of every row, None for the identity; None if all of them are that."""
        given = {} if constraints is None else self._matrices(constraints)
        self._check_lengths(given)
        if not given:
            return None
        self._check_pairs(given)
        return [given.get(row) for row in range(2 * self.incidence.count)]

    def _matrices(self, constraints: Any) -> dict[int, Floats]:
        """B_{i|j} by row, of the edges that have one."""
        if not isinstance(constraints, Mapping):
            raise ValueError(
                "constraints must be a dict with B_{i|j} under the key (i, j), or None, got "
                f"{type(constraints).__name__}"
            )
        both = zip(self.incidence.holder, self.incidence.sender, strict=True)
        rows = {(i, j): row for row, (i, j) in enumerate(both)}
        given: dict[int, Floats] = {}
        for key, value in constraints.items():
            ends = self._ends(key)
            if ends not in rows:
                raise ValueError(f"constraints has the key {key!r}, which is not an edge (i, j)")
            for (i, j), part in _one_by_one(ends, value):
                row = rows[i, j]
                if row in given:
                    raise ValueError(
                        f"constraints has B_{{i|j}} for i = {self.nodes[i]!r}, "
                        f"j = {self.nodes[j]!r} twice"
                    )
                given[row] = self._matrix(i, j, part)
        return given

    def _ends(self, key: Any) -> Any:
        """The positions of a pair of nodes; None for what is no node, () for what is no pair."""
        if not isinstance(key, tuple) or len(key) != 2:
            return ()
        return tuple(self.position.get(node) for node in key)

    def _matrix(self, i: int, j: int, value: Any) -> Floats:
        d = int(self.dimensions[i])
        name = f"constraints[{self.nodes[i]!r}, {self.nodes[j]!r}]"
        if sparse.issparse(value):
            value = value.toarray()
        if np.ndim(value) == 0:
            value = floats(name, value, 0) * np.eye(d)
        B = np.array(floats(name, value, 2), dtype=np.float64)  # a copy: it must not change
        if len(B) == 0:
            raise ValueError(f"{name} has no rows")
        if B.shape[1] != d:
            raise ValueError(
                f"{name} must have {d} columns, as many as x of node {self.nodes[i]!r} has "
                f"entries, got shape {B.shape}"
            )
        return B

    def _check_lengths(self, given: dict[int, Floats]) -> None:
        """Refuse edges without matrices whose ends have x of different lengths."""
        count = self.incidence.count
        held = self.dimensions[self.incidence.holder]
        for e in np.flatnonzero(held[:count] != held[count:]).tolist():
            if e in given or e + count in given:
                continue
            i, j = self._edge(e)
            raise ValueError(
                f"x of node {i!r} has {held[e]} entries and x of node {j!r} has {held[e + count]}, "
                "so that x_i = x_j has no meaning on their edge: give its B matrices in "
                "constraints"
            )

    def _check_pairs(self, given: dict[int, Floats]) -> None:
        """Refuse edges with one matrix, or with two that have different numbers of rows."""
        count = self.incidence.count
        for row in given:
            if (row + count) % (2 * count) not in given:
                i, j = self._edge(row)
                raise ValueError(
                    f"constraints has a matrix for ({i!r}, {j!r}) but none for ({j!r}, {i!r}): "
                    "both ends of the edge need one"
                )
        for e in range(count):
            if e in given and len(given[e]) != len(given[e + count]):
                i, j = self._edge(e)
                raise ValueError(
                    f"constraints are inconsistent on the edge of {i!r} and {j!r}: B_{{i|j}} has "
                    f"{len(given[e])} rows and B_{{j|i}} has {len(given[e + count])}"
                )

    def _edge(self, row: int) -> tuple[Any, Any]:
        i, j = self.incidence.holder[row], self.incidence.sender[row]
        return self.nodes[i], self.nodes[j]


def _one_by_one(ends: Ends, value: Any) -> Iterator[tuple[Ends, Any]]:
    """The matrices of one or of both ends."""
    if _is_pair(value):
        yield ends, value[0]
        yield ends[::-1], value[1]
    else:
        yield ends, value


def _is_pair(value: Any) -> bool:
    """Whether it is two matrices (or numbers), and not the rows of one matrix."""
    if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != 2:
        return False
    if isinstance(value, tuple) and all(isinstance(part, np.ndarray) for part in value):
        return True
    return all(sparse.issparse(part) or np.ndim(part) in (0, 2) for part in value)
