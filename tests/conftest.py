"""What tests of several rooms are given."""

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The file of a checkpoint that is not there yet."""
    return tmp_path / "run.safetensors"
