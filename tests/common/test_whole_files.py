"""Files that are there whole or not at all."""

import errno
import os
import stat
from pathlib import Path

import pytest

from pdmm.common.whole_files import private_folder, runs, write_together, write_whole


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


def test_what_is_there_is_not_replaced_unless_it_may_be(tmp_path: Path) -> None:
    """Nothing is written then, of none of the files."""
    (tmp_path / "b").write_bytes(b"old")
    files = {tmp_path / "a": b"new", tmp_path / "b": b"new"}
    with pytest.raises(FileExistsError):
        write_together(files, replace=False)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"b": b"old"}
    write_together(files)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a": b"new",
        "b": b"new",
    }


def test_a_link_that_leads_nowhere_is_there_too(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "gone")
    with pytest.raises(FileExistsError):
        write_together({tmp_path / "a": b"new"}, replace=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("there", [False, True])
def test_where_the_file_system_has_no_links(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", none)
    path = tmp_path / "a"
    if there:
        path.write_bytes(b"old")
        with pytest.raises(FileExistsError):
            write_together({path: b"new"}, replace=False)
    else:
        write_together({path: b"new"}, replace=False)
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == (b"old" if there else b"new")


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")
    left = iter([True])
    fsync = os.fsync

    def full(handle: int) -> None:
        if not next(left, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_together({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_private_folder_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir(mode=0o755)
    for name in ("a", "b"):
        private_folder(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_a_folder_that_may_not_be_listed_can_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def unlistable(path: Path, flags: int, mode: int = 0o777) -> int:
        if path == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", unlistable)
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
