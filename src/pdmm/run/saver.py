"""Keeping a run on disk while it runs: a checkpoint after every few rounds."""

import glob
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import Any

from pdmm.common.lock import Lock
from pdmm.common.packing import Arrays, pack
from pdmm.common.team import Team
from pdmm.common.whole_files import write_whole
from pdmm.engines.client_tables import Tables
from pdmm.run.build import Run
from pdmm.run.checkpoint_file import (
    FORMAT,
    PART,
    checksum_of,
    contents,
    history_path,
    pack_tables,
    part_path,
    safetensors,
)
from pdmm.run.history_file import HistoryFile
from pdmm.run.loop import complete
from pdmm.run.saved import Saved, is_code

log = logging.getLogger(__name__)


@contextmanager
def alone(path: Path, team: Team) -> Iterator[Lock]:
    """Keep other runs away from a checkpoint: one that has it already is named.

    Member 0 of a team holds the lock for all.
    """
    lock = Lock(path)
    try:
        team.first(lock.acquire)
        yield lock
    finally:
        lock.release()


class Saver:
    """Keeps a run on disk.

    Args:
        every: so many rounds.
        team: that shares the run.
        lock: on the checkpoint, which member 0 holds.
    """

    def __init__(self, every: int, team: Team, lock: Lock) -> None:
        self.path = lock.guarded
        self.every = int(every)  # the header of a file holds no numbers of NumPy
        self.team = team
        self.lock = lock
        self.history = HistoryFile(history_path(self.path))
        self.serial = 0
        safetensors()

    def check(self) -> None:
        """Refuse to write over a run that is there."""
        self.team.first(self._check)

    def _check(self) -> None:
        if self.path.is_dir():
            raise ValueError(f"checkpoint: {self.path} is a folder; name a file in it")
        if self.path.exists():
            raise ValueError(
                f"checkpoint: {self.path} exists already; go on by pdmm.resume, or remove it"
            )

    def begin(self, run: Run) -> None:
        """The first checkpoint of a new run."""
        self.check()
        self._keep_settings(run)
        run.clients.recognise(run.settings.x0, None)
        self.team.first(self.history.begin)
        self.write(run)

    def go_on(self, run: Run, saved: Saved) -> None:
        """Go on where a checkpoint ends: rows that it does not count are cut off."""
        self._keep_settings(run)
        self.serial = saved.serial
        self.team.first(lambda: self.history.go_on(saved.rows, saved.length))

    def _keep_settings(self, run: Run) -> None:
        self.arrays: Arrays = {}
        settings = run.settings
        kept = {f.name: getattr(settings, f.name) for f in fields(settings)}
        self.settings = pack(kept, self.arrays, "settings")
        if is_code(self.settings["dict"]["regulariser"]):
            raise ValueError(
                f"regulariser is a {type(settings.regulariser).__name__} of your own, which a "
                "checkpoint cannot keep: use L1, SquaredL2, ElasticNet or Box, or no "
                "checkpoint"
            )
        self.problem = run.clients.describe()

    def after(self, run: Run) -> None:
        """After a round: a checkpoint, if one is due."""
        state = run.state
        if state.done % self.every == 0 or state.finished or run.stopped:
            self.write(run)

    def write(self, run: Run) -> None:
        """Add the new rows of the history, then replace the checkpoint."""
        complete(run)
        lost = self.team.first(self._lost)
        run.state.accounts.seconds = perf_counter() - run.recorder.start
        tables = run.clients.tables()
        self.serial += 1
        files = None
        if self.team.size > 1:
            name = part_path(self.path, self.serial, self.team.rank)
            checksum = self.team.agree(lambda: self._write_part(name, tables))
            own = run.clients.own
            files = self.team.gather([name.name, own.start, own.stop, checksum])
        self.team.first(lambda: self._write_whole(run, tables, files, lost))
        self.team.agree(self._sweep)  # nobody gives back the lock while others are at work
        log.debug("round %d is kept in %s", run.state.done, self.path)
        if lost:
            raise OSError(
                f"the history {self.history.path} was removed or changed during the run. It has "
                f"been written again, and the checkpoint is of round {run.state.done}: go on by "
                "pdmm.resume"
            )

    def _lost(self) -> bool:
        """Whether the history is no longer what was left, and must be written again.

        Nothing is written where somebody else may have begun a run.
        """
        if self.lock.held:
            return self.history.lost
        if self.path.exists() or self.lock.path.exists():
            raise OSError(
                f"{self.lock.path} was removed during the run, so that another run may have begun "
                f"there: {self.path} was left as it is"
            )
        self.lock.acquire()  # the folder is gone, or all that was in it
        return True

    def _write_part(self, path: Path, tables: Tables) -> str:
        """Write what belongs to this member's clients; returns the file's checksum."""
        arrays: Arrays = {}
        packed = pack_tables(tables, arrays)
        made = contents(arrays, PART, {"tables": packed})
        write_whole(path, made, private=True)
        return checksum_of(made)

    def _write_whole(self, run: Run, tables: Tables, files: list[Any] | None, lost: bool) -> None:
        columns = run.recorder.columns
        if lost:
            self.history.begin()
        self.history.add(columns)
        arrays = dict(self.arrays)
        header = {
            "problem": self.problem,
            "settings": self.settings,
            "state": pack(run.state.plain(), arrays, "state"),
            "engine": pack(run.clients.state(), arrays, "engine"),
            "clients": pack_tables(tables, arrays) if files is None else None,
            "files": files,
            "serial": self.serial,
            "every": self.every,
            "columns": list(columns),
            "rows": self.history.rows,
            "length": self.history.length,
            "history": self.history.checksum,
        }
        write_whole(self.path, contents(arrays, FORMAT, header), private=True)

    def _sweep(self) -> None:
        """Remove what earlier checkpoints had in files of their own, now that none names them."""
        for left in self.path.parent.glob(f"{glob.escape(self.path.name)}.*-*"):
            serial, _, rank = left.name.removeprefix(f"{self.path.name}.").partition("-")
            if not (serial.isdecimal() and rank.isdecimal()):
                continue
            gone = self.team.size == 1 or int(rank) >= self.team.size  # of a larger team
            if (gone and self.team.rank == 0) or (
                int(rank) == self.team.rank and int(serial) != self.serial
            ):
                left.unlink(missing_ok=True)
