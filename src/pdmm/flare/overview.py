"""How a federation stands: its server, who is connected, and how the runs are."""

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pdmm.flare.admin import STALE, Admin
from pdmm.flare.job import SUMMARY
from pdmm.flare.job_status import Status
from pdmm.flare.model_files import read_model
from pdmm.flare.runs import RunError
from pdmm.flare.server_run import MODEL

MOST = 20  # runs that are shown; the newest


@dataclass(frozen=True)
class Party:
    """A site, as the server knows it."""

    name: str
    connected: bool
    seen: float | None
    """When it was heard of last, in seconds since 1970."""
    organisation: str = ""
    """Known while it takes part in a run."""


@dataclass(frozen=True)
class RunState:
    """A run, and how it stands."""

    name: str
    owner: str
    kind: str
    """"run", or another kind of question to the sites."""
    method: str
    began: float | None
    """When it was submitted, in seconds since 1970; the last time, if it was taken up again."""
    state: str
    detail: str
    """Why it ended, or what it waits for."""
    sites: list[str]
    jobs: int
    """How often it was submitted."""
    told: dict[str, Any] = field(default_factory=dict)
    """What a run that goes on reports: rounds, sites, for whom it waits."""
    asked: dict[str, Any] = field(default_factory=dict)
    """Its settings, as far as FLARE keeps them."""
    mine: bool = False
    """Whether it belongs to the user who asks."""
    resumable: bool = False
    """Whether its owner can go on with it, or fetch its model, by resume."""


@dataclass(frozen=True, repr=False)
class Overview:
    """A federation, as it stands."""

    user: str
    """Who asks."""
    server: str
    up_since: float | None
    """In seconds since 1970."""
    versions: dict[str, str]
    """Of what runs at the server; that of pdmm is known while a run goes on."""
    parties: list[Party]
    runs: list[RunState]
    """The newest first."""
    more: int = 0
    """Older runs that are left out."""

    @property
    def sites(self) -> list[str]:
        """The names of the sites that are connected."""
        return [party.name for party in self.parties if party.connected]

    def __repr__(self) -> str:
        connected = f"{len(self.sites)} of {len(self.parties)} sites connected"
        return f"Overview({self.server}, {connected}, {len(self.runs) + self.more} runs)"


def overview(kit: Path, most: int = MOST) -> Overview:
    """The server, the sites, and the newest runs."""
    with Admin(kit) as admin:
        named = _jobs_by_name(admin)
        names = list(named)
        runs = [_run(admin, name, named[name]) for name in names[:most]]
        since, flare = admin.server()
        told = next((run.told for run in runs if run.told), {})
        return Overview(
            user=admin.user,
            server=admin.address,
            up_since=since,
            versions={"NVIDIA FLARE": flare, **told.get("versions", {})},
            parties=_parties(admin, runs),
            runs=runs,
            more=max(0, len(names) - most),
        )


def one_run(kit: Path, name: str) -> tuple[RunState, dict[str, Any]]:
    """A run in full: how it stands, and what its model says of it, if it has one."""
    with Admin(kit) as admin:
        named = _jobs_by_name(admin)
        if name not in named:
            raise RunError(
                f"there is no run {name} at this server: pdmm federate status shows those that are"
            )
        run = _run(admin, name, named[name])
        if run.state != "finished":
            return run, {}
        with tempfile.TemporaryDirectory(prefix="pdmm-result-") as folder:
            admin.result(str(named[name][0]["job_id"]), Path(folder))
            model = Path(folder) / MODEL
            return run, read_model(model).result if model.is_file() else {}


def _jobs_by_name(admin: Admin) -> dict[str, list[dict[str, Any]]]:
    """The jobs of each run, the newest first in both."""
    jobs = sorted(admin.jobs(), key=lambda job: str(job.get("submit_time")), reverse=True)
    named: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        named.setdefault(str(job.get("job_name", "")), []).append(job)
    return named


def _run(admin: Admin, name: str, jobs: list[dict[str, Any]]) -> RunState:
    job = str(jobs[0]["job_id"])
    status = admin.status(job)
    meta = admin.described(job)
    asked = _asked(admin, jobs, meta)
    told = admin.progress(job) if status.state == "running" else None
    owner = str(meta.get("submitter_name", ""))
    return RunState(
        name=name,
        owner=owner,
        kind=str(asked.get("kind", "run")),
        method=str(asked.get("method") or "auto"),
        began=meta.get("submit_time"),
        state=status.state,
        detail=_detail(status),
        sites=sorted((meta.get("deploy_map") or {}).get("site", [])),
        jobs=len(jobs),
        told=told or {},
        asked=asked,
        mine=owner == admin.user,
        resumable=status.over and not (status.final and _never_ran(status)),
    )


def _asked(admin: Admin, jobs: list[dict[str, Any]], newest: dict[str, Any]) -> dict[str, Any]:
    """What was asked for; a job that resumes does not repeat what the first one said."""
    own = _summary(newest)
    if len(jobs) == 1:
        return own
    if own.get("resumed"):
        own.pop("kind", None)
    return {**_summary(admin.described(str(jobs[-1]["job_id"]))), **own}


def _summary(meta: dict[str, Any]) -> dict[str, Any]:
    told = meta.get(SUMMARY) or {}
    return {key: value for key, value in told.items() if value is not None}


def _detail(status: Status) -> str:
    """What there is to say beside the state: FLARE's word alone says no more."""
    if status.state in ("running", "finished", "aborted"):
        return ""
    return status.detail


def _never_ran(status: Status) -> bool:
    return status.round is None and status.detail.startswith("FINISHED:")


def _parties(admin: Admin, runs: list[RunState]) -> list[Party]:
    """The sites that the server knows, and those of the runs."""
    seen, now = admin.seen(), time.time()
    organisations: dict[str, str] = {}
    for run in runs:
        organisations |= run.told.get("organisations") or {}
    names = sorted(set(seen).union(*(run.sites for run in runs)))
    return [
        Party(
            name,
            name in seen and now - seen[name] < STALE,
            seen.get(name),
            organisations.get(name, ""),
        )
        for name in names
    ]
