"""Small models of PyTorch, and clients with samples for them."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pdmm
from pdmm.problems.torch_model import traces

SIZES = (23, 30, 17, 12)
CLASSES = 3
LOSS = nn.CrossEntropyLoss()


def linear() -> nn.Module:
    return nn.Linear(5, CLASSES)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, CLASSES)),
    )


MODELS = {"linear": linear, "mlp": mlp, "cnn": cnn}


def seeded(name: str = "mlp") -> nn.Module:
    """One of the models, always with the same parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return MODELS[name]()


def clients(name: str = "mlp", sizes: Any = SIZES) -> list[tuple[Tensor, Tensor]]:
    """Samples for each client, of which classes are not spread evenly."""
    random = torch.Generator().manual_seed(2)
    shape = (1, 8, 8) if name == "cnn" else (5,)
    found = []
    for i, n in enumerate(sizes):
        y = (torch.randint(2, (n,), generator=random) + i) % CLASSES
        X = torch.randn(n, *shape, generator=random) + y.view(-1, *[1] * len(shape))
        found.append((X, y))
    return found


def problem(name: str = "mlp", sizes: Any = SIZES, **given: Any) -> pdmm.TorchProblem:
    """A model and its clients; batches of 5 unless something else is asked for."""
    return pdmm.TorchProblem(seeded(name), LOSS, clients(name, sizes), **{"batch_size": 5, **given})


@pytest.fixture(autouse=True)
def no_lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For the files that import it: one thread, one seed, and no lists of operations.

    Runs of tests are too short for lists. Tests that are about them say so.
    """
    monkeypatch.setattr(traces, "OFTEN", 10**9)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)
