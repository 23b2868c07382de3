"""The samples of a few steps of a few clients, taken out of their data in few calls."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pdmm.problems.torch_model.batches import Rows
from pdmm.problems.torch_model.client_data import Samples

MOST_BYTES = 8 * 2**20  # of samples that are taken out at a time, of many clients in few calls,
MOST_BYTES_ALONE = 2**20  # and of one client as many as stay in cache


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


def feed(
    clients: Sequence[Samples], rows: Sequence[list[Rows] | None], count: int
) -> Iterator[Meal]:
    """The samples of ``count`` steps.

    Args:
        clients: their samples.
        rows: which of them each takes in each step; None for all in every step.
        count: how many steps.
    """
    sizes = np.array(
        [_sizes(own, rows_of, count) for own, rows_of in zip(clients, rows, strict=True)]
    )
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
    most = MOST_BYTES if len(clients) > 1 else MOST_BYTES_ALONE
    return max(1, most // max(1, int(sizes.sum(axis=0).max()) * row))


def _alike(sizes: npt.NDArray[np.int64], most: int) -> Iterator[range]:
    """Steps in a row in which nobody takes more or fewer samples than in the first."""
    changes = np.flatnonzero((np.diff(sizes, axis=1) != 0).any(axis=0)) + 1
    for start, stop in pairwise([0, *changes.tolist(), sizes.shape[1]]):
        for first in range(start, stop, most):
            yield range(first, min(first + most, stop))


def _group(
    clients: Sequence[Samples], rows: Sequence[list[Rows] | None], members: list[int], steps: range
) -> Group:
    own = [clients[i] for i in members]
    first = rows[members[0]]
    if first is None:
        return Group(members, _whole([s.X for s in own]), _whole([s.y for s in own]))
    places = [_places(rows[i], steps) for i in members]
    shape = len(members), len(steps), len(first[steps.start])
    X = _taken([s.X for s in own], places)
    y = _taken([s.y for s in own], places)
    return Group(members, X.view(*shape, *X.shape[2:]), y.view(*shape, *y.shape[2:]))


def _whole(data: list[Tensor]) -> Tensor:
    """All samples of some clients, for every step; those of one client are not copied."""
    return data[0][None, None] if len(data) == 1 else torch.stack(data)[:, None]


def _places(rows: list[Rows] | None, steps: range) -> Tensor:
    assert rows is not None  # of one problem, all clients take batches or none does
    return torch.from_numpy(np.concatenate(rows[steps.start : steps.stop]))


def _taken(data: list[Tensor], places: list[Tensor]) -> Tensor:
    """The chosen samples of each client, in a row of one tensor."""
    like = data[0]
    taken = like.new_empty((len(data), len(places[0]), *like.shape[1:]))
    for own, chosen, out in zip(data, places, taken, strict=True):
        torch.index_select(own, 0, chosen.to(own.device), out=out)
    return taken
