"""Ranks as threads: a communicator with the calls of mpi4py that the engine uses."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import Any, TypeVar

import numpy as np

import pdmm

T = TypeVar("T")


class Meeting:
    """What the ranks share: a place for each, and points at which all wait for all."""

    def __init__(self, size: int) -> None:
        self.places: list[Any] = [None] * size
        self.barrier = Barrier(size, timeout=60)


class Communicator:
    """Rank k of a meeting; it counts its calls."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank = meeting, rank
        self.calls = {"Allreduce": 0, "allgather": 0}
        self.numbers = 0

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return len(self.meeting.places)

    def allgather(self, value: Any) -> list[Any]:
        self.calls["allgather"] += 1
        return self._exchange(value)

    def Allreduce(self, source: Any, target: Any, op: Any = None) -> None:
        self.calls["Allreduce"] += 1
        self.numbers += source.size
        target[...] = sum(self._exchange(source.copy()))

    def _exchange(self, value: Any) -> list[Any]:
        self.meeting.places[self.rank] = value
        self.meeting.barrier.wait()
        found = list(self.meeting.places)
        self.meeting.barrier.wait()
        return found


def on_ranks(size: int, work: Callable[[pdmm.engines.MPI], T]) -> list[T]:
    """What the work returns on each of so many ranks; raises what rank 0 (or another) raised."""
    meeting = Meeting(size)

    def rank(k: int) -> T:
        engine = pdmm.engines.MPI(Communicator(meeting, k))
        try:
            return work(engine)
        except BaseException:
            meeting.barrier.abort()  # the others must not wait for one that is gone
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(rank, k) for k in range(size)]
        errors = [future.exception() for future in futures]
    own = [e for e in errors if e is not None and not isinstance(e, BrokenBarrierError)]
    if own:
        raise own[0]
    return [future.result() for future in futures]


def close(a: Any, b: Any, tolerance: float = 1e-10) -> bool:
    """Whether arrays are the same relative to their largest entry."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return a.shape == b.shape and bool(np.abs(a - b).max() <= tolerance * np.abs(a).max())
