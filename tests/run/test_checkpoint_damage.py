"""Checkpoints that are damaged at random, in any of their files."""

from pathlib import Path
from typing import Any

import pytest

from builders.damage import damaged, kept, one_case
from pdmm.run import checkpoint_file


@pytest.mark.slow
def test_what_is_damaged_is_refused_or_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    refused, same, failures = damaged(tmp_path, 300, seed=0)
    assert failures == []
    assert refused + same == 300
    assert refused > 200  # most of it matters
    assert same > 5  # rows after those that count, and changes that change nothing
    assert list(tmp_path.iterdir()) == []


def test_a_case_comes_again(tmp_path: Path) -> None:
    checkpoints = kept(tmp_path)
    for name, again in kept(tmp_path).items():
        assert again.files == checkpoints[name].files
    came = [one_case(tmp_path, k, 7, checkpoints) for k in range(12)]
    assert one_case(tmp_path, 11, 7) == came[11]


def test_what_goes_wrong_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial itself can fail: as it does if nobody looks at the checkpoint's checksum."""

    def believed(file: Any, head: bytes, stated: Any) -> str:
        return str(stated[1].decode())

    monkeypatch.setattr(checkpoint_file, "_digest", believed)
    failures = damaged(tmp_path, 40, seed=0).failures
    assert any("other bits" in line for line in failures)
    assert all("one_case(folder, " in line for line in failures)
