"""Start-up kits: made for a federation on this machine, or prepared as NVIDIA FLARE made them."""

import json
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdmm import Problem
from pdmm.common.whole_files import private_folder, write_whole
from pdmm.flare.collab import SETTINGS
from pdmm.flare.site_problem import absolute, load

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
        project.add_client(site, ORGANISATION, {})
    project.add_admin(ADMIN, ORGANISATION, {"role": "project_admin"})
    builders = [
        WorkspaceBuilder(template_file=["master_template.yml"]),
        StaticFileBuilder(config_folder="config", scheme="grpc"),
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


def tried_problem(problem: str) -> Problem:
    """Make a site's problem once, to see that it can be made."""
    found = load(problem)()
    if not isinstance(found, Problem):
        kind = type(found).__name__
        raise ValueError(f"{problem} must return a pdmm problem, and returns a {kind}")
    return found


def prepare_site(kit: Path, problem: str) -> None:
    """Prepare a site's start-up kit: which problem it holds, and that jobs may bring no code.

    `problem` is `module:function` or `/folder/file.py:function`, a function without arguments that
    makes the site's problem. May be repeated; what else the site has set stays as it is.
    """
    kit = _checked(kit, "fed_client.json", "site")
    problem = absolute(problem)
    load(problem)
    resources = _allow(kit, "site")
    # FLARE would send what the site logs as errors to the server; it may quote the site's data
    resources["allow_log_streaming"] = False
    # seconds between two attempts to sign in: the first often comes before the connection stands
    resources.setdefault("client", {}).setdefault("client_register_interval", 0.25)
    _write(kit / "local" / "resources.json", resources)
    _refuse_code(kit)
    _bound_reading(kit)
    _write(kit / "local" / SETTINGS, {"problem": problem})
    log.info("prepared %s, the kit of a site whose problem is %s", kit, problem)


def prepare_server(kit: Path) -> None:
    """Prepare a server's start-up kit, so that it may run pdmm's jobs, and none that bring code.

    Jobs and snapshots are kept in the kit's folder, if FLARE would keep them in the system's
    temporary one. May be repeated.
    """
    kit = _checked(kit, "fed_server.json", "server")
    resources = _allow(kit, "server")
    text = json.dumps(resources).replace(TEMPORARY, f"{kit.resolve()}/{STORAGE}/")
    resources = json.loads(text)
    for component in resources.get("components", []):
        if component.get("id") == "job_scheduler":
            # FLARE looks again for a missing site after 10, 20, 40 ... seconds, ten times
            arguments = component.setdefault("args", {})
            arguments.setdefault("min_schedule_interval", 1.0)
            arguments.setdefault("max_schedule_interval", 10.0)
            arguments.setdefault("max_schedule_count", 1000)
    _write(kit / "local" / "resources.json", resources)
    private_folder(kit / STORAGE)  # FLARE keeps models there, in files that anybody may read
    _refuse_code(kit)
    _bound_reading(kit)
    log.info("prepared %s, the kit of a server", kit)


def _checked(kit: Path, mark: str, whose: str) -> Path:
    kit = Path(kit)
    if not (kit / "startup" / mark).is_file() or not (kit / "local").is_dir():
        raise ValueError(
            f"kit={str(kit)!r} is not the start-up kit of a {whose}: it must be a folder with "
            f"startup/{mark} and local/, as `nvflare provision` makes it"
        )
    return kit


def _allow(kit: Path, whose: str) -> dict[str, Any]:
    """Add what a pdmm job names to the classes that this node lets a job name."""
    resources = _read(kit, "resources.json")
    allowed = resources.setdefault("class_allow_list", [])
    resources["class_allow_list"] = allowed + [c for c in CLASSES[whose] if c not in allowed]
    # else FLARE would only warn of a class that is not in the list
    resources["class_list_enforcement_mode"] = "enforce"
    return resources


def _bound_reading(kit: Path) -> None:
    """Let a message that stops half-way be given up soon, not after FLARE's five minutes.

    Until then the job at the server could not end after a site was killed in mid-reply.
    """
    path = kit / "local" / "comm_config.json"
    config = _read(kit, path.name) if path.is_file() else {}
    config.setdefault("streaming_read_timeout", READ_TIMEOUT)
    _write(path, config)


def _refuse_code(kit: Path) -> None:
    """Take from every role the right to bring code with a job; such code evades the class list."""
    policy = _read(kit, "authorization.json")
    roles = policy["permissions"]
    for name, role in roles.items():
        # "any" for a role means every right: then each must be named to take one away
        each = role if isinstance(role, dict) else dict.fromkeys(_rights(), role)
        roles[name] = {**each, "byoc": "none"}
        # who may manage a job may also ask how far it is
        if "manage_job" in each:
            roles[name].setdefault("app_command", each["manage_job"])
    _write(kit / "local" / "authorization.json", policy)


def _rights() -> list[str]:
    """Every right that FLARE knows: categories of commands, and the commands in none of them."""
    from nvflare.apis.fl_constant import AdminCommandNames
    from nvflare.security.security import COMMAND_CATEGORIES

    values = vars(AdminCommandNames).items()
    commands = {value for key, value in values if key.isupper() and isinstance(value, str)}
    single = commands - set(COMMAND_CATEGORIES)
    return sorted(single | set(COMMAND_CATEGORIES.values()) | {"submit_job", "clone_job"})


def _read(kit: Path, name: str) -> dict[str, Any]:
    """A setting of the node: its own if there is one, else FLARE's default."""
    for path in (kit / "local" / name, kit / "local" / f"{name}.default"):
        if path.is_file():
            try:
                found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{path} is not JSON: {error}") from error
            return found
    raise ValueError(f"kit={str(kit)!r} has neither local/{name} nor local/{name}.default")


def _write(path: Path, contents: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(contents, indent=2) + "\n").encode())


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
