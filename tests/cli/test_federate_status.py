"""``pdmm federate status``: a federation, a run and a node, in words and as JSON."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builders import federation_problem as fp
from pdmm.cli.app import app
from pdmm.flare import kits, overview
from pdmm.flare.overview import Overview, Party, RunState

NOW = 1_800_000_000.0
TOLD = {
    "round": 12,
    "rounds": 400,
    "gap": 1e-3,
    "bytes": 5_040_000,
    "answering": ["ana", "ben"],
    "sites": ["ana", "ben", "cyd"],
    "round_seconds": 0.04,
    "waiting": {"ana": 0.01, "cyd": 12.4},
}


def run(name: str, **more: Any) -> RunState:
    given: dict[str, Any] = {
        "owner": "ada@example.org",
        "kind": "run",
        "method": "AGPDMM",
        "began": NOW - 60,
        "state": "finished",
        "detail": "",
        "sites": ["ana", "ben", "cyd"],
        "jobs": 1,
        **more,
    }
    return RunState(name=name, **given)


def federation(*runs: RunState, parties: list[Party] | None = None) -> Overview:
    return Overview(
        user="ada@example.org",
        server="fl.example.org:8702",
        up_since=NOW - 3600,
        versions={"NVIDIA FLARE": "2.9.0", "pdmm": "0.1.0"},
        parties=parties or [],
        runs=list(runs),
    )


@pytest.fixture
def admin_kit(tmp_path: Path) -> Path:
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_admin.json").write_text("{}")
    return tmp_path


def status(kit: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["federate", "status", "--kit", str(kit), *more])


def test_a_federation_without_sites_and_runs(
    admin_kit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "overview", lambda kit: federation())
    done = status(admin_kit)
    assert done.exit_code == 0, done.output
    assert "Server fl.example.org:8702, up since" in done.output
    assert "none has connected yet" in done.output
    assert "No runs yet." in done.output


def test_all_of_it_in_80_columns(admin_kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = federation(
        run("one", state="running", told=TOLD, mine=True),
        run("two", state="aborted", mine=True, resumable=True, jobs=3),
        run("three", state="failed", detail="site [north] returned nan:\nsee x.py:a: there"),
        run("four", state="submitted", kind="describe", detail="cyd not connected"),
        parties=[
            Party("ana", True, time.time(), "clinic_a"),
            Party("ben", True, time.time() - 25),
            Party("cyd", False, NOW - 300),
            Party("dan", False, None),
        ],
    )
    monkeypatch.setattr(overview, "overview", lambda kit: found)
    lines = status(admin_kit).output.splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for said in (
        "  ana  connected, of clinic_a",
        "  ben  connected, silent for 25 s",
        "  cyd  not connected; last seen ",
        "  dan  not connected\n",
        "    AGPDMM, asked for by you, ",
        "    running: round 12 of 400  gap 1.0e-03  5.04 MB  2 of 3 sites  0.04 s",
        "    waiting for cyd, silent for 12 s",
        "taken up 2 times",
        "    to go on: pdmm federate resume two --kit ... --out ...",
        "    failed: site [north] returned nan: see x.py:a: there",
        "    describe, asked for by ada@example.org, ",
        "    submitted: cyd not connected",
    ):
        assert said in text, said
    assert "resume three" not in text  # which is another's


def test_as_json(admin_kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    found = federation(run("one", state="running", told=TOLD))
    monkeypatch.setattr(overview, "overview", lambda kit: found)
    said = json.loads(status(admin_kit, "--json").output)
    assert said["runs"][0]["told"] == TOLD
    assert said["versions"]["pdmm"] == "0.1.0"


def test_one_run_in_full(admin_kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = run("one", mine=True, asked={"kind": "run", "rounds": 25, "absent": "skip"})
    result = {"rounds": 25, "reason": "all 25 rounds done", "choices": ["rho 2: because"]}
    monkeypatch.setattr(overview, "one_run", lambda kit, name: (state, result))
    said = status(admin_kit, "--run", "one").output
    assert "sites: ana, ben, cyd" in said
    assert "settings: rounds 25, absent skip" in said
    assert "25 rounds: all 25 rounds done" in said
    assert "- rho 2: because" in said
    assert "its model: pdmm federate resume one" in said


def test_a_node_that_does_not_run(tmp_path: Path) -> None:
    made = kits.provision(tmp_path / "kits", ["ana"])
    site = made.sites["ana"]
    said = status(site).output
    assert "ana, a site of ana; pdmm " in said
    assert "does not run: pdmm federate start begins it" in said
    assert f"not connected: the server localhost:{made.port} cannot be reached" in said
    assert "policy" not in said  # it is not prepared
    kits.prepare_site(site, fp.write(tmp_path, 0))
    said = status(site).output
    assert re.search(r"policy: at least 3 organisations and 50 rows; at most 100 rounds", said)
    assert "0 numbers have left" in said
    assert json.loads(status(site, "--json").output)["pid"] is None
    assert "a server of pdmm" in status(made.server).output
    wrong = status(site, "--run", "one")
    assert wrong.exit_code == 1
    assert "--run is for an admin's" in wrong.output
    nowhere = status(tmp_path)
    assert nowhere.exit_code == 1
    assert "is not the start-up kit of a site or of a server" in nowhere.output
