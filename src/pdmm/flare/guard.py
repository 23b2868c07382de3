"""What a site's process answers to the server of a federation: the messages of a pdmm run alone.

FLARE checks `local/authorization.json` at a site only if the server's message asks for it. So the
file binds the admins of an honest server, and nobody else. What a site must never do is therefore
taken out of its processes before they are connected.
"""

import io
import json
import os
import uuid
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import RequestHeader, TrainingTopic
from nvflare.private.fed.client.admin import RequestProcessor

from pdmm.flare.job import SITE_CONFIG, site_config

FLARE = "2.9"  # the version whose doors are known
# What the server asks of a site's main process in a run: to take a job, start it and end it. The
# rest (files, settings, memory, logs, restarts) is not for the server to ask.
MESSAGES = (
    TrainingTopic.CHECK_RESOURCE,
    TrainingTopic.CANCEL_RESOURCE,
    TrainingTopic.DEPLOY,
    TrainingTopic.START_JOB,
    TrainingTopic.NOTIFY_JOB_STATUS,
    TrainingTopic.ABORT,
    TrainingTopic.DELETE_RUN,
)
# What FLARE's tool for looking into a network may ask of a process; it could ask for settings too.
NETWORK = ("_do_stop", "_do_stop_cell", "_do_heartbeat")
COMMANDS = ("check_status", "abort", "shutdown")  # what the main process tells the job's process
SIGNATURE = ".__nvfl_sig.json"
SIGNER = ".__nvfl_submitter.crt"
# What FLARE's certificates of servers and sites say in the place of a role, if they say anything.
NODES = ("", "server", "client", "site", "relay")
LARGEST = 1_000_000  # bytes of a job that holds a page of JSON and two certificates

Check = Callable[[Message], str]  # why a message is refused, or nothing


class CloseDoors:
    """Leaves a site's processes nothing to do but pdmm's own jobs; named in `resources.json`.

    FLARE makes it before a process connects to anyone, and does not start without it.

    Args:
        others: contents of `config_fed_client.json` of other jobs that the site lets in too.
    """

    def __init__(self, others: Sequence[dict[str, Any]] = ()) -> None:
        _known_version()
        allowed = [site_config(), *others]
        _close_main_process(lambda message: _why_not(message, allowed))
        _close_job_process()
        _close_network_tool()
        # FLARE's own notes on errors then have the kind of an error, and not its text; set last, so
        # that it can say what was wrong above
        os.environ["NVFLARE_SECURE_LOGGING"] = "true"


class Checked(RequestProcessor):  # type: ignore[misc]  # FLARE has no types
    """Does what FLARE does with a message, unless a check says why not."""

    def __init__(self, inner: RequestProcessor, check: Check) -> None:
        self._inner = inner
        self._check = check

    def get_topics(self) -> list[str]:
        topics: list[str] = self._inner.get_topics()
        return topics

    def process(self, req: Message, app_ctx: Any) -> Message:
        refusal = self._check(req)
        if refusal:
            return error_reply(f"refused by this site: {refusal}")
        return self._inner.process(req, app_ctx)


def _known_version() -> None:
    import nvflare

    if not nvflare.__version__.startswith(f"{FLARE}."):
        raise RuntimeError(
            f"NVIDIA FLARE is {nvflare.__version__}, and pdmm knows the doors of {FLARE} alone: "
            f"install nvflare {FLARE}, or a pdmm that knows this one"
        )


def _close_main_process(check: Check) -> None:
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    processors = _list_of(ClientRequestProcessors, "request_processors")
    kept = [each for each in processors if set(each.get_topics()) <= set(MESSAGES)]
    missing = set(MESSAGES).difference(*(each.get_topics() for each in kept))
    if missing:
        raise RuntimeError(f"this NVIDIA FLARE does not know the messages {sorted(missing)}")
    # in place, for FLARE may hold the list already
    processors[:] = [e if isinstance(e, Checked) else Checked(e, check) for e in kept]


def _close_job_process() -> None:
    from nvflare.private.fed.client.admin_commands import AdminCommands

    commands = _list_of(AdminCommands, "commands")
    kept = [each for each in commands if each.get_command_name() in COMMANDS]
    if len(kept) < len(COMMANDS):
        raise RuntimeError(f"this NVIDIA FLARE does not know the commands {COMMANDS}")
    commands[:] = kept


def _close_network_tool() -> None:
    from nvflare.fuel.f3.cellnet.net_agent import NetAgent

    answers = [name for name in vars(NetAgent) if name.startswith("_do_")]
    if not set(NETWORK) < set(answers):
        raise RuntimeError(f"this NVIDIA FLARE does not know the answers {NETWORK}")
    for name in answers:
        if name not in NETWORK:
            setattr(NetAgent, name, _no_answer)


def _no_answer(agent: Any, request: Any) -> Any:
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    return make_reply(ReturnCode.INVALID_REQUEST)


def _list_of(owner: type, name: str) -> list[Any]:
    found = getattr(owner, name, None)
    if not isinstance(found, list):
        raise RuntimeError(
            f"this NVIDIA FLARE keeps no list {owner.__name__}.{name}, whose doors pdmm closes: "
            f"install nvflare {FLARE}"
        )
    return found


def _why_not(message: Message, allowed: Sequence[dict[str, Any]]) -> str:
    if message.topic == TrainingTopic.CANCEL_RESOURCE:
        return ""  # FLARE names no job here
    job = message.get_header(RequestHeader.JOB_ID)
    if not _is_job(job):
        return "the number of the job is not one that FLARE gives"
    if message.topic not in (TrainingTopic.DEPLOY, TrainingTopic.START_JOB):
        return ""
    meta = message.get_header(RequestHeader.JOB_META)
    if not isinstance(meta, dict) or meta.get("job_id") != job:
        return "the job's description is that of another job"
    if message.topic == TrainingTopic.DEPLOY:
        return why_not_job(message.body, allowed)
    return ""


def _is_job(job: object) -> bool:
    """Whether this is a number of a job; anything else might be a path or an option."""
    if not isinstance(job, str):
        return False
    try:
        return str(uuid.UUID(job)) == job
    except ValueError:
        return False


def why_not_job(packed: object, allowed: Sequence[dict[str, Any]]) -> str:
    """Why a site refuses a job's files; nothing, if it takes them.

    A job is one page of JSON, which must be one of those allowed, and the signatures of its sender.
    FLARE verifies the signatures that are there; here they have to be there, and to be an admin's.
    """
    if not isinstance(packed, bytes) or len(packed) > LARGEST:
        return f"a job must be packed in at most {LARGEST:,} bytes"
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            names = archive.namelist()
            wrong = _wrong_names(names)
            if wrong:
                return wrong
            if sum(info.file_size for info in archive.infolist()) > LARGEST:
                return f"a job must have at most {LARGEST:,} bytes"
            config = json.loads(archive.read(SITE_CONFIG), object_pairs_hook=_once)
            signers = [archive.read(name) for name in names if name.endswith(SIGNER)]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError):
        return "the job cannot be read"
    if config not in allowed:
        return f"{SITE_CONFIG} is not that of pdmm: the site runs nothing else, whoever asks"
    if not all(map(_has_role, signers)):
        return "the job is not signed by an admin, but by the server or by a site"
    return ""


def _wrong_names(names: list[str]) -> str:
    folder = SITE_CONFIG.rpartition("/")[0]
    signatures = {name for at in ("", f"{folder}/") for name in (f"{at}{SIGNATURE}", at + SIGNER)}
    if len(set(names)) < len(names):
        return "the job has a file twice"
    if SITE_CONFIG not in names:
        return f"the job has no {SITE_CONFIG}"
    more = sorted(set(names) - signatures - {SITE_CONFIG, f"{folder}/"})
    if more:
        return f"the job brings files that no pdmm job has, such as {more[0]!r}"
    if not signatures <= set(names):
        return "the job is not signed by its sender"
    return ""


def _has_role(signer: bytes) -> bool:
    """Whether a certificate is that of an admin: no other has an admin's role.

    FLARE 2.9 sees to it that the root has issued the certificate, which it does for servers too.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    certificates = x509.load_pem_x509_certificates(signer)
    if len(certificates) != 1:  # nothing between an admin and the root
        return False
    role = certificates[0].subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
    return bool(role) and role[0].value not in NODES


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice")
    return made
