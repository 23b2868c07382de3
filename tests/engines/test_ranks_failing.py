"""One rank fails, and all of them say so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.ranks import on_ranks
from pdmm.common.team import ElsewhereError


def failing(clients: range, at: int, how: Callable[[], Any]) -> pdmm.Problem:
    """Functions of which client 7 fails when it is asked for its gradient so often."""
    good, count = cases.functions(clients), 0

    def gradient(i: int, x: Any) -> Any:
        nonlocal count
        if i == 7:
            count += 1
            if count == at:
                how()
        return 1 / (1 + np.exp(i / 5 - x)) + (x + 1)

    functions: Any = good
    gradients = [lambda x, i=i: gradient(i, x) for i in clients]
    return pdmm.Functions(functions.functions["value"], gradients, cases.D)


class Broken:
    """Functions that can be evaluated no more, for a reason of nobody's client."""

    def at(self, *_: Any) -> Any:
        raise RuntimeError("the disk is gone")


@pytest.mark.parametrize("where", ["gradient", "callback", "value", "exit", "certificate"])
def test_all_ranks_fail_with_the_one_that_does(where: str) -> None:
    def fails() -> None:
        raise RuntimeError("the disk is gone")

    def work(mpi: pdmm.engines.MPI) -> str:
        mine = mpi.range(cases.M)
        problem = failing(mine, 10 if where == "gradient" else -1, fails)
        if where == "value" and 7 in mine:
            functions: Any = problem
            value, calls = functions.functions["value"][mine.index(7)], iter(range(99))
            functions.functions["value"][mine.index(7)] = lambda x: (
                fails() if next(calls) > 3 else value(x)
            )

        def callback(r: int, x: Any) -> None:
            if where == "callback" and r == 4 and mpi.rank == 1:
                fails()
            if where == "exit" and r == 4 and mpi.rank == 1:
                raise SystemExit("the disk is gone")

        method = pdmm.AGPDMM(step_size=0.1, local_steps=3)
        if where == "certificate" and mpi.rank == 1:
            problem.evaluator = lambda source: Broken()  # type: ignore[method-assign]
        try:
            pdmm.solve(problem, method, 20, engine=mpi, callback=callback, tolerance=1e-30)
        except ElsewhereError as error:
            return f"elsewhere {error}"
        except (RuntimeError, pdmm.ClientError, SystemExit) as error:
            return f"here {error}"
        return "fine"

    said = on_ranks(3, work)
    assert [text.split()[0] for text in said] == ["elsewhere", "here", "elsewhere"]
    assert all("the disk is gone" in text for text in said)
    assert "rank 1 of 3 failed" in said[0]
