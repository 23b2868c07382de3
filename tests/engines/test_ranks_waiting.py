"""A rank that does not come: the others say that they wait, and go on when it does."""

import gc
import threading
import weakref

import pytest

import pdmm
from builders.ranks import on_ranks
from pdmm.engines import waiting
from pdmm.engines.waiting import Waiting


class Heard:
    """Keeps what is said, and tells when two ranks have said it twice."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.enough = threading.Event()

    def say(self, text: str) -> None:
        self.said.append(text)
        if all(self.count(rank) >= 2 for rank in (0, 2)):
            self.enough.set()

    def count(self, rank: int) -> int:
        return sum(text.startswith(f"rank {rank} of 3 has waited") for text in self.said)


def test_ranks_that_wait_long_say_so_again_and_again() -> None:
    """Rank 1 is in a loop; it alone says nothing, and so is the one to look at."""
    heard = Heard()

    def work(mpi: pdmm.engines.MPI) -> list[int]:
        first = 60.0 if mpi.rank == 1 else 0.01
        mpi.team.waiting = Waiting(mpi.rank, mpi.size, first=first, say=heard.say)
        if mpi.rank == 1:
            assert heard.enough.wait(60)
        return mpi.team.gather(mpi.rank)

    assert on_ranks(3, work) == [[0, 1, 2]] * 3
    assert heard.count(0) >= 2
    assert heard.count(2) >= 2
    assert heard.count(1) == 0
    assert "The ranks that do not say so are still at work" in heard.said[0]


def test_it_speaks_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])  # type: ignore[attr-defined]
    clock = Waiting(0, 3, say=heard.say)
    clock._watched = True  # the test looks at the clock itself
    said, times = None, []
    for wait in range(2):
        with clock:
            for second in range(0, 500, 5):
                before, now[0] = len(heard.said), 1000.0 * wait + second
                if second == 0:
                    clock.__enter__()
                said = clock.look(said)
                times += [second] * (len(heard.said) - before)
        said = clock.look(said)
        now[0] += 10_000
    assert times == [60, 120, 240, 480] * 2
    assert clock.look(said) is None


def test_the_thread_ends_with_its_clock() -> None:
    before = set(threading.enumerate())
    clock = Waiting(0, 2)
    with clock:
        (thread,) = set(threading.enumerate()) - before
    gone = weakref.ref(clock)
    del clock
    gc.collect()
    assert gone() is None
    thread.join(60)
    assert not thread.is_alive()


def test_it_is_said_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nobody has set up logging."""
    clock = Waiting(0, 2, first=0.0)
    clock._watched = True  # the test looks at the clock itself
    with clock:
        clock.look(None)
    assert capsys.readouterr().err.startswith("pdmm: rank 0 of 2 has waited for")
