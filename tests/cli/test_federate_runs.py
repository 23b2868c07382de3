"""``pdmm federate submit, resume, status``: what reaches the federation, and what is shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pdmm
from pdmm.cli.app import app
from pdmm.common.packing import unpack
from pdmm.flare import runs
from pdmm.flare.admin import AdminError

RESULT = {"rounds": 12, "bytes": 3_000_000, "reason": "all 12 rounds done", "choices": ["rho = 2"]}


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["federate", *arguments])


def words(done: Any) -> str:
    return " ".join(done.output.split())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands for a federation: keeps what it is asked, and tells of a round."""
    calls: list[Any] = []

    def complete(kit: Path, settings: Any, out: Path, *, show: Any, say: Any, **how: Any) -> Any:
        calls.append((kit, settings, out, how))
        say("sites: ana, ben")
        told = {"round": 3, "rounds": 12, "bytes": 2_000_000, "gap": None, "residual": 0.5}
        show({**told, "answering": ["ana"], "sites": ["ana", "ben"]})
        return runs.Model(np.zeros(2), RESULT)

    monkeypatch.setattr(runs, "complete", complete)
    return calls


def test_submit_asks_for_what_was_given(asked: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    arguments = ["--kit", str(tmp_path), "--out", str(out), "--run", "one", "--method", "gpdmm"]
    arguments += ["--step-size", "0.5", "--local-steps", "3", "--rho", "auto", "--l2", "2"]
    arguments += ["--weights", "ana=3, ben=1.5", "--sites", "ana, ben", "--restarts", "2"]
    done = invoke("submit", *arguments, "--rounds", "12", "--wait", "7")
    assert done.exit_code == 0, done.output
    ((kit, settings, where, how),) = asked
    assert (kit, where) == (tmp_path, out)
    assert how == {"sites": ["ana", "ben"], "restarts": 2, "wait": 7.0}
    assert (settings["run"], settings["rounds"]) == ("one", 12)
    assert settings["weights"] == {"ana": 3.0, "ben": 1.5}
    method = unpack(settings["method"], {})
    assert method == pdmm.GPDMM(step_size=0.5, local_steps=3, rho="auto")
    said = words(done)
    assert said.startswith("Run one sites: ana, ben")
    assert "residual 5.0e-01 2.00 MB 1 of 2 sites" in said
    assert "12 rounds, 3.00 MB: all 12 rounds done - rho = 2" in said
    assert f"Model: {out}" in done.output
    assert f"History: {runs.history_path(out)}" in done.output


def test_resume_asks_for_the_run_of_that_name(asked: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    arguments = ["--kit", str(tmp_path), "--out", str(out), "--rounds", "40"]
    assert invoke("resume", "one", *arguments).exit_code == 0
    ((_, settings, _, how),) = asked
    assert settings == runs.resumption("one", rounds=40)
    assert how["sites"] is None


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (AdminError("the server cannot be reached"), 1, "Error: the server cannot be reached"),
        (runs.RunError("site ben returned [nan]"), 1, "Error: site ben returned [nan]"),
        (KeyboardInterrupt(), 130, "the run goes on without you"),
    ],
)
def test_errors_and_ctrl_c(
    error: BaseException, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **more: Any) -> Any:
        raise error

    monkeypatch.setattr(runs, "complete", fails)
    out = str(tmp_path / "model.safetensors")
    done = invoke("submit", "--kit", str(tmp_path), "--out", out, "--run", "one")
    assert done.exit_code == code
    said = words(done)
    assert says in said
    if code == 130:  # and how to see it, and go on with it
        assert f"pdmm federate resume --kit {tmp_path} --out {out} one" in said
        assert said.endswith("Stopped.")


def test_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = [("one", "12:00", "running", "round 3 of 9"), ("two", "11:00", "done", "certified")]
    for sites, rows, says in (
        ([], [], ["Sites connected: none", "No runs yet."]),
        (["ana", "ben"], jobs, ["Sites connected: ana, ben", "round 3 of 9", "certified"]),
    ):
        found = runs.Overview(list(sites), list(rows))
        monkeypatch.setattr(runs, "overview", lambda kit, found=found: found)
        done = invoke("status", "--kit", str(tmp_path))
        assert done.exit_code == 0, done.output
        assert all(text in words(done) for text in says), done.output


@pytest.mark.parametrize(
    ("apart", "code"), [(1e-13, 0), (1e-3, 1), (float("nan"), 1)], ids=["same", "not", "nan"]
)
def test_the_demonstration_compares_with_one_process(
    apart: float, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdmm.flare import demo

    def run(sites: int, show: Any, say: Any) -> demo.Outcome:
        assert sites == 2
        names = ["hospital-1", "hospital-2"]
        return demo.Outcome(
            model=runs.Model(np.zeros(2), RESULT),
            apart=apart,
            accuracy=dict.fromkeys(names, 0.9),
            own=dict.fromkeys(names, 0.5),
            together=0.8,
            seconds=1.0,
        )

    monkeypatch.setattr(demo, "run", run)
    done = invoke("demo", "--sites", "2")
    assert done.exit_code == code, done.output
    said = words(done)
    assert "hospital-2" in said
    assert "80.0%" in said
    assert ("Error: the federation's model is not that of one process" in said) is bool(code)
    assert invoke("demo", "--sites", "0").exit_code == 2
