"""A lock on a file: one run at a time works on it, and the others are told which."""

import errno
import logging
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pdmm.common.whole_files import PRIVATE, runs

try:
    import fcntl
except ImportError:  # Windows: there, nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

PATIENCE = 1.0  # seconds in which a new holder has said who it is
PAUSE = 0.01
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # of file systems that have none
LONGEST = 1000  # bytes that a holder says of itself, at most

_held: set["Lock"] = set()  # what a child that is forked meanwhile must not hold too


class Holder(NamedTuple):
    """Who holds a lock, as the lock file says. It informs people, and decides nothing."""

    pid: int
    host: str
    since: str

    @classmethod
    def me(cls) -> "Holder":
        """The process that asks, from now on."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(os.getpid(), socket.gethostname(), now)

    @property
    def may_live(self) -> bool:
        """Whether it is not known to be dead."""
        return self.host != socket.gethostname() or runs(self.pid)

    def __str__(self) -> str:
        whose = "this process" if self.pid == os.getpid() else "process"
        return f"{whose} {self.pid} on {self.host} since {self.since}"


class Lock:
    """A lock on a file, which the kernel drops when its holder dies.

    Between hosts it holds where their file system passes flock on to a server, as NFS does.

    Args:
        guarded: the file that it is about. The lock is a file beside it, which is there only
            while somebody holds it, or after its holder was killed.
    """

    def __init__(self, guarded: Path) -> None:
        self.guarded = guarded
        self.path = guarded.with_name(guarded.name + ".lock")
        self.handle: int | None = None

    def acquire(self) -> None:
        """Take the lock, or say who has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            return
        self._drop()
        deadline = time.monotonic() + PATIENCE
        while not self._taken():
            # Who took it a moment ago may not have said so: what stands there may be a dead one's.
            holder = self._holder()
            said = holder is not None and holder.may_live
            if said or time.monotonic() > deadline:
                raise BlockingIOError(
                    f"{self.guarded} is in use by {holder or 'another process'}: wait until that "
                    "run has ended, or end it"
                )
            time.sleep(PAUSE)

    def _taken(self) -> bool:
        """Try to take the lock."""
        handle = self._opened()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError as error:
            if error.errno not in NO_LOCKS:
                os.close(handle)
                raise
            log.warning("%s: nothing keeps two runs apart here (%s)", self.path, error.strerror)
        if not _is_at(handle, self.path):  # its last holder removed it in between
            os.close(handle)
            return False
        self.handle = handle
        _held.add(self)
        me = Holder.me()
        text = f"{me.pid} {me.host} {me.since}\n".encode()
        os.write(handle, text)
        os.ftruncate(handle, len(text))  # a dead holder may have said more
        return True

    def _opened(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(f"{self.path} is a link, which no lock may be: remove it") from None
            raise

    def _holder(self) -> Holder | None:
        """Who says to hold it; None while nobody does."""
        try:
            with open(self.path, "rb") as file:
                line = file.readline(LONGEST).decode()
            pid, host, since = line.split()
            return Holder(int(pid), host, since)
        except (OSError, ValueError):
            return None

    @property
    def held(self) -> bool:
        """Whether the lock that others would look for is the one that this object holds."""
        if fcntl is None:
            return True
        return self.handle is not None and _is_at(self.handle, self.path)

    def release(self) -> None:
        """Give it back, if it was taken; nothing is left of it."""
        if self.handle is None:
            return
        # It is removed while it is held: who has opened it by then finds that out, and looks again.
        if self.held:
            with suppress(OSError):
                self.path.unlink()
        self._drop()

    def _drop(self) -> None:
        """Close it."""
        _held.discard(self)
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one that has this name."""
    try:
        there = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(os.fstat(handle), there)


def _drop_in_child() -> None:
    """A lock is the parent's: a child would keep it alive, or remove it as its own."""
    for lock in list(_held):
        lock._drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
