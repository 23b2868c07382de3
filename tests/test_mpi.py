"""Runs on many ranks: the same as in one process, whatever their number, and whatever fails."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mpi_cases as cases
import pdmm
from pdmm.cli.main import app
from pdmm.common import whole_files as files
from pdmm.common.team import ElsewhereError
from pdmm.paper.jobs import Job, complete, run_least_squares
from pdmm.paper.store import Store
from pdmm.run import checkpoint
from ranks import close, on_ranks

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
    done = mpirun(request.param, str(Path(__file__).with_name("mpi_cases.py")), str(out))
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


@settings(deadline=None, max_examples=25)
@given(
    name=st.sampled_from(["gpdmm", "scaffold", "loss and bits", "own steps", "softmax", "named"]),
    ranks=st.integers(2, 6),
    seed=st.integers(0, 9),
)
def test_any_number_of_ranks(name: str, ranks: int, seed: int) -> None:
    one = cases.solve(name, seed=seed)
    for result in on_ranks(ranks, lambda mpi: cases.solve(name, mpi, seed=seed)):
        assert close(one.x, result.x)
        assert one.history["bytes_up"].tolist() == result.history["bytes_up"].tolist()
        assert one.history["bytes_down"].tolist() == result.history["bytes_down"].tolist()


@pytest.mark.parametrize("name", ["agpdmm", "softmax", "loss and bits", "scaffold"])
def test_a_round_is_one_allreduce(name: str) -> None:
    def calls(rounds: int) -> tuple[int, int]:
        def work(mpi: pdmm.engines.MPI) -> tuple[int, int]:
            cases.solve(name, mpi, rounds=rounds, record_every=1)
            c: Any = mpi.team
            return c.communicator.calls["Allreduce"], c.communicator.calls["allgather"]

        (found,) = set(on_ranks(3, work))
        return found

    few, more = calls(10), calls(35)
    assert (more[0] - few[0], more[1] - few[1]) == (25, 0)


def test_every_rank_builds_only_its_clients() -> None:
    shares = on_ranks(4, lambda mpi: mpi.range(10))
    assert shares == [range(0, 2), range(2, 5), range(5, 7), range(7, 10)]
    parts = [pdmm.LeastSquares.random(share, 30, 4, seed=2) for share in shares]
    whole = pdmm.LeastSquares.random(10, 30, 4, seed=2)
    x = np.arange(4.0)
    assert sum(part.objective(x) for part in parts) == pytest.approx(whole.objective(x))
    with pytest.raises(ValueError, match="2 clients cannot be shared by 3 ranks"):
        on_ranks(3, lambda mpi: mpi.range(2))
    with pytest.raises(ValueError, match="range of client numbers"):
        pdmm.LeastSquares.random(range(3, 3), 30, 4)


def test_experiments_on_ranks_are_those_of_one_process(tmp_path: Path) -> None:
    """What ``pdmm reproduce fig2 --engine mpi`` does, on a small problem."""
    parameters = {
        "experiment": "fig2",
        "problem": {"clients": 6, "samples": 40, "features": 5, "seed": 0},
        "method": "AGPDMM",
        "settings": {"step_size": 1e-2, "local_steps": 3},
        "rounds": 15,
    }
    job = Job(parameters, cost=1.0, run=run_least_squares)
    one = complete([job], Store(tmp_path / "one"), lambda label, cost: None)[0][1]
    shared = on_ranks(
        3, lambda mpi: complete([job], Store(tmp_path / "many"), lambda label, cost: None, mpi)
    )
    for ((_, columns),) in shared:
        assert close(one["objective"], columns["objective"])
    assert len(list((tmp_path / "many").iterdir())) == 1
    cli = CliRunner()
    for arguments, says in (
        (["fig3", "--engine", "mpi"], "--engine mpi is for fig1 and fig2, not fig3"),
        (["fig2", "--engine", "gpu"], "engine must be local or mpi, got 'gpu'"),
    ):
        done = cli.invoke(app, ["reproduce", *arguments])
        assert done.exit_code == 2
        assert says in " ".join(done.output.replace("│", " ").split())


# --- checkpoints ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["loss and bits", "auto steps", "softmax", "anderson", "scaffold"])
@pytest.mark.parametrize("then", [1, 2, 3])
def test_a_checkpoint_goes_on_on_any_number_of_ranks(name: str, then: int, tmp_path: Path) -> None:
    make = cases.CASES[name][0]
    path = tmp_path / "run.safetensors"

    def stop(mpi: pdmm.engines.MPI) -> pdmm.Result:
        more = {"checkpoint": path, "every": 3, "callback": lambda r, x: r == 8}
        return cases.solve(name, mpi, **more)

    def go_on(mpi: pdmm.engines.MPI | None) -> pdmm.Result:
        problem = make(range(cases.M) if mpi is None else mpi.range(cases.M))
        return pdmm.resume(path, problem, engine=mpi)

    on_ranks(3, stop)
    assert len(list(tmp_path.iterdir())) == 5  # the checkpoint, its history, a file a rank
    whole = on_ranks(then, lambda mpi: cases.solve(name, mpi))[0]
    resumed = go_on(None) if then == 1 else on_ranks(then, go_on)[0]
    assert resumed.reason.split(":")[0] == whole.reason.split(":")[0]
    assert close(resumed.x, whole.x)
    np.testing.assert_allclose(resumed.history["objective"], whole.history["objective"], rtol=1e-10)
    if then == 3:
        assert (resumed.x == whole.x).all()  # to the same bits
    left = sorted(file.name for file in tmp_path.iterdir())
    assert len(left) == (2 if then == 1 else 2 + then), left


@pytest.mark.parametrize("fails", range(8))
def test_a_checkpoint_is_of_one_round(
    fails: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far the ranks got with the next one, the set of files that counts is complete."""
    path, lock, count = tmp_path / "run.safetensors", threading.Lock(), 0
    write = files.write_whole

    def dies(place: Path, contents: bytes) -> None:
        nonlocal count
        with lock:
            count += 1
            dead = count > 4 + fails  # the first checkpoint is three parts and the whole
        if dead:
            place.with_name(place.name + ".999999999.part").write_bytes(contents[:100])
            raise KeyboardInterrupt
        write(place, contents)

    def work(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return cases.solve("gpdmm", mpi, checkpoint=path, every=4)

    monkeypatch.setattr(checkpoint, "write_whole", dies)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        on_ranks(3, work)
    monkeypatch.setattr(checkpoint, "write_whole", write)

    def go_on(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return pdmm.resume(path, cases.least_squares(mpi.range(cases.M)), engine=mpi)

    resumed = on_ranks(3, go_on)[0]
    assert (resumed.x == on_ranks(3, lambda mpi: cases.solve("gpdmm", mpi))[0].x).all()
    assert len(list(tmp_path.iterdir())) == 5


def test_a_run_of_one_process_goes_on_on_ranks(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    cases.solve("loss and bits", checkpoint=path, callback=lambda r, x: r == 8)
    make = cases.CASES["loss and bits"][0]
    resumed = on_ranks(3, lambda mpi: pdmm.resume(path, make(mpi.range(cases.M)), engine=mpi))
    assert close(resumed[0].x, cases.solve("loss and bits").x)


def test_a_lost_part_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, checkpoint=path))
    part = next(file for file in tmp_path.iterdir() if file.name.endswith("-1"))
    part.rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=re.escape(f"there is no checkpoint {part}")):
        pdmm.resume(path, cases.least_squares(range(cases.M)))


# --- what is refused ------------------------------------------------------------------------


def refused_on_rank_1(more: dict[str, Any], mpi: pdmm.engines.MPI) -> str:
    try:
        cases.solve("gpdmm", mpi, **(more if mpi.rank else {}))
    except (ValueError, ElsewhereError) as error:
        return str(error)
    return "accepted"


def test_ranks_must_resume_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run"
    on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, checkpoint=path))

    def other_callback(mpi: pdmm.engines.MPI) -> pdmm.Result:
        problem = cases.least_squares(mpi.range(cases.M))
        callback: Any = (lambda r, x: None) if mpi.rank else None
        return pdmm.resume(path, problem, rounds=40, engine=mpi, callback=callback)

    with pytest.raises(ValueError, match="callback is not the same on rank 1 as on rank 0"):
        on_ranks(2, other_callback)


def test_a_method_of_ones_own_runs_on_ranks() -> None:
    @dataclass(frozen=True)
    class Mine(pdmm.FedAvg):
        pass

    method = Mine(step_size=2e-3, local_steps=2)
    make = cases.least_squares
    found = on_ranks(2, lambda mpi: pdmm.solve(make(mpi.range(cases.M)), method, 9, engine=mpi))
    assert close(pdmm.solve(make(range(cases.M)), method, 9).x, found[0].x)


def test_ranks_must_ask_for_the_same() -> None:
    with pytest.raises(ValueError, match="seed is not the same on rank"):
        on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, seed=mpi.rank))
    with pytest.raises(ValueError, match="its dimension is 3 on rank 1 and 6 on rank 0"):
        on_ranks(
            2,
            lambda mpi: pdmm.solve(
                cases.least_squares([mpi.rank])
                if mpi.rank == 0
                else pdmm.LeastSquares(np.ones((1, 4, 3)), np.ones((1, 4))),
                pdmm.PDMM(rho=1.0),
                engine=mpi,
            ),
        )
    with pytest.raises(ValueError, match="problem must be a pdmm problem"):
        on_ranks(2, lambda mpi: pdmm.solve(None, engine=mpi))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"engine must be None or pdmm.engines.MPI\(\)"):
        pdmm.solve(cases.quadratic([1]), engine="mpi")  # type: ignore[arg-type]
    bads: list[dict[str, Any]] = [{"seed": -1}, {"threads": 0}, {"every": 0}, {"callback": 3}]
    for bad in bads:
        said = on_ranks(2, partial(refused_on_rank_1, bad))
        assert all(next(iter(bad)) in text for text in said), said  # both ranks, not one
    with pytest.raises(ValueError, match="weights"):
        on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, weights=np.ones(6)))


def test_problems_are_used_again_on_ranks() -> None:
    """Weights that change for some ranks only, and questions that one rank asks alone."""

    def work(mpi: pdmm.engines.MPI) -> list[Any]:
        problem = cases.least_squares(mpi.range(cases.M))
        weights = np.ones(cases.M)
        weights[-2:] = 3.0
        found = [pdmm.solve(problem, pdmm.PDMM(rho=40.0), 20, engine=mpi).x]
        found.append(pdmm.solve(problem, pdmm.PDMM(), 20, weights=weights, engine=mpi).x)
        if mpi.rank == 0:
            problem.smoothness()
        again = pdmm.engines.MPI(mpi.team.communicator)
        found.append(pdmm.solve(problem, pdmm.PDMM(rho=40.0), 20, engine=again).x)
        return found

    results = on_ranks(3, work)
    for first, second, third in results:
        assert (first == third).all()
        assert (second == results[0][1]).all()
    whole = pdmm.solve(cases.least_squares(range(cases.M)), pdmm.PDMM(rho=40.0), 20)
    assert close(whole.x, results[0][0])


def test_lazy_clients_on_ranks() -> None:
    def lazy(mpi: pdmm.engines.MPI, **more: Any) -> pdmm.Lazy:
        mine = mpi.range(cases.M)
        return pdmm.Lazy(len(mine), lambda i: cases.least_squares([mine[i]]), **more)

    method = pdmm.AGPDMM(step_size=2e-3, local_steps=4, rho=40.0)
    one = pdmm.solve(
        pdmm.Lazy(cases.M, lambda i: cases.least_squares([i])), method, 20, participation=0.5
    )
    found = on_ranks(
        3, lambda mpi: pdmm.solve(lazy(mpi), method, 20, participation=0.5, engine=mpi)
    )
    assert close(one.x, found[0].x)
    with pytest.raises(ValueError, match="the smoothness L of a Lazy problem is not known"):
        on_ranks(2, lambda mpi: pdmm.solve(lazy(mpi), pdmm.AGPDMM(rho="auto"), engine=mpi))

    def fails(mpi: pdmm.engines.MPI) -> str:
        def evaluate(x: Any) -> float:
            raise RuntimeError("no such file")

        try:
            pdmm.solve(lazy(mpi, evaluate=evaluate), method, 5, engine=mpi)
        except RuntimeError as error:
            return str(error)
        return "fine"

    assert all("no such file" in text for text in on_ranks(2, fails))


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    with pytest.raises(ImportError, match=r"pip install 'pdmm\[mpi\]'"):
        pdmm.engines.MPI()


# --- ranks that fail ------------------------------------------------------------------------


def failing(clients: range, at: int, how: Callable[[], Any]) -> pdmm.Problem:
    """Functions of which client 7 fails when it is asked for its gradient so often."""
    good, count = cases.functions(clients), 0

    def gradient(i: int, x: Any) -> Any:
        nonlocal count
        if i == 7:
            count += 1
            if count == at:
                how()
        return 1 / (1 + np.exp(i / 5 - x)) + (x + 1)

    functions: Any = good
    gradients = [lambda x, i=i: gradient(i, x) for i in clients]
    return pdmm.Functions(functions.functions["value"], gradients, cases.D)


class Broken:
    """Functions that can be evaluated no more, for a reason of nobody's client."""

    def at(self, *_: Any) -> Any:
        raise RuntimeError("the disk is gone")


@pytest.mark.parametrize("where", ["gradient", "callback", "value", "exit", "certificate"])
def test_all_ranks_fail_with_the_one_that_does(where: str) -> None:
    def fails() -> None:
        raise RuntimeError("the disk is gone")

    def work(mpi: pdmm.engines.MPI) -> str:
        mine = mpi.range(cases.M)
        problem = failing(mine, 10 if where == "gradient" else -1, fails)
        if where == "value" and 7 in mine:
            functions: Any = problem
            value, calls = functions.functions["value"][mine.index(7)], iter(range(99))
            functions.functions["value"][mine.index(7)] = lambda x: (
                fails() if next(calls) > 3 else value(x)
            )

        def callback(r: int, x: Any) -> None:
            if where == "callback" and r == 4 and mpi.rank == 1:
                fails()
            if where == "exit" and r == 4 and mpi.rank == 1:
                raise SystemExit("the disk is gone")

        method = pdmm.AGPDMM(step_size=0.1, local_steps=3)
        if where == "certificate" and mpi.rank == 1:
            problem.evaluator = lambda source: Broken()  # type: ignore[method-assign]
        try:
            pdmm.solve(problem, method, 20, engine=mpi, callback=callback, tolerance=1e-30)
        except ElsewhereError as error:
            return f"elsewhere {error}"
        except (RuntimeError, pdmm.ClientError, SystemExit) as error:
            return f"here {error}"
        return "fine"

    said = on_ranks(3, work)
    assert [text.split()[0] for text in said] == ["elsewhere", "here", "elsewhere"]
    assert all("the disk is gone" in text for text in said)
    assert "rank 1 of 3 failed" in said[0]


SCRIPT = """
import os, signal, sys, time
import pdmm, mpi_cases as cases
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
    script.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n" + SCRIPT)
    done = mpirun(2, str(script), how, str(path))
    assert done.returncode != 0
    assert says in done.stderr + done.stdout
    if how != "killed":
        assert done.stderr.count(says) == 1, done.stderr
    if how in ("callback", "killed"):
        resumed = pdmm.resume(path, cases.softmax(range(cases.M)))
        assert close(resumed.x, cases.solve("softmax").x)
