"""What tests of models of PyTorch are given."""

from collections.abc import Iterator

import pytest
import torch

from pdmm.problems.torch_model import traces


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are too short here for lists of operations; tests that are about them say so."""
    monkeypatch.setattr(traces, "OFTEN", 10**9)
