"""The samples of a few steps of a few clients, taken out of their data in as few calls as can be."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pdmm.problems.torch_model.batches import Rows
from pdmm.problems.torch_model.client_data import Samples

MOST_BYTES = 8 * 2**20  # of samples that are taken out at a time


class Group(NamedTuple):
    """Clients that take equally many samples in each of a few steps."""

    members: list[int]
    """Their places among the clients that are fed."""
    X: Tensor
    """(members, steps, samples, ...); one step where all take the same."""
    y: Tensor

    def step(self, k: int) -> Samples:
        """What they take in step k: (members, samples, ...)."""
        place = k if self.X.shape[1] > 1 else 0
        return Samples(self.X[:, place], self.y[:, place])


class Meal(NamedTuple):
    """A few steps in a row, in which each client takes as many samples as in the first."""

    steps: range
    groups: list[Group]


def feed(clients: Sequence[Samples], rows: Sequence[list[Rows] | None], count: int) -> Iterator[Meal]:
    """The samples of ``count`` steps.

    Args:
        clients: their samples.
        rows: which of them each takes in each step; None for all in every step.
        count: how many steps.
    """
    sizes = np.array([_sizes(own, rows_of, count) for own, rows_of in zip(clients, rows, strict=True)])
    for steps in _alike(sizes, _most_steps(clients, sizes)):
        first = sizes[:, steps.start]
        groups = [
            _group(clients, rows, np.flatnonzero(first == size).tolist(), steps)
            for size in np.unique(first)
        ]
        yield Meal(steps, groups)


def _sizes(samples: Samples, rows: list[Rows] | None, count: int) -> list[int]:
    if rows is None:
        return [len(samples)] * count
    return [len(chosen) for chosen in rows]


def _most_steps(clients: Sequence[Samples], sizes: npt.NDArray[np.int64]) -> int:
    """So many steps are taken out at a time."""
    row = clients[0].X[0].numel() * clients[0].X.element_size()
    return max(1, MOST_BYTES // max(1, int(sizes.sum(axis=0).max()) * row))


def _alike(sizes: npt.NDArray[np.int64], most: int) -> Iterator[range]:
    """Steps in a row in which nobody takes more or fewer samples than in the first."""
    changes = np.flatnonzero((np.diff(sizes, axis=1) != 0).any(axis=0)) + 1
    edges = [0, *changes.tolist(), sizes.shape[1]]
    for start, stop in zip(edges, edges[1:], strict=False):
        for first in range(start, stop, most):
            yield range(first, min(first + most, stop))


def _group(
    clients: Sequence[Samples], rows: Sequence[list[Rows] | None], members: list[int], steps: range
) -> Group:
    taken = [_taken(clients[i], rows[i], steps) for i in members]
    if len(taken) == 1:
        return Group(members, taken[0].X[None], taken[0].y[None])
    X = torch.stack([own.X for own in taken])
    return Group(members, X, torch.stack([own.y for own in taken]))


def _taken(samples: Samples, rows: list[Rows] | None, steps: range) -> Samples:
    """(steps, samples, ...) of one client; all of its samples are not copied."""
    if rows is None:
        return Samples(samples.X[None], samples.y[None])
    chosen = rows[steps.start : steps.stop]
    index = torch.from_numpy(np.concatenate(chosen)).to(samples.X.device)
    shape = len(chosen), len(chosen[0])
    X = samples.X.index_select(0, index)
    y = samples.y.index_select(0, index)
    return Samples(X.view(*shape, *X.shape[1:]), y.view(*shape, *y.shape[1:]))
