"""Gradient steps of a few clients: at once where that is faster, or one after the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from pdmm.problems.torch_model.batches import Rows
from pdmm.problems.torch_model.client_data import Samples
from pdmm.problems.torch_model.feeding import Group, feed
from pdmm.problems.torch_model.ways import FEWEST, Way, drawing, gpus
from pdmm.problems.torch_model.worker import Worker


class Step(NamedTuple):
    """Set x to keep x - size (gradient + pull)."""

    size: float
    keep: float
    """1 - size times the weights of the quadratic terms."""


class Walkers(NamedTuple):
    """A few clients on their way, a row of each tensor for each."""

    x: Tensor
    pull: Tensor | None
    total: Tensor | None
    """The sum of the iterates so far, where their mean is wanted."""
    clients: Sequence[Samples]
    rows: Sequence[list[Rows] | None]
    """Which samples each takes in each step."""
    seeds: Callable[[int, int], int]
    """Of what the model draws: called with a client's place and the step."""

    def only(self, members: list[int]) -> "Walkers":
        """Some of them: one is a part of the same tensors, several are copies."""
        part = slice(members[0], members[0] + 1) if len(members) == 1 else members
        return self._replace(
            x=self.x[part],
            pull=None if self.pull is None else self.pull[part],
            total=None,
            clients=[self.clients[i] for i in members],
            rows=[self.rows[i] for i in members],
        )


def walk(worker: Worker, way: Way, walkers: Walkers, step: Step, count: int) -> None:
    """Take ``count`` gradient steps, each along the gradient of the next batch; x is changed."""
    if not way.rows:
        for i in range(len(walkers.clients)):
            _alone(worker, way, walkers, i, step, count)
        return
    for steps, groups in feed(walkers.clients, walkers.rows, count):
        for k in range(len(steps)):
            for group in groups:
                _stride(worker, way, walkers, group, k, step)
            if walkers.total is not None:
                walkers.total.add_(walkers.x)


def _stride(worker: Worker, way: Way, walkers: Walkers, group: Group, k: int, step: Step) -> None:
    """One step of the clients of a group."""
    X, y = group.step(k)
    members = group.members
    if len(members) < FEWEST or X.shape[1] > way.rows:
        for place, i in enumerate(members):
            one = walkers.only([i])
            views = worker.layout.views(one.x[0])
            worker.begin(views)
            _move(one.x, views, worker.gradient(X[place], y[place]), one.pull, step)
        return
    if len(members) == len(walkers.clients):
        views = worker.layout.views(walkers.x)
        _move(walkers.x, views, worker.together(views, X, y), walkers.pull, step)
        return
    some = walkers.only(members)
    views = worker.layout.views(some.x)
    _move(some.x, views, worker.together(views, X, y), some.pull, step)
    walkers.x[members] = some.x


def _alone(worker: Worker, way: Way, walkers: Walkers, i: int, step: Step, count: int) -> None:
    """All steps of one client."""
    one = walkers.only([i])
    views = worker.layout.views(one.x[0])
    worker.begin(views)
    done = 0
    for steps, (group,) in feed(one.clients, one.rows, count):
        for k in range(len(steps)):
            X, y = group.step(k)
            with _own_numbers(way, walkers.seeds, i, done + k, X):
                found = worker.gradient(X[0], y[0])
            _move(one.x, views, found, one.pull, step)
            if walkers.total is not None:
                walkers.total[i].add_(one.x[0])
        done += len(steps)


@contextmanager
def _own_numbers(
    way: Way, seeds: Callable[[int, int], int], i: int, k: int, X: Tensor
) -> Iterator[None]:
    """Let a model that draws random numbers draw those of this client and step."""
    if not way.random:
        yield
        return
    with drawing, torch.random.fork_rng(devices=gpus(X)):
        torch.manual_seed(seeds(i, k))
        yield


def _move(
    x: Tensor,
    views: Sequence[Tensor],
    gradient: Sequence[Tensor | None],
    pull: Tensor | None,
    step: Step,
) -> None:
    """Set x to keep x - size (gradient + pull), where views are the parameters' parts of x."""
    if step.keep != 1:
        x.mul_(step.keep)
    if pull is not None:
        x.sub_(pull, alpha=step.size)
    for view, g in zip(views, gradient, strict=True):
        if g is not None:
            view.sub_(g, alpha=step.size)
