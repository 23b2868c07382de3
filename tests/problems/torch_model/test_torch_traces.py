"""Lists of operations, which give the same bits as the calls that they stand for."""

import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pdmm
from builders.torch_models import MODELS, no_lists, problem  # noqa: F401
from pdmm.problems.torch_model import traces
from pdmm.problems.torch_model.traces import Traces


def inputs(given: Any, clients: int, rows: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """Parameters and samples of some clients, a row of each tensor for each."""
    x = torch.stack([given.layout.vector(given.model(given.x0)) * (1 + k) for k in range(clients)])
    X = torch.stack([given.data[k].X[:rows] for k in range(clients)])
    return given.layout.views(x), X, torch.stack([given.data[k].y[:rows] for k in range(clients)])


@pytest.mark.parametrize("name", MODELS)
def test_a_list_gives_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "OFTEN", 1)
    given = problem(name)
    worker = given.worker()
    for clients, rows in ((3, 5), (4, 2)):
        views, X, y = inputs(given, clients, rows)
        truth = worker.together_plainly(views, X, y)
        for _ in range(4):
            found = worker.together(views, X, y)
            assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))
    assert len(worker.traces._known) == 2


def test_a_list_is_made_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "OFTEN", 1)
    given = problem("mlp")
    views, X, y = inputs(given, 3, 5)
    truth = given.worker().together_plainly(views, X, y)
    wrong: list[int] = []

    def work() -> None:
        for k in range(6):
            found = given.worker().together(views, X, y)
            if not all(torch.equal(a, b) for a, b in zip(found, truth, strict=True)):
                wrong.append(k)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_cannot_be_listed_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "OFTEN", 0)
    calls: list[int] = []

    def counting(parameters: Any, X: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        calls.append(1)
        return (X * len(calls),)  # another number each time: no list could say that

    kept = Traces()
    X = torch.ones(2)
    for _ in range(3):
        before = len(calls)
        (found,) = kept.call(counting, [], X, X)
        assert found[0] == len(calls) > before


def test_a_run_has_the_same_bits_with_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    method = pdmm.AGPDMM(0.1, 4)
    without = pdmm.solve(problem("mlp"), method, rounds=5).x
    monkeypatch.setattr(traces, "OFTEN", 2)
    given = problem("mlp")
    listed = pdmm.solve(given, method, rounds=5).x
    assert given._traces._known
    assert np.array_equal(without, listed)
