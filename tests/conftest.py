"""What tests of several rooms are given."""

from pathlib import Path

import pytest

FIRST = ("flare", "mpi", "slow")


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
