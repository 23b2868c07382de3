"""Processes that carry a mark in their environment, which their children inherit.

By this mark alone the processes of a federation on this machine are found and ended, also those
whose parent has died.
"""

import signal
from collections.abc import Sequence

import psutil

MARK = "PDMM_FEDERATION_NODE"
GRACE = 1.0  # seconds between asking a process to end and ending it


def marked(federation: str, node: str | None = None) -> list[psutil.Process]:
    """The living processes of a node and of its jobs, or of all nodes."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
            dead = process.status() == psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            continue  # another user's, or gone meanwhile
        whose, _, name = mark.partition("/")
        if whose == federation and node in (None, name) and not dead:
            found.append(process)
    return found


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes that may be gone."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def end(processes: Sequence[psutil.Process]) -> None:
    """Ask processes to end, and end those that have not after a moment."""
    send(processes, signal.SIGTERM)
    # one that is frozen hears nothing until it goes on
    send(processes, signal.SIGCONT)
    _, left = psutil.wait_procs(processes, timeout=GRACE)
    send(left, signal.SIGKILL)
    psutil.wait_procs(left, timeout=GRACE)
