"""The commands of ``pdmm`` as a user types them; ``pdmm federate`` has a file of its own."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pdmm
from pdmm.cli.app import app
from pdmm.data import DataError


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def words(done: Any) -> str:
    """What was printed, without frames and line breaks."""
    return " ".join(done.output.replace("│", " ").split())


def test_without_arguments_there_is_help() -> None:
    said = words(invoke())
    assert "Usage: " in said
    for command in ("demo", "reproduce", "federate", "data"):
        assert command in said


def test_the_version() -> None:
    done = invoke("--version")
    assert done.exit_code == 0
    assert done.output == f"pdmm {pdmm.__version__}\n"


def test_a_command_that_is_none() -> None:
    done = invoke("dance")
    assert done.exit_code == 2
    assert "No such command 'dance'" in words(done)


# --- demo -------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demonstration's problem, but in a moment."""
    problem = pdmm.LeastSquares.random(clients=3, samples=30, features=4, noise=0.5, seed=0)
    monkeypatch.setattr("pdmm.paper.demo.problem", lambda: problem)


@pytest.mark.usefixtures("small")
def test_the_demonstration(tmp_path: Path) -> None:
    done = invoke("demo", "--out", str(tmp_path / "new"), "--rounds", "4")
    assert done.exit_code == 0, done.output
    said = words(done)
    assert "25 clients with 5000 samples of 500 features each" in said
    assert "4 rounds" in said
    for method in ("gradient descent", "SCAFFOLD", "AGPDMM", "PDMM = FedSplit", "auto"):
        assert method in said
    assert (tmp_path / "new" / "demo.png").stat().st_size > 10_000


@pytest.mark.usefixtures("small")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = invoke("demo", "--out", str(tmp_path / "file" / "out"))
    assert done.exit_code == 2
    assert "cannot write to" in words(done)


def test_no_rounds_are_refused() -> None:
    done = invoke("demo", "--rounds", "0")
    assert done.exit_code == 2
    assert "--rounds" in words(done)


# --- reproduce --------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands for the experiments: keeps what is asked of them, and reports a figure."""
    calls: list[Any] = []

    def reproduce(what: str, folder: Path, quick: bool, advance: Any, mpi: Any) -> list[Path]:
        calls.append((what, folder, quick, mpi))
        advance("a run", 1.0)
        return [folder / "fig1.png", folder / "report.md"]

    monkeypatch.setattr("pdmm.paper.reproduce.reproduce", reproduce)
    return calls


def test_what_is_written_is_listed(asked: list[Any], tmp_path: Path) -> None:
    done = invoke("reproduce", "fig1", "--quick", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert asked == [("fig1", tmp_path, True, None)]
    assert done.output.split() == [str(tmp_path / "fig1.png"), str(tmp_path / "report.md")]


@pytest.mark.parametrize(
    ("flags", "folder"), [([], "reproduction"), (["--quick"], "reproduction-quick")]
)
def test_where_it_is_written_by_default(flags: list[str], folder: str, asked: list[Any]) -> None:
    assert invoke("reproduce", "fig2", *flags).exit_code == 0
    assert asked == [("fig2", Path("out") / folder, bool(flags), None)]


def test_ranks_without_their_library(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("MPI needs mpi4py: pip install 'pdmm[mpi]'")

    monkeypatch.setattr(pdmm.engines, "MPI", missing)
    done = invoke("reproduce", "fig2", "--engine", "mpi")
    assert done.exit_code == 2
    assert "pip install 'pdmm[mpi]'" in words(done)
    assert not asked


def fails(error: BaseException) -> Any:
    def call(*arguments: Any) -> Any:
        raise error

    return call


def test_data_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = DataError("mnist was not found")
    error.add_note("the rest is in the report")
    monkeypatch.setattr("pdmm.paper.reproduce.reproduce", fails(error))
    done = invoke("reproduce", "all", "--out", str(tmp_path))
    assert done.exit_code == 1
    assert done.output.splitlines()[-2:] == ["mnist was not found", "the rest is in the report"]


def test_an_interrupted_reproduction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pdmm.paper.reproduce.reproduce", fails(KeyboardInterrupt()))
    done = invoke("reproduce", "fig1", "--out", str(tmp_path))
    assert done.exit_code == 130
    assert "Stopped; finished runs are in" in words(done)
    assert "will not be repeated" in words(done)


# --- data -------------------------------------------------------------------------------------


def test_data_that_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places: list[Any] = []

    def fetch(name: str, folder: Path | None) -> tuple[dict[str, bytes], str]:
        places.append((name, folder))
        return {"images": b"0" * 3_000_000, "labels": b"0" * 1_000_000}, "a mirror"

    monkeypatch.setattr("pdmm.data.fetch", fetch)
    monkeypatch.setattr("pdmm.data.sources.cache_folder", lambda: tmp_path)
    done = invoke("data", "fetch", "mnist", "--folder", str(tmp_path / "mine"))
    assert done.exit_code == 0, done.output
    assert places == [("mnist", tmp_path / "mine")]
    assert done.output.splitlines() == ["mnist: 2 files, 4 MB, checked.", "From a mirror"]
    (tmp_path / "mnist").mkdir()
    said = invoke("data", "fetch", "mnist").output.splitlines()
    assert said[-1] == f"Kept in {tmp_path / 'mnist'}"


def test_data_that_are_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdmm.data.fetch", fails(DataError("tried here and [there]")))
    done = invoke("data", "fetch", "mnist")
    assert done.exit_code == 1
    assert done.output == "tried here and [there]\n"
