"""The experiment with networks, on images that are made up: no data are needed."""

import csv
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

import pdmm
from pdmm.cli.app import app
from pdmm.data import Images
from pdmm.paper.findings import about_networks
from pdmm.paper.jobs import Job
from pdmm.paper.neural import training, trials
from pdmm.paper.neural.training import METHODS
from pdmm.paper.neural.trials import Clients, Pair
from pdmm.paper.reproduce import NAMES, experiments, reproduce
from pdmm.paper.store import Columns


def silent(label: str, cost: float) -> None:
    pass


def images(name: str) -> Images:
    """Ten noisy patterns, which are easily told apart."""
    rng = np.random.default_rng(len(name))
    patterns = rng.random((10, 784))
    y = np.arange(200) % 10
    X = np.clip(patterns[y] + 0.1 * rng.standard_normal((200, 784)), 0, 1).astype(np.float32)
    return Images(X[:150], y[:150], X[150:], y[150:])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick version, of made up images and with few rounds and steps."""
    monkeypatch.setattr(training, "load", images)
    monkeypatch.setattr(trials, "QUICK_SPLIT", Clients(4, "shards", 0.1, 1.0, 6))
    monkeypatch.setattr(trials, "LOCAL_STEPS", 3)
    training.setting.cache_clear()


@pytest.mark.slow
def test_quick_networks_from_end_to_end(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = reproduce("networks", tmp_path, quick=True, advance=silent)
    names = [f"networks-mlp-mnist.{suffix}" for suffix in ("png", "svg", "csv")]
    assert [path.name for path in written] == [*names, "report.md", "report.html"]
    rows = list(csv.DictReader((tmp_path / "networks-mlp-mnist.csv").read_text().splitlines()))
    starts = [row for row in rows if row["round"] == "0"]
    assert len(starts) == 7 * 3 + 7 * 2 + 3 * 2 * 2
    ends = {row["method"]: float(row["accuracy"]) for row in rows if row["round"] == "6"}
    assert set(ends) == set(METHODS)
    assert ends["AGPDMM"] > 50
    report = (tmp_path / "report.md").read_text()
    assert all(f"\n| {method} | eta " in report for method in METHODS)

    def again(parameters: Any, advance: Any) -> NoReturn:
        raise AssertionError("a run that was kept was made again")

    monkeypatch.setattr(trials, "run", again)
    reproduce("networks", tmp_path, quick=True, advance=silent)
    assert (tmp_path / "report.md").read_text() == report
    (lost, *_) = sorted((tmp_path / "runs").iterdir())
    lost.unlink()
    with pytest.raises(AssertionError, match="made again"):
        reproduce("networks", tmp_path, quick=True, advance=silent)


@pytest.mark.slow
def test_a_run_is_a_function_of_its_parameters(small: None) -> None:
    job = trials.trials("cnn", "mnist", quick=True)[-1]
    calls: list[None] = []
    first = job.run(job.parameters, lambda: calls.append(None))
    training.setting.cache_clear()
    second = job.run(job.parameters, lambda: None)
    assert len(calls) == job.parameters["rounds"]
    for name, column in first.items():
        np.testing.assert_array_equal(column, second[name])


def of_stage(stage: str, pair: Pair, accuracy: list[float], rounds: int = 4) -> tuple[Job, Columns]:
    """A finished run of FedProx."""
    parameters = {
        "method": "FedProx",
        "problem": {"clients": 10, "stage": stage},
        "settings": pair._asdict(),
        "rounds": rounds,
    }
    columns: Columns = {"round": np.arange(len(accuracy)), "accuracy": np.array(accuracy)}
    return Job(parameters, cost=1.0, run=lambda: columns), columns


def test_what_is_best_in_validation_is_chosen() -> None:
    best = Pair(0.1, 0.01)
    done = [
        of_stage("validation", Pair(0.05, 0.01), [10, 99, 50, 50, 50]),
        of_stage("validation", best, [10, 20, 60, 61, 59]),
        of_stage("validation", Pair(0.1, 0.1), [10, 20, 60, 60, 60]),  # as good, but later
        of_stage("validation", Pair(0.2, 0.01), [10, 90, 90, 90]),  # diverged after that
        of_stage("test", Pair(0.2, 1.0), [10, 95, 95, 95, 95]),
    ]
    assert trials.chosen(done) == {(10, "FedProx"): best}


def test_the_test_images_are_not_seen_before_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "load", images)
    whole = images("mnist")
    found = training.parts("mnist", "validation", seed=0, images=None)
    assert len(found.y_judged) == 15
    both = np.concatenate([found.X, found.X_judged])
    assert {row.tobytes() for row in both} == {row.tobytes() for row in whole.X}
    last = training.parts("mnist", "test", seed=0, images=None)
    np.testing.assert_array_equal(last.X_judged, whole.X_test)
    np.testing.assert_array_equal(last.X, whole.X)


def test_every_method_has_as_many_trials() -> None:
    assert {len(trials.tried(method)) for method in METHODS} == {12}
    for quick, count in ((False, 2 * 7 * 12), (True, 7 * 3)):
        jobs = trials.trials("mlp", "mnist", quick)
        assert len(jobs) == count
        assert {job.parameters["problem"]["stage"] for job in jobs} == {"validation"}


def test_rho_is_c_over_K_eta() -> None:
    made = [METHODS[name](0.1, 20, 3.0) for name in ("AGPDMM", "GPDMM", "GPDMM, last")]
    rho = 3.0 / (20 * 0.1)
    assert made == [
        pdmm.AGPDMM(0.1, 20, rho=rho),
        pdmm.GPDMM(0.1, 20, rho=rho, iterate="mean"),
        pdmm.GPDMM(0.1, 20, rho=rho, iterate="last"),
    ]


def test_names_select_a_model() -> None:
    assert experiments("networks", quick=False) == NAMES["networks-mlp"] + NAMES["networks-cnn"]
    assert experiments("networks-cnn", quick=True) == ("networks-cnn-mnist",)
    assert not set(NAMES["networks"]) & set(NAMES["all"])


def test_without_pytorch_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(**given: Any) -> NoReturn:
        raise ImportError("pdmm.TorchProblem needs PyTorch: pip install 'pdmm[torch]'")

    monkeypatch.setattr(training, "setting", missing)
    command = ["reproduce", "networks", "--quick", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "pip install 'pdmm[torch]'" in result.output


def test_a_run_that_diverged_shortens_its_band() -> None:
    def columns(count: int) -> Columns:
        grows = np.arange(count)
        return {"round": grows, "bytes_up": grows, "bytes_down": grows, "accuracy": 10.0 * grows}

    kind = about_networks.Kind(10, None, "FedAvg")
    band = about_networks._band(kind, [columns(5), columns(3)])
    assert band.accuracy.shape == (2, 3)
    assert band.megabytes.tolist() == [0, 2e-6, 4e-6]
