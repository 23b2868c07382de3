"""The rows of a run's history on disk: a line of JSON for each row, in a file that only grows."""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from pdmm.common.whole_files import PRIVATE

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


class HistoryFile:
    """The history's rows as they are written.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.length = 0
        """In bytes: what follows is of no checkpoint."""
        self._digest = hashlib.sha256()

    @property
    def checksum(self) -> str:
        """The SHA-256 of all rows so far."""
        return self._digest.hexdigest()

    @property
    def lost(self) -> bool:
        """Whether the file is no longer as it was left."""
        try:
            found = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        return not stat.S_ISREG(found.st_mode) or found.st_size != self.length

    def begin(self) -> None:
        """Begin a file without rows, whatever was left of a run that had no checkpoint yet."""
        _check_plain(self.path)
        self.path.unlink(missing_ok=True)
        with open(self.path, "xb", opener=_opened):
            self.rows = 0
            self.length = 0
            self._digest = hashlib.sha256()

    def go_on(self, rows: int, length: int) -> None:
        """Go on after so many rows of so many bytes; what follows them is cut off."""
        with open(self.path, "r+b", opener=_opened) as file:
            self._digest = hashlib.sha256(file.read(length))
            file.truncate(length)
        self.rows = rows
        self.length = length

    def add(self, columns: dict[str, list[Any]]) -> None:
        """Write the rows that are new."""
        rows = list(zip(*(column[self.rows :] for column in columns.values()), strict=True))
        lines = [json.dumps([_plain(v) for v in row]) for row in rows]
        text = "".join(line + "\n" for line in lines).encode()
        with open(self.path, "r+b", opener=_opened) as file:
            file.seek(self.length)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.rows += len(rows)
        self.length += len(text)
        self._digest.update(text)


def read_rows(path: Path, rows: int, length: int, checksum: str) -> list[list[Any]]:
    """The rows that a checkpoint counts, refused with a sentence where they are not those."""
    _check_plain(path)
    try:
        with open(path, "rb", opener=_opened) as file:
            short = os.fstat(file.fileno()).st_size < length
            text = b"" if short else file.read(length)
    except FileNotFoundError:
        raise ValueError(f"the checkpoint's history {path} is missing") from None
    if short:
        raise ValueError(f"the checkpoint's history {path} is shorter than it was")
    if hashlib.sha256(text).hexdigest() != checksum:
        raise ValueError(
            f"the checkpoint's history {path} is damaged, or that of another run: its checksum is "
            "not the one that the checkpoint states"
        )
    found = [json.loads(line) for line in text.splitlines()]
    if len(found) != rows:
        raise ValueError(f"the checkpoint's history {path} has {len(found)} rows, not {rows}")
    return found


def _opened(name: str, flags: int) -> int:
    return os.open(name, flags | NO_LINKS, PRIVATE)


def _check_plain(path: Path) -> None:
    """Refuse what is not a plain file: what a link leads to may be anybody's."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(
            f"the checkpoint's history {path} is a link or a folder, not a plain file: remove it"
        )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
