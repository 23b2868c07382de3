"""Whether clients are worked on at once or one after the other: found out by trying."""

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from pdmm.problems.torch_model.client_data import Samples
from pdmm.problems.torch_model.parameters import check_buffers
from pdmm.problems.torch_model.worker import Worker

MOST_FLOP = 25e6  # of a client's gradient: beyond, PyTorch is busy enough with one client
FEWEST = 3  # clients that are worth being worked on at once
CLOSE = 1e-3  # of a gradient: by how much both ways may differ, relative to its length

drawing = Lock()  # PyTorch's random numbers have one state for all threads


class Way(NamedTuple):
    """How the gradients of a block of clients are computed."""

    rows: int
    """The largest batches for which it is done at once; 0 for never."""
    why: str
    """A sentence for ``result.choices``."""
    random: bool = False
    """Whether the model draws random numbers."""


class Tried(NamedTuple):
    """What one gradient has shown of a model."""

    flop: float
    """That it takes for each sample; 0 where they cannot be counted."""
    random: bool
    """Whether it drew random numbers."""


def try_out(worker: Worker, x: Tensor, samples: Samples, size: int) -> Tried:
    """Compute one gradient, and refuse a model or a loss with which that does not work.

    Args:
        worker: with the model.
        x: its parameters, as a vector.
        samples: of client 0.
        size: how many of them to take.
    """
    X, y = samples.X[:size], samples.y[:size]
    before = {name: buffer.clone() for name, buffer in worker.model.named_buffers()}
    worker.begin(worker.layout.views(x.clone()))
    with drawing, torch.random.fork_rng(devices=gpus(X)):
        before_drawing = _random_state(X)
        with FlopCounterMode(display=False) as counter:
            loss = _loss(worker, X, y)
            found = torch.autograd.grad(loss, worker.parameters, allow_unused=True)
        random = not torch.equal(before_drawing, _random_state(X))
    if all(g is None for g in found):
        raise ValueError("loss does not depend on any parameter of the model")
    check_buffers(worker.model, before)
    return Tried(counter.get_total_flops() / len(X), random)


def _loss(worker: Worker, X: Tensor, y: Tensor) -> Tensor:
    try:
        output = worker.model(X)
    except Exception as error:
        raise ValueError(
            f"model cannot be called with {len(X)} samples of client 0, X of shape "
            f"{tuple(X.shape)} and {X.dtype}: {_first_line(error)}"
        ) from error
    try:
        loss = worker.loss(output, y)
    except Exception as error:
        raise ValueError(
            f"loss cannot be called as loss(output, target) with {len(X)} samples of client 0, "
            f"where target has shape {tuple(y.shape)} and is {y.dtype}: {_first_line(error)}"
        ) from error
    if not isinstance(loss, Tensor) or loss.ndim != 0:
        got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise ValueError(f"loss must return one number, the mean over the batch, got {got}")
    if not loss.requires_grad:
        raise ValueError("loss does not depend on any parameter of the model")
    return loss


def choose(
    worker: Worker, x: Tensor, clients: Sequence[Samples], size: int | None, tried: Tried
) -> Way:
    """Whether clients can be worked on at once, and whether that is worth it.

    Args:
        worker: with the model.
        x: its parameters, as a vector.
        clients: their samples.
        size: of the batches; None for all samples.
        tried: what a first gradient has shown.
    """
    one_by_one = "clients are worked on one after the other"
    if tried.random:
        return Way(
            0, f"{one_by_one}: the model draws random numbers, which are each client's own", True
        )
    most = int(MOST_FLOP / tried.flop) if tried.flop else max(map(len, clients))
    usual = min(map(len, clients)) if size is None else size
    if usual > most:
        return Way(
            0,
            f"{one_by_one}: gradients of {usual} samples take {usual * tried.flop / 1e6:.3g} "
            f"million operations each, and only below {MOST_FLOP / 1e6:.0f} million it is faster "
            "to compute those of many clients at once",
        )
    fault = _fault(worker, x, clients, usual)
    if fault:
        return Way(0, f"{one_by_one}: torch.func.vmap {fault}")
    return Way(most, "the clients of a block are worked on at once, by torch.func.vmap")


def _fault(worker: Worker, x: Tensor, clients: Sequence[Samples], usual: int) -> str:
    """What goes wrong where two clients are worked on at once; empty where nothing does."""
    pair = [clients[0], clients[-1]]
    n = min(usual, *map(len, pair))
    X = torch.stack([samples.X[:n] for samples in pair])
    y = torch.stack([samples.y[:n] for samples in pair])
    flat = torch.stack([x, x])
    try:
        both = worker.together_plainly(worker.layout.views(flat), X, y)
    except Exception as error:
        return f"cannot do this model or loss ({_first_line(error)})"
    for k in range(2):
        worker.begin(worker.layout.views(flat[k]))
        alone = worker.gradient(X[k], y[k])
        if not _close([g[k] for g in both], alone):
            return "gives other gradients for this model or loss"
    return ""


def _close(found: Sequence[Tensor], alone: Sequence[Tensor | None]) -> bool:
    apart = size = 0.0
    for a, b in zip(found, alone, strict=True):
        known = torch.zeros_like(a) if b is None else b
        apart += float((a - known).square().sum())
        size += float(known.square().sum())
    return apart <= CLOSE**2 * size


def _random_state(X: Tensor) -> Tensor:
    """The state of the random numbers of where X is."""
    return torch.cuda.get_rng_state(X.device) if gpus(X) else torch.get_rng_state()


def gpus(X: Tensor) -> list[torch.device]:
    """The graphics processor that X is on, if it is on one."""
    return [X.device] if X.device.type == "cuda" else []


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
