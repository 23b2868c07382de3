"""Files that are there whole or not at all."""

import errno
import glob
import os
from collections.abc import Mapping
from pathlib import Path

PRIVATE = 0o600  # for the owner alone
PRIVATE_FOLDER = 0o700
OPEN = 0o666  # as the process's umask allows
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EMLINK)  # of file systems without


def write_whole(path: Path, contents: bytes, private: bool = False) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut.

    Args:
        path: of the file, which is replaced if it is there.
        contents: all of it.
        private: whether its owner alone may read it.
    """
    write_together({path: contents}, private)


def write_together(
    files: Mapping[Path, bytes], private: bool = False, replace: bool = True
) -> None:
    """Write several files, each whole; where one cannot be written, no new one is left.

    Args:
        files: contents by path.
        private: whether their owner alone may read them.
        replace: whether files that are there are replaced; else the first of them is an error.
    """
    parts = {path: _part(path) for path in files}
    new: list[Path] = []
    try:
        # All contents are on the disk before the first name changes: a full one changes none.
        for path, part in parts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_part(part, files[path], PRIVATE if private else OPEN)
        for path, part in parts.items():
            was_there = os.path.lexists(path)
            _place(part, path, replace)
            if not was_there:
                new.append(path)
            _sync_folder(path.parent)
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)
    for path in files:
        _sweep(path)


def private_folder(path: Path) -> None:
    """Make a folder that its owner alone may look into, if it is not there; else make it so."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.chmod(PRIVATE_FOLDER)


def _part(path: Path) -> Path:
    """Where a file is written before it is whole.

    Every process has a name of its own; what a killed one leaves, its successor sweeps away.
    """
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def _write_part(part: Path, contents: bytes, mode: int) -> None:
    part.unlink(missing_ok=True)  # of a killed process that had the same number
    with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())


def _place(part: Path, path: Path, replace: bool) -> None:
    """Give a file that is whole its name."""
    if replace:
        os.replace(part, path)
        return
    try:
        os.link(part, path)  # which fails where the name is taken: nobody can come in between
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # The name is taken first, by an empty file: the next best where there are no links.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
        try:
            os.replace(part, path)
        except BaseException:
            path.unlink()
            raise


def _sweep(path: Path) -> None:
    """Remove what killed processes have left beside a file."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        pid = left.name.removeprefix(f"{path.name}.").removesuffix(".part")
        if pid.isdecimal() and not runs(int(pid)):
            left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Have a folder's names on the disk: a power cut would undo a replacement that is not there."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one that may be written to, but not listed
        return
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
