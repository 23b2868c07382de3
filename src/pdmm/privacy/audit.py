"""A site's record of every question: who asked, what, when, and how many numbers left.

It is also how the site counts: what left in earlier runs is read from it. So each line is on the
disk before the answer leaves.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pdmm.common.whole_files import PRIVATE, private_folder

FILE = "audit.jsonl"
FITS, EVALUATION = "", "evaluation"  # parts of a table, each with a count of its own
MOST_SAID = 100  # kinds of refusals that are told apart


@dataclass(frozen=True)
class Entry:
    """One question, and what became of it."""

    time: str
    run: str
    by: str
    """Who submitted the run, as far as the site is told."""
    verb: str
    round: int | None = None
    numbers: int = 0
    """That left, and had not left before."""
    digest: str = ""
    """Of the question: the same one again tells nothing new."""
    max_eta: float | None = None
    effective_rows: float | None = None
    leverage: float | None = None
    """The largest leverage of one row at the point that was asked about."""
    loss_ratio: float | None = None
    """The largest mean loss of a client's rows there, over that at x = 0."""
    outcome: str = "answered"
    """"answered", "refused", "spent" or "failed"."""
    reason: str = ""
    """Why it was refused. It stays here."""
    counts: bool = False
    """Whether it counts among the refusals of its day."""
    table: str = ""
    """Which table of the site the question was about."""
    part: str = FITS
    """Which rows of it: those that fits are about, or those that are set aside for evaluation."""

    @classmethod
    def now(cls, **what: Any) -> "Entry":
        """An entry of this moment."""
        return cls(time=datetime.now(UTC).isoformat(timespec="milliseconds"), **what)


class Audit:
    """The entries of a site, kept in a file that only grows.

    Args:
        folder: where the file is; None keeps the entries in memory.
        table: the name of the table that is counted.
    """

    def __init__(self, folder: Path | None = None, table: str = "") -> None:
        self.path = None if folder is None else folder / FILE
        self.table = table
        self.left: Counter[str] = Counter()
        """Numbers that have left, by part of the table."""
        self.asked: set[str] = set()
        self.runs: list[datetime] = []
        self.refusals: list[datetime] = []
        self.kept: list[Entry] = []
        self._said: dict[str, datetime] = {}  # when refusals that count nothing were kept last
        self._turn = threading.RLock()
        self._depth = 0
        self._read = 0  # bytes of the file that are counted
        if self.path is None:
            return
        private_folder(self.path.parent)
        with self.turn():
            pass

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Decide and keep as one: what other processes of the site kept before is counted."""
        with self._turn:
            self._depth += 1
            try:
                if self.path is None or self._depth > 1:
                    yield
                    return
                with _locked(self.path):
                    self._catch_up()
                    yield
            finally:
                self._depth -= 1

    def _catch_up(self) -> None:
        """Count what was added to the file."""
        assert self.path is not None
        if not self.path.is_file():
            self._read = 0
            return
        for entry, end in _entries(self.path, self._read):
            self._count(entry)
            self._read = end

    def add(self, entry: Entry) -> None:
        """Keep an entry; when this returns, it is on the disk.

        A refusal that counts nothing is kept once a minute: it may be asked for without end.
        """
        entry = replace(entry, table=self.table)
        if self._repeats(entry):
            return
        with self.turn():
            if self.path is None:
                self.kept.append(entry)
            else:
                line = (json.dumps(asdict(entry)) + "\n").encode()
                self._read = _append(self.path, line)
            self._count(entry)

    def _repeats(self, entry: Entry) -> bool:
        if entry.outcome != "refused" or entry.counts:
            return False
        now = datetime.fromisoformat(entry.time)
        before = self._said.get(entry.reason)
        if before is not None and now - before < timedelta(minutes=1):
            return True
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said[entry.reason] = now
        return False

    def _count(self, entry: Entry) -> None:
        when = datetime.fromisoformat(entry.time)
        if entry.counts:
            self.refusals.append(when)
        if entry.table != self.table:
            return
        if entry.verb == "reset":
            self.left.clear()
            self.asked.clear()
            return
        if entry.verb in ("open", "survey") and entry.outcome == "answered":
            self.runs.append(when)
        if entry.outcome == "answered":
            self.left[entry.part] += entry.numbers
            if entry.digest:
                self.asked.add(entry.digest)

    @property
    def numbers(self) -> int:
        """Numbers that have left, of all rows."""
        return self.left.total()

    def refused_today(self) -> int:
        """Refusals of the last 24 hours."""
        return _recent(self.refusals)

    def begun_today(self) -> int:
        """Runs that began in the last 24 hours."""
        return _recent(self.runs)


def _recent(times: list[datetime]) -> int:
    since = datetime.now(UTC) - timedelta(days=1)
    return sum(when >= since for when in times)


def entries_of(path: Path) -> Iterator[Entry]:
    """The entries of a file, the oldest first.

    A line that was cut short by a power cut is left out: its answer did not leave.
    """
    if path.is_file():
        yield from (entry for entry, _ in _entries(path, 0))


def _entries(path: Path, start: int) -> Iterator[tuple[Entry, int]]:
    """The entries from a place in a file on, and where each ends."""
    with open(path, "rb") as file:
        file.seek(start)
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            start += len(line)
            try:
                yield Entry(**json.loads(line)), start
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"{path}, line {number}: this is no entry of an audit. Put the file back as it "
                    "was: the site counts by it what has left"
                ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes of the site waiting; the kernel forgets it when its holder dies."""
    import fcntl  # which a researcher's Windows has not, and need not have

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    handle = os.open(path.with_name(f"{path.name}.lock"), flags, PRIVATE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked meanwhile has it open too
        os.close(handle)


def _append(path: Path, line: bytes) -> int:
    """Add a line to a file, for good; returns where the file ends."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, PRIVATE)
    try:
        _cut_torn_line(handle)
        os.write(handle, line)
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _cut_torn_line(handle: int) -> None:
    """Remove what a power cut left of a last line."""
    size = os.fstat(handle).st_size
    if size == 0 or os.pread(handle, 1, size - 1) == b"\n":
        return
    block = os.pread(handle, min(size, 1 << 16), max(0, size - (1 << 16)))
    os.ftruncate(handle, size - (len(block) - 1 - block.rfind(b"\n")))
