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

import torch
from torch import Size, Tensor
from torch.fx.experimental.proxy_tensor import make_fx

Called: TypeAlias = Callable[[tuple[Tensor, ...], Tensor, Tensor], tuple[Tensor, ...]]
Listed: TypeAlias = Callable[..., tuple[Tensor, ...]]

OFTEN = 10  # calls after which it is worth it: writing down takes as long as twenty
MOST = 64  # lists that are kept
WARM_UP = 2  # calls in which PyTorch gets a list ready

_one_at_a_time = Lock()  # PyTorch's tracer is one for all threads


class Traces:
    """The lists of operations of one function, one for each shape of what it is called with."""

    def __init__(self) -> None:
        self._known: dict[tuple[Size, Size], Listed] = {}
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
            return known(*inputs, X, y)
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
                found = _listed(function, parameters, X, y)
                same = _same(found(*parameters, X, y), function(parameters, X, y))
            except Exception:  # what cannot be written down still runs
                same = False
        if same:
            self._known[key] = found
        else:
            self._off = True


def _listed(function: Called, parameters: tuple[Tensor, ...], X: Tensor, y: Tensor) -> Listed:
    """The operations of a call, as a function of its tensors one by one."""

    def plain(parameters: tuple[Tensor, ...], X: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return function(parameters, X, y)  # the tracer counts a method's self as an argument

    graph = make_fx(plain)(parameters, X, y)

    def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(graph(tensors[:-2], tensors[-2], tensors[-1]))

    inputs = (*parameters, X, y)
    try:
        listed: Listed = torch.jit.trace(flat, inputs, check_trace=False)  # type: ignore[no-untyped-call]
        for _ in range(WARM_UP):
            listed(*inputs)
    except Exception:  # a PyTorch that has none any more: then Python goes through the list
        return flat
    return listed


def _same(found: Sequence[Tensor], truth: Sequence[Tensor]) -> bool:
    """Whether all numbers are the same, to the bit."""
    return all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))
