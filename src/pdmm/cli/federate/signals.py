"""What ends a command from outside takes the way of Ctrl-C, so that nothing is left behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

NAMES = ("SIGTERM", "SIGHUP")  # of a system that shuts down, and of a terminal that is closed


class Ending:
    """Which signal has come, if any has."""

    def __init__(self) -> None:
        self.number: int | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Interrupt what is done now, as Ctrl-C does it."""
        self.number = number
        raise KeyboardInterrupt

    def code(self, otherwise: int) -> int:
        """The exit code of the command, as shells count it."""
        return otherwise if self.number is None else 128 + self.number


@contextmanager
def as_ctrl_c() -> Iterator[Ending]:
    """Have the signals that would end this process at once interrupt it instead."""
    ending = Ending()
    before = {}
    if threading.current_thread() is threading.main_thread():  # no other may set a handler
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            # one that is ignored stays so, as `nohup` has it
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, ending.handle)
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
