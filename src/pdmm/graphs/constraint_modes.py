"""The parts of the error of a run with B matrices, component by component.

With C x for B_{i|j} x_i on all rows and P, which swaps the two ends of every edge, theta are the
eigenvalues of C'PC relative to C'C: 1 where the constraints leave x free.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.graphs.incidence import Indices

Vector = npt.NDArray[np.float64]
NEAR_ONE = 1e-6  # 1 - |theta| below which it is looked at whether it is 0
FREE = 1e-9  # what a free direction may have left on a row, of all that its two ends have there
EQUAL = 1e-6  # relative difference of 1 - |theta| up to which eigenvalues count as one
NOTHING = 1e-12  # a singular value of a node's matrices that is none, relative to the largest


class ComponentModes(NamedTuple):
    """Directions as columns, of which ‖C x‖ = 1."""

    common: Vector
    """What the constraints leave free."""
    slow: Vector
    """What dies last of all else; without columns if there is nothing else."""
    gap: float
    """1 - |theta| of the latter, or NaN."""


class _End(NamedTuple):
    """What belongs to theta of one sign: vectors as columns."""

    free: Vector
    """Those of theta = 1 or -1."""
    vectors: Vector
    """All others."""
    gaps: Vector
    """1 - |theta| of the others."""


def modes_of_component(C: Vector, row_nodes: Indices, column_nodes: Indices) -> ComponentModes:
    """What the constraints of a component leave free, and what dies last of all else.

    Args:
        C: the rows of all edges at one end, then of the same edges at the other end.
        row_nodes: the node of every row.
        column_nodes: the node of every column.
    """
    scaling = _scaling(C, row_nodes, column_nodes)
    U = C @ scaling  # orthonormal columns: node by node, so that small B are as good as large
    half = len(C) // 2
    first, second = U[:half], U[half:]
    theta, vectors = np.linalg.eigh(first.T @ second + second.T @ first)
    positive = _end(theta, vectors, first - second)
    # What is at -1 does not occur in the error: its free part is left out.
    negative = _end(-theta, vectors, first + second)
    slow = min(positive, negative, key=lambda end: end.gaps.min(initial=np.inf))
    common = scaling @ positive.free
    if len(slow.gaps) == 0:
        return ComponentModes(common, np.zeros((C.shape[1], 0)), np.nan)
    gap = float(slow.gaps.min())
    return ComponentModes(common, scaling @ slow.vectors[:, slow.gaps <= (1 + EQUAL) * gap], gap)


def _scaling(C: Vector, row_nodes: Indices, column_nodes: Indices) -> Vector:
    """For each node, the columns that make those of C orthonormal."""
    blocks: list[Vector] = []
    for node in np.unique(column_nodes):
        columns = np.flatnonzero(column_nodes == node)
        _, s, V = np.linalg.svd(C[np.ix_(row_nodes == node, columns)], full_matrices=False)
        some = s > NOTHING * s.max(initial=0.0)
        block = np.zeros((C.shape[1], int(some.sum())))
        block[columns] = V[some].T / s[some]
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def _end(theta: Vector, vectors: Vector, apart: Vector) -> _End:
    """What belongs to positive theta, where apart v = 0 if and only if theta is 1."""
    near = theta > 1 - NEAR_ONE
    free, held = _split(vectors[:, near], apart)
    between = (theta >= 0) & ~near
    left = apart @ held  # 1 - theta is ‖apart v‖², which has no cancellation
    gaps, turn = np.linalg.eigh(left.T @ left)
    return _End(
        free,
        np.concatenate([vectors[:, between], held @ turn], axis=1),
        np.concatenate([1 - theta[between], np.maximum(gaps, 0.0)]),
    )


def _split(Q: Vector, apart: Vector) -> tuple[Vector, Vector]:
    """The directions of Q that are free, and the others.

    An edge with small B is a constraint like any other: rows are compared with their own size.
    """
    size = np.linalg.norm(apart, axis=1)
    some = size > 0
    R = np.linalg.qr((apart[some] / size[some, None]) @ Q, mode="r")
    _, s, V = np.linalg.svd(R)
    rank = int((s > FREE).sum())
    return Q @ V[rank:].T, Q @ V[:rank].T
