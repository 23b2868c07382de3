"""Runs on disk: laid down after every few rounds, and taken up to the same bits.

A checkpoint is one safetensors file: arrays, and everything else as JSON in its header. It is
there whole or not at all. The history is in a second file beside it, a line a row, which only
grows; the checkpoint says how much of it counts.

Where a team shares the run, each member writes what belongs to its clients into a file of its own
first; the checkpoint, written last by member 0, names these files. So it is all of one round
or none of it. Client by client, it does not matter how many members there were or will be.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pdmm.common.packing import Arrays, pack, unpack
from pdmm.engines.client_tables import Table, Tables

FORMAT, VERSION = "pdmm run", 3
PART = "pdmm clients of a run"


def safetensors() -> Any:
    """The library that writes the files, imported when it is needed."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError("checkpoints need safetensors: pip install 'pdmm[cli]'") from None
    return safetensors


def contents(arrays: Arrays, form: str, header: dict[str, Any]) -> bytes:
    """A file's bytes."""
    metadata = {"format": form, "version": str(VERSION), "run": json.dumps(header)}
    stored = {name: np.atleast_1d(array) for name, array in arrays.items()}
    made: bytes = safetensors().numpy.save(stored, metadata=metadata)
    return made


def read_file(path: Path, form: str = FORMAT) -> tuple[dict[str, Any], Arrays]:
    """A file's header and arrays, refused with a sentence where it is not what it should be."""
    library = safetensors()
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        with library.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (library.SafetensorError, OSError, ValueError) as error:
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
