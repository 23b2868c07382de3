"""``pdmm federate submit, resume, status``: what reaches the federation, and what is shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import pdmm
from pdmm.cli.app import app
from pdmm.common.packing import unpack
from pdmm.flare import model_files, runs, studies
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
        return model_files.Model(np.zeros(2), RESULT)

    monkeypatch.setattr(runs, "complete", complete)
    monkeypatch.setattr(studies, "kind_of", lambda *_: "run")
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
    assert how == {"sites": ["ana", "ben"], "restarts": 2, "wait": 7.0, "force": False}
    assert (settings["run"], settings["rounds"]) == ("one", 12)
    assert settings["weights"] == {"ana": 3.0, "ben": 1.5}
    method = unpack(settings["method"], {})
    assert method == pdmm.GPDMM(step_size=0.5, local_steps=3, rho="auto")
    said = words(done)
    assert said.startswith("Run one sites: ana, ben")
    assert "residual 5.0e-01 2.00 MB 1 of 2 sites" in said
    assert "12 rounds, 3.00 MB: all 12 rounds done - rho = 2" in said
    assert f"Model: {out}" in done.output
    assert f"History: {model_files.history_path(out)}" in done.output


def test_resume_asks_for_the_run_of_that_name(asked: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    arguments = ["--kit", str(tmp_path), "--out", str(out), "--rounds", "40"]
    assert invoke("resume", "one", *arguments).exit_code == 0
    ((_, settings, _, how),) = asked
    assert settings == runs.resumption("one", rounds=40)
    assert how["sites"] is None


@pytest.mark.parametrize("command", [["submit"], ["resume", "one"]], ids=["submit", "resume"])
@pytest.mark.parametrize("there", ["model.safetensors", "model.history.csv"])
def test_a_model_that_is_there_is_not_written_over(
    command: list[str], there: str, asked: list[Any], tmp_path: Path
) -> None:
    """Nothing is asked of the federation, unless the user says that it may be."""
    (tmp_path / there).write_text("of last year")
    arguments = ["--kit", str(tmp_path), "--out", str(tmp_path / "model.safetensors")]
    done = invoke(*command, *arguments)
    assert done.exit_code == 1
    assert "is there already" in words(done)
    assert "--force" in words(done)
    assert not asked
    assert (tmp_path / there).read_text() == "of last year"
    assert invoke(*command, *arguments, "--force").exit_code == 0
    assert asked[0][3]["force"]


def test_an_out_that_cannot_be_written(asked: list[Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path, tmp_path / "file" / "model.safetensors"):
        done = invoke("submit", "--kit", str(tmp_path), "--out", str(out))
        assert done.exit_code == 1
        assert "out=" in words(done)
    assert not asked


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("ana", "must be site=number,site=number"),
        ("=3,ben=1", "must be site=number,site=number"),
        ("ana=3,ben=", "must be site=number,site=number"),
        ("ana=3,ben=much", "must have a number for ben, got 'much'"),
        ("ana=3,ben=auto", "must have a number for ben, got 'auto'"),
        ("ana=3,ben=1,ana=2", "has two weights for ana"),
        ("ana=3,ben=0", "weight of ben must be positive"),
        ("ana=3,ben=-1", "weight of ben must be positive"),
        ("ana=3,ben=nan", "weight of ben"),
    ],
)
def test_wrong_weights_do_not_travel(
    given: str, says: str, asked: list[Any], tmp_path: Path
) -> None:
    out = str(tmp_path / "model.safetensors")
    done = invoke("submit", "--kit", str(tmp_path), "--out", out, "--weights", given)
    assert done.exit_code == 1
    assert says in words(done)
    assert not asked


def test_sites_are_named_once(asked: list[Any], tmp_path: Path) -> None:
    out = str(tmp_path / "model.safetensors")
    for given in ("ana,,ben", "ana,ana", ""):
        done = invoke("submit", "--kit", str(tmp_path), "--out", out, "--sites", given)
        assert done.exit_code == 1
        assert "--sites must be names like a,b, each of them once" in words(done)
    assert not asked


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
            model=model_files.Model(np.zeros(2), RESULT),
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
    assert ("Error: the federation's model is not that of all data in one place" in said) is bool(
        code
    )
    assert invoke("demo", "--sites", "0").exit_code == 2
