"""The table of runs: a name, and a function that does the run in a folder of its own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pdmm

Work = Callable[[Path], Any]
Make = Callable[[Sequence[int]], Any]
Case = tuple[Make, pdmm.Method | None, dict[str, Any]]
"""A problem of some clients, a method, further arguments of ``pdmm.solve``."""

RUNS: dict[str, Work] = {}
M = 12  # clients of nearly all runs


def add(name: str, work: Callable[..., Any], *arguments: Any) -> None:
    """Enter a run: work(folder, *arguments)."""
    if name in RUNS:
        raise ValueError(f"there are two runs with the name {name!r}")
    RUNS[name] = lambda folder: work(folder, *arguments)


def run(name: str) -> Callable[[Work], Work]:
    """Enter the function that it decorates as a run."""

    def enter(work: Work) -> Work:
        add(name, work)
        return work

    return enter


def add_cases(group: str, table: Mapping[str, Case], traced: bool = False) -> None:
    """Enter every case of a table as a run in one process; if traced, with all its iterates."""
    for name, case in table.items():
        add(f"{group}/{name}", _followed if traced else _solved, case)


def _solved(folder: Path, case: Case) -> pdmm.Result:
    return solve(case)


def _followed(folder: Path, case: Case) -> dict[str, Any]:
    """The run of a case, and the server's x after every round."""
    iterates: list[Any] = []
    asked = case[2].get("callback")

    def callback(r: int, x: Any) -> Any:
        iterates.append(x.copy())
        return None if asked is None else asked(r, x)

    result = solve(case, callback=callback)
    return {"result": result, "iterates": np.array(iterates)}


def solve(case: Case, **more: Any) -> pdmm.Result:
    """The run of a case with all clients in this process."""
    make, method, arguments = case
    return pdmm.solve(make(range(M)), method, **{**arguments, **more})


def caught(work: Callable[[], Any]) -> Any:
    """What the work returns, or the error that it raises."""
    try:
        return work()
    except Exception as error:
        return error
