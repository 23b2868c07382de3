"""The paper's experiments: finished runs are kept, and the report says what was measured."""

import csv
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

from pdmm.cli.app import app
from pdmm.data import DataError
from pdmm.paper import fig1, fig2, fig3
from pdmm.paper.findings import about_fig3
from pdmm.paper.jobs import Job, complete
from pdmm.paper.reproduce import NAMES, reproduce
from pdmm.paper.store import Columns, Store
from pdmm.paper.workers import side_by_side
from pdmm.report import paper_figures

KEY = {"experiment": "test", "method": "m", "settings": {"local_steps": 1}, "rounds": 3}


def silent(label: str, cost: float) -> None:
    pass


def test_a_run_is_found_by_its_parameters_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    columns: Columns = {"gap": np.array([1.0, 1e-30]), "round": np.array([0, 1])}
    assert store.get(KEY) is None
    store.put(KEY, columns)
    found = Store(tmp_path / "runs").get(dict(reversed(KEY.items())))
    assert found is not None
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].dtype == column.dtype
    assert store.get({**KEY, "rounds": 4}) is None


def test_a_cut_or_foreign_file_counts_as_no_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(KEY, {"gap": np.ones(100)})
    whole = store.path(KEY).read_bytes()
    for contents in (whole[:-8], whole[:20], b"", b"not a run at all"):
        store.path(KEY).write_bytes(contents)
        assert store.get(KEY) is None
    store.put({**KEY, "rounds": 9}, {"gap": np.ones(3)})
    store.path(KEY).write_bytes(store.path({**KEY, "rounds": 9}).read_bytes())
    assert store.get(KEY) is None


def run_apart(parameters: dict[str, Any], advance: Callable[[], object]) -> Columns:
    """A job for a process of its own: it must be found by name from there."""
    for _ in range(parameters["rounds"]):
        advance()
    if parameters["method"] == "raises":
        raise DataError("no data here")
    if parameters["method"] == "dies":
        os._exit(1)
    return {"gap": np.full(parameters["rounds"], len(parameters["method"]), dtype=np.float64)}


def apart(*names: str) -> list[Job]:
    return [
        Job({**KEY, "method": name}, cost=float(len(name)), run=run_apart, apart=True)
        for name in names
    ]


@pytest.mark.slow
def test_jobs_side_by_side_are_stored_in_their_order(tmp_path: Path) -> None:
    progress: list[tuple[str, float]] = []
    store = Store(tmp_path)
    store.put({**KEY, "method": "bb"}, {"gap": np.zeros(3)})  # is there: not computed again
    jobs = apart("a", "bb", "ccc", "dddd", "eeeee")
    side_by_side(jobs[2:], lambda job: None, lambda job, c: store.put(job.parameters, c), workers=2)
    store.path(jobs[3].parameters).unlink()
    done = complete(jobs, store, lambda label, cost: progress.append((label, cost)))
    assert [columns["gap"].tolist() for _, columns in done] == [[v] * 3 for v in (1, 0, 3, 4, 5)]
    assert sum(cost for _, cost in progress) == pytest.approx(sum(job.cost for job in jobs))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [("raises", DataError, "no data here"), ("dies", RuntimeError, "ended unexpectedly")],
)
def test_a_job_that_fails_apart_ends_all(name: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        side_by_side(apart(name, "other"), lambda job: None, lambda job, c: None, workers=2)
    assert multiprocessing.active_children() == []


def test_finished_jobs_are_not_repeated(tmp_path: Path) -> None:
    ran: list[str] = []

    def job(name: str, rounds: int = 3) -> Job:
        def run(parameters: object, advance: object) -> Columns:
            ran.append(name)
            if name == "fails" and ran.count("fails") == 1:
                raise KeyboardInterrupt
            return {"gap": np.arange(float(rounds))}

        return Job({**KEY, "method": name, "rounds": rounds}, cost=1.0, run=run)

    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        complete([job("first"), job("fails"), job("last")], store, silent)
    done = complete([job("first"), job("fails"), job("last")], store, silent)
    assert ran == ["first", "fails", "fails", "last"]
    assert [columns["gap"].tolist() for _, columns in done] == [[0.0, 1.0, 2.0]] * 3
    complete([job("first", rounds=4)], store, silent)
    assert ran[-1] == "first"


def test_quick_fig1_stalls_and_converges(tmp_path: Path) -> None:
    written = reproduce("fig1", tmp_path, quick=True, advance=silent)
    assert [path.name for path in written] == [
        "fig1.png",
        "fig1.svg",
        "fig1.csv",
        "report.md",
        "report.html",
    ]
    report = (tmp_path / "report.md").read_text()
    assert report.count("| holds |") == 2
    assert "gamma = 1/(n - d) = 0.002222" in report
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "http" not in page.replace("http-equiv", "")
    lines = (tmp_path / "fig1.csv").read_text().splitlines()
    assert len(lines) == 1 + 4 * 101


@pytest.mark.slow
def test_quick_theorem1_holds_and_says_how_loose(tmp_path: Path) -> None:
    written = reproduce("theorem1", tmp_path, quick=True, advance=silent)
    assert [path.name for path in written] == [
        "theorem1.png",
        "theorem1.svg",
        "theorem1.csv",
        "report.md",
        "report.html",
    ]
    report = (tmp_path / "report.md").read_text()
    verdicts = [line.split(" | ")[1] for line in report.splitlines() if line.count(" | ") == 2][2:]
    assert verdicts == ["holds", "holds", "holds with a condition", "does not hold"]
    assert "9 rounds against 221 at kappa = 7, 35 against 1906 at kappa = 100" in report
    rows = list(csv.DictReader((tmp_path / "theorem1.csv").read_text().splitlines()))
    assert len(rows) == 8 * 60 + 9 * 60 + 4 * 200
    for row in rows:
        measured, bound = float(row["measured"]), float(row["bound"])
        assert measured <= bound * (1 + 1e-9) + 1e-13


@pytest.mark.slow
def test_quick_network_compares_transmissions(tmp_path: Path) -> None:
    written = reproduce("network", tmp_path, quick=True, advance=silent)
    assert [path.name for path in written] == [
        "network.png",
        "network.svg",
        "network_nodes.png",
        "network_nodes.svg",
        "network.csv",
        "report.md",
        "report.html",
    ]
    lines = (tmp_path / "report.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]
    sent = {row[0]: row[1:3] for row in cells}
    count = {name: int(row[0].replace(",", "")) for name, row in sent.items()}
    assert count["asynchronous PDMM"] < count["PDMM"] < count["ADMM"]
    assert count["PDMM, broadcast"] < count["PDMM"] / 5
    assert count["PDMM, rho = auto"] < 1.5 * count["PDMM"]
    assert sent["gossip"][1] == "never"
    for name in ("PDMM", "asynchronous PDMM", "ADMM"):
        assert count[name] < int(sent[name][1].replace(",", ""))
    rows = list(csv.DictReader((tmp_path / "network.csv").read_text().splitlines()))
    last = {(row["method"], row["loss"], row["seed"]): float(row["error"]) for row in rows}
    for (method, loss, _), error in last.items():
        assert error > 1e-4 if (method, loss) == ("gossip", "0.2") else error < 1e-10


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pdmm.cli.app", "reproduce", "fig1", "--quick", "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    killed = 0
    for wait in (0.3, 0.8, 1.3, 1.8, 2.5):
        process = subprocess.Popen(
            [*command, str(tmp_path / "killed")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
    subprocess.run([*command, str(tmp_path / "killed")], check=True, capture_output=True)
    assert killed > 0
    for name in ("fig1.csv", "fig1.svg", "report.md", "report.html"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()


def test_the_full_experiments_are_the_papers() -> None:
    jobs = fig2.jobs(quick=False)
    paper = [job.parameters for job in jobs if "rho" not in job.parameters["settings"]]
    assert len(paper) == 80
    assert {p["settings"]["step_size"] for p in paper} == {5e-5, 1e-4}
    assert {p["problem"]["clients"] for p in paper} == {25, 500}
    assert {p["settings"]["local_steps"] for p in paper} == {1, 3, 5, 10, 20}
    assert {(p["problem"]["samples"], p["problem"]["features"]) for p in paper} == {(5000, 500)}
    table = [job.parameters for job in fig3.jobs(quick=False)]
    assert len(table) == 40
    assert {p["rounds"] for p in table} == {1550}
    assert len(fig1.jobs(quick=False)) == 4
    # A run on the large problem must not be followed by one on the small: it is held but once.
    sizes = [job.parameters["problem"]["clients"] for job in jobs]
    assert sizes == sorted(sizes)


def test_every_panel_of_the_quick_fig3_has_its_curves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 20 rounds of one step the loss is still above what the full figure shows."""
    figures: list[Any] = []

    def keep(figure: Any, stem: Path) -> list[Path]:
        figures.append(figure)
        plt.close(figure)
        return [stem.with_suffix(".png")]

    monkeypatch.setattr(paper_figures, "save", keep)
    rounds = np.arange(0, 21, 4)
    runs: list[tuple[Job, Columns]] = []
    for job in fig3.jobs(quick=True):
        K = job.parameters["settings"]["local_steps"]
        loss = np.log(10) * np.exp(-rounds * np.sqrt(K) / 60)
        runs.append((job, {"round": rounds, "loss": loss, "accuracy": 50 + rounds}))
    about_fig3.section(runs, tmp_path, quick=True)
    for axis in figures[0].axes:
        low, high = axis.get_ylim()
        for line in axis.lines:
            y = line.get_ydata()[1:]  # the start is not on a logarithmic axis of rounds
            assert (low <= y).all()
            assert (y <= high).all()


def test_unknown_names_are_refused() -> None:
    runner = CliRunner()
    for command in (["reproduce", "fig9"], ["data", "fetch", "cifar"]):
        result = runner.invoke(app, command)
        assert result.exit_code == 2
        assert "is not one of" in result.output


def test_without_images_the_rest_is_run_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(name: str) -> None:
        raise DataError(f"{name} was not found")

    monkeypatch.setattr(fig3, "load", nowhere)
    fig3.setting.cache_clear()
    monkeypatch.setitem(NAMES, "all", ("fig3", "fig1"))
    with pytest.raises(DataError, match="mnist was not found"):
        reproduce("all", tmp_path, quick=True, advance=silent)
    assert "Fig. 1" in (tmp_path / "report.md").read_text()
