"""Ranks of a real MPI: the same as in one process, and an end that is clean whatever fails."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.ranks import close
from pdmm.common.lock import Lock

pytestmark = [pytest.mark.mpi, pytest.mark.slow]
EXACT_BY_ITERATION = {"auto softmax", "auto functions", "optimum"}  # to the solver's tolerance


def mpirun(ranks: int, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """A real MPI program; its ranks and their children are gone when it returns."""
    program = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or "mpirun"
    options = ["--oversubscribe", "-n", str(ranks)]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    return subprocess.run(
        [program, *options, sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """Every case in one process."""
    return {name: json.loads(json.dumps(cases.outcome(cases.solve(name)))) for name in cases.CASES}


@pytest.fixture(scope="module", params=[2, 3])
def together(request: pytest.FixtureRequest, tmp_path_factory: Any) -> dict[str, Any]:
    """Every case on so many ranks, by a real MPI."""
    out = tmp_path_factory.mktemp("mpi") / "results.json"
    done = mpirun(request.param, cases.__file__, str(out))
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(out.read_text())
    return results


@pytest.mark.parametrize("name", list(cases.CASES))
def test_the_same_as_in_one_process(
    name: str, alone: dict[str, Any], together: dict[str, Any]
) -> None:
    one, many = alone[name], together[name]
    assert close(one["x"], many["x"], 1e-6 if name == "float32" else 1e-10)
    for key in ("reason", "rounds", "diverged", "choices", "traffic"):
        assert one[key] == many[key], key
    assert list(one["history"]) == list(many["history"])
    for column, values in one["history"].items():
        if column == "gradient_calls" and name in EXACT_BY_ITERATION:
            continue
        found, scale = np.array(many["history"][column]), max(1.0, abs(values[0]))
        assert not np.isnan(found).any()
        np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-9 * scale, err_msg=column)
    for a, b in zip(one["certificate"], many["certificate"], strict=True):
        assert (a is None) == (b is None)
        assert a is None or abs(a - b) <= 1e-5 * max(abs(a), 1e-4)


SCRIPT = """
import os, signal, sys, time
import pdmm
from builders import cases
mpi = pdmm.engines.MPI()
how, path = sys.argv[1:]
if how == "early" and mpi.rank == 1:
    raise OSError("no data on this node")
if how == "argument":
    pdmm.PDMM(rho=-1.0)
def callback(r, x):
    if r == 8 and mpi.rank == 1:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("the disk is gone")
problem = cases.softmax(mpi.range(cases.M))
method = pdmm.AGPDMM(step_size=0.5, local_steps=5)
pdmm.solve(problem, method, 30, engine=mpi, checkpoint=path, every=3, callback=callback)
"""


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("early", "OSError: no data on this node"),
        ("argument", "ValueError: rho must be positive"),
        ("callback", "OSError: the disk is gone"),
        ("killed", "signal"),
    ],
)
def test_a_rank_that_fails_ends_the_run(how: str, says: str, tmp_path: Path) -> None:
    script, path = tmp_path / "script.py", tmp_path / "run.safetensors"
    tests = str(Path(cases.__file__).parents[1])
    script.write_text(f"import sys\nsys.path.insert(0, {tests!r})\n" + SCRIPT)
    done = mpirun(2, str(script), how, str(path))
    assert done.returncode != 0
    assert says in done.stderr + done.stdout
    if how != "killed":
        assert done.stderr.count(says) == 1, done.stderr
    if how in ("callback", "killed"):
        resumed = pdmm.resume(path, cases.softmax(range(cases.M)))
        assert close(resumed.x, cases.solve("softmax").x)


def test_ranks_that_find_a_checkpoint_in_use_end_together(tmp_path: Path) -> None:
    script, path = tmp_path / "script.py", tmp_path / "run.safetensors"
    tests = str(Path(cases.__file__).parents[1])
    script.write_text(f"import sys\nsys.path.insert(0, {tests!r})\n" + SCRIPT)
    lock = Lock(path)
    lock.acquire()
    try:
        done = mpirun(3, str(script), "locked", str(path))
    finally:
        lock.release()
    assert done.returncode != 0
    assert done.stderr.count(f"BlockingIOError: {path} is in use by process {os.getpid()} on") == 1
    assert list(tmp_path.iterdir()) == [script]
