"""Runs of a model of PyTorch in every engine, behind every link, and from checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

import pdmm
from builders.ranks import on_ranks
from builders.sites import FakeSites
from builders.torch_models import LOSS, clients, no_lists, problem, seeded  # noqa: F401
from pdmm.problems.torch_model.problem import TorchProblem

METHOD = pdmm.AGPDMM(0.1, 3)
MODEL = seeded("mlp")  # made once: ranks are threads here, and share PyTorch's random numbers
ALL = clients("mlp", [9, 14, 5, 8, 11, 7])


def of_some(numbers: Any, **given: Any) -> TorchProblem:
    """The problem of some of six clients."""
    data: list[tuple[Tensor, Tensor]] = [ALL[i] for i in numbers]
    return TorchProblem(MODEL, LOSS, data, **{"batch_size": 4, **given})


def solved(given: pdmm.Problem, rounds: int = 6, **more: Any) -> npt.NDArray[Any]:
    return pdmm.solve(given, METHOD, rounds=rounds, record_every=rounds, **more).x


@pytest.mark.parametrize("sampling", ["shuffled", "replacement", "stored"])
def test_the_same_bits_on_any_number_of_threads(
    sampling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdmm.problems.torch_model.problem.MOST_CLIENTS", 3)
    given = of_some(range(6), sampling=sampling)
    assert len(given.blocks()) == 2
    one, two = (solved(given, threads=threads, seed=3) for threads in (1, 2))
    assert (one == two).all()
    assert (one != solved(given, seed=4)).any() == (sampling != "stored")


@pytest.mark.parametrize("most", [1, 4, 6])
def test_samples_do_not_depend_on_the_blocks(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = solved(of_some(range(6)), participation=0.5)
    monkeypatch.setattr("pdmm.problems.torch_model.problem.MOST_CLIENTS", most)
    assert np.allclose(solved(of_some(range(6)), participation=0.5), whole, atol=5e-6)


LINKS: dict[str, dict[str, Any]] = {
    "everyone": {},
    "participation": {"participation": 0.5},
    "loss": {"loss": 0.3},
    "bits": {"bits": 6},
    "stragglers": {"local_steps": [1, 2, 3, 4, 5, 6]},
    "all of it": {"participation": 4, "loss": 0.2, "bits": 8, "local_steps": [3, 2, 1, 3, 2, 1]},
}


@pytest.mark.parametrize("links", LINKS)
def test_links_and_where_memories_live(links: str) -> None:
    given = of_some(range(6))
    at_clients = solved(given, **LINKS[links])
    assert np.isfinite(at_clients).all()
    assert (at_clients == solved(given, state="server", **LINKS[links])).all()
    if links != "everyone":
        assert (at_clients != solved(given)).any()


@pytest.mark.parametrize("links", LINKS)
def test_a_checkpoint_goes_on_to_the_same_bits(links: str, place: Path) -> None:
    settings = {"rounds": 9, "record_every": 3, "seed": 5, **LINKS[links]}
    whole = pdmm.solve(of_some(range(6)), METHOD, **settings)
    pdmm.solve(
        of_some(range(6)), METHOD, checkpoint=place, callback=lambda r, x: r == 4, **settings
    )
    resumed = pdmm.resume(place, of_some(range(6)))
    assert (resumed.x == whole.x).all()
    assert resumed.history["objective"].tolist() == whole.history["objective"].tolist()


CHANGED: dict[str, Callable[[], TorchProblem]] = {
    "other samples": lambda: of_some([0, 1, 2, 3, 4, 4]),
    "another order of clients": lambda: of_some([1, 0, 2, 3, 4, 5]),
    "another batch size": lambda: of_some(range(6), batch_size=3),
    "weight decay": lambda: of_some(range(6), weight_decay=0.5),
    "another order of rows": lambda: TorchProblem(
        seeded("mlp"), LOSS, [(X.flip(0), y.flip(0)) for X, y in ALL], batch_size=4
    ),
}


@pytest.mark.parametrize("change", CHANGED)
def test_another_problem_is_not_the_one_of_the_checkpoint(change: str, place: Path) -> None:
    pdmm.solve(of_some(range(6)), METHOD, rounds=2, checkpoint=place)
    with pytest.raises(ValueError, match="problem is not the one of the checkpoint"):
        pdmm.resume(place, CHANGED[change](), rounds=4)


@pytest.mark.parametrize("links", ["everyone", "participation", "bits"])
def test_ranks_draw_the_same_samples(links: str) -> None:
    alone = solved(of_some(range(6)), seed=2, **LINKS[links])
    shares = [range(0, 4), range(4, 6)]

    def work(engine: pdmm.engines.MPI) -> npt.NDArray[Any]:
        own = of_some(shares[engine.team.rank])
        return solved(own, seed=2, engine=engine, threads=1, **LINKS[links])

    first, second = on_ranks(2, work)
    assert (first == second).all()
    assert np.allclose(first, alone, atol=5e-6)


def test_ranks_must_start_from_the_same_model() -> None:
    def work(engine: pdmm.engines.MPI) -> None:
        own = TorchProblem(torch.nn.Linear(5, 3), LOSS, ALL[:2], batch_size=4)  # of any numbers
        pdmm.solve(own, METHOD, rounds=1, engine=engine)

    with pytest.raises(ValueError, match="x0 is not the same on rank 1"):
        on_ranks(2, work)


def test_sites_have_the_bits_of_one_process_with_full_batches() -> None:
    shares = {"ana": [0, 1], "ben": [2], "cyd": [3, 4, 5]}
    given = of_some(range(6), batch_size=None)
    sites = FakeSites(lambda numbers: of_some(numbers, batch_size=None), shares)
    away = pdmm.solve(pdmm.engines.Sites(sites), METHOD, rounds=6, x0=given.x0)
    assert np.allclose(away.x, solved(given), atol=5e-6)


def test_sites_take_mini_batches() -> None:
    sites = FakeSites(of_some, {"ana": [0], "ben": [1], "cyd": [2]})
    x0 = of_some([0]).x0
    result = pdmm.solve(pdmm.engines.Sites(sites), METHOD, rounds=8, x0=x0)
    assert result.history["objective"][-1] < result.history["objective"][0]


def test_memories_may_be_files(tmp_path: Path) -> None:
    folder = tmp_path / "memories"
    kept = solved(of_some(range(6), folder=str(folder)), participation=0.5)
    assert folder.is_dir()
    assert (kept == solved(of_some(range(6)), participation=0.5)).all()


def test_clients_that_are_made_late_draw_samples_of_their_own() -> None:
    late = pdmm.Lazy(6, lambda i: of_some([i]))
    chosen: dict[str, Any] = {"participation": 3, "seed": 2}
    assert np.allclose(solved(late, **chosen), solved(of_some(range(6)), **chosen), atol=5e-6)


def test_a_run_starts_from_the_model_unless_it_is_told_another_start() -> None:
    given = problem("mlp")
    history = pdmm.solve(given, METHOD, rounds=1).history
    assert given.x0 is not None
    assert history["objective"][0] == given.objective(given.x0)
    other = pdmm.solve(given, METHOD, rounds=1, x0=np.zeros(given.dimension)).history
    assert other["objective"][0] == pytest.approx(4 * np.log(3), rel=1e-6)


def evaluated(numbers: Any) -> TorchProblem:
    """Of some of the clients, with more columns in the history."""

    def evaluate(model: torch.nn.Module) -> dict[str, Any]:
        return {"first": next(model.parameters()).abs().sum()}

    return of_some(numbers, evaluate=evaluate, gradient_norm=True)


def test_ranks_and_checkpoints_have_the_users_columns(place: Path) -> None:
    whole = pdmm.solve(evaluated(range(6)), METHOD, rounds=4).history

    def work(engine: pdmm.engines.MPI) -> pdmm.History:
        share = (range(0, 2), range(2, 6))[engine.team.rank]
        return pdmm.solve(evaluated(share), METHOD, rounds=4, engine=engine, threads=1).history

    for history in on_ranks(2, work):
        for name in ("first", "gradient_norm"):
            assert np.allclose(history[name], whole[name], rtol=1e-5)
    pdmm.solve(
        evaluated(range(6)), METHOD, rounds=4, checkpoint=place, callback=lambda r, x: r == 2
    )
    resumed = pdmm.resume(place, evaluated(range(6))).history
    for name in ("first", "gradient_norm"):
        assert resumed[name].tolist() == whole[name].tolist()


def test_secure_sums_are_simulated() -> None:
    given = of_some(range(6))
    assert np.allclose(solved(given, secure=True), solved(given), atol=5e-6)
