"""A real federation on this machine: processes, TLS, signals. Mathematics is in engines/sites."""

import json
import os
import re
import signal
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import pdmm
from builders import federation_network as network
from builders import federation_problem as fp
from pdmm.cli.app import app
from pdmm.flare import job as jobs
from pdmm.flare import kits, model_files, runs
from pdmm.flare.marked import MARK
from pdmm.flare.processes import LocalFederation
from pdmm.flare.site_kit import begin_anew, entries, write_policy
from pdmm.privacy.policy import Policy

pytestmark = [pytest.mark.flare, pytest.mark.slow]
SITES = ["ana", "ben", "cyd"]
cli = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("federation")


@pytest.fixture(scope="module")
def federation(folder: Path) -> Iterator[LocalFederation]:
    problems = {name: fp.write(folder, k) for k, name in enumerate(SITES)}
    _talkative(Path(problems["ben"].rpartition(":")[0]), folder)
    with LocalFederation(SITES, problems, folder / "nodes", policy=Policy.open()) as started:
        yield started
    marked = [p for p in psutil.process_iter() if MARK in _environment(p)]
    assert not [p for p in marked if str(folder) in " ".join(p.cmdline())]


SECRET = "Jane Roe, born 1966"
TALK = """

import json, logging, os, warnings
from pathlib import Path

quiet = problem


def problem():
    logging.getLogger("hospital").error({secret!r})
    logging.getLogger().error({secret!r})
    warnings.warn({secret!r})
    print({secret!r})
    from nvflare.private.fed.client.admin_commands import AdminCommands

    names = [each.get_command_name() for each in AdminCommands.commands]
    found = dict(commands=names, secure=os.environ["NVFLARE_SECURE_LOGGING"])
    Path({doors!r}).write_text(json.dumps(found))
    if Path({fault!r}).exists():
        raise ValueError({secret!r})
    return quiet()
"""


def _talkative(path: Path, folder: Path) -> None:
    """Have a site's function say in every way what it must not, and tell what doors it sees."""
    fault, doors = str(folder / "fault"), str(folder / "doors.json")
    with open(path, "a") as file:
        file.write(TALK.format(secret=SECRET, fault=fault, doors=doors))


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
        for r in [r for r in left if told.get("round", 0) >= r]:
            left.pop(r)()

    return show


def asked(**more: Any) -> dict[str, Any]:
    return runs.settings(fp.METHOD, **{"rounds": fp.ROUNDS, "every": 5, "timeout": 2.0, **more})


# --- faults ---------------------------------------------------------------------------------


def test_a_run_survives_the_death_of_everyone(
    federation: LocalFederation, alone: pdmm.Result, tmp_path: Path
) -> None:
    """A job's process, a whole site and the server are killed: the model is the undisturbed one.

    With secure sums there is no checkpoint: see the next test.
    """

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
        asked(absent="wait", patience=3.0, secure=False),
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
    again = model_files.read_model(tmp_path / "model.safetensors")
    assert (again.x == model.x).all()
    table = (tmp_path / "model.history.csv").read_text().splitlines()
    assert table[0].startswith("round,objective,")
    assert [int(line.split(",")[0]) for line in table[1:]] == list(range(fp.ROUNDS + 1))


def test_a_run_with_secure_sums_begins_again(
    federation: LocalFederation, alone: pdmm.Result, tmp_path: Path
) -> None:
    """Its sites alone know what they remember: whoever dies takes the run back to its start."""

    def restart_server() -> None:
        federation.kill_server()
        federation.start_server()

    faults: dict[int, Callable[[], object]] = {
        15: lambda: os.kill(federation.job_process("ben"), signal.SIGKILL),
        30: restart_server,
    }
    said: list[str] = []
    model = runs.complete(
        federation.kits.admin,
        asked(absent="wait", patience=30.0),
        tmp_path / "model.safetensors",
        sites=SITES,
        restarts=9,
        show=at_rounds(faults),
        say=said.append,
    )
    assert model.restarts >= 2
    assert "the run begins again from its first round, for it has no checkpoint" in said[1]
    assert any("the server was restarted" in each for each in said), said
    assert any("sums are secure" in each for each in model.result["choices"])
    assert "began again from its first round" in model.result["choices"][-1]
    assert np.abs(model.x - alone.x).max() <= 1e-10 * np.abs(alone.x).max()
    table = (tmp_path / "model.history.csv").read_text().splitlines()
    assert [int(line.split(",")[0]) for line in table[1:]] == list(range(fp.ROUNDS + 1))


def test_a_frozen_site_is_left_out_and_comes_back(federation: LocalFederation) -> None:
    answering: list[int] = []
    freeze = at_rounds({10: lambda: federation.freeze("ben")})

    def show(told: dict[str, Any]) -> None:
        if "round" not in told:
            return
        answering.append(len(told["answering"]))
        freeze(told)
        if answering[-1] == 2:  # the run goes on without it: it may come back
            federation.thaw("ben")

    # A busy machine must not make another site look silent.
    # Two sites are too few for secure sums, which would wait for the third.
    settings = asked(absent="skip", patience=60.0, timeout=5.0, secure=False)
    try:
        model = runs.complete(federation.kits.admin, settings, sites=SITES, show=show)
    finally:
        federation.thaw("ben")
    assert model.restarts == 0
    assert 2 in answering
    assert answering[-1] == 3
    secure, note = model.result["choices"]
    assert secure == "sums are not secure, as was asked for: the server saw each site's part"
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
                asked(run=name, secure=False),
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
    assert np.abs(model_files.read_model(out).x - x).max() <= 1e-10 * np.abs(x).max()
    # It has come to its end now: its model is fetched, and nothing is run.
    out.write_text("")
    assert cli.invoke(app, ["federate", "resume", name, *arguments]).exit_code == 1
    done = cli.invoke(app, ["federate", "resume", name, *arguments, "--force"])
    assert done.exit_code == 0, done.output
    assert np.abs(model_files.read_model(out).x - x).max() <= 1e-10 * np.abs(x).max()
    assert "sites:" not in done.output
    shown = cli.invoke(app, ["federate", "status", "--kit", str(federation.kits.admin)])
    assert re.search(rf"  {name}\n    AGPDMM, asked for by you, .*\n    finished\n", shown.output)
    # Weights for others are noticed before anything is submitted.
    other = ["--kit", str(federation.kits.admin), "--out", str(folder / "none.safetensors")]
    done = cli.invoke(app, ["federate", "submit", *other, "--weights", "ana=1,ben=2"])
    assert done.exit_code == 1
    assert "but the sites are ana, ben, cyd" in done.output


def test_two_submissions_of_one_name_at_the_same_moment(federation: LocalFederation) -> None:
    """One gets its own model, and the other a sentence: nobody is given another's model."""
    name, together = runs.new_name(), threading.Barrier(2, timeout=60)
    weights = {"a": None, "b": {"ana": 1.0, "ben": 1.0, "cyd": 50.0}}

    def submission(who: str) -> Any:
        together.wait()
        try:
            settings = asked(run=name, rounds=20, weights=weights[who], absent="wait")
            return runs.complete(federation.kits.admin, settings, sites=SITES)
        except runs.RunError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip("ab", pool.map(submission, "ab"), strict=True))
    ((winner, model),) = ((w, m) for w, m in found.items() if not isinstance(m, str))
    assert model.result["run"] == name
    assert model.result["owner"] == kits.ADMIN
    w = None if weights[winner] is None else np.array([1.0, 1.0, 50.0])
    own = pdmm.solve(fp.functions(range(fp.CLIENTS)), fp.METHOD, 20, weights=w)
    assert np.abs(model.x - own.x).max() <= 1e-10 * np.abs(own.x).max()
    (refused,) = (text for text in found.values() if isinstance(text, str))
    assert "choose another name" in refused or "goes on already" in refused
    # What the server keeps is its own alone.
    kept = federation.kits.server / "pdmm"
    paths = [kept, kept / name, *(kept / name).iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600, 0o700}


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
        for change, says in (
            (with_code, "brings files that no pdmm job has"),
            (another_class, "is not that of pdmm"),
        ):
            monkeypatch.setattr("pdmm.flare.admin.write_job", change)
            job = admin.submit(asked(), "refused", SITES)
            while not (status := admin.status(job)).over:
                time.sleep(0.2)
            assert status.state == "failed"
            assert says in status.detail


def _command(words: str, session: Any) -> Any:
    """As an admin types it at FLARE's console."""
    return session.api.do_command(words)


def test_what_a_site_says_of_its_data_stays_there(
    federation: LocalFederation, folder: Path
) -> None:
    """Its function logs, prints, warns and raises; an admin with every right reads nothing."""
    kit, fault = federation.kits.sites["ben"], folder / "fault"
    fault.touch()
    try:
        with pytest.raises(runs.RunError) as caught:
            runs.complete(federation.kits.admin, asked(), sites=SITES)
    finally:
        fault.unlink()
    assert "site ben raised ValueError: see pdmm/errors.log in the site's kit" in str(caught.value)
    seen = json.loads((folder / "doors.json").read_text())
    assert seen == {"commands": ["check_status", "abort", "shutdown"], "secure": "true"}
    errors = kit / "pdmm" / "errors.log"
    assert f"ValueError: {SECRET}" in errors.read_text()
    assert (errors.stat().st_mode & 0o777, errors.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    # What is printed is on the screen of who started the site, and nowhere else.
    apart = {errors, kit / "console.txt"}
    for path in (*kit.rglob("*"), *federation.kits.server.rglob("*")):
        if path.is_file() and path not in apart:
            assert SECRET.encode() not in path.read_bytes(), path
    with federation.admin() as admin:
        for command in (
            "cat ben pdmm/errors.log",
            "tail ben console.txt",
            "grep ben problem local/pdmm.json",
            "ls ben local",
            "cat server local/resources.json",
            "report_env ben",
            "sys_info client ben",
            "configure_site_log client ben DEBUG",
            "restart client ben",
        ):
            reply = str(admin._do(partial(_command, command)))
            assert "invalid_request" in reply or "not authorized" in reply.lower(), reply
            assert SECRET not in reply


# --- policies -------------------------------------------------------------------------------


@pytest.fixture
def guarded(federation: LocalFederation) -> Iterator[LocalFederation]:
    """Sites with the default policy, but that their functions are allowed by word of theirs."""
    policy = Policy(problems=("Functions",), stated_rows=500, stated_columns=fp.D)
    for kit in federation.kits.sites.values():
        write_policy(kit, policy)
        begin_anew(kit)
    yield federation
    for kit in federation.kits.sites.values():
        write_policy(kit, Policy.open())


def test_sites_make_sure_of_each_other_and_compute_x(
    guarded: LocalFederation, tmp_path: Path
) -> None:
    """The run is the one of one process, though a process dies; the audit tells of it all."""
    expected = pdmm.solve(fp.functions(range(fp.CLIENTS)), fp.METHOD, 40)
    model = runs.complete(
        guarded.kits.admin,
        asked(rounds=40, verify="sites", run="verified"),
        sites=SITES,
        show=at_rounds({15: lambda: os.kill(guarded.job_process("ben"), signal.SIGKILL)}),
    )
    assert model.restarts >= 1
    assert np.abs(model.x - expected.x).max() <= 1e-10 * np.abs(expected.x).max()
    assert any("sums are secure" in each for each in model.result["choices"])
    kit = guarded.kits.sites["ana"]
    kept = [entry for entry in entries(kit) if entry.run.startswith("verified/")]
    assert [e.verb for e in kept[:2]] == ["join", "open"]
    assert {e.by for e in kept} == {kits.ADMIN}
    assert sorted({e.round for e in kept if e.round}) == list(range(1, 41))
    assert {e.outcome for e in kept} == {"answered"}
    # Asked again, it answers what it had answered, and that counts nothing.
    again = [e for e in kept if e.verb == "round" and e.round == 3]
    assert len(again) >= 2
    assert [e.numbers > 0 for e in again] == [True] + [False] * (len(again) - 1)
    done = cli.invoke(app, ["federate", "audit", "--kit", str(kit), "--run", "verified"])
    assert done.exit_code == 0, done.output
    assert "round 40" in done.output
    assert f"numbers have left of a table of {500 * fp.D:,}" in done.output


def test_a_study_of_one_site_is_refused_and_nobody_outside_learns_why(
    guarded: LocalFederation,
) -> None:
    with pytest.raises(runs.RunError) as caught:
        runs.complete(guarded.kits.admin, asked(rounds=1), sites=["ana"])
    assert "site ana refused by policy" in str(caught.value)
    reason = "1 organisations take part, and min_organisations is 3"
    kit = guarded.kits.sites["ana"]
    assert entries(kit)[-1].reason == reason
    for path in (*kit.rglob("*"), *guarded.kits.server.rglob("*")):
        if path.is_file() and path != kit / "pdmm" / "audit.jsonl":
            assert b"organisations take part" not in path.read_bytes(), path


# --- networks -------------------------------------------------------------------------------


@pytest.fixture
def of_networks(federation: LocalFederation, folder: Path) -> Iterator[LocalFederation]:
    """The same federation, whose sites have networks, and a policy for these alone."""
    for k, name in enumerate(SITES):
        kits.prepare_site(federation.kits.sites[name], network.write(folder, k), network.POLICY)
    yield federation
    for name in SITES:
        kits.prepare_site(federation.kits.sites[name], federation.data[name], Policy.open())


def test_a_network_is_trained_by_a_command(of_networks: LocalFederation, tmp_path: Path) -> None:
    """With secure sums, certificates and mini-batches; the file is loaded without pdmm."""
    out = tmp_path / "model.safetensors"
    where = ["--kit", str(of_networks.kits.admin), "--out", str(out)]
    done = cli.invoke(app, ["federate", "submit", *where, *network.ARGUMENTS])
    assert done.exit_code == 0, done.output
    assert "sums are secure" in done.output
    found = network.model()
    found.load_state_dict(load_file(out))
    problem = network.network(range(network.CLIENTS))
    one = pdmm.solve(problem, network.METHOD, network.ROUNDS)
    expected = problem.model(one.x).state_dict()
    for name, tensor in found.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-5, rtol=0)
