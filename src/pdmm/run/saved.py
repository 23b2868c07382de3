"""A checkpoint that is read: checked, and put back into a run."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from pdmm.common.packing import Arrays, unpack
from pdmm.engines.client_tables import Tables, joined
from pdmm.engines.clients import Clients
from pdmm.methods.base import Method
from pdmm.methods.registry import METHODS
from pdmm.run.build import Run
from pdmm.run.checkpoint_file import PART, history_path, read_file, unpack_tables
from pdmm.run.history_file import read_rows
from pdmm.run.settings import Settings


@dataclass(frozen=True)
class Saved:
    """A checkpoint, read and checked."""

    settings: Settings
    state: dict[str, Any]
    engine: dict[str, Any]
    tables: Tables
    columns: dict[str, list[Any]]
    every: int
    rows: int
    length: int
    serial: int

    @property
    def done(self) -> int:
        """Rounds that were done."""
        return int(self.state["done"])

    def restore(self, run: Run) -> None:
        """Put a run where this one was."""
        run.clients.recognise(run.settings.x0, self.tables["fingerprint"])
        run.state = run.state.loaded(self.state)
        run.clients.load(self.engine)
        run.clients.load_tables(self.tables)
        run.recorder.columns = {name: list(column) for name, column in self.columns.items()}
        run.recorder.start = perf_counter() - run.state.accounts.seconds
        if run.state.reason == "" and run.state.done < run.settings.rounds:
            run.state.finished = False  # more rounds were asked for


def read(place: Path, clients: Clients, method: Any, participation: Any, local_steps: Any) -> Saved:
    """A checkpoint, refused with a clear message where it is not one, or not of this problem."""
    team = clients.team
    header, arrays = team.first(lambda: read_file(place))
    try:
        _check_described(clients.describe(), header["problem"])
        kept = unpack(header["settings"], arrays)
        state = unpack(header["state"], arrays)
        engine = unpack(header["engine"], arrays)
        finished = bool(state["finished"])
        columns = team.first(lambda: _columns(history_path(place), header))
        tables = team.agree(lambda: _tables(place, header, arrays, clients.own))
    except (KeyError, TypeError) as error:  # of a file that pdmm has not written
        raise ValueError(f"{place} is a damaged checkpoint: it lacks {error}") from None
    for name, given in (("participation", participation), ("local_steps", local_steps)):
        kept[name] = _code(name, kept[name], given, finished)
    kept["method"] = _method(kept["method"], method)
    return Saved(
        settings=Settings(**kept),
        state=state,
        engine=engine,
        tables=tables,
        columns=columns,
        every=header["every"],
        rows=header["rows"],
        length=header["length"],
        serial=header["serial"],
    )


def _check_described(now: dict[str, Any], then: dict[str, Any]) -> None:
    for name, value in now.items():
        before = then[name]
        if before != value and not (name == "description" and "" in (before, value)):
            raise ValueError(
                f"problem is not the one of the checkpoint: its {name} is {value}, and it was "
                f"{before}"
            )


def _tables(path: Path, header: dict[str, Any], arrays: Arrays, own: slice) -> Tables:
    """What belongs to some of the clients, from the files that have it."""
    if header["files"] is None:
        return joined([unpack_tables(header["clients"], arrays)], own)
    parts = []
    for name, first, end, checksum in header["files"]:
        if first < own.stop and end > own.start:
            part, values = read_file(path.with_name(name), PART, checksum)
            parts.append(unpack_tables(part["tables"], values))
    return joined(parts, own)


def _columns(path: Path, header: dict[str, Any]) -> dict[str, list[Any]]:
    rows = read_rows(path, header["rows"], header["length"], header["history"])
    return {name: [row[k] for row in rows] for k, name in enumerate(header["columns"])}


def is_code(value: Any) -> bool:
    """Whether a value stands for code, which no file keeps."""
    return isinstance(value, dict) and "code" in value


def _code(name: str, kept: Any, given: Any, finished: bool) -> Any:
    """What was a callable must be given again, if it will be called; all else is in the file."""
    if is_code(kept):
        if given is None and finished:
            return lambda *_: 1
        if not callable(given):
            raise ValueError(f"{name} was a callable: give it to resume again")
        return given
    if given is not None and not np.array_equal(given, kept):
        raise ValueError(f"{name} is in the checkpoint: {kept!r}; it cannot be changed")
    return kept


_NAMED = {kind.__name__ for kind in METHODS.values()}


def _is_as_then(given: Any, kept: Any) -> bool:
    """Whether a parameter is the one of the checkpoint, which keeps no callables."""
    return callable(given) if is_code(kept) else bool(given == kept)


def _method(kept: Any, given: Any) -> Any:
    if not is_code(kept):
        if given is not None and given != kept:
            raise ValueError(f"method is in the checkpoint: {kept!r}; it cannot be changed")
        return kept
    if not isinstance(given, Method):
        what = "with a callable" if kept["code"] in _NAMED else "of your own"
        raise ValueError(f"method was a {kept['code']} {what}: give it to resume again")
    same = type(given).__name__ == kept["code"] and all(
        _is_as_then(getattr(given, name, None), value) for name, value in kept["fields"].items()
    )
    if not same:
        raise ValueError(
            f"method must be the same as then, {kept['code']} with {kept['fields']}, got {given!r}"
        )
    return given
