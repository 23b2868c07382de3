"""Start a node from its kit in the background, and end it: exactly that node and its jobs."""

import os
import socket
import subprocess
import threading
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from pdmm.common.lock import Lock
from pdmm.common.whole_files import private_folder
from pdmm.flare.checking import look
from pdmm.flare.marked import end
from pdmm.flare.names import SETTINGS
from pdmm.flare.node import Node, last_lines
from pdmm.flare.node_record import (
    RECORD,
    forget,
    log_of,
    node_process,
    other_process,
    processes_of,
    read_record,
    write_record,
)
from pdmm.flare.private_errors import FOLDER

PATIENCE = 60.0  # seconds for a node to be ready
UNREACHABLE = 8.0  # seconds after which a site need not wait for a server that nobody reaches
PAUSE = 0.1
REACH = 2.0  # seconds for a connection to the server
LARGEST_LOG = 20_000_000  # bytes, after which the log is begun anew; the last one is kept
ENDING = 10.0  # seconds for the processes of a node to end


class NodeError(Exception):
    """A node could not be started or ended; the message says why, and what to do."""


class Started(NamedTuple):
    """A node that runs."""

    node: Node
    pid: int
    log: Path
    waits_for: str
    """What the node still waits for, in words; nothing, if it is ready."""
    process: subprocess.Popen[bytes]


def start(kit: Path, patience: float = PATIENCE) -> Started:
    """Start the node of a prepared kit, and wait until it is ready.

    A site whose server cannot be reached is started too, and keeps trying.

    Args:
        kit: the start-up kit of a site or of a server.
        patience: seconds to wait.
    """
    node = Node.of_kit(kit)
    _check_prepared(node)
    lock = Lock(node.kit / FOLDER / RECORD)
    try:
        lock.acquire()
    except BlockingIOError:
        raise NodeError(f"{kit} is being started or stopped by another command") from None
    try:
        _check_alone(node)
        log = log_of(node.kit)
        _begin_log(log)
        mark = uuid.uuid4().hex
        process, offset = node.launch(log, mark, {})
        # somebody takes note of its end, for as long as this process lives
        threading.Thread(target=process.wait, daemon=True).start()
        write_record(node.kit, process.pid, mark)
    finally:
        lock.release()
    try:
        waits_for = _wait(node, process, log, offset, patience)
    except KeyboardInterrupt:
        stop(node.kit)
        raise
    return Started(node, process.pid, log, waits_for, process)


def _wait(
    node: Node, process: subprocess.Popen[bytes], log: Path, offset: int, patience: float
) -> str:
    """Wait until a node is ready; what it waits for, if that is somebody else."""
    begun = time.monotonic()
    while not node.is_ready(log, offset):
        waited = time.monotonic() - begun
        if process.poll() is not None:
            forget(node.kit)
            raise NodeError(
                f"{node.name} ended as it started: {last_lines(log, 1)} (see {log} in full)"
            )
        if node.is_site and waited > min(UNREACHABLE, patience) and not is_reachable(node):
            return f"the server {node.server} cannot be reached yet; it keeps trying"
        if waited > patience:
            return _not_let_in(node, patience)
        time.sleep(PAUSE)
    return ""


def stop(kit: Path) -> int:
    """End the node of a kit and its jobs; returns how many processes that were."""
    node = Node.of_kit(kit)
    record = read_record(node.kit)
    if record is None:
        other = other_process(node)
        if other is not None:
            raise NodeError(_started_otherwise(node, other))
        return 0
    found = processes_of(record)
    limit = time.monotonic() + ENDING
    # again, for what a process started while it was being ended
    while (left := processes_of(record)) and time.monotonic() < limit:
        end(left)
    if left:
        numbers = ", ".join(str(process.pid) for process in left)
        raise NodeError(f"{node.name} does not end: processes {numbers} are still there")
    forget(node.kit)
    return len(found)


def is_reachable(node: Node) -> bool:
    """Whether something listens where the server should be."""
    try:
        with socket.create_connection((node.host, node.port), timeout=REACH):
            return True
    except OSError:
        return False


# --- what is in the way ---------------------------------------------------------------------


def _check_prepared(node: Node) -> None:
    command = "site" if node.is_site else "server"
    marks = (node.kit / "local" / SETTINGS) if node.is_site else (node.kit / FOLDER)
    if not marks.exists():
        raise NodeError(
            f"{node.kit} is not prepared: run pdmm federate {command} --kit {node.kit} first"
        )
    open_doors = [item for item in look(node.kit) if not item.closed]
    if open_doors:
        first = open_doors[0]
        raise NodeError(
            f"{node.name} is not started, for a door of its kit is open: {first.name}, "
            f"{first.found}. What to do: {first.remedy}. All doors are shown by "
            f"pdmm federate check --kit {node.kit}"
        )


def _check_alone(node: Node) -> None:
    record = read_record(node.kit)
    if record is not None:
        process = node_process(record)
        if process is not None:
            raise NodeError(
                f"{node.name} runs already, as process {process.pid}. To end it: "
                f"pdmm federate stop --kit {node.kit}"
            )
        end(processes_of(record))  # jobs of a node that died: nobody waits for them
    other = other_process(node)
    if other is not None:
        raise NodeError(_started_otherwise(node, other))
    if not node.is_site and not _is_free(node.port):
        raise NodeError(
            f"port {node.port} is taken by another program, and the server {node.name} needs it: "
            "end that program, or have the federation provisioned with another port"
        )


def _started_otherwise(node: Node, pid: int) -> str:
    return (
        f"{node.name} runs as process {pid}, which pdmm federate start has not started: end it "
        "the way it was started (startup/stop_fl.sh, where that was startup/start.sh)"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # an old connection that lingers is no obstacle; somebody who listens is
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _begin_log(log: Path) -> None:
    private_folder(log.parent)
    if log.is_file() and log.stat().st_size > LARGEST_LOG:
        os.replace(log, log.with_name(f"{log.name}.1"))


def _not_let_in(node: Node, patience: float) -> str:
    if not node.is_site:
        return f"it does not listen yet, after {patience:.0f} s: see its log"
    return (
        f"the server {node.server} answers, but has not let it in within {patience:.0f} s: the "
        "server may know another root certificate, or be starting itself; it keeps trying"
    )
