"""A function of tensors written down as the list of its operations, which runs faster.

The gradients of many clients at once are some sixty small operations. Going through the model and
through ``torch.func`` again takes longer than they do, so that a call is written down once it has
been made a few times. The operations, and so the numbers, are the same.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeAlias

from torch import Size, Tensor
from torch.fx.experimental.proxy_tensor import make_fx

Called: TypeAlias = Callable[[tuple[Tensor, ...], Tensor, Tensor], tuple[Tensor, ...]]

OFTEN = 10  # calls after which it is worth it: writing down takes as long as twenty
MOST = 64  # lists that are kept

_one_at_a_time = Lock()  # PyTorch's tracer is one for all threads


class Traces:
    """The lists of operations of one function, one for each shape of what it is called with."""

    def __init__(self) -> None:
        self._known: dict[tuple[Size, Size], Called] = {}
        self._calls: Counter[tuple[Size, Size]] = Counter()
        self._off = False

    def call(
        self, function: Called, parameters: Sequence[Tensor], X: Tensor, y: Tensor
    ) -> tuple[Tensor, ...]:
        """What the function gives, which must not depend on anything else."""
        key = X.shape, y.shape
        inputs = tuple(parameters)
        known = self._known.get(key)
        if known is not None:
            return known(inputs, X, y)
        self._calls[key] += 1
        if self._calls[key] > OFTEN and len(self._known) < MOST and not self._off:
            self._write_down(key, function, inputs, X, y)
        return function(inputs, X, y)

    def _write_down(
        self,
        key: tuple[Size, Size],
        function: Called,
        parameters: tuple[Tensor, ...],
        X: Tensor,
        y: Tensor,
    ) -> None:
        with _one_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self._known[key] = make_fx(_unbound(function))(parameters, X, y).forward
            except Exception:  # what cannot be written down still runs
                self._off = True


def _unbound(function: Called) -> Called:
    """The same as a plain function: the tracer counts a method's self as an argument."""

    def call(parameters: tuple[Tensor, ...], X: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return function(parameters, X, y)

    return call
