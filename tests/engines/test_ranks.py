"""Runs on many ranks, which are threads here: the same as in one process, whatever their number."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import pdmm
from builders import cases
from builders.ranks import close, on_ranks
from pdmm.cli.app import app
from pdmm.common.team import ElsewhereError
from pdmm.paper.jobs import Job, complete, run_least_squares
from pdmm.paper.store import Store
from pdmm.run import finish


@pytest.mark.slow
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
def test_a_round_is_one_allreduce(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A run that has not arrived may ask for L at its end, to say why: that is no round.
    monkeypatch.setattr(finish, "steps_too_long", lambda *_: False)
    monkeypatch.setattr(finish, "advice", lambda *_: "")

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


def labelled_part(label: str) -> pdmm.Problem:
    """A client whose labels are "a" and another."""
    return pdmm.SoftmaxRegression([np.eye(2)], [["a", label]], l2=0.1)


def named_part(names: str | None) -> pdmm.Problem:
    """A client whose columns have these names, or none."""
    rows = np.eye(2)
    A = rows if names is None else pd.DataFrame(rows, columns=list(names))
    return pdmm.LeastSquares([A], [np.ones(2)])


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
    with pytest.raises(ValueError, match=r"classes is \('a', 'c'\) on rank 1 and \('a', 'b'\)"):
        on_ranks(2, lambda mpi: pdmm.solve(labelled_part("bc"[mpi.rank]), engine=mpi))
    with pytest.raises(ValueError, match=r"columns is .* on rank 2 and \('u', 'v'\) on rank 1"):
        on_ranks(3, lambda mpi: pdmm.solve(named_part([None, "uv", "vu"][mpi.rank]), engine=mpi))
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
