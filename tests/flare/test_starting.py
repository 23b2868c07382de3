"""A node is started in the background and ended: with processes that stand for FLARE's."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from builders import federation_problem as fp
from pdmm.cli.app import app
from pdmm.flare import kits, node_record, starting
from pdmm.flare.marked import MARK
from pdmm.flare.node import READY, Node
from pdmm.flare.node_events import Events
from pdmm.flare.node_record import RECORD, jobs_of, read_record
from pdmm.flare.private_errors import FOLDER
from pdmm.flare.starting import NodeError, start, stop

# A job's process, which outlives its parent, has the word and the number by which it is known.
STANDS_FOR_FLARE = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "worker_process", {job!r}])
print({says!r}, flush=True)
time.sleep({seconds})
"""
JOB = "6f9c7a1e-0000-4000-8000-000000000000"


@pytest.fixture
def made(tmp_path: Path) -> kits.Kits:
    made = kits.provision(tmp_path / "kits", ["ana"])
    kits.prepare_server(made.server)
    kits.prepare_site(made.sites["ana"], fp.write(tmp_path, 0))
    return made


@pytest.fixture
def site(made: kits.Kits) -> Iterator[Path]:
    kit = made.sites["ana"]
    yield kit
    if (kit / FOLDER / RECORD).is_file():
        stop(kit)


def pretend(monkeypatch: pytest.MonkeyPatch, says: str, seconds: float = 600) -> None:
    """Have a process in the place of FLARE's that says something and then lives for a while."""
    code = STANDS_FOR_FLARE.format(job=JOB, says=says, seconds=seconds)
    monkeypatch.setattr(Node, "command", lambda *_: [sys.executable, "-u", "-c", code])


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["federate", *arguments])


def test_a_node_is_what_its_kit_says(made: kits.Kits) -> None:
    node = Node.of_kit(made.sites["ana"])
    assert (node.name, node.organisation, node.is_site) == ("ana", "ana", True)
    assert node.server == f"localhost:{made.port}"
    command = node.command(["heart_beat_interval=2"])
    assert "uid=ana" in command
    assert command[-1] == "heart_beat_interval=2"
    server = Node.of_kit(made.server)
    assert (server.name, server.organisation) == ("localhost", "pdmm")
    assert "nvflare.private.fed.app.server.server_train" in server.command()
    with pytest.raises(ValueError, match="is not the start-up kit of a site or of a server"):
        Node.of_kit(made.admin)


def test_a_node_starts_and_ends_with_its_jobs(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, READY["client"])
    started = start(site)
    assert started.waits_for == ""
    assert psutil.pid_exists(started.pid)
    assert os.getsid(started.pid) == started.pid  # the terminal may be closed
    assert started.log.stat().st_mode & 0o777 == 0o600
    environment = psutil.Process(started.pid).environ()
    assert environment["NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT"] == "30"
    record = read_record(site)
    assert record is not None
    (site / JOB).mkdir()
    (site / JOB / "meta.json").write_text(json.dumps({"name": "one", "submitter_name": "ada"}))
    assert [(job.run, job.by) for job in jobs_of(record, site)] == [("one", "ada")]
    with pytest.raises(NodeError, match=rf"ana runs already, as process {started.pid}"):
        start(site)
    shown = invoke("status", "--kit", str(site)).output
    assert f"runs as process {started.pid} since" in shown
    assert "at work on the run one, asked for by ada" in shown
    assert stop(site) == 2
    assert started.process.wait(5) is not None
    assert not node_record.processes_of(record)
    assert stop(site) == 0


def test_jobs_of_a_node_that_died_are_ended_too(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, READY["client"])
    started = start(site)
    started.process.kill()
    started.process.wait()
    assert invoke("stop", "--kit", str(site)).output == "ana has ended.\n"
    assert "did not run: there was nothing to end" in invoke("stop", "--kit", str(site)).output


def test_a_process_with_the_same_number_is_not_ended(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node has died, and another process has been given its number."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        node_record.write_record(site, other.pid, "a mark that it does not carry")
        assert stop(site) == 0
        assert other.poll() is None
        marked = {**os.environ, MARK: "mark/ana"}
        command = [sys.executable, "-c", "input()"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=marked) as own:
            node_record.write_record(site, own.pid, "mark")
            record = read_record(site)
            assert record is not None
            assert node_record.node_process(record) is not None
            later = node_record.Record(own.pid, record.began + 60, "mark")
            assert node_record.node_process(later) is None
            assert stop(site) == 1


def test_a_site_whose_server_is_away_keeps_trying(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "Retrying")
    monkeypatch.setattr(starting, "UNREACHABLE", 0.3)
    done = invoke("start", "--kit", str(site))
    assert done.exit_code == 0, done.output
    assert "cannot be reached yet; it keeps trying." in done.output
    assert "To end it: pdmm federate stop" in done.output
    assert "ana has ended" in invoke("stop", "--kit", str(site)).output


def test_a_site_that_is_not_let_in(
    site: Path, made: kits.Kits, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "Retrying")
    with socket.create_server(("127.0.0.1", made.port)):
        started = start(site, patience=0.5)
        assert "answers, but has not let it in" in started.waits_for
        stop(site)
        started.process.wait()


def test_a_node_that_ends_at_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "no memory left", seconds=0)
    done = invoke("start", "--kit", str(site))
    assert done.exit_code == 1
    assert "Error: ana ended as it started: no memory left" in done.output
    assert "node.log in full" in done.output


def test_what_is_in_the_way(
    made: kits.Kits, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, READY["server"])
    other = kits.provision(tmp_path / "other", ["ana"])
    for kit, command in ((other.sites["ana"], "site"), (other.server, "server")):
        done = invoke("start", "--kit", str(kit))
        assert done.exit_code == 1
        assert f"is not prepared: run pdmm federate {command} --kit" in done.output
    (site / "startup" / "client.key").chmod(0o644)
    done = invoke("start", "--kit", str(site))
    assert "a door of its kit is open: private key, client.key has mode 644" in done.output
    assert "chmod 600 startup/client.key" in done.output
    with socket.create_server(("127.0.0.1", made.port)):
        done = invoke("start", "--kit", str(made.server))
        assert f"Error: port {made.port} is taken by another program" in done.output
    done = invoke("start", "--kit", str(made.admin))
    assert "is not the start-up kit of a site or of a server" in done.output


def test_a_node_that_start_sh_has_started(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["-c", "input()", "nvflare.private.fed.app.client.client_train", "-m", str(site)]
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE) as other:
        for command in ("start", "stop"):
            done = invoke(command, "--kit", str(site))
            assert done.exit_code == 1
            assert f"ana runs as process {other.pid}, which pdmm federate start" in done.output
        assert "has not started" in invoke("status", "--kit", str(site)).output
        other.kill()


def test_a_log_does_not_grow_for_ever(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "LARGEST_LOG", 10)
    log = node_record.log_of(site)
    log.write_text("of the last time\n")
    pretend(monkeypatch, READY["client"])
    started = start(site)
    assert "of the last time" not in log.read_text()
    assert "of the last time" in log.with_name("node.log.1").read_text()
    stop(site)
    started.process.wait()


def test_what_happens_at_a_node(made: kits.Kits, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    record = node_record.Record(1, 0.0, "mark")
    events = Events(Node.of_kit(made.sites["ana"]), record, said.append)
    job = node_record.Job("7", "one", "ada")
    for connected, jobs in (
        (False, []),
        (True, []),
        (True, [job]),
        (False, [job]),
        (False, []),
        (False, []),
        (True, []),
    ):
        monkeypatch.setattr("pdmm.flare.node_events.is_connected", lambda *_, c=connected: c)
        monkeypatch.setattr("pdmm.flare.node_events.jobs_of", lambda *_, j=jobs: j)
        events.look()
    server = f"localhost:{made.port}"
    assert said == [
        f"connected to {server}",
        "run one began, asked for by ada",
        "run one ended",
        f"the connection to {server} is lost; it is being sought again",
        f"connected to {server}",
    ]


def test_in_the_foreground_until_another_command_ends_it(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, READY["client"])

    def follow(events: Events) -> None:
        events.tell("connected")
        stop(site)

    monkeypatch.setattr(Events, "follow", follow)
    done = invoke("start", "--kit", str(site), "--foreground")
    assert done.exit_code == 0, done.output
    first, second, third = done.output.splitlines()
    assert "Ctrl-C ends it" in first
    assert second.endswith("  connected")
    assert third.endswith("ana was ended by pdmm federate stop")

    def interrupted(events: Events) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Events, "follow", interrupted)
    done = invoke("start", "--kit", str(site), "--foreground")
    assert done.exit_code == 0, done.output
    assert done.output.endswith("ana has ended\n")
    assert read_record(site) is None
    monkeypatch.setattr(Events, "follow", lambda events: time.sleep(0))
    done = invoke("start", "--kit", str(site), "--foreground")
    assert done.exit_code == 1
    assert "Error: ana has ended by itself" in done.output
