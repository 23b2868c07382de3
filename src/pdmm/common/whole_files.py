"""Files that are there whole or not at all."""

import glob
import os
from pathlib import Path


def write_whole(path: Path, contents: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for every process; what a killed one leaves, its successor sweeps away.
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    for left in path.parent.glob(f"{glob.escape(path.name)}.*.part"):
        pid = left.name.removeprefix(f"{path.name}.").removesuffix(".part")
        if pid.isdecimal() and not _runs(int(pid)):
            left.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
