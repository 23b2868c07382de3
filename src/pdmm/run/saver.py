"""Keeping a run on disk while it runs: a checkpoint after every few rounds."""

import glob
import json
import logging
import os
from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from pdmm.common.packing import Arrays, pack
from pdmm.common.team import Team
from pdmm.common.whole_files import write_whole
from pdmm.engines.client_tables import Tables
from pdmm.run.build import Run
from pdmm.run.checkpoint_file import (
    FORMAT,
    PART,
    contents,
    history_path,
    pack_tables,
    part_path,
    safetensors,
)
from pdmm.run.loop import complete
from pdmm.run.saved import Saved, is_code, probe

log = logging.getLogger(__name__)


class Saver:
    """Keeps a run on disk.

    Args:
        path: of the checkpoint.
        every: so many rounds.
        team: that shares the run.
    """

    def __init__(self, path: str | Path, every: int, team: Team) -> None:
        self.path = Path(path).absolute()
        self.every = every
        self.team = team
        self.rows = 0
        self.length = 0
        self.serial = 0
        safetensors()

    @property
    def history(self) -> Path:
        """The file with the history's rows."""
        return history_path(self.path)

    def check(self) -> None:
        """Refuse to write over a run that is there."""
        self.team.first(self._check)

    def _check(self) -> None:
        if self.path.exists():
            raise ValueError(
                f"checkpoint: {self.path} exists already; go on by pdmm.resume, or remove it"
            )

    def begin(self, run: Run) -> None:
        """The first checkpoint of a new run."""
        self.check()
        self.probe = probe(run)
        self._keep_settings(run)
        self.team.first(self._clear)
        self.write(run)

    def _clear(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.history.write_bytes(b"")

    def go_on(self, run: Run, saved: Saved) -> None:
        """Go on where a checkpoint ends: rows that it does not count are cut off."""
        self._keep_settings(run)
        self.rows = saved.rows
        self.length = saved.length
        self.probe = saved.probe
        self.serial = saved.serial
        self.team.first(lambda: os.truncate(self.history, saved.length))

    def _keep_settings(self, run: Run) -> None:
        self.arrays: Arrays = {}
        settings = run.settings
        kept = {f.name: getattr(settings, f.name) for f in fields(settings)}
        self.settings = pack(kept, self.arrays, "settings")
        if is_code(self.settings["dict"]["regulariser"]):
            raise ValueError(
                f"regulariser is a {type(settings.regulariser).__name__} of your own, which a "
                "checkpoint cannot keep: use L1, SquaredL2 or Box, or no checkpoint"
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
        run.state.accounts.seconds = perf_counter() - run.recorder.start
        tables = run.clients.tables()
        self.serial += 1
        files = None
        if self.team.size > 1:
            name = part_path(self.path, self.serial, self.team.rank)
            self.team.agree(lambda: self._write_part(name, tables))
            own = run.clients.own
            files = self.team.gather([name.name, own.start, own.stop])
        self.team.first(lambda: self._write_whole(run, tables, files))
        self._sweep()
        log.debug("round %d is kept in %s", run.state.done, self.path)

    def _write_part(self, path: Path, tables: Tables) -> None:
        arrays: Arrays = {}
        packed = pack_tables(tables, arrays)
        write_whole(path, contents(arrays, PART, {"tables": packed, "serial": self.serial}))

    def _write_rows(self, columns: dict[str, list[Any]]) -> None:
        """Add the history's new rows to its file."""
        rows = list(zip(*(column[self.rows :] for column in columns.values()), strict=True))
        lines = [json.dumps([_plain(v) for v in row]) for row in rows]
        text = "".join(line + "\n" for line in lines).encode()
        with open(self.history, "ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.rows += len(rows)
        self.length += len(text)

    def _write_whole(self, run: Run, tables: Tables, files: list[Any] | None) -> None:
        columns = run.recorder.columns
        self._write_rows(columns)
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
            "probe": self.probe,
            "columns": list(columns),
            "rows": self.rows,
            "length": self.length,
        }
        write_whole(self.path, contents(arrays, FORMAT, header))

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


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
