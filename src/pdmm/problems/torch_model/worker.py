"""A copy of the model that one thread works with: gradients of one client, or of many at once."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from pdmm.problems.torch_model.parameters import Layout, share
from pdmm.problems.torch_model.traces import Traces

Loss = Callable[[Any, Tensor], Tensor]
CHUNK = 1024  # samples that values are taken of at a time


class Worker:
    """A model and its loss, for one thread.

    Args:
        model: of which copies are made; its modules train or not as they were given.
        loss: of its output and the targets, the mean over a batch.
        layout: where its parameters stand in a vector.
        traces: lists of operations, shared by all threads.
    """

    def __init__(self, model: nn.Module, loss: Loss, layout: Layout, traces: Traces) -> None:
        self.model = copy.deepcopy(model)
        self.judge = copy.deepcopy(model).eval()
        self.loss = loss
        self.layout = layout
        self.traces = traces
        self.parameters = layout.of(self.model)
        self.judged = layout.of(self.judge)
        self._of_many = vmap(grad(self._loss_at))

    def _loss_at(self, parameters: tuple[Tensor, ...], X: Tensor, y: Tensor) -> Tensor:
        named = dict(zip(self.layout.names, parameters, strict=True))
        return self.loss(functional_call(self.model, named, (X,)), y)

    def together(self, views: Sequence[Tensor], X: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        """Gradients of a few clients, of which each has a row of every array."""
        return self.traces.call(self._of_many, views, X, y)

    def together_plainly(self, views: Sequence[Tensor], X: Tensor, y: Tensor) -> list[Tensor]:
        """The same without a list of operations, to try out."""
        return list(self._of_many(tuple(views), X, y))

    def begin(self, views: Sequence[Tensor]) -> None:
        """From now on, the model's parameters are these parts of a client's vector."""
        share(self.parameters, views)

    def gradient(self, X: Tensor, y: Tensor) -> list[Tensor | None]:
        """The gradient of one client's batch; None for parameters that it does not depend on."""
        loss = self.loss(self.model(X), y)
        return list(torch.autograd.grad(loss, self.parameters, allow_unused=True))

    # --- all samples of a client, as the model predicts: dropout is off -----------------------

    def judged_at(self, flat: Tensor) -> None:
        """From now on, values are those at this vector."""
        share(self.judged, self.layout.views(flat))

    def value(self, X: Tensor, y: Tensor) -> float:
        """The mean loss of all samples."""
        total = 0.0
        with torch.no_grad():
            for rows in _chunks(len(X)):
                loss = self.loss(self.judge(X[rows]), y[rows])
                total += float(loss) * (rows.stop - rows.start)
        return total / len(X)

    def judged_gradient(self, X: Tensor, y: Tensor) -> Tensor:
        """The gradient of that, (d,)."""
        total = torch.zeros(self.layout.dimension, device=X.device)
        parts = self.layout.views(total)
        for rows in _chunks(len(X)):
            loss = self.loss(self.judge(X[rows]), y[rows])
            share_of_all = (rows.stop - rows.start) / len(X)
            found = torch.autograd.grad(loss, self.judged, allow_unused=True)
            for part, g in zip(parts, found, strict=True):
                if g is not None:
                    part.add_(g, alpha=share_of_all)
        return total

    def outputs(self, X: Tensor) -> Tensor:
        """What the model predicts, of all rows."""
        with torch.no_grad():
            return torch.cat([self.judge(X[rows]) for rows in _chunks(len(X))])


def _chunks(samples: int) -> list[slice]:
    starts = range(0, samples, CHUNK)
    return [slice(a, min(a + CHUNK, samples)) for a in starts]
