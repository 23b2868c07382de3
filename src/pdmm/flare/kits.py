"""Start-up kits: made for a federation on this machine, or prepared as NVIDIA FLARE made them."""

import json
import logging
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdmm.common.whole_files import private_folder
from pdmm.flare.kit_files import read, read_json, rights, write
from pdmm.flare.names import SETTINGS
from pdmm.flare.private_errors import FOLDER
from pdmm.flare.site_data import SiteData, own_problem
from pdmm.flare.site_kit import write_policy
from pdmm.privacy.policy import Policy

log = logging.getLogger(__name__)

ORGANISATION = "pdmm"
ADMIN = "admin@pdmm.localhost"
SERVER = "localhost"  # a name of the loopback, so FLARE binds to 127.0.0.1 alone
# Of this package only what a job may name, of FLARE only what runs it. A trailing dot would let in
# a whole package.
CLASSES = {
    "server": [
        "pdmm.flare.collab.Server",
        "nvflare.collab.runtime.controller.CollabController",
    ],
    "site": [
        "pdmm.flare.collab.Site",
        "nvflare.collab.runtime.executor.CollabExecutor",
    ],
}
GUARD = "pdmm.flare.guard.CloseDoors"
OTHER_JOBS: list[dict[str, Any]] = []  # what else sites let in: a measurement adds its own
LOG_SENDERS = "nvflare.app_common.logging."
SITE_REFUSES = ("byoc", "server-predeployed-flwr", "shell_commands", "operate")
SERVER_REFUSES = ("byoc", "server-predeployed-flwr", "shell_commands")
READ_TIMEOUT = 10  # whole seconds without a further part of a message
STORAGE = "storage"  # in a server's kit
TEMPORARY = "/tmp/nvflare/"  # where FLARE's own kits keep jobs and snapshots


@dataclass(frozen=True)
class Kits:
    """The folders of the start-up kits of a federation."""

    server: Path
    sites: dict[str, Path]
    admin: Path
    port: int


def provision(folder: Path, sites: Sequence[str], port: int | None = None) -> Kits:
    """Make the start-up kits of a server, of sites and of an admin, all on this machine.

    Connections are mutually authenticated by TLS and bound to 127.0.0.1. Everything lies under
    `folder`. Without a port, a free one is chosen.
    """
    from nvflare.lighter.entity import Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.signature import SignatureBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    if not sites or len(set(sites)) < len(sites):
        raise ValueError(f"sites={list(sites)}: must be at least one name, none of them twice")
    port = port or _free_port()
    project = Project("pdmm", "pdmm on one machine", props={"api_version": 3})
    project.set_server(SERVER, ORGANISATION, {"fed_learn_port": port, "admin_port": port})
    for site in sites:
        project.add_client(site, organisation_of(site), {})
    project.add_admin(ADMIN, ORGANISATION, {"role": "project_admin"})
    builders = [
        WorkspaceBuilder(template_file=["master_template.yml"]),
        StaticFileBuilder(config_folder="config", scheme="grpc", require_signed_jobs=True),
        CertBuilder(),
        SignatureBuilder(),
    ]
    notes = _Notes()
    context = Provisioner(str(folder), builders).provision(project, logger=notes)
    made = context.get("current_prod_dir")
    if not made or context.get("__build_error__"):
        raise RuntimeError("FLARE could not provision:\n" + "\n".join(notes.problems))
    root = Path(made)
    log.info("provisioned a server and %d sites in %s, port %d", len(sites), root, port)
    kits = {site: root / site for site in sites}
    return Kits(server=root / SERVER, sites=kits, admin=root / ADMIN, port=port)


def organisation_of(site: str) -> str:
    """Each site of a federation on this machine is an organisation of its own."""
    return re.sub(r"[^A-Za-z0-9_]", "_", site)


def prepare_site(kit: Path, data: str | SiteData, policy: Path | Policy | None = None) -> list[str]:
    """Prepare a site's start-up kit: what it has, and that it runs pdmm's jobs alone.

    May be repeated; what else the site has set stays as it is. Returns the classes that the site
    had allowed beside FLARE's own, and that it allows no more.

    Args:
        kit: the start-up kit.
        data: a table, or a problem; as a text, `module:function` or `/folder/file.py:function`, a
            function without arguments that makes the site's problem.
        policy: what the site allows, or the file of it. If not given, the policy that is there
            stays, and the default one is written where there is none.
    """
    kit = _checked(kit, "fed_client.json", "site")
    held = own_problem(data) if isinstance(data, str) else data
    held.check()
    write_policy(kit, policy)
    resources, removed = _allow(kit, "site")
    _close_doors(resources)
    removed += _stream_no_logs(resources)
    # seconds between two attempts to sign in: the first often comes before the connection stands
    resources.setdefault("client", {}).setdefault("client_register_interval", 0.25)
    _require_signatures(kit, "fed_client.json")
    write(kit / "local" / "resources.json", resources)
    _refuse(kit, SITE_REFUSES)
    _bound_reading(kit)
    write(kit / "local" / SETTINGS, held.settings())
    (kit / "local" / SETTINGS).chmod(0o600)
    private_folder(kit / FOLDER)
    log.info("prepared %s, the kit of a site: %s", kit, held.words)
    return removed


def prepare_server(kit: Path) -> list[str]:
    """Prepare a server's start-up kit, so that it runs pdmm's jobs, and none that bring code.

    Jobs and snapshots are kept in the kit's folder, if FLARE would keep them in the system's
    temporary one. May be repeated. Returns the classes that the server had allowed beside FLARE's
    own, and that it allows no more.
    """
    kit = _checked(kit, "fed_server.json", "server")
    resources, removed = _allow(kit, "server")
    text = json.dumps(resources).replace(TEMPORARY, f"{kit.resolve()}/{STORAGE}/")
    resources = json.loads(text)
    for component in resources.get("components", []):
        if component.get("id") == "job_scheduler":
            # FLARE looks again for a missing site after 10, 20, 40 ... seconds, ten times
            arguments = component.setdefault("args", {})
            arguments.setdefault("min_schedule_interval", 1.0)
            arguments.setdefault("max_schedule_interval", 10.0)
            arguments.setdefault("max_schedule_count", 1000)
    _require_signatures(kit, "fed_server.json")
    write(kit / "local" / "resources.json", resources)
    private_folder(kit / STORAGE)  # FLARE keeps models there, in files that anybody may read
    _refuse(kit, SERVER_REFUSES)
    _bound_reading(kit)
    # checkpoints: the model, and what it takes to go on
    private_folder(kit / FOLDER)
    log.info("prepared %s, the kit of a server", kit)
    return removed


def _checked(kit: Path, mark: str, whose: str) -> Path:
    kit = Path(kit)
    if not (kit / "startup" / mark).is_file() or not (kit / "local").is_dir():
        raise ValueError(
            f"kit={str(kit)!r} is not the start-up kit of a {whose}: it must be a folder with "
            f"startup/{mark} and local/, as `nvflare provision` makes it"
        )
    return kit


def _allow(kit: Path, whose: str) -> tuple[dict[str, Any], list[str]]:
    """The node's settings where a job may name pdmm's classes alone; the others that it could."""
    from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST

    resources = read(kit, "resources.json")
    had = resources.get("class_allow_list", [])
    known = {*DEFAULT_CLASS_ALLOW_LIST, *CLASSES[whose]}
    resources["class_allow_list"] = list(CLASSES[whose])
    # else FLARE would only warn of a class that is not in the list
    resources["class_list_enforcement_mode"] = "enforce"
    return resources, [name for name in had if name not in known]


def _close_doors(resources: dict[str, Any]) -> None:
    """Have the site's processes begin with the component that leaves them pdmm's jobs alone."""
    components = resources.setdefault("components", [])
    components[:] = [each for each in components if each.get("path") != GUARD]
    arguments = {"others": OTHER_JOBS} if OTHER_JOBS else {}
    components.insert(0, {"id": "pdmm_guard", "path": GUARD, "args": arguments})


def _stream_no_logs(resources: dict[str, Any]) -> list[str]:
    """Take out what sends the site's logs to the server: they may quote the site's data."""
    resources["allow_log_streaming"] = False
    components = resources["components"]
    removed = [each for each in components if str(each.get("path")).startswith(LOG_SENDERS)]
    components[:] = [each for each in components if each not in removed]
    # every kit of FLARE 2.9 has the first one, and nobody put it there deliberately
    return [each["path"] for each in removed if each.get("id") != "site_log_streamer"]


def _require_signatures(kit: Path, name: str) -> None:
    """Have FLARE refuse jobs that are not signed, whatever else it would infer."""
    path = kit / "startup" / name
    config = read_json(path)
    if config.get("require_signed_jobs") is True:
        return
    if (kit / "startup" / "signature.json").exists():
        raise ValueError(
            f"{path} does not say that jobs must be signed, and cannot be changed here, since it "
            "is signed itself: have the kit provisioned with `require_signed_jobs: true` among "
            "the arguments of StaticFileBuilder"
        )
    write(path, {**config, "require_signed_jobs": True})


def _bound_reading(kit: Path) -> None:
    """Let a message that stops half-way be given up soon, not after FLARE's five minutes.

    Until then the job at the server could not end after a site was killed in mid-reply.
    """
    path = kit / "local" / "comm_config.json"
    config = read(kit, path.name) if path.is_file() else {}
    config.setdefault("streaming_read_timeout", READ_TIMEOUT)
    write(path, config)


def _refuse(kit: Path, refused: Sequence[str]) -> None:
    """Take rights from every role, above all that of bringing code, which evades the class list."""
    policy = read(kit, "authorization.json")
    roles = policy["permissions"]
    for name, role in roles.items():
        # "any" for a role means every right: then each must be named to take one away
        each = role if isinstance(role, dict) else dict.fromkeys(rights(), role)
        roles[name] = {**each, **dict.fromkeys(refused, "none")}
        # who may manage a job may also ask how far it is
        if "manage_job" in each:
            roles[name].setdefault("app_command", each["manage_job"])
    write(kit / "local" / "authorization.json", policy)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class _Notes:
    """Takes what FLARE would print, and keeps what matters."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def debug(self, *words: object) -> None: ...

    def info(self, *words: object) -> None: ...

    def warning(self, *words: object) -> None:
        self.problems.append(" ".join(map(str, words)))

    error = warning
