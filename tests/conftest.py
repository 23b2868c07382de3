"""What tests of several rooms are given."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdmm.common import threads

FIRST = ("flare", "mpi", "slow")


@pytest.fixture(scope="session", autouse=True)
def share_of_the_cores() -> Iterator[None]:
    """Workers that share a machine share its cores: a run has as many threads as its worker has.

    Numbers do not depend on that, and tests that are about threads say how many.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    cores = max(1, threads.available() // workers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "available", lambda: cores)
        yield


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The file of a checkpoint that is not there yet."""
    return tmp_path / "run.safetensors"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that wait for other processes, then with those that are slow.

    The federation is the longest chain of all: a worker that began with it last would end last.
    """
    ranks: dict[Path, int] = {}
    for item in items:
        ranks[item.path] = min(_rank(item), ranks.get(item.path, len(FIRST)))
    items.sort(key=lambda item: ranks[item.path])


def _rank(item: pytest.Item) -> int:
    marked = (rank for rank, marker in enumerate(FIRST) if item.get_closest_marker(marker))
    return min(marked, default=len(FIRST))
