"""Runs on disk: laid down after every few rounds, and taken up to the same bits.

A checkpoint is one safetensors file: arrays, and everything else as JSON in its header. It is
there whole or not at all. The history is in a second file beside it, a line a row, which only
grows; the checkpoint says how much of it counts.

Where a team shares the run, each member writes what belongs to its clients into a file of its own
first; the checkpoint, written last by member 0, names these files. So it is all of one round
or none of it. Client by client, it does not matter how many members there were or will be.

Every byte is covered by a checksum. That of a file stands in its own header: it is the SHA-256
of the file as it is with zeros in the place of the checksum. The checkpoint states those of the
history's rows and of the members' files too.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pdmm.common.packing import Arrays, pack, unpack
from pdmm.engines.client_tables import Table, Tables

FORMAT, VERSION = "pdmm run", 4
PART = "pdmm clients of a run"
BLANK = "0" * 64
STATED = re.compile(rb'"checksum":"([0-9a-f]{64})"')
LONGEST_HEADER = 10**8  # bytes: safetensors itself reads no longer one
CHUNK = 2**20


def safetensors() -> Any:
    """The library that writes the files, imported when it is needed."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError("checkpoints need safetensors: pip install 'pdmm[cli]'") from None
    return safetensors


def checkpoint_path(name: str, given: Any) -> Path:
    """The path of a checkpoint, by which every process calls it, whatever links lead there."""
    path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(
            f"{name} must be the path of a file, such as 'run.safetensors', got {given!r}"
        )
    return Path(os.path.realpath(path))


# --- writing --------------------------------------------------------------------------------


def contents(arrays: Arrays, form: str, header: dict[str, Any]) -> bytes:
    """A file's bytes, with their checksum."""
    metadata = {
        "format": form,
        "version": str(VERSION),
        "run": json.dumps(header),
        "checksum": BLANK,
    }
    stored = {name: np.atleast_1d(array) for name, array in arrays.items()}
    return sealed(safetensors().numpy.save(stored, metadata=metadata))


def sealed(made: bytes) -> bytes:
    """A file's bytes with their checksum, where there were zeros for it."""
    start, end = _place(made)
    checksum = hashlib.sha256(made).hexdigest().encode()
    view = memoryview(made)
    return b"".join([view[:start], checksum, view[end:]])


def checksum_of(made: bytes) -> str:
    """The checksum that a file's bytes state."""
    start, end = _place(made)
    return made[start:end].decode()


def _place(made: bytes) -> tuple[int, int]:
    """Where the checksum stands."""
    found = STATED.search(made)
    assert found is not None
    return found.span(1)


# --- reading --------------------------------------------------------------------------------


def read_file(
    path: Path, form: str = FORMAT, checksum: str | None = None
) -> tuple[dict[str, Any], Arrays]:
    """A file's header and arrays, refused with a sentence where it is not what it should be.

    Args:
        path: of the file.
        form: what it must be.
        checksum: that it must have, where another file says so.
    """
    library = safetensors()
    check_there(path)
    try:
        with open(path, "rb") as file:
            head = _head(file)
            metadata = _metadata(head)
            stated = STATED.search(head)
            sound = stated is not None and _digest(file, head, stated) == stated[1].decode()
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a checkpoint, or not a whole one: {error}") from None
    if metadata.get("format") != form:
        raise ValueError(f"{path} is a safetensors file, but not a checkpoint of pdmm")
    if stated is not None and not sound:
        raise ValueError(
            f"{path} is a damaged checkpoint: its checksum is not the one of its contents"
        )
    _check_version(path, metadata.get("version", ""))
    if stated is None:
        raise ValueError(f"{path} is a damaged checkpoint: it has no checksum")
    if checksum not in (None, stated[1].decode()):
        raise ValueError(f"{path} belongs to another checkpoint")
    try:
        with library.safe_open(path, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return json.loads(metadata["run"]), arrays
    except (library.SafetensorError, OSError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is a damaged checkpoint: {error}") from None


def check_there(path: Path) -> None:
    """Refuse to read what is not there."""
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")


def _head(file: BinaryIO) -> bytes:
    """What a safetensors file begins with: the length of its header, and the header."""
    size = os.fstat(file.fileno()).st_size
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > min(size - 8, LONGEST_HEADER):
        raise ValueError("it is too short for its header")
    return first + file.read(length)


def _metadata(head: bytes) -> dict[str, str]:
    header = json.loads(head[8:])
    found = header.get("__metadata__") if isinstance(header, dict) else None
    return found if isinstance(found, dict) else {}


def _digest(file: BinaryIO, head: bytes, stated: re.Match[bytes]) -> str:
    """The checksum that an open file should state, of which the head is read."""
    start, end = stated.span(1)
    digest = hashlib.sha256(head[:start])
    digest.update(BLANK.encode())
    digest.update(head[end:])
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _check_version(path: Path, version: str) -> None:
    if not (isinstance(version, str) and version.isdecimal()):
        raise ValueError(f"{path} is a damaged checkpoint: its version is {version!r}")
    if int(version) > VERSION:
        raise ValueError(
            f"{path} was written by a newer pdmm (version {version} of the file, this one reads "
            f"{VERSION}): update pdmm"
        )
    if int(version) < VERSION:
        raise ValueError(
            f"{path} was written by an older pdmm (version {version} of the file, this one reads "
            f"{VERSION}): finish that run with the pdmm that began it"
        )


# --- what is in it --------------------------------------------------------------------------


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
