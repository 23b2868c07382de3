"""A job as FLARE takes it: a folder of JSON that names classes of this package, and no code."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pdmm
from pdmm.flare.collab import run_name
from pdmm.flare.names import SETTINGS

SYNC = 30.0  # seconds that the sites' processes of a job are given to start and to report
SITE_CONFIG = "config/config_fed_client.json"  # in the part of a job that goes to a site
RUN = "run"  # the kind of a job that runs a method
SUMMARY = "pdmm"  # in the description of a job, beside what FLARE writes there
TOLD = (
    *("rounds", "more_rounds", "tolerance", "verify", "secure", "absent", "every"),
    *("timeout", "patience"),
)
POLL = 0.5  # seconds between two looks of a site at whether its job has begun or ended


def write_job(
    folder: Path,
    settings: dict[str, Any],
    name: str,
    sites: Sequence[str],
) -> Path:
    """Write the folder of a job that runs with these settings at these sites."""
    run_name(settings)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", name):
        raise ValueError(f"name={name!r}: must be up to 61 letters, digits, '_' and '-'")
    _write(
        folder / "meta.json",
        {
            "name": name,
            "resource_spec": {},
            "min_clients": len(sites),
            "mandatory_clients": list(sites),
            "deploy_map": {"server": ["server"], "site": list(sites)},
            SUMMARY: summary(settings),
        },
    )
    config = folder / "server" / "config"
    # a file of its own: FLARE would take some settings for components or for its variables
    _write(config / SETTINGS, settings)
    _write(
        config / "config_fed_server.json",
        {
            "format_version": 2,
            "server": {"task_request_interval": POLL},
            "workflows": [
                {
                    "id": "controller",
                    "path": "nvflare.collab.runtime.controller.CollabController",
                    "args": {"server_obj_id": "_server", "sync_task_timeout": SYNC},
                }
            ],
            "components": [
                {"id": "_server", "path": "pdmm.flare.collab.Server", "args": {}},
            ],
        },
    )
    _write(folder / "site" / SITE_CONFIG, site_config())
    return folder


def summary(settings: dict[str, Any]) -> dict[str, Any]:
    """What everybody who sees a job may know of it: the kind of thing it does, and how much."""
    method = settings.get("method")
    return {
        "kind": settings.get("kind") or RUN,
        "method": method.get("class") if isinstance(method, dict) else method,
        "resumed": bool(settings.get("resume")),
        "pdmm": pdmm.__version__,
        **{name: settings[name] for name in TOLD if settings.get(name) is not None},
    }


def site_config() -> dict[str, Any]:
    """What a job says to every site. A site takes these very words, and no others."""
    return {
        "format_version": 2,
        "default_task_fetch_interval": POLL,
        "executors": [
            {
                "tasks": ["*"],
                "executor": {
                    "id": "executor",
                    "path": "nvflare.collab.runtime.executor.CollabExecutor",
                    "args": {"client_obj_id": "_client"},
                },
            }
        ],
        "components": [
            {"id": "_client", "path": "pdmm.flare.collab.Site", "args": {}},
        ],
    }


def _write(path: Path, contents: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(contents, indent=2), encoding="utf-8")
