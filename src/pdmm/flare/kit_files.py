"""The settings in a start-up kit: read as FLARE reads them, and written whole."""

import json
from pathlib import Path
from typing import Any

from pdmm.common.whole_files import write_whole


def read(kit: Path, name: str) -> dict[str, Any]:
    """A setting of the node: its own if there is one, else FLARE's default."""
    for path in (kit / "local" / name, kit / "local" / f"{name}.default"):
        if path.is_file():
            return read_json(path)
    raise ValueError(f"kit={str(kit)!r} has neither local/{name} nor local/{name}.default")


def read_json(path: Path) -> dict[str, Any]:
    """The contents of a file that must be JSON."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold names and values, and holds {type(found).__name__}")
    return found


def write(path: Path, contents: dict[str, Any]) -> None:
    """Write a setting, so that it is there whole or not at all."""
    write_whole(path, (json.dumps(contents, indent=2) + "\n").encode())


def rights() -> list[str]:
    """Every right that FLARE knows: categories of commands, and the commands in none of them."""
    from nvflare.apis.fl_constant import AdminCommandNames
    from nvflare.security.security import COMMAND_CATEGORIES

    values = vars(AdminCommandNames).items()
    commands = {value for key, value in values if key.isupper() and isinstance(value, str)}
    single = commands - set(COMMAND_CATEGORIES)
    return sorted(single | set(COMMAND_CATEGORIES.values()) | {"submit_job", "clone_job"})


def is_admin(kit: Path) -> bool:
    """Whether it is the start-up kit of an admin."""
    return (Path(kit) / "startup" / "fed_admin.json").is_file()
