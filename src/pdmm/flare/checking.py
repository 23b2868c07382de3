"""Which doors of a prepared kit are closed: one line for each, for its operator to sign."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from stat import S_IMODE
from typing import Any, NamedTuple

from pdmm.flare import kit_certificates as certificates
from pdmm.flare.kit_files import read, read_json
from pdmm.flare.kits import CLASSES, GUARD, LOG_SENDERS, SERVER_REFUSES, SITE_REFUSES
from pdmm.flare.names import POLICY, SETTINGS
from pdmm.flare.private_errors import FILE, FOLDER
from pdmm.flare.site_kit import held_by
from pdmm.privacy.policy import Policy

# What FLARE's own kits of a site begin with; whatever else is there runs beside every job.
COMPONENTS = {
    GUARD,
    "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
    "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
    "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher",
}
SHARED_CODE = Path("/local/custom")
GROUP_OR_OTHERS = 0o077
WRITE_BY_OTHERS = 0o022
STICKY = 0o1000


class Item(NamedTuple):
    """One door: whether it is closed, what was found, and what closes it."""

    name: str
    closed: bool
    found: str
    remedy: str


Look = Callable[[Path], tuple[bool, str]]  # at a kit: whether a door is closed, and what was found


class Door(NamedTuple):
    """What is looked at, and what to do if it is open."""

    name: str
    look: Look
    remedy: str


def look(kit: Path) -> list[Item]:
    """Look at every door of the kit of a site or of a server."""
    kit = Path(kit)
    items = []
    for door in _doors(kit):
        try:
            closed, found = door.look(kit)
        except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
            closed, found = False, f"cannot be read: {error}"
        items.append(Item(door.name, closed, found, door.remedy))
    return items


def _doors(kit: Path) -> Sequence[Door]:
    if (kit / "startup" / "fed_client.json").is_file():
        return SITE
    if (kit / "startup" / "fed_server.json").is_file():
        return SERVER
    raise ValueError(
        f"kit={str(kit)!r} is not the start-up kit of a site or of a server: it must be a folder "
        "with startup/fed_client.json or startup/fed_server.json, as `nvflare provision` makes it"
    )


# --- what is looked at ------------------------------------------------------------------------


def _chain(kit: Path, whose: str) -> tuple[bool, str]:
    return certificates.chain(kit / "startup", whose)


def _signed_files(kit: Path) -> tuple[bool, str]:
    return certificates.signed_files(kit / "startup")


def _key(kit: Path, whose: str) -> tuple[bool, str]:
    return _private(kit / "startup" / f"{whose}.key")


def _classes(kit: Path, whose: str) -> tuple[bool, str]:
    allowed = read(kit, "resources.json").get("class_allow_list")
    if allowed is None:
        return False, "there is no class_allow_list, so FLARE allows its own ones"
    more = [name for name in allowed if name not in CLASSES[whose]]
    if more:
        return False, f"class_allow_list has {len(more)} more than a pdmm run needs: {more[0]} ..."
    return True, f"class_allow_list has {', '.join(allowed)}"


def _enforced(kit: Path) -> tuple[bool, str]:
    mode = read(kit, "resources.json").get("class_list_enforcement_mode")
    return mode == "enforce", f"class_list_enforcement_mode is {mode!r}"


def _guard(kit: Path) -> tuple[bool, str]:
    found = [each for each in _components(kit) if each.get("path") == GUARD]
    if not found:
        return False, f"no component of local/resources.json is {GUARD}"
    others = (found[0].get("args") or {}).get("others")
    if others:
        return False, f"{GUARD} lets in {len(others)} jobs that are not pdmm's"
    return True, f"{GUARD} is there, and lets in pdmm's own jobs"


def _other_components(kit: Path) -> tuple[bool, str]:
    paths = [str(each.get("path") or each.get("name")) for each in _components(kit)]
    more = [path for path in paths if path not in COMPONENTS and not path.startswith(LOG_SENDERS)]
    return not more, f"beside FLARE's own there are {', '.join(more) or 'none'}"


def _more_settings(kit: Path) -> tuple[bool, str]:
    found = [path for at in ("startup", "local") for path in (kit / at).glob("*__*resources.json")]
    names = ", ".join(str(path.relative_to(kit)) for path in sorted(found))
    return not found, names or "no other file adds to local/resources.json"


def _own_code(kit: Path) -> tuple[bool, str]:
    # FLARE looks for modules in both: the first is its own idea, the second that of its start.sh
    found = [str(path) for path in (kit / "local" / "custom", SHARED_CODE) if path.exists()]
    return not found, f"there is {' and '.join(found) or 'no local/custom and no /local/custom'}"


def _signed_jobs(kit: Path, name: str) -> tuple[bool, str]:
    value = read_json(kit / "startup" / name).get("require_signed_jobs")
    return value is True, f"require_signed_jobs in startup/{name} is {json.dumps(value)}"


def _rights(kit: Path, refused: Sequence[str]) -> tuple[bool, str]:
    roles = read(kit, "authorization.json")["permissions"]
    granted = sorted(
        f"{name} ({right})"
        for name, role in roles.items()
        for right in refused
        if _granted(role, right)
    )
    return (
        not granted,
        f"it is granted to {', '.join(granted)}" if granted else "none for each role",
    )


def _granted(role: Any, right: str) -> bool:
    # one word for a role is its answer to every right
    answer = role.get(right, "none") if isinstance(role, dict) else role
    return bool(answer != "none")


def _log_streaming(kit: Path) -> tuple[bool, str]:
    value = read(kit, "resources.json").get("allow_log_streaming")
    return value is False, f"allow_log_streaming is {json.dumps(value)}"


def _log_senders(kit: Path) -> tuple[bool, str]:
    paths = [str(each.get("path")) for each in _components(kit)]
    found = [path for path in paths if path.startswith(LOG_SENDERS)]
    return not found, f"the components that send logs or errors are {', '.join(found) or 'none'}"


def _data(kit: Path) -> tuple[bool, str]:
    return _unchangeable(kit / "local" / SETTINGS)


def _data_file(kit: Path) -> tuple[bool, str]:
    held = held_by(kit)
    path = held.file
    if path is None:
        return False, f"{held.words} cannot be found"
    return _unchangeable(path)


def _settings(kit: Path) -> tuple[bool, str]:
    apart = {kit / "local" / SETTINGS, kit / "local" / POLICY}  # each has a door of its own
    for folder in (kit / "startup", kit / "local"):
        for path in (folder, *sorted(folder.iterdir())):
            closed, found = (True, "") if path in apart else _unchangeable(path)
            if not closed:
                return False, found
    return True, f"only {(kit / 'local').owner()} can write startup/, local/ and their files"


def _policy(kit: Path) -> tuple[bool, str]:
    path = kit / "local" / POLICY
    if not path.exists():
        return True, f"there is no local/{POLICY}: pdmm's default policy holds"
    Policy.read(path)
    closed, found = _unchangeable(path)
    return closed, f"local/{POLICY} can be read; {found}"


def _errors(kit: Path) -> tuple[bool, str]:
    folder = kit / FOLDER
    if not folder.is_dir():
        return False, f"there is no folder {FOLDER}"
    closed, found = _private(folder)
    if not closed or not (folder / FILE).exists():
        return closed, found
    return _private(folder / FILE)


# --- how --------------------------------------------------------------------------------------


def _components(kit: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(kit, "resources.json").get("components", [])
    return found


def _private(path: Path) -> tuple[bool, str]:
    mode = S_IMODE(path.stat().st_mode)
    return not mode & GROUP_OR_OTHERS, f"{path.name} has mode {mode:o}"


def _unchangeable(path: Path) -> tuple[bool, str]:
    """Whether only its owner can change a file, or put another in its place."""
    path = path.resolve()
    for each in (path, *path.parents):
        mode = S_IMODE(each.stat().st_mode)
        kept = each != path and mode & STICKY  # as /tmp, where nobody replaces what is another's
        if mode & WRITE_BY_OTHERS and not kept:
            return False, f"{each} can be written by other accounts: its mode is {mode:o}"
    return True, f"only {path.owner()} can write {path}"


# --- all doors --------------------------------------------------------------------------------

_PREPARE_SITE = "prepare the kit again: pdmm federate site"
_PREPARE_SERVER = "prepare the kit again: pdmm federate server"
_RIGHTS = "in local/authorization.json set it to none for each role, or "


def _common(whose: str, startup: str, prepare: str) -> list[Door]:
    key = "client" if whose == "site" else "server"
    return [
        Door(
            "certificate",
            partial(_chain, whose=key),
            "ask who provisioned the kit for a new one, and for rootCA.pem by another way",
        ),
        Door(
            "files signed by the root", _signed_files, "restore the files as they were handed over"
        ),
        Door("private key", partial(_key, whose=key), f"chmod 600 startup/{key}.key"),
        Door(
            "who can change the kit",
            _settings,
            "chmod -R go-w the kit's folder, or move it to where only its account can write",
        ),
        Door("classes that a job may name", partial(_classes, whose=whose), prepare),
        Door("class list is enforced", _enforced, prepare),
        Door("signed jobs", partial(_signed_jobs, name=startup), prepare),
        Door("no code of its own", _own_code, "remove it: FLARE would import code from there"),
        Door(
            "no further settings",
            _more_settings,
            "see what these files add; remove them, or have the kit provisioned without them",
        ),
    ]


def _right(right: str, prepare: str) -> Door:
    return Door(f"right {right}", partial(_rights, refused=[right]), _RIGHTS + prepare)


SITE: Sequence[Door] = (
    *_common("site", "fed_client.json", _PREPARE_SITE),
    Door("guard", _guard, _PREPARE_SITE),
    Door(
        "other components",
        _other_components,
        "remove them from local/resources.json, unless you know what each does with your data",
    ),
    *(_right(right, _PREPARE_SITE) for right in SITE_REFUSES),
    Door("log streaming", _log_streaming, _PREPARE_SITE),
    Door("sending of errors", _log_senders, _PREPARE_SITE),
    Door("who names the data", _data, f"chmod 600 local/{SETTINGS}"),
    Door(
        "who can change the data",
        _data_file,
        "chmod go-w the file of the table, or that makes the problem, and its folder",
    ),
    Door("policy", _policy, f"correct local/{POLICY}, and chmod go-w it"),
    Door("errors of the site", _errors, f"{_PREPARE_SITE}; chmod 600 {FOLDER}/{FILE}"),
)
SERVER: Sequence[Door] = (
    *_common("server", "fed_server.json", _PREPARE_SERVER),
    *(_right(right, _PREPARE_SERVER) for right in SERVER_REFUSES),
    Door("checkpoints", _errors, f"{_PREPARE_SERVER}; chmod 700 {FOLDER}"),
)
