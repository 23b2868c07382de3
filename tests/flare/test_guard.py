"""A hostile server, as a site's own processes see it: forged messages to FLARE's real dispatch."""

import io
import json
import os
import shutil
import uuid
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.fuel.sec.audit import AuditService
from nvflare.fuel.utils.zip_utils import zip_directory_to_bytes
from nvflare.lighter.utils import load_private_key_file, sign_folders
from nvflare.private.admin_defs import Message
from nvflare.private.defs import (
    InfoCollectorTopic,
    RequestHeader,
    SysCommandTopic,
    TrainingTopic,
    new_cell_message,
)
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.admin_commands import AdminCommands
from nvflare.private.fed.client.client_engine_internal_spec import ClientEngineInternalSpec
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from pdmm.flare import guard, kits
from pdmm.flare.job import SITE_CONFIG, write_job

pytestmark = [pytest.mark.flare]
JOB = str(uuid.uuid4())
REFUSED = ("invalid_request", "refused by this site")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> kits.Kits:
    return kits.provision(tmp_path_factory.mktemp("kits"), ["ana"])


@pytest.fixture
def doors(monkeypatch: pytest.MonkeyPatch, made: kits.Kits) -> Iterator[None]:
    """FLARE's own lists as a fresh process has them, and the site's folder as FLARE enters it."""
    monkeypatch.setenv("NVFLARE_SECURE_LOGGING", "false")
    for owner, name in (
        (ClientRequestProcessors, "request_processors"),
        (AdminCommands, "commands"),
    ):
        monkeypatch.setattr(owner, name, list(getattr(owner, name)))
    for name, answer in list(vars(NetAgent).items()):
        if name.startswith("_do_"):
            monkeypatch.setattr(NetAgent, name, answer)
    monkeypatch.chdir(made.sites["ana"])
    monkeypatch.setattr(AuditService, "the_auditor", None)
    AuditService.initialize(str(made.sites["ana"] / "audit.log"))
    yield
    AuditService.close()


class Site:
    """A site's main process, from the message on."""

    def __init__(self, kit: Path) -> None:
        self.engine = MagicMock(spec=ClientEngineInternalSpec)
        self.engine.args = MagicMock(workspace=str(kit))
        self.engine.get_client_name.return_value = "ana"
        self.engine.deploy_app.return_value = ""
        self.engine.new_context = MagicMock()
        self._agent = FedAdminAgent("admin_agent", MagicMock(), self.engine)
        for processor in ClientRequestProcessors.request_processors:
            self._agent.register_processor(processor)
        self.topics = set(self._agent.processors)

    def ask(self, topic: str, body: Any = "", **headers: Any) -> str:
        message = Message(topic, body)
        for name, value in headers.items():
            message.set_header(getattr(RequestHeader, name), value)
        return str(self._agent._dispatch_request(new_cell_message({}, message)).payload.body)


@pytest.mark.usefixtures("doors")
def test_a_forged_message_reads_no_file(made: kits.Kits) -> None:
    """Without the guard, whoever leaves out `require_authz` reads the site's private key."""
    secret = "PRIVATE KEY"
    for command in ("cat startup/client.key", "head startup/client.key", "tail startup/client.key"):
        assert secret in Site(made.sites["ana"]).ask(SysCommandTopic.SHELL, command)
    guard.CloseDoors()
    closed = Site(made.sites["ana"])
    for command in ("cat startup/client.key", "grep K startup/client.key", "ls", "pwd"):
        assert closed.ask(SysCommandTopic.SHELL, command) == "invalid_request"
        as_super = {"USER_ROLE": "super", "ADMIN_COMMAND": "cat", "REQUIRE_AUTHZ": "false"}
        assert secret not in closed.ask(SysCommandTopic.SHELL, command, **as_super)


@pytest.mark.usefixtures("doors")
def test_only_the_messages_of_a_run_are_answered(made: kits.Kits) -> None:
    guard.CloseDoors()
    guard.CloseDoors()  # a second time changes nothing
    site = Site(made.sites["ana"])
    assert site.topics == set(guard.MESSAGES)
    for topics in (SysCommandTopic, InfoCollectorTopic, TrainingTopic):
        for name, topic in vars(topics).items():
            if name.isupper() and topic not in guard.MESSAGES:
                assert site.ask(topic, JOB_ID=JOB) == "invalid_request"
    assert {each.get_command_name() for each in AdminCommands.commands} == set(guard.COMMANDS)
    assert AdminCommands.get_command("show_errors") is None
    assert os.environ["NVFLARE_SECURE_LOGGING"] == "true"


@pytest.mark.usefixtures("doors")
def test_the_networks_tool_learns_nothing() -> None:
    guard.CloseDoors()
    cell = MagicMock()
    NetAgent(cell)
    answers = {
        call.kwargs["topic"]: call.kwargs["cb"] for call in cell.register_request_cb.call_args_list
    }
    assert len(answers) > 15
    for topic in ("config_vars", "process_info", "comm_config", "change_root", "peers"):
        reply = answers[topic](MagicMock())
        assert reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.INVALID_REQUEST
        assert reply.payload is None


@pytest.mark.usefixtures("doors")
def test_a_number_of_a_job_is_no_path(made: kits.Kits) -> None:
    guard.CloseDoors()
    site = Site(made.sites["ana"])
    for job in ("local", "..", "../ana/local", f"{JOB} --set x=y", JOB.upper(), "", None, 3):
        for topic in (TrainingTopic.DELETE_RUN, TrainingTopic.START_JOB, TrainingTopic.ABORT):
            meta = {"job_id": job}
            assert "not one that FLARE gives" in site.ask(topic, JOB_ID=job, JOB_META=meta)
    site.engine.delete_run.assert_not_called()
    site.engine.start_app.assert_not_called()
    other = {"job_id": str(uuid.uuid4())}
    assert "of another job" in site.ask(TrainingTopic.START_JOB, JOB_ID=JOB, JOB_META=other)
    site.ask(TrainingTopic.DELETE_RUN, JOB_ID=JOB)
    site.engine.delete_run.assert_called_once_with(JOB)


@pytest.mark.usefixtures("doors")
def test_another_flare_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be closed keeps the site from starting."""
    with monkeypatch.context() as patch:
        patch.setattr("nvflare.__version__", "2.10.0")
        with pytest.raises(RuntimeError, match=r"NVIDIA FLARE is 2\.10\.0"):
            guard.CloseDoors()
    with monkeypatch.context() as patch:
        patch.setattr(AdminCommands, "commands", [])
        with pytest.raises(RuntimeError, match="does not know the commands"):
            guard.CloseDoors()
    with monkeypatch.context() as patch:
        patch.delattr(NetAgent, "_do_heartbeat")
        with pytest.raises(RuntimeError, match="does not know the answers"):
            guard.CloseDoors()
    with monkeypatch.context() as patch:
        patch.setattr(ClientRequestProcessors, "request_processors", [])
        with pytest.raises(RuntimeError, match="does not know the messages"):
            guard.CloseDoors()
        patch.delattr(ClientRequestProcessors, "request_processors")
        with pytest.raises(RuntimeError, match="keeps no list"):
            guard.CloseDoors()


# --- jobs ---------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The part of a job that goes to a site, not yet signed."""
    return write_job(tmp_path / "job", {"run": "r"}, "r", ["ana"]) / "site"


def _signed(job: Path, kit: Path, whose: str = "client") -> bytes:
    startup = kit / "startup"
    key = load_private_key_file(str(startup / f"{whose}.key"))
    sign_folders(str(job), key, str(startup / f"{whose}.crt"))
    return _packed(job)


def _packed(job: Path) -> bytes:
    packed: bytes = zip_directory_to_bytes(str(job), "")
    return packed


def _signatures() -> list[str]:
    return [f"{at}{name}" for at in ("", "config/") for name in (guard.SIGNATURE, guard.SIGNER)]


def _deploy(site: Site, packed: Any) -> str:
    """As a server that lies about who sent the job: `super` passes every right."""
    meta = {"job_id": JOB, "submitter_name": "x", "submitter_org": "y", "submitter_role": "super"}
    return site.ask(TrainingTopic.DEPLOY, packed, JOB_ID=JOB, JOB_META=meta, APP_NAME="site")


@pytest.mark.usefixtures("doors")
def test_a_signed_job_of_pdmm_is_taken(made: kits.Kits, job: Path) -> None:
    guard.CloseDoors()
    site = Site(made.sites["ana"])
    assert _deploy(site, _signed(job, made.admin)).startswith("deployed site")
    site.engine.deploy_app.assert_called_once()


@pytest.mark.usefixtures("doors")
def test_who_is_no_admin_signs_no_job(made: kits.Kits, job: Path, tmp_path: Path) -> None:
    """FLARE takes the signature of any certificate that the root issued, also of the server's."""
    packed = _signed(job, made.server, "server")
    assert _deploy(Site(made.sites["ana"]), packed).startswith("deployed site")  # FLARE alone
    guard.CloseDoors()
    site = Site(made.sites["ana"])
    assert "not signed by an admin" in _deploy(site, packed)
    assert "not signed by an admin" in _deploy(site, _signed(job, made.sites["ana"]))
    stranger = kits.provision(tmp_path / "other", ["ana"])
    assert "does not pass signature" in _deploy(site, _signed(job, stranger.admin))
    site.engine.deploy_app.assert_not_called()


@pytest.mark.usefixtures("doors")
def test_altered_and_unsigned_jobs_are_refused(made: kits.Kits, job: Path) -> None:
    guard.CloseDoors()
    site = Site(made.sites["ana"])
    assert "not signed by its sender" in _deploy(site, _packed(job))
    _signed(job, made.admin)
    config = job / SITE_CONFIG
    text = config.read_text()
    # the same words in other bytes: only the signature tells
    config.write_text(text + "\n")
    assert "does not pass signature verification" in _deploy(site, _packed(job))
    config.write_text(text)
    signature = config.parent / guard.SIGNATURE
    signatures = json.loads(signature.read_text())
    signature.write_text(json.dumps(dict.fromkeys(signatures, "AAAA")))
    assert "does not pass signature verification" in _deploy(site, _packed(job))
    signature.unlink()
    assert "not signed by its sender" in _deploy(site, _packed(job))
    site.engine.deploy_app.assert_not_called()


@pytest.mark.usefixtures("doors")
def test_no_job_but_pdmms_is_taken(made: kits.Kits, job: Path) -> None:
    """However well it is signed."""
    guard.CloseDoors()
    site = Site(made.sites["ana"])
    config = job / SITE_CONFIG
    text = config.read_text()
    for other in (
        text.replace("pdmm.flare.collab.Site", "pdmm.engines.sites.site.Site"),
        text.replace('"args": {}', '"args": {"more": 1}'),
        text.replace('"format_version": 2,', '"format_version": 2, "format_version": 2,'),
        "[]",
        "{",
    ):
        config.write_text(other)
        refusal = _deploy(site, _signed(job, made.admin))
        assert "is not that of pdmm" in refusal or "cannot be read" in refusal
    config.write_text(text)
    for name in ("custom/stolen.py", "config/config_fed_client.conf", "config/more.json"):
        path = job / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
        assert "brings files that no pdmm job has" in _deploy(site, _signed(job, made.admin))
        path.unlink()
    (job / "custom").mkdir(exist_ok=True)
    assert "such as 'custom/'" in _deploy(site, _signed(job, made.admin))
    shutil.rmtree(job / "custom")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _signatures():
            archive.writestr(name, " " * guard.LARGEST)
        archive.writestr(SITE_CONFIG, text)
    assert "must have at most" in _deploy(site, bomb.getvalue())
    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as archive, warnings.catch_warnings(action="ignore"):
        for name in (SITE_CONFIG, SITE_CONFIG):
            archive.writestr(name, text)
    assert "has a file twice" in _deploy(site, twice.getvalue())
    for packed in (b"", b"PK", "text", None, bytes(guard.LARGEST + 1)):
        assert any(says in _deploy(site, packed) for says in ("cannot be read", "must be packed"))
    site.engine.deploy_app.assert_not_called()


@pytest.mark.usefixtures("doors")
def test_an_operator_may_let_in_another_job(made: kits.Kits, job: Path) -> None:
    config = json.loads((job / SITE_CONFIG).read_text())
    config["components"][0]["path"] = "hospital.Other"
    (job / SITE_CONFIG).write_text(json.dumps(config))
    guard.CloseDoors(others=[config])
    site = Site(made.sites["ana"])
    assert _deploy(site, _signed(job, made.admin)).startswith("deployed site")
