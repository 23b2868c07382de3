"""One checkpoint, several runs: one of them works on it, and the others are told which."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import pdmm
from builders import cases
from builders.checkpoints import AG, HaltError, assert_same, done, history_of, laid_down, squares
from builders.ranks import on_ranks
from pdmm.common.lock import Lock
from pdmm.common.team import ElsewhereError

TRIES = 20
IN_USE = r"in use by (this )?process \d+ on \S+ since \d{4}-"

# Two such processes get the same lines at the same moment: a path, and what to do with it. Who
# gets through waits in its first round until the other was refused, or is in a round too.
WORKER = """
import json, os, sys, time
from pathlib import Path
import pdmm

me, other = sys.argv[1:]
problem = pdmm.LeastSquares.random(clients=6, samples=12, features=4, seed=0)
method = pdmm.AGPDMM(step_size=0.02, local_steps=3)

def attempt(path, what, start):
    def wait(r, x):
        path.with_name(f"in-{me}").touch()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if path.with_name(f"out-{other}").exists() or path.with_name(f"in-{other}").exists():
                return
            time.sleep(0.001)
    while time.time() < start:
        pass
    try:
        if what == "solve":
            pdmm.solve(problem, method, 6, participation=0.5, checkpoint=path, callback=wait)
        else:
            pdmm.resume(path, problem, callback=wait)
        return "ran"
    except Exception as error:
        path.with_name(f"out-{me}").touch()
        return f"{type(error).__name__}: {error}"

print("ready", flush=True)
for line in sys.stdin:
    path, what, start = json.loads(line)
    print(json.dumps([os.getpid(), attempt(Path(path), what, start)]), flush=True)
"""


class Pair:
    """Two processes that do the same at the same moment."""

    def __init__(self) -> None:
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", WORKER, me, other],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **one},
            )
            for me, other in (("a", "b"), ("b", "a"))
        ]
        for process in self.processes:
            assert self._line(process) == "ready\n"

    @staticmethod
    def _line(process: Any) -> str:
        return str(process.stdout.readline())

    def both(self, path: Path, what: str) -> list[tuple[int, str]]:
        """Who said what."""
        line = json.dumps([str(path), what, time.time() + 0.02])
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
        return [tuple(json.loads(self._line(process))) for process in self.processes]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["solve", "resume"])
def test_of_two_processes_at_the_same_moment_one_wins(what: str, tmp_path: Path) -> None:
    whole = pdmm.solve(squares(), AG, rounds=6, participation=0.5)
    pair = Pair()
    try:
        for k in range(TRIES):
            path = tmp_path / str(k) / "run"
            if what == "resume":
                with pytest.raises(HaltError):
                    pdmm.solve(
                        squares(), AG, 6, participation=0.5, checkpoint=path, every=2, callback=halt
                    )
            answers = pair.both(path, what)
            (winner,) = [pid for pid, words in answers if words == "ran"]
            (refusal,) = [words for _, words in answers if words != "ran"]
            host = re.escape(socket.gethostname())
            said = (
                rf"BlockingIOError: {path} is in use by process {winner} on {host} since \d{{4}}-"
            )
            assert re.match(said, refusal), refusal
            left = {file.name[:3] for file in path.parent.iterdir()}
            assert left == {"run", "in-", "out"}
            assert not Lock(path).path.exists()
            assert_same(pdmm.resume(path, squares()), whole)
    finally:
        pair.end()


def halt(r: int, x: Any) -> None:
    if r == 3:
        raise HaltError


def test_a_killed_run_does_not_block(place: Path) -> None:
    script = """
import os, signal, sys, pdmm
problem = pdmm.LeastSquares.random(clients=6, samples=12, features=4, seed=0)
kill = lambda r, x: r == 5 and os.kill(os.getpid(), signal.SIGKILL)
method = pdmm.AGPDMM(step_size=0.02, local_steps=3)
pdmm.solve(problem, method, 9, checkpoint=sys.argv[1], every=2, callback=kill, threads=1)
"""
    ended = subprocess.run([sys.executable, "-c", script, str(place)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert Lock(place).path.exists()
    assert_same(pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=9))
    assert sorted(place.parent.iterdir()) == [place, history_of(place)]


def test_runs_of_two_threads_keep_out_of_each_others_way(place: Path) -> None:
    inside, over = threading.Event(), threading.Event()
    found: list[pdmm.Result] = []

    def wait(r: int, x: Any) -> None:
        inside.set()
        assert over.wait(60)

    def run() -> None:
        found.append(pdmm.solve(squares(), AG, rounds=4, checkpoint=place, callback=wait))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert inside.wait(60)
        with pytest.raises(BlockingIOError, match=f"in use by this process {os.getpid()} on"):
            pdmm.solve(squares(), AG, rounds=4, checkpoint=place)
        with pytest.raises(BlockingIOError, match=IN_USE):
            pdmm.resume(place, squares())
    finally:
        over.set()
        thread.join(60)
    assert_same(pdmm.resume(place, squares()), found[0])


def test_a_callback_cannot_resume_its_own_run(place: Path) -> None:
    def again(r: int, x: Any) -> None:
        pdmm.resume(place, squares())

    with pytest.raises(BlockingIOError, match=IN_USE):
        pdmm.solve(squares(), AG, rounds=4, checkpoint=place, callback=again)
    assert_same(pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=4))


def test_other_names_of_a_file_are_the_same_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_down(place)
    folder = place.with_name("folder")
    folder.mkdir()
    link = folder / "link"
    link.symlink_to(place)
    monkeypatch.chdir(place.parent)
    with_lock = Lock(place)
    with_lock.acquire()
    for name in (link, place.name, folder / ".." / place.name):
        with pytest.raises(BlockingIOError, match=IN_USE):
            pdmm.resume(name, squares())
    with_lock.release()
    pdmm.resume(link, squares())
    assert done(place) == 20
    assert link.is_symlink()
    assert [path.name for path in folder.iterdir()] == ["link"]


def test_all_ranks_are_told_who_has_it(place: Path) -> None:
    on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, rounds=4, checkpoint=place))
    lock = Lock(place)
    lock.acquire()
    errors: dict[int, BaseException] = {}

    def go_on(mpi: pdmm.engines.MPI) -> None:
        problem = cases.least_squares(mpi.range(cases.M))
        try:
            pdmm.resume(place, problem, rounds=8, engine=mpi)
        except (OSError, ElsewhereError) as error:
            errors[mpi.rank] = error

    on_ranks(2, go_on)
    assert isinstance(errors[0], BlockingIOError)
    assert isinstance(errors[1], ElsewhereError)
    for error in errors.values():
        assert re.search(IN_USE, str(error))
    lock.release()
    on_ranks(2, go_on)
    assert done(place) == 8


@pytest.mark.parametrize("wrong", [3, True, b"run", "", "a\0b", ["run"], 2.5])
def test_what_is_no_path_is_named(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"^checkpoint must be the path of a file, .*, got "):
        pdmm.solve(squares(), AG, rounds=2, checkpoint=wrong)
    with pytest.raises(ValueError, match=r"^path must be the path of a file, .*, got "):
        pdmm.resume(wrong, squares())
    with pytest.raises(ValueError, match=r"^checkpoint must be the path of a file"):
        on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, rounds=4, checkpoint=wrong))


def test_a_folder_is_no_place_for_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        pdmm.solve(squares(), AG, rounds=2, checkpoint=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_run_are_its_owners_alone(place: Path) -> None:
    modes: list[int] = []

    def look(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return cases.solve("gpdmm", mpi, rounds=4, checkpoint=place, callback=seen)

    def seen(r: int, x: Any) -> None:
        modes.extend(path.stat().st_mode & 0o777 for path in place.parent.glob(place.name + "*"))

    on_ranks(2, look)
    assert len(modes) >= 5 * 4
    assert set(modes) == {0o600}
