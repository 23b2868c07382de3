"""Files that are there whole or not at all."""

import errno
import glob
import os
from pathlib import Path

PRIVATE = 0o600  # for the owner alone
OPEN = 0o666  # as the process's umask allows


def write_whole(path: Path, contents: bytes, private: bool = False) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut.

    Args:
        path: of the file, which is replaced if it is there.
        contents: all of it.
        private: whether its owner alone may read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for every process; what a killed one leaves, its successor sweeps away.
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    mode = PRIVATE if private else OPEN
    part.unlink(missing_ok=True)  # of a killed process that had the same number
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        pid = left.name.removeprefix(f"{path.name}.").removesuffix(".part")
        if pid.isdecimal() and not runs(int(pid)):
            left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Have a folder's names on the disk: a power cut would undo a replacement that is not there."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that have no such thing
            raise
    finally:
        os.close(handle)


def runs(pid: int) -> bool:
    """Whether there is such a process on this machine."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
