"""A block of clients of a PyTorch model: their gradients, steps and values, as NumPy arrays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pdmm.common.checks import ClientError
from pdmm.problems.block import Block, Floats
from pdmm.problems.torch_model.batches import Rows, mask_seed
from pdmm.problems.torch_model.walking import Step, Walkers, walk

if TYPE_CHECKING:
    from pdmm.problems.torch_model.problem import TorchProblem

T = TypeVar("T")


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let PyTorch work on one thread, as BLAS does: else the bits depend on how many there are."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, up to 64 MB, for the next arrays of a few megabytes.

    It gives back twice as much as the largest array that was freed so far. If that is small, each
    step is given new pages, and the system fills them with zeros: that took a tenth of a round.
    """
    np.empty(31 * 2**20, dtype=np.uint8)


class TorchBlock(Block):
    """The mean losses of a block of clients.

    Arrays are NumPy's, so that every engine can work with them; on a CPU, tensors share their
    memory.

    Args:
        problem: with the model and the data.
        clients: their numbers among those of the problem.
        cursor: how many steps each of them has taken; None for values of all samples.
    """

    def __init__(
        self,
        problem: "TorchProblem",
        clients: npt.NDArray[np.int64],
        cursor: npt.NDArray[np.int64] | None,
    ) -> None:
        super().__init__(len(clients))
        self.problem = problem
        self.numbers = [int(i) for i in clients]
        self.samples = [problem.data[i] for i in self.numbers]
        self.cursor = cursor

    def name(self, i: int) -> str:
        return f"the loss of client {self.numbers[i]}"

    def _tensor(self, array: Floats) -> Tensor:
        """Numbers of a run, where the model is: the one place in which they move there."""
        held = np.ascontiguousarray(array, dtype=np.float32)
        if not held.flags.writeable:  # as PyTorch wants it, though nobody writes
            held = held.copy()
        return torch.from_numpy(held).to(self.problem.device)

    def _array(self, tensor: Tensor) -> Floats:
        """The way back."""
        return np.asarray(tensor.cpu().numpy(), dtype=np.float32)

    def _own(self, x: Floats) -> Floats:
        """A copy of x with a row for each client."""
        rows = np.empty((self.size, self.problem.dimension), np.float32)
        rows[:] = x
        return rows

    # --- training -----------------------------------------------------------------------------

    def _gradient(self, x: Floats) -> Floats:
        if self.cursor is None:
            return self._of_all_samples(x)
        # One step of length 1: what x moves by is the gradient, and nothing else is in it.
        moved = self._walked(self._own(x), Step(1.0, 0.0), 1, None, None)
        return self._decay * x - moved if self._decay else -moved

    def value_and_gradient(self, x: Floats) -> tuple[Floats, Floats]:
        if self.problem.batches.size is not None or self.problem.way.random:
            raise ClientError(
                "L-BFGS and other methods that compare values need both values and gradients of "
                "all samples: give TorchProblem batch_size=None and a model without dropout, or "
                "take a method such as pdmm.AGPDMM"
            )
        return super().value_and_gradient(x)

    def _steps(
        self,
        start: Floats,
        step: float,
        count: int,
        pull: Floats | None,
        rho: float,
        average: bool,
    ) -> tuple[Floats, Floats]:
        if self.cursor is None:
            return super()._steps(start, step, count, pull, rho, average)
        x = self._own(start)
        total = np.zeros_like(x) if average else None
        stride = Step(step, 1 - step * (rho + self.problem.weight_decay))
        last = self._walked(x, stride, count, pull, total)
        if total is None:
            return last, last
        total *= 1 / count
        return last, total

    def _walked(
        self, x: Floats, step: Step, count: int, pull: Floats | None, total: Floats | None
    ) -> Floats:
        """The rows of x after some steps; ``total`` becomes the sum of the iterates."""
        assert self.cursor is not None
        problem = self.problem
        walkers = Walkers(
            x=self._tensor(x),
            pull=None if pull is None else self._tensor(np.broadcast_to(pull, x.shape)),
            total=None if total is None else self._tensor(total),
            clients=self.samples,
            rows=[self._rows(k, count) for k in range(self.size)],
            seeds=self._seed,
        )
        try:
            with one_torch_thread():
                walk(problem.worker(), problem.way, walkers, step, count)
        except Exception:
            self.value(x)  # if the samples of one client are to blame, this names it
            raise
        self._keep(x, walkers.x)
        if total is not None and walkers.total is not None:
            self._keep(total, walkers.total)
        return x

    def _keep(self, array: Floats, tensor: Tensor) -> None:
        """Take numbers over from where the model is, unless they are in the same memory."""
        if self.problem.device.type != "cpu":
            array[:] = self._array(tensor)

    def _rows(self, k: int, count: int) -> list[Rows] | None:
        assert self.cursor is not None
        client = self.problem.first + self.numbers[k]
        samples = len(self.samples[k])
        return self.problem.batches.rows(client, samples, int(self.cursor[k]), count)

    def _seed(self, i: int, k: int) -> int:
        """Of what the model draws at the i-th client of the block, k steps from now."""
        assert self.cursor is not None
        client = self.problem.first + self.numbers[i]
        return mask_seed(self.problem.batches.seed, client, int(self.cursor[i]) + k)

    # --- all samples ------------------------------------------------------------------------

    def _judged(self, x: Floats, ask: Callable[[Tensor, Tensor], T]) -> list[T]:
        """What is asked of all samples of each client, at its own row of x."""
        rows = np.broadcast_to(x, (self.size, self.problem.dimension))
        worker = self.problem.worker()
        found = []
        with one_torch_thread():
            for i, samples in enumerate(self.samples):
                if i == 0 or x.ndim > 1:
                    worker.judged_at(self._tensor(rows[i]))
                try:
                    found.append(ask(*samples))
                except Exception as error:
                    raise ClientError(
                        f"{self.name(i)} raised {type(error).__name__}: {error}"
                    ) from error
        return found

    def value(self, x: Floats) -> Floats:
        losses = self._judged(x, self.problem.worker().value)
        return np.array(losses) + self.problem.penalties(x)

    def _of_all_samples(self, x: Floats) -> Floats:
        found = self._judged(x, self.problem.worker().judged_gradient)
        return np.stack([self._array(g) for g in found]) + self._decay * x

    @property
    def _decay(self) -> np.float32:
        return np.float32(self.problem.weight_decay)

    def fingerprint(self, x: Floats) -> Floats:
        order = [self.problem.order_of(samples) for samples in self.samples]
        return np.asarray(self.value(x) * (1 + np.array(order)))

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        raise ClientError(self.problem.no_exact_step)
