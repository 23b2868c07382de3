"""Threads over blocks of clients, and one BLAS thread in each.

BLAS sums in an order that depends on its number of threads. With one BLAS thread a block,
blocks that do not depend on the number of threads, and sums taken in the order of the
blocks, the same call gives the same bits on any number of threads.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

import scipy.linalg  # noqa: F401 - with NumPy's, the BLAS libraries that are looked for below
from threadpoolctl import ThreadpoolController

from pdmm.common.checks import whole

T = TypeVar("T")
R = TypeVar("R")


def available() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _OneBlasThread:
    """Holds BLAS to one thread while anyone needs that; the limit is the whole process's."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limit: Any = None
        # Looking for libraries takes milliseconds, and NumPy's and SciPy's stay the same.
        self.controller = ThreadpoolController()

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.limit = self.controller.limit(limits=1, user_api="blas")
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.limit is not None:
                self.limit.restore_original_limits()


_one_blas_thread = _OneBlasThread()


class Threads:
    """A pool that maps a function over blocks, in order; a context manager.

    Args:
        threads: how many; as many as this process may use cores, if not given.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = available() if threads is None else whole("threads", threads, at_least=1)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(_one_blas_thread)
        self._pool = (
            self._stack.enter_context(ThreadPoolExecutor(self.threads))
            if self.threads > 1
            else None
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._stack.close()

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The function's results, in the order of the items."""
        return map(function, items) if self._pool is None else self._pool.map(function, items)
