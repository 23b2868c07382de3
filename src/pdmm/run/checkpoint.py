"""Runs on disk: laid down after every few rounds, and taken up to the same bits.

A checkpoint is one safetensors file: arrays, and everything else as JSON in its header. It is
there whole or not at all. The history is in a second file beside it, a line a row, which only
grows; the checkpoint says how much of it counts.

Where a team shares the run, each member writes what belongs to its clients into a file of its own
first; the checkpoint, written last by member 0, names these files. So it is all of one round
or none of it. Client by client, it does not matter how many members there were or will be.
"""

import glob
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from pdmm.common.checks import ClientError
from pdmm.common.packing import Arrays, pack, unpack
from pdmm.common.team import Team
from pdmm.common.whole_files import write_whole
from pdmm.engines.client_tables import Table, Tables, joined
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.run.loop import Run, Settings

FORMAT, VERSION = "pdmm run", 2
PART = "pdmm clients of a run"


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError("checkpoints need safetensors: pip install 'pdmm[cli]'") from None
    return safetensors


# --- writing ------------------------------------------------------------------------------


class Saver:
    """Keeps a run on disk.

    Args:
        path: of the checkpoint.
        every: so many rounds.
        team: that shares the run.
    """

    def __init__(self, path: str | Path, every: int, team: Team) -> None:
        self.path, self.every, self.team = Path(path).absolute(), every, team
        self.rows = self.length = self.serial = 0
        _safetensors()

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

    def begin(self, problem: Problem, settings: Settings, run: Run) -> None:
        """The first checkpoint of a new run."""
        self.check()
        self.probe = probe(problem, run)
        self._keep_settings(problem, settings)
        self.team.first(self._clear)
        self.write(run)

    def _clear(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.history.write_bytes(b"")

    def go_on(self, problem: Problem, settings: Settings, saved: "Saved") -> None:
        """Go on where a checkpoint ends: rows that it does not count are cut off."""
        self._keep_settings(problem, settings)
        self.rows, self.length, self.probe = saved.rows, saved.length, saved.probe
        self.serial = saved.serial
        self.team.first(lambda: os.truncate(self.history, saved.length))

    def _keep_settings(self, problem: Problem, settings: Settings) -> None:
        self.arrays: Arrays = {}
        kept = {f.name: getattr(settings, f.name) for f in fields(settings)}
        self.settings = pack(kept, self.arrays, "settings")
        if _is_code(self.settings["dict"]["regulariser"]):
            raise ValueError(
                f"regulariser is a {type(settings.regulariser).__name__} of your own, which a "
                "checkpoint cannot keep: use L1, SquaredL2 or Box, or no checkpoint"
            )
        self.problem = describe(problem)

    def after(self, run: Run) -> None:
        """After a round: a checkpoint, if one is due."""
        if run.done % self.every == 0 or run.finished or run.stopped:
            self.write(run)

    def write(self, run: Run) -> None:
        """Add the new rows of the history, then replace the checkpoint."""
        run.settle()
        state, tables, self.serial = run.state(), run.tables(), self.serial + 1
        files = None
        if self.team.size > 1:
            name = part_path(self.path, self.serial, self.team.rank)
            self.team.agree(lambda: self._write_part(name, tables))
            own = run.problem.own
            files = self.team.gather([name.name, own.start, own.stop])
        self.team.first(lambda: self._write_whole(run, state, tables, files))
        self._sweep()

    def _write_part(self, path: Path, tables: Tables) -> None:
        arrays: Arrays = {}
        packed = pack_tables(tables, arrays)
        write_whole(path, _saved(arrays, PART, {"tables": packed, "serial": self.serial}))

    def _write_whole(
        self, run: Run, state: dict[str, Any], tables: Tables, files: list[Any] | None
    ) -> None:
        columns = run.recorder.columns
        rows = list(zip(*(column[self.rows :] for column in columns.values()), strict=True))
        with open(self.history, "ab") as file:
            lines = [json.dumps([_plain(v) for v in row]) for row in rows]
            text = "".join(line + "\n" for line in lines).encode()
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.rows, self.length = self.rows + len(rows), self.length + len(text)
        arrays = dict(self.arrays)
        header = {
            "problem": self.problem,
            "settings": self.settings,
            "state": pack(state, arrays, "state"),
            "clients": pack_tables(tables, arrays) if files is None else None,
            "files": files,
            "serial": self.serial,
            "every": self.every,
            "probe": self.probe,
            "columns": list(columns),
            "rows": self.rows,
            "length": self.length,
        }
        write_whole(self.path, _saved(arrays, FORMAT, header))

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


def _saved(arrays: Arrays, form: str, header: dict[str, Any]) -> bytes:
    metadata = {"format": form, "version": str(VERSION), "run": json.dumps(header)}
    stored = {name: np.atleast_1d(array) for name, array in arrays.items()}
    contents: bytes = _safetensors().numpy.save(stored, metadata=metadata)
    return contents


def pack_tables(tables: Tables, arrays: Arrays) -> Any:
    """What belongs to clients, as JSON and arrays."""
    return pack({name: list(table) for name, table in tables.items()}, arrays, "clients")


def unpack_tables(value: Any, arrays: Arrays) -> Tables:
    """The tables again."""
    return {name: Table(*parts) for name, parts in unpack(value, arrays).items()}


def part_path(path: Path, serial: int, rank: int) -> Path:
    """Where a member of a team keeps what belongs to its clients."""
    return path.with_name(f"{path.name}.{serial}-{rank}")


def history_path(path: Path) -> Path:
    """Where the history of a checkpoint is."""
    return path.with_name(path.name + ".history")


def describe(problem: Problem) -> dict[str, Any]:
    """What a problem must have in common with the one that a run began with."""
    # Else it has an address in it, or speaks of the clients that are here.
    own = type(problem).__repr__ is not object.__repr__ and problem.here is problem
    return {
        "kind": type(problem.here).__name__,
        "clients": problem.clients,
        "dimension": problem.dimension,
        "dtype": str(problem.dtype),
        "description": repr(problem) if own else "",
    }


def probe(problem: Problem, run: Run) -> float | None:
    """F at a point of its own, by which another problem is recognised; None if it has none."""
    point = np.random.default_rng(0).standard_normal(problem.dimension).astype(problem.dtype)
    try:
        with np.errstate(all="ignore"):
            if problem.knows_all:
                value = float(run.objective(point)[0])
            else:
                value = run.team.first(
                    lambda: float(problem.here.at(np.array([0])).value(point)[0])
                )
    except ClientError:
        return None
    return value if np.isfinite(value) else None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# --- reading ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """A checkpoint, read and checked."""

    settings: Settings
    state: dict[str, Any]
    tables: Tables
    columns: dict[str, list[Any]]
    every: int
    rows: int
    length: int
    serial: int
    probe: float | None

    @property
    def done(self) -> int:
        """Rounds that were done."""
        return int(self.state["done"])

    def restore(self, run: Run) -> None:
        """Put a run where this one was."""
        value, then = probe(run.problem, run), self.probe
        if value is None or then is None:
            # One of several sites may not have answered: that says nothing of the others.
            same = value is then or not run.problem.always_there
        else:
            same = bool(np.isclose(value, then, rtol=1e-6, atol=0.0))
        if not same:
            raise ValueError(
                f"problem is not the one of the checkpoint: its objective at a random point is "
                f"{value}, and it was {then}"
            )
        run.load(self.state, {name: list(column) for name, column in self.columns.items()})
        run.load_tables(self.tables)
        if run.reason == "" and run.done < run.settings.rounds:
            run.finished = False  # more rounds were asked for


def read(
    path: str | Path,
    problem: Problem,
    method: Any,
    participation: Any,
    local_steps: Any,
    team: Team,
) -> Saved:
    """A checkpoint, refused with a clear message where it is not one, or not of this problem."""
    place = Path(path)
    header, arrays = team.first(lambda: _read(place))
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {problem!r}")
    for name, value in describe(problem).items():
        then = header["problem"][name]
        if then != value and not (name == "description" and "" in (then, value)):
            raise ValueError(
                f"problem is not the one of the checkpoint: its {name} is {value}, and it was "
                f"{header['problem'][name]}"
            )
    try:
        kept, state = (unpack(header[part], arrays) for part in ("settings", "state"))
        finished = bool(state["finished"])
        columns = team.first(lambda: _columns(history_path(place), header))
        tables = team.agree(lambda: _tables(place, header, arrays, problem.own))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{place} is a damaged checkpoint: it lacks {error}") from None
    for name, given in (("participation", participation), ("local_steps", local_steps)):
        kept[name] = _code(name, kept[name], given, finished)
    kept["method"] = _method(kept["method"], method)
    return Saved(
        settings=Settings(**kept),
        state=state,
        tables=tables,
        columns=columns,
        every=header["every"],
        rows=header["rows"],
        length=header["length"],
        serial=header["serial"],
        probe=header["probe"],
    )


def _tables(path: Path, header: dict[str, Any], arrays: Arrays, own: slice) -> Tables:
    """What belongs to some of the clients, from the files that have it."""
    if header["files"] is None:
        return joined([unpack_tables(header["clients"], arrays)], own)
    parts = []
    for name, first, end in header["files"]:
        if first < own.stop and end > own.start:
            part, values = _read(path.with_name(name), PART)
            if part["serial"] != header["serial"]:
                raise ValueError(f"{path.with_name(name)} belongs to another checkpoint")
            parts.append(unpack_tables(part["tables"], values))
    return joined(parts, own)


def _read(path: Path, form: str = FORMAT) -> tuple[dict[str, Any], Arrays]:
    safetensors = _safetensors()
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{path} is not a checkpoint, or not a whole one: {error}") from None
    if metadata.get("format") != form:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of pdmm")
    version = metadata.get("version", "")
    if version.isdecimal() and int(version) > VERSION:
        raise ValueError(
            f"{path} was written by a newer pdmm (version {version} of the file, this one reads "
            f"{VERSION}): update pdmm"
        )
    if version.isdecimal() and int(version) < VERSION:
        raise ValueError(
            f"{path} was written by an older pdmm (version {version} of the file, this one reads "
            f"{VERSION}): finish that run with the pdmm that began it"
        )
    try:
        if not version.isdecimal():
            raise ValueError(f"its version is {version!r}")
        return json.loads(metadata["run"]), arrays
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is a damaged checkpoint: {error}") from None


def _columns(path: Path, header: dict[str, Any]) -> dict[str, list[Any]]:
    try:
        with open(path, "rb") as file:
            text = file.read(header["length"])
    except FileNotFoundError:
        raise ValueError(f"the checkpoint's history {path} is missing") from None
    try:
        rows = [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise ValueError(f"the checkpoint's history {path} is damaged: {error}") from None
    if len(text) != header["length"] or len(rows) != header["rows"]:
        raise ValueError(f"the checkpoint's history {path} is shorter than it was")
    return {name: [row[k] for row in rows] for k, name in enumerate(header["columns"])}


def _is_code(value: Any) -> bool:
    return isinstance(value, dict) and "code" in value


def _code(name: str, kept: Any, given: Any, finished: bool) -> Any:
    """What was a callable must be given again, if it will be called; all else is in the file."""
    if _is_code(kept):
        if given is None and finished:
            return lambda *_: 1
        if not callable(given):
            raise ValueError(f"{name} was a callable: give it to resume again")
        return given
    if given is not None and not np.array_equal(given, kept):
        raise ValueError(f"{name} is in the checkpoint: {kept!r}; it cannot be changed")
    return kept


def _method(kept: Any, given: Any) -> Any:
    if not _is_code(kept):
        if given is not None and given != kept:
            raise ValueError(f"method is in the checkpoint: {kept!r}; it cannot be changed")
        return kept
    if not isinstance(given, Method):
        raise ValueError(f"method was a {kept['code']} of your own: give it to resume again")
    same = type(given).__name__ == kept["code"] and all(
        getattr(given, name, None) == value for name, value in kept["fields"].items()
    )
    if not same:
        raise ValueError(
            f"method must be the same as then, {kept['code']} with {kept['fields']}, got {given!r}"
        )
    return given
