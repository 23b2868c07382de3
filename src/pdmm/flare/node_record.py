"""What a kit knows of its node's process: its number, when it began, and its mark.

A number alone would not do: when a process has ended, another one may be given its number. So a
process counts as the node's only if it began when the record says and carries the mark.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from pdmm.common.whole_files import private_folder, write_whole
from pdmm.flare.kit_files import read_json
from pdmm.flare.marked import MARK, marked
from pdmm.flare.node import Node
from pdmm.flare.private_errors import FOLDER

RECORD, LOG = "node.json", "node.log"  # in the folder pdmm of the kit
CLOCK = 2.0  # seconds by which two processes may see the beginning of a third one differently
JOB = ("worker_process", "runner_process")  # in the command of a job's process, at site and server
META = "meta.json"  # in a job's folder: who submitted it, and as what


@dataclass(frozen=True)
class Record:
    """The process that was started for a kit."""

    pid: int
    began: float
    """In seconds since 1970, as the system tells it."""
    mark: str


class Job(NamedTuple):
    """A run at which a node works."""

    number: str
    run: str
    by: str
    """Who has submitted it."""


def log_of(kit: Path) -> Path:
    """The file with all that the node has printed."""
    return kit / FOLDER / LOG


def write_record(kit: Path, pid: int, mark: str) -> None:
    """Keep which process was started."""
    private_folder(kit / FOLDER)
    record = Record(pid, psutil.Process(pid).create_time(), mark)
    write_whole(kit / FOLDER / RECORD, json.dumps(asdict(record)).encode(), private=True)


def read_record(kit: Path) -> Record | None:
    """Which process was started last, if one was."""
    path = kit / FOLDER / RECORD
    return Record(**read_json(path)) if path.is_file() else None


def forget(kit: Path) -> None:
    """The node's processes have ended."""
    (kit / FOLDER / RECORD).unlink(missing_ok=True)


def node_process(record: Record) -> psutil.Process | None:
    """The node's living process; never another one that was given its number."""
    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.began) < CLOCK
        mark = process.environ().get(MARK, "").partition("/")[0]
        dead = process.status() == psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return None
    return process if same and mark == record.mark and not dead else None


def processes_of(record: Record) -> list[psutil.Process]:
    """The living processes of the node and of its jobs, also where the node itself has died."""
    return marked(record.mark)


def other_process(node: Node) -> int | None:
    """A process that runs the same kit and was started in another way, as by start.sh."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except (psutil.Error, OSError):
            continue
        of_flare = any(word.startswith("nvflare.private.fed.app.") for word in words)
        if of_flare and any(_is_folder(word, node.kit) for word in words):
            return int(process.pid)
    return None


def _is_folder(word: str, kit: Path) -> bool:
    return word.startswith("/") and Path(word).resolve() == kit


def jobs_of(record: Record, kit: Path) -> list[Job]:
    """The runs at which the node works now."""
    found = {}
    for process in processes_of(record):
        try:
            words = process.cmdline()
        except (psutil.Error, OSError):
            continue
        if not any(kind in word for kind in JOB for word in words):
            continue
        for word in words:
            if (kit / word / META).is_file():
                found[word] = _described(kit, word)
    return [found[number] for number in sorted(found)]


def _described(kit: Path, number: str) -> Job:
    try:
        meta = read_json(kit / number / META)
    except (ValueError, OSError):
        meta = {}
    return Job(number, str(meta.get("name", number)), str(meta.get("submitter_name", "unknown")))


def is_connected(record: Record, node: Node) -> bool:
    """Whether the node's process has a connection to the server."""
    process = node_process(record)
    if process is None:
        return False
    try:
        links = process.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return False
    return any(
        link.raddr and link.raddr.port == node.port and link.status == psutil.CONN_ESTABLISHED
        for link in links
    )
