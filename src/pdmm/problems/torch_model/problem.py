"""The problem itself: a model of PyTorch, its loss, and the clients' data."""

import os
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pdmm.common.checks import ClientError, not_negative, vector
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import ClientRows, Floats, Source
from pdmm.problems.constants import Kind, Which
from pdmm.problems.torch_model.arguments import (
    check_callable,
    check_rows,
    numbers,
    read_batch_size,
    read_sampling,
)
from pdmm.problems.torch_model.batches import Batches, Sampling
from pdmm.problems.torch_model.block import TorchBlock, keep_freed_memory, one_torch_thread
from pdmm.problems.torch_model.client_data import Samples, read
from pdmm.problems.torch_model.parameters import Layout, check_statistics
from pdmm.problems.torch_model.traces import Traces
from pdmm.problems.torch_model.ways import Way, choose, try_out
from pdmm.problems.torch_model.worker import Loss, Worker

BLOCK_BYTES = 4 * 2**20  # of the parameters of a block's clients: they should stay in cache
MOST_CLIENTS = 64  # in a block
CLIENTS_WORTH_A_BLOCK = 10  # where they are worked on at once
FEWEST_CLIENTS = 4  # in a block, where there are more than a few blocks, however large they are
BLOCKS = 4  # so many keep a few threads busy


class TorchProblem(Problem):
    """A model of PyTorch: f_i is its mean loss on client i's samples.

    A run starts from the model as it was given, if it is given no x0, and x is the vector of its
    trainable parameters, one after the other. All is computed in float32.

    Args:
        model: a ``torch.nn.Module``, of which a copy is made. Parameters with
            ``requires_grad=False`` stay as they are, and so do buffers. In training, each of its
            modules is in the mode, ``train()`` or ``eval()``, in which it was given; for values,
            all are in ``eval()``.
        loss: called as ``loss(output, target)``: the mean over the batch, a tensor with one
            number, as ``torch.nn.CrossEntropyLoss()`` gives it.
        datasets: for each client a dataset of PyTorch, or a pair of tensors (X, y).
        batch_size: how many samples a gradient is of; None or "full" for all of a client's.
        sampling: how they are drawn. "shuffled": each client goes through its samples in a new
            order in each epoch, the last batch of which may be smaller. "replacement": each
            sample is drawn on its own. "stored": in the order of the data, the last partial batch
            being left out.
        device: where the model is computed.
        evaluate: called as ``evaluate(model)`` whenever the history gets a row; it returns a dict
            of numbers, which become columns. The model is in ``eval()``.
        weight_decay: weight of weight_decay/2 ‖x‖² in every f_i.
        gradient_norm: whether the history has ‖grad F‖ too, which is a pass over all data.
        folder: where the clients' memories live as files, if not all take part in every round
            and the main memory is too small.

    The loss need not be convex, so there are no certificates, and no parameter of a method can be
    "auto".

    Example:
        >>> import torch, pdmm
        >>> _ = torch.manual_seed(0)
        >>> data = [(torch.randn(40, 2) + 4 * c, torch.full((40,), c)) for c in (0, 1)]
        >>> model = torch.nn.Sequential(
        ...     torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
        ... )
        >>> problem = pdmm.TorchProblem(model, torch.nn.CrossEntropyLoss(), data, batch_size=10)
        >>> result = pdmm.solve(problem, pdmm.AGPDMM(step_size=0.1, local_steps=8), rounds=30)
        >>> X, y = (torch.cat(parts) for parts in zip(*data))
        >>> problem.accuracy(result.x, X, y) > 0.9
        True
        >>> trained = problem.model(result.x)          # a torch.nn.Module
    """

    accurate = False
    convex = False
    x0: npt.NDArray[np.float64]

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        datasets: Any,
        batch_size: int | Literal["full"] | None = 32,
        sampling: Sampling = "shuffled",
        device: Any = "cpu",
        evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
        weight_decay: float = 0.0,
        gradient_norm: bool = False,
        folder: str | None = None,
    ) -> None:
        check_callable(model, loss, evaluate)
        check_statistics(model)
        self.layout = Layout(model)
        self.device = torch.device(device)
        self._model = self.layout.copied(model, self.layout.vector(model)).to(self.device)
        self._loss = loss
        self.data = read(datasets, self.device)
        self.samples = np.array([len(own) for own in self.data])
        self.clients = len(self.data)
        self.dimension = self.layout.dimension
        self.parameters = self.layout.described()
        self.dtype = np.dtype(np.float32)
        self.batches = Batches(read_batch_size(batch_size), read_sampling(sampling))
        self._check_stored()
        self.evaluate = evaluate
        self.evaluates = evaluate is not None
        self.weight_decay = not_negative("weight_decay", weight_decay)
        self.gradient_norm = bool(gradient_norm)
        self.memory_folder = None if folder is None else os.path.abspath(folder)
        self.first = 0
        self._start = self.layout.vector(self._model)
        self.x0 = self._start.cpu().numpy().astype(np.float64)
        self._traces = Traces()
        self._workers = threading.local()
        with one_torch_thread():
            self._tried = try_out(self.worker(), self._start, self.data[0], self._usual(0))
        self.parallel = not self._tried.random  # PyTorch's random numbers have one state

    def _check_stored(self) -> None:
        size = self.batches.size
        if size is None or self.batches.sampling != "stored":
            return
        for i, samples in enumerate(self.samples.tolist()):
            if samples < size:
                raise ValueError(
                    f"batch_size is {size}, but datasets[{i}] (client {i}) has only "
                    f"{samples} samples, and sampling='stored' takes whole batches alone"
                )

    def _usual(self, i: int) -> int:
        """How many samples a gradient of client i is of."""
        samples = len(self.data[i])
        return samples if self.batches.size is None else min(self.batches.size, samples)

    def __repr__(self) -> str:
        size = self.batches.size
        batch = "full batches" if size is None else f"{self.batches.sampling} batches of {size}"
        decay = f", weight_decay={self.weight_decay:g}" if self.weight_decay else ""
        return (
            f"TorchProblem({self.clients} clients, {self.samples.sum()} samples, "
            f"{type(self._model).__name__} with {self.dimension} parameters, {batch}{decay})"
        )

    # --- what a federation asks ----------------------------------------------------------------

    @property
    def smallest_batch(self) -> int:
        """Samples of the smallest batch that a client may take."""
        return min(self.batches.fewest(samples) for samples in self.samples.tolist())

    @property
    def sample_size(self) -> int:
        """Numbers of one sample, with what belongs to it."""
        X, y = self.data[0]
        return int(X[0].numel() + y[0].numel())

    # --- what a run asks --------------------------------------------------------------------

    def begin(self, seed: int, first: int) -> None:
        self.batches = Batches(self.batches.size, self.batches.sampling, seed)
        self.first = first

    @property
    def alike(self) -> dict[str, Any]:
        return {
            "parameters": ", ".join(self.layout.names),
            "batch_size": self.batches.size,
            "sampling": self.batches.sampling,
            "weight_decay": self.weight_decay,
            "evaluate": "given" if self.evaluates else "not given",
            "gradient_norm": self.gradient_norm,
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        return (self.way.why,)

    @cached_property
    def way(self) -> Way:
        """How the gradients of a block are computed; found out when it is asked for first."""
        with one_torch_thread():
            return choose(self.worker(), self._start, self.data, self.batches.size, self._tried)

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Source:
        if self.dimension * 4 * FEWEST_CLIENTS <= BLOCK_BYTES:  # else it would be much memory
            keep_freed_memory()
        return super().prepare(rounds, steps, exact, threads)

    def worker(self) -> Worker:
        """The model of this thread."""
        found: Worker | None = getattr(self._workers, "own", None)
        if found is None:
            found = Worker(self._model, self._loss, self.layout, self._traces)
            self._workers.own = found
        return found

    def blocks(self) -> list[slice]:
        worth = CLIENTS_WORTH_A_BLOCK if self.way.rows else 1
        most = min(max(1, BLOCK_BYTES // (4 * self.dimension)), MOST_CLIENTS)
        # Of every block the engine keeps a sum of uploads in float64: there must not be too many.
        needed = min(-(-self.clients // most), max(BLOCKS, self.clients // FEWEST_CLIENTS))
        count = max(needed, min(BLOCKS, self.clients // worth), 1)
        edges = [i * self.clients // count for i in range(count + 1)]
        return [slice(a, b) for a, b in pairwise(edges)]

    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> TorchBlock:
        return TorchBlock(self, np.arange(self.clients)[clients], cursor)

    def check(self, x0: Floats, exact: bool) -> None:
        if exact:
            raise ValueError(self.no_exact_step)

    no_exact_step = (
        "the clients of a TorchProblem cannot minimise exactly, as PDMM and FedSplit have them do: "
        "take pdmm.AGPDMM or pdmm.GPDMM, which take gradient steps instead"
    )

    def penalties(self, x: Floats) -> npt.NDArray[np.float64]:
        """Weight decay's part of the f_i at x, which is (d,) or (b, d)."""
        wide = x.astype(np.float64)
        return np.asarray(self.weight_decay / 2 * (wide * wide).sum(-1))

    def order_of(self, samples: Samples) -> float:
        """A number that depends on the order of a client's samples, where a run does."""
        if self.batches.size is None:
            return 0.0
        weights = np.random.default_rng(self.batches.size).uniform(1, 2, len(samples))
        size = samples.X.flatten(1).abs().double().mean(1).cpu().numpy()
        target = samples.y.reshape(len(samples), -1).abs().double().mean(1).cpu().numpy()
        return float(weights @ (size + target)) / len(samples)

    def measures(self, x: Floats) -> dict[str, float]:
        if self.evaluate is None:
            return {}
        try:
            with torch.no_grad():
                found = self.evaluate(self.model(x).eval())
        except Exception as error:
            raise ClientError(f"evaluate raised {type(error).__name__}: {error}") from error
        return numbers(found)

    # --- what a user asks -------------------------------------------------------------------

    def model(self, x: Any) -> nn.Module:
        """The model with the parameters x: a copy of the one that was given."""
        point = vector("x", x, self.dimension).astype(np.float32)
        return self.layout.copied(self._model, torch.from_numpy(point).to(self.device))

    def accuracy(self, x: Any, X: Tensor, y: Tensor) -> float:
        """The share of the rows of X whose class y has the largest output."""
        point = vector("x", x, self.dimension).astype(np.float32)
        check_rows(X, y)
        worker = self.worker()
        with one_torch_thread():
            worker.judged_at(torch.from_numpy(point).to(self.device))
            outputs = worker.outputs(X.to(self.device))
        if outputs.ndim != 2:
            raise ValueError(
                "accuracy is for models with an output for each class, (rows, classes); "
                f"this one gives {tuple(outputs.shape)}"
            )
        return float((outputs.argmax(1).cpu() == y.cpu()).double().mean())

    def _client_constants(
        self, which: Which, threads: Threads
    ) -> dict[Which, tuple[npt.NDArray[np.float64], Kind]]:
        self._unknown("smoothness L" if which == "L" else "strong convexity mu")

    def _unknown(self, what: str) -> NoReturn:
        raise ValueError(
            f"the {what} of a TorchProblem is not known, and a network has none: give the method "
            "its numbers, e.g. pdmm.AGPDMM(step_size=0.05, local_steps=20)"
        )
