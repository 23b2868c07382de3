"""A process that outlives the one that holds a federation, and takes down what that one left.

A process that is killed cannot end its nodes, nor remove the folder with their private keys. So it
starts a caretaker first, and keeps a pipe to it open. Whatever ends the holder closes the pipe.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from pdmm.flare.marked import end, marked

DONE = b"done"  # what the holder says if there is nothing left to do
QUIET = 1.0  # seconds without a process after which none is expected to come
LONGEST = 30.0  # seconds for the caretaker's work, at most
PAUSE = 0.1


class Caretaker:
    """Started before the first node, and told when the last one has ended.

    Args:
        federation: the mark of its processes; no others are touched.
        folder: what to remove too, if anything.
    """

    def __init__(self, federation: str, folder: Path | None) -> None:
        command = [sys.executable, "-m", "pdmm.flare.caretaker", federation]
        if folder is not None:
            command.append(str(folder.resolve()))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # what ends the holder from a terminal must not end its caretaker
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """All is taken down already."""
        self._leave(DONE)
        self._process.wait()

    def alarm(self) -> None:
        """Have it take down what is left, now."""
        self._leave(b"")

    def _leave(self, word: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word)
            self._process.stdin.close()
        except BrokenPipeError:
            return  # somebody has ended it


def watch(pipe: BinaryIO, federation: str, folder: Path | None) -> None:
    """Wait for the end of the holder, and take down what it has left."""
    if pipe.read() == DONE:
        return
    last = time.monotonic()
    limit = last + LONGEST
    # Several looks: a process that was being started had no mark yet.
    while time.monotonic() < min(last + QUIET, limit):
        found = marked(federation)
        if found:
            end(found)
            last = time.monotonic()
        time.sleep(PAUSE)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    mark, *folders = sys.argv[1:]
    watch(sys.stdin.buffer, mark, Path(folders[0]) if folders else None)
