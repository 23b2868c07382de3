"""Says when ranks have waited long for another one, which may never come."""

import sys
import threading
import time
import weakref
from collections.abc import Callable

FIRST = 60.0  # seconds after which a rank says so for the first time; then after twice as long
LOOKS = 12  # at the clock in that time


def _to_stderr(text: str) -> None:
    # not by logging, which is silent unless a script sets it up: this is for one that did not
    print(f"pdmm: {text}", file=sys.stderr, flush=True)


class Waiting:
    """A clock for the calls in which a rank waits for all others; a context manager around each.

    Entering and leaving it costs an assignment each. A thread of its own looks at the clock now
    and then, since a rank that waits can do nothing else.

    Args:
        rank: the number of this rank.
        size: how many there are.
        first: seconds to wait before it says so.
        say: takes what it says.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        first: float = FIRST,
        say: Callable[[str], object] = _to_stderr,
    ) -> None:
        self.rank = rank
        self.size = size
        self.first = first
        self.say = say
        self._since: float | None = None
        self._watched = False

    def __enter__(self) -> None:
        if not self._watched:
            self._watch()
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def _watch(self) -> None:
        """Start the thread, which ends with this object."""
        self._watched = True
        gone = threading.Event()
        weakref.finalize(self, gone.set)
        work = (weakref.ref(self), gone, self.first / LOOKS)
        threading.Thread(target=_look, args=work, name="pdmm_waiting", daemon=True).start()

    def look(self, said: tuple[float, float] | None) -> tuple[float, float] | None:
        """Say how long this rank has waited, if it is time.

        Args:
            said: of the wait that it spoke of last, its begin and the seconds after which it spoke.

        Returns:
            The same of now.
        """
        since = self._since
        if since is None:
            return None
        again = said is not None and said[0] == since
        due = 2 * said[1] if said is not None and again else self.first
        waited = time.monotonic() - since
        if waited < due:
            return said if again else None
        self.say(
            f"rank {self.rank} of {self.size} has waited for {waited:.3g} seconds for other ranks "
            "to do their part. The ranks that do not say so are still at work: with many or slow "
            "clients, or in a function that does not return"
        )
        return since, due


def _look(waiting: "weakref.ref[Waiting]", gone: threading.Event, pause: float) -> None:
    """Look at the clock until there is none."""
    said = None
    while not gone.wait(pause):
        clock = waiting()
        if clock is None:
            return
        said = clock.look(said)
        del clock  # which must be able to go while this thread waits
