"""A real federation on this machine: processes, TLS, signals. Mathematics is in test_remote.py."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

import pdmm
from builders import federation_problem as fp
from pdmm.cli.main import app
from pdmm.flare import job as jobs
from pdmm.flare import kits, runs
from pdmm.flare.admin import Admin, AdminError
from pdmm.flare.processes import MARK, LocalFederation

SITES = ["ana", "ben", "cyd"]
cli = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("federation")


@pytest.fixture(scope="module")
def federation(folder: Path) -> Iterator[LocalFederation]:
    problems = {name: fp.write(folder, k) for k, name in enumerate(SITES)}
    with LocalFederation(SITES, problems, folder / "nodes") as started:
        yield started
    marked = [p for p in psutil.process_iter() if MARK in _environment(p)]
    assert not [p for p in marked if str(folder) in " ".join(p.cmdline())]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except (psutil.Error, OSError):
        return {}


@pytest.fixture(scope="module")
def alone() -> pdmm.Result:
    """The undisturbed run, in one process."""
    return pdmm.solve(fp.functions(range(fp.CLIENTS)), fp.METHOD, fp.ROUNDS)


def at_rounds(faults: dict[int, Callable[[], object]]) -> Callable[[dict[str, Any]], None]:
    """Cause faults when a run has come so far."""
    left = dict(faults)

    def show(told: dict[str, Any]) -> None:
        for r in [r for r in left if told["round"] >= r]:
            left.pop(r)()

    return show


def asked(**more: Any) -> dict[str, Any]:
    return runs.settings(fp.METHOD, **{"rounds": fp.ROUNDS, "every": 5, "timeout": 2.0, **more})


# --- faults ---------------------------------------------------------------------------------


def test_a_run_survives_the_death_of_everyone(
    federation: LocalFederation, alone: pdmm.Result, tmp_path: Path
) -> None:
    """A job's process, a whole site and the server are killed: the model is the undisturbed one."""

    def restart_site() -> None:
        federation.kill_site("cyd")
        federation.start_site("cyd")

    def restart_server() -> None:
        federation.kill_server()
        federation.start_server()

    faults: dict[int, Callable[[], object]] = {
        15: lambda: os.kill(federation.job_process("ben"), signal.SIGKILL),
        40: restart_site,
        65: restart_server,
    }
    said: list[str] = []
    model = runs.complete(
        federation.kits.admin,
        asked(absent="wait", patience=3.0),
        tmp_path / "model.safetensors",
        sites=SITES,
        restarts=9,
        show=at_rounds(faults),
        say=said.append,
    )
    # Three times for what was done to it; a busy machine may make a site look silent once more.
    first, *said = said
    assert first == "sites: ana, ben, cyd"
    assert 3 <= model.restarts == len(said)
    assert "FLARE ended the job: the process of a site was lost" in said[0]
    assert "taking the run up from its checkpoint (1 of 9)" in said[0]
    for text in ("site cyd has not answered", "the server was restarted"):
        assert any(text in each for each in said), said
    assert model.result["reason"] == f"all {fp.ROUNDS} rounds done"
    assert np.abs(model.x - alone.x).max() <= 1e-10 * np.abs(alone.x).max()
    # What was written is what was returned, and the history has every round once.
    again = runs.read_model(tmp_path / "model.safetensors")
    assert (again.x == model.x).all()
    table = (tmp_path / "model.history.csv").read_text().splitlines()
    assert table[0].startswith("round,objective,")
    assert [int(line.split(",")[0]) for line in table[1:]] == list(range(fp.ROUNDS + 1))


def test_a_frozen_site_is_left_out_and_comes_back(federation: LocalFederation) -> None:
    answering: list[int] = []

    def freeze() -> None:
        federation.freeze("ben")
        threading.Timer(5.0, lambda: federation.thaw("ben")).start()

    cause = at_rounds({10: freeze})

    def show(told: dict[str, Any]) -> None:
        answering.append(len(told["answering"]))
        cause(told)

    model = runs.complete(
        federation.kits.admin, asked(absent="skip", patience=60.0), sites=SITES, show=show
    )
    assert model.restarts == 0
    assert 2 in answering
    assert answering[-1] == 3
    (note,) = model.result["choices"]
    assert re.match(r"site ben did not answer in round.*: the run went on without it", note)
    x = fp.optimum()
    assert np.abs(model.x - x).max() <= 1e-10 * np.abs(x).max()


def test_a_site_that_returns_nan_is_named(federation: LocalFederation, folder: Path) -> None:
    poison = folder / "poison1"  # that of ben
    name = runs.new_name()
    said: list[str] = []
    try:
        with pytest.raises(runs.RunError, match=r"site ben returned, in round \d+, dz that is not"):
            runs.complete(
                federation.kits.admin,
                asked(run=name),
                sites=SITES,
                show=at_rounds({8: poison.touch}),
                say=said.append,
            )
    finally:
        poison.unlink(missing_ok=True)
    assert said == ["sites: ana, ben, cyd"]  # asking again would not have helped
    # The checkpoint was not touched: with the site mended, the run goes on.
    out = folder / "mended.safetensors"
    arguments = ["--kit", str(federation.kits.admin), "--out", str(out), "--timeout", "2"]
    done = cli.invoke(app, ["federate", "resume", name, *arguments])
    assert done.exit_code == 0, done.output
    assert f"all {fp.ROUNDS} rounds done" in done.output
    x = fp.optimum()
    assert np.abs(runs.read_model(out).x - x).max() <= 1e-10 * np.abs(x).max()
    # It has come to its end now: its model is fetched, and nothing is run.
    out.unlink()
    done = cli.invoke(app, ["federate", "resume", name, *arguments])
    assert done.exit_code == 0, done.output
    assert out.exists()
    assert "sites:" not in done.output
    shown = cli.invoke(app, ["federate", "status", "--kit", str(federation.kits.admin)])
    assert "ana, ben, cyd" in shown.output
    assert name[:20] in shown.output.replace("\n", "")


# --- who is refused -------------------------------------------------------------------------


def _first_bytes(port: int, context: ssl.SSLContext) -> bytes:
    """What the server says to someone who wants to talk; nothing, if it refuses."""
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            return secure.recv(16)
    except (ssl.SSLError, ConnectionError):
        return b""


def test_a_client_without_a_certificate_is_refused(
    federation: LocalFederation, tmp_path: Path
) -> None:
    port, startup = federation.kits.port, federation.kits.sites["ana"] / "startup"
    known = ssl.create_default_context()
    known.load_cert_chain(startup / "client.crt", startup / "client.key")
    assert _first_bytes(port, known)
    assert not _first_bytes(port, ssl.create_default_context())
    other = kits.provision(tmp_path, ["ana"], port).sites["ana"] / "startup"
    foreign = ssl.create_default_context()
    foreign.load_cert_chain(other / "client.crt", other / "client.key")
    assert not _first_bytes(port, foreign)


def test_a_job_outside_the_list_is_refused(
    federation: LocalFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that is not allowed at a site, and a job that brings code."""
    write = jobs.write_job

    def another_class(*arguments: Any) -> Path:
        job = write(*arguments)
        path = job / "site" / "config" / "config_fed_client.json"
        text = path.read_text().replace("pdmm.flare.collab.Site", "pdmm.engines.sites.site.Site")
        path.write_text(text)
        return job

    def with_code(*arguments: Any) -> Path:
        job = write(*arguments)
        (job / "site" / "custom").mkdir()
        (job / "site" / "custom" / "stolen.py").write_text("print('patients')\n")
        return job

    with federation.admin() as admin:
        for change, says in ((with_code, "BYOC not permitted"), (another_class, "")):
            monkeypatch.setattr("pdmm.flare.admin.write_job", change)
            job = admin.submit(asked(), "refused", SITES)
            while not (status := admin.status(job)).over:
                time.sleep(0.2)
            assert status.state == "failed"
            assert says in status.detail
    log = federation.log("ana", lines=400)
    assert re.search(r"pdmm\.engines\.site\.Site.*not in allow_list", log)


# --- the commands ---------------------------------------------------------------------------


def test_the_demonstration_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    """It has begun its processes when it is interrupted, and none is left."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [str(Path(sys.executable).with_name("pdmm")), "federate", "demo", "--sites", "2"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell that runs the tests in the background has them ignore Ctrl-C, and their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "all connected" in line:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 130
    left = [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_words(p))]
    assert not left
    assert not list(tmp_path.glob("pdmm-demo-*"))


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_the_demonstration() -> None:
    done = cli.invoke(app, ["federate", "demo", "--sites", "2"])
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    found = re.search(r"the model differs by ([0-9.e+-]+) of its largest entry", text)
    assert found is not None
    assert float(found[1]) <= 1e-10
    assert "certified after round" in text


def test_kits_are_prepared_and_refused(tmp_path: Path) -> None:
    made = kits.provision(tmp_path / "kits", ["ana"])
    site = made.sites["ana"]

    def prepare(*arguments: str) -> Any:
        return cli.invoke(app, ["federate", *arguments])

    good = fp.write(tmp_path, 0)
    done = prepare("site", "--kit", str(site), "--problem", good)
    assert done.exit_code == 0, done.output
    files = {path: path.read_bytes() for path in (site / "local").iterdir()}
    assert prepare("site", "--kit", str(site), "--problem", good).exit_code == 0
    assert files == {path: path.read_bytes() for path in (site / "local").iterdir()}
    resources = json.loads((site / "local" / "resources.json").read_text())
    assert "pdmm.flare.collab.Site" in resources["class_allow_list"]
    assert not any(name in ("pdmm.", "") for name in resources["class_allow_list"])
    assert prepare("server", "--kit", str(made.server)).exit_code == 0
    for problem, says in (
        ("no_colon", "must be module:function"),
        (f"{tmp_path}/none.py:problem", "there is no file"),
        (good.replace(":problem", ":absent"), "has no function 'absent'"),
        ("no.such.module:problem", "No module named"),
    ):
        done = prepare("site", "--kit", str(site), "--problem", problem)
        assert done.exit_code == 1
        assert says in " ".join(done.output.split())
    path = tmp_path / "data.py"
    path.write_text("def problem():\n    return {'name': 'Smith'}\n")
    done = prepare("site", "--kit", str(site), "--problem", f"{path}:problem")
    assert "must return a pdmm problem, and returns a dict" in " ".join(done.output.split())
    done = prepare("site", "--kit", str(made.admin), "--problem", good)
    assert "is not the start-up kit of a site" in " ".join(done.output.split())
    assert (site / "local" / "pdmm.json").read_bytes() == files[site / "local" / "pdmm.json"]


def test_what_is_asked_for_is_checked_before_it_travels(tmp_path: Path) -> None:
    kit = kits.provision(tmp_path / "kits", ["ana"]).admin
    out = str(tmp_path / "model.safetensors")

    def submit(*arguments: str) -> str:
        done = cli.invoke(
            app, ["federate", "submit", "--kit", str(kit), "--out", out, "--wait", "1", *arguments]
        )
        assert done.exit_code == 1
        return " ".join(done.output.split())

    assert "method must be one of auto, agpdmm" in submit("--method", "adam")
    assert "scaffold has no rho" in submit("--method", "scaffold", "--rho", "1")
    assert "--rho must be a number or auto, got 'big'" in submit("--rho", "big")
    assert "method auto takes no local_steps" in submit("--method", "auto", "--local-steps", "3")
    assert "--weights must be site=number" in submit("--weights", "ana")
    assert "absent must be" in submit("--absent", "dance")
    assert "give --l1 or --l2" in submit("--l1", "1", "--l2", "1")
    assert "the server cannot be reached" in submit()
    assert not Path(out).exists()
    with pytest.raises(ValueError, match="is not the start-up kit of an admin"):
        Admin(tmp_path)
    with pytest.raises(AdminError, match="cannot be reached"), Admin(kit, patience=1):
        pass


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvflare", None)
    done = cli.invoke(app, ["federate", "demo"])
    assert done.exit_code == 1
    assert "pdmm federate needs NVIDIA FLARE: pip install 'pdmm[flare]'" in done.output
