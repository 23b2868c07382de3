"""A lock on a file: one holder at a time, who is named, and nothing that is left of it."""

import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pdmm.common import lock as lock_file
from pdmm.common.lock import Lock


@pytest.fixture
def guarded(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_one_holds_it_and_the_other_is_told_who(guarded: Path) -> None:
    first = Lock(guarded)
    first.acquire()
    assert first.held
    with pytest.raises(BlockingIOError) as caught:
        Lock(guarded).acquire()
    me = f"in use by this process {os.getpid()} on {re.escape(socket.gethostname())}"
    assert re.search(rf"run is {me} since \d{{4}}-\d\d-\d\dT[\d:]+Z: wait", str(caught.value))
    assert first.held
    first.release()
    second = Lock(guarded)
    second.acquire()
    second.release()


def test_nothing_is_left_of_it(guarded: Path) -> None:
    lock = Lock(guarded)
    lock.acquire()
    assert [path.name for path in guarded.parent.iterdir()] == ["run.lock"]
    assert lock.path.stat().st_mode & 0o777 == 0o600
    lock.release()
    lock.release()  # what is not held need not be given back
    assert not lock.held
    assert list(guarded.parent.iterdir()) == []


def test_a_dead_holder_does_not_block(guarded: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from pdmm.common.lock import Lock
Lock(Path(sys.argv[1])).acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script, str(guarded)], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    lock = Lock(guarded)
    assert lock.path.exists()
    lock.acquire()
    assert lock.path.read_text().split()[0] == str(os.getpid())
    lock.release()
    assert list(guarded.parent.iterdir()) == []


def test_a_forked_child_neither_keeps_nor_removes_it(guarded: Path) -> None:
    """The child outlives its parent."""
    script = """
import os, sys
from pathlib import Path
from pdmm.common.lock import Lock
lock = Lock(Path(sys.argv[1]))
lock.acquire()
child = os.fork()
if child == 0:
    lock.release()  # as a child does that leaves the run by an exception
    print("held" if lock.path.exists() else "removed", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), 9)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(guarded)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        process.wait(60)  # the parent; its child waits for the end of what it reads
        lock = Lock(guarded)
        lock.acquire()
        lock.release()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def test_a_holder_that_has_not_yet_said_who_it_is(
    guarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock(guarded)
    lock.acquire()
    waited: list[float] = []

    def says_it(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            lock.path.write_text(f"{os.getpid()} here 2020-01-01T00:00:00Z\n")

    for early in ("", "999999999 " + socket.gethostname() + " 2019-01-01T00:00:00Z\n"):
        lock.path.write_text(early)
        waited.clear()
        with monkeypatch.context() as patch:
            patch.setattr(lock_file.time, "sleep", says_it)  # type: ignore[attr-defined]
            with pytest.raises(BlockingIOError, match="on here since 2020-01-01"):
                Lock(guarded).acquire()
        assert len(waited) == 3
    lock.path.write_bytes(b"\xff\0 what is this")
    monkeypatch.setattr(lock_file, "PATIENCE", 0.0)
    with pytest.raises(BlockingIOError, match="run is in use by another process: wait"):
        Lock(guarded).acquire()
    lock.release()


def test_it_is_held_only_as_long_as_others_would_find_it(guarded: Path) -> None:
    lock = Lock(guarded)
    lock.acquire()
    lock.path.unlink()
    assert not lock.held
    other = Lock(guarded)
    other.acquire()
    assert not lock.held
    lock.release()  # which must not remove the other's
    assert other.held
    other.release()
    lock.acquire()  # it may be taken again
    assert lock.held
    lock.release()
    assert list(guarded.parent.iterdir()) == []


def test_a_lock_that_was_removed_before_it_was_taken_is_none(
    guarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Lock(guarded), Lock(guarded)
    first.acquire()
    flock = fcntl.flock

    def late(handle: int, how: int) -> None:
        first.release()  # the second has opened the file by now
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    second.acquire()
    assert second.held
    with pytest.raises(BlockingIOError):
        Lock(guarded).acquire()
    second.release()


def test_two_never_hold_it_at_once(guarded: Path) -> None:
    """Each holder removes the file while others open it."""
    inside: list[int] = []
    most: list[int] = []
    taken = [0] * 4

    def work(k: int) -> None:
        lock = Lock(guarded)
        while taken[k] < 40:
            try:
                lock.acquire()
            except BlockingIOError:
                continue
            inside.append(k)
            most.append(len(inside))
            inside.remove(k)
            lock.release()
            taken[k] += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert taken == [40] * 4
    assert max(most) == 1
    assert list(guarded.parent.iterdir()) == []


def test_a_link_is_not_followed(guarded: Path) -> None:
    mine = guarded.with_name("mine")
    mine.write_text("mine")
    lock = Lock(guarded)
    lock.path.symlink_to(mine)
    with pytest.raises(OSError, match=r"run\.lock is a link"):
        lock.acquire()
    assert mine.read_text() == "mine"


def test_a_file_system_without_locks_is_no_obstacle(
    guarded: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", fails)
    lock = Lock(guarded)
    lock.acquire()
    assert lock.held
    assert "nothing keeps two runs apart here" in caplog.text
    lock.release()


def test_where_there_are_no_locks_at_all(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_file, "fcntl", None)
    deep = guarded / "a" / "run"
    lock = Lock(deep)
    lock.acquire()
    assert lock.held
    assert deep.parent.is_dir()
    lock.release()
    assert list(deep.parent.iterdir()) == []
