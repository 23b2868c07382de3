"""Timing side by side: this machine's noise hits what is compared alike."""

import resource
from collections.abc import Callable
from time import perf_counter

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.common.threads import Threads, available
from pdmm.engines.exchange import Question
from pdmm.engines.in_process import InProcess


def seconds(function: Callable[[], object], clock: Callable[[], float] = perf_counter) -> float:
    start = clock()
    function()
    return clock() - start


def side_by_side(
    repeats: int, *, clock: Callable[[], float] = perf_counter, **functions: Callable[[], object]
) -> dict[str, float]:
    """The best time of each function, all of them run in turn."""
    best = dict.fromkeys(functions, np.inf)
    for _ in range(repeats):
        for name, function in functions.items():
            best[name] = min(best[name], seconds(function, clock))
    return best


def peak_gigabytes() -> float:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def read_once(array: npt.NDArray[np.floating]) -> None:
    """Read an array once, on all cores: the limit of anything that must read it."""
    parts = np.array_split(np.arange(len(array)), 4 * available())
    with Threads() as threads:
        list(threads.map(lambda part: array[part[0] : part[-1] + 1].max(), parts))


class Rounds:
    """A run of a method that is stepped one round at a time, without evaluations."""

    def __init__(
        self, problem: pdmm.Problem, method: pdmm.Method, rounds: int, threads: Threads
    ) -> None:
        x0 = np.zeros(problem.dimension) if problem.x0 is None else problem.x0
        self.method = method
        self.clients = InProcess(problem)
        self.clients.threads = threads
        self.clients.prepare(method, x0, np.ones(problem.clients), rounds)
        self.server = method.server_start(x0, lambda v, t: v)
        self.done = 0

    def step(self) -> None:
        self.done += 1
        question = Question(self.done, self.method, self.method.broadcast(self.server))
        outcome = self.clients.round(question)
        self.server = self.method.server(self.server, outcome.mean, outcome.share, lambda v, t: v)

    @property
    def x(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.method.broadcast(self.server).x)


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def agree(ours: npt.NDArray[np.floating], reference: npt.NDArray[np.floating], to: float) -> None:
    """Refuse to compare the speed of different results."""
    away = float(np.linalg.norm(ours - reference) / np.linalg.norm(reference))
    if not away < to:
        raise SystemExit(f"the results differ by {away:.1e}: nothing to compare")
    print(f"  same result as the reference, to {away:.0e}")
