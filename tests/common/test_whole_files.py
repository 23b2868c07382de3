"""Files that are there whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from pdmm.common.whole_files import runs, write_whole


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_whole(tmp_path / "a", b"a", private=True)
        write_whole(tmp_path / "b", b"b")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o666


def test_the_folder_is_on_the_disk_after_a_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def replaced(part: Path, path: Path) -> None:
        done.append("replaced")
        replace(part, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_whole(tmp_path / "a" / "b", b"new")
    assert done == ["file", "replaced", "folder"]


def test_what_a_process_of_the_same_number_left_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    part = tmp_path / f"a.{os.getpid()}.part"
    part.symlink_to(mine)
    write_whole(tmp_path / "a", b"new")
    assert mine.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "mine"]
    assert not (tmp_path / "a").is_symlink()


def test_which_processes_there_are() -> None:
    assert runs(os.getpid())
    assert not runs(999_999_999)
    assert not runs(10**30)
