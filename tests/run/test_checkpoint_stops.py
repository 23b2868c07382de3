"""Ways to stop: by a callback, by an error, by a signal, at every kind of moment."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pdmm
from builders.checkpoints import AG, assert_same, done, hinges, history_of, never, squares


def test_stopped_by_the_callback_and_taken_up(place: Path) -> None:
    given: dict[str, Any] = {"rounds": 20, "participation": 0.5, "bits": 4}
    whole = pdmm.solve(squares(), AG, **given)
    stopped = pdmm.solve(squares(), AG, checkpoint=place, callback=lambda r, x: r == 7, **given)
    assert stopped.reason == "stopped by the callback after round 7"
    assert done(place) == 7  # it was finished: no round is lost
    again = pdmm.resume(place, squares(), callback=lambda r, x: r == 13)
    assert again.reason == "stopped by the callback after round 13"
    assert_same(pdmm.resume(place, squares()), whole)
    assert_same(pdmm.resume(place, squares(), callback=never), whole)


STOPPED: dict[str, tuple[pdmm.Method, dict[str, Any]]] = {
    "rows": (AG, {"record_every": 5}),
    "rows, part": (AG, {"record_every": 5, "participation": 0.5}),
    "rows, exact": (pdmm.PDMM(rho=10.0), {"record_every": 5}),
    "checks": (AG, {"tolerance": 1e-30, "check_every": 5}),
    "checks and rows": (AG, {"tolerance": 1e-30, "check_every": 4, "record_every": 5}),
}


@pytest.mark.parametrize("case", STOPPED.values(), ids=STOPPED)
def test_a_stop_by_the_callback_leaves_no_trace(
    case: tuple[pdmm.Method, dict[str, Any]], place: Path
) -> None:
    # The stopped run's own result has a row for its last round, and its certificate; the run
    # that goes on never had them.
    method, given = case
    whole = pdmm.solve(squares(), method, rounds=20, **given)
    stopped = pdmm.solve(
        squares(), method, rounds=20, checkpoint=place, callback=lambda r, x: r == 7, **given
    )
    assert stopped.history["round"][-1] == 7
    assert_same(pdmm.resume(place, squares()), whole)


def test_a_stop_in_the_round_that_is_the_last_anyway(place: Path) -> None:
    certified = pdmm.solve(squares(), AG, rounds=60, tolerance=1e-3, check_every=3)
    assert "certified" in certified.reason
    last = certified.rounds
    given: dict[str, Any] = {"tolerance": 1e-3, "check_every": 3}
    pdmm.solve(squares(), AG, rounds=60, checkpoint=place, callback=lambda r, x: r == last, **given)
    assert_same(pdmm.resume(place, squares()), certified)
    other = place.with_name("other")
    whole = pdmm.solve(squares(), AG, rounds=12)
    pdmm.solve(squares(), AG, rounds=12, checkpoint=other, callback=lambda r, x: r == 12)
    assert_same(pdmm.resume(other, squares(), callback=never), whole)


def test_a_users_function_that_raises(place: Path) -> None:
    method = pdmm.AGPDMM(step_size="auto", local_steps=4)
    whole = pdmm.solve(hinges(), method, rounds=12)
    for call in (25, 35, 50):
        problem = hinges()
        plain, calls = problem.functions["gradient"][1], [0]

        def gradient(x: Any, plain: Any = plain, calls: list[int] = calls, call: int = call) -> Any:
            calls[0] += 1
            if calls[0] >= call:
                raise RuntimeError("out of memory")
            return plain(x)

        broken = list(problem.functions["gradient"])
        broken[1] = gradient
        problem.functions["gradient"] = broken
        path = place.with_name(f"{call}.safetensors")
        with pytest.raises(pdmm.ClientError, match="out of memory"):
            pdmm.solve(problem, method, rounds=12, checkpoint=path, every=2)
        assert done(path) < 12
        assert_same(pdmm.resume(path, hinges()), whole)


# A process of its own that forks one child a job; a child kills itself where it is told to. Each
# ends by itself, and the parent waits for it.
WORKER = """
import json, os, signal, sys
from pathlib import Path

import pdmm
import safetensors.numpy
import pdmm.common.whole_files, pdmm.run.history_file

path, jobs = Path(sys.argv[1]), json.loads(sys.argv[2])
problem = pdmm.LeastSquares.random(clients=6, samples=12, features=4, seed=0)
method = pdmm.AGPDMM(step_size=0.02, local_steps=3)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def child(where, count):
    callback, left = None, [count]

    def due():
        left[0] -= 1
        return left[0] == 0

    def before(function):
        def replaced(*arguments, **named):
            if due():
                die()
            return function(*arguments, **named)
        return replaced

    if where == "round":
        callback = lambda r, x: due() and die()
    elif where == "replace":
        os.replace = before(os.replace)
    elif where == "replaced":
        plain = os.replace
        def replaced(*arguments):
            plain(*arguments)
            if due():
                die()
        os.replace = replaced
    elif where == "fsync":
        os.fsync = before(os.fsync)
    elif where == "half":  # of the history's new rows, and of the checkpoint
        plain_open = open
        class Half:
            def __init__(self, file):
                self.file = file
            def __enter__(self):
                self.file.__enter__()
                return self
            def __exit__(self, *arguments):
                return self.file.__exit__(*arguments)
            def __getattr__(self, name):
                return getattr(self.file, name)
            def write(self, contents):
                if due():
                    self.file.write(contents[: len(contents) // 2])
                    self.file.flush()
                    die()
                return self.file.write(contents)
        half = lambda *a, **k: Half(plain_open(*a, **k))
        pdmm.run.history_file.open = lambda *a, **k: (half if "+" in a[1] else plain_open)(*a, **k)
        pdmm.common.whole_files.open = half
    if path.exists():
        pdmm.resume(path, problem, callback=callback, threads=1)
    else:
        pdmm.solve(
            problem, method, rounds=40, participation=0.5, loss=0.2, bits=4, record_every=2,
            checkpoint=path, every=3, callback=callback, threads=1,
        )


for where, count in jobs:
    pid = os.fork()
    if pid == 0:
        try:
            child(where, count)
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)
"""


def run_worker(path: Path, jobs: list[tuple[str, int]]) -> list[int]:
    """The signals that ended the children, 0 for none."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, str(path), json.dumps(jobs)],
        env={**os.environ, **one},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [int(line) for line in ended.stdout.split()]


def killed_result(path: Path) -> pdmm.Result:
    whole = pdmm.solve(
        squares(), AG, rounds=40, participation=0.5, loss=0.2, bits=4, record_every=2
    )
    found = pdmm.resume(path, squares())
    assert_same(found, whole)
    return whole


@pytest.mark.slow
def test_killed_at_every_kind_of_moment(place: Path) -> None:
    jobs = [
        ("round", 2),  # before the second checkpoint
        ("round", 7),
        ("replace", 1),  # the new checkpoint is there, but beside the old
        ("replace", 3),
        ("replaced", 2),
        ("half", 1),  # of the history's rows
        ("half", 2),  # of the checkpoint
        ("half", 3),
        ("fsync", 1),  # rows are written, the checkpoint is not
        ("fsync", 2),
        ("fsync", 4),
        ("round", 1),
        ("round", 1),
        ("replaced", 1),
        ("replace", 1),
        ("half", 4),
        ("round", 5),
    ]
    assert run_worker(place, jobs) == [signal.SIGKILL] * len(jobs)
    assert done(place) < 40
    killed_result(place)


@pytest.mark.slow
def test_killed_before_its_first_checkpoint_it_begins_again(place: Path) -> None:
    # There is nothing to take up yet: the same call begins the run, whatever is left behind.
    jobs = [("fsync", 1), ("half", 1), ("half", 2), ("replace", 1), ("round", 4)]
    assert run_worker(place, jobs) == [signal.SIGKILL] * len(jobs)
    killed_result(place)


SLOW = """
import sys, time, pdmm
from pathlib import Path
path = Path(sys.argv[1])
problem = pdmm.LeastSquares.random(clients=6, samples=12, features=4, seed=0)
slow = lambda r, x: time.sleep(0.001)
if path.exists():
    pdmm.resume(path, problem, callback=slow)
else:
    pdmm.solve(
        problem, pdmm.AGPDMM(step_size=0.02, local_steps=3), rounds=200, participation=0.5,
        loss=0.2, bits=4, record_every=2, checkpoint=path, every=3, callback=slow,
    )
"""


@pytest.mark.slow
def test_killed_from_outside_several_times(place: Path) -> None:
    killed = 0
    for rows in (4, 30, 60):
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW, str(place)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 30
            while process.poll() is None and time.monotonic() < deadline:
                history = history_of(place)
                if place.exists() and history.read_bytes().count(b"\n") > rows:
                    break
                time.sleep(0.005)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                killed += 1
        finally:
            process.kill()
            process.wait()
    assert killed > 0
    whole = pdmm.solve(
        squares(), AG, rounds=200, participation=0.5, loss=0.2, bits=4, record_every=2
    )
    assert_same(pdmm.resume(place, squares()), whole)
