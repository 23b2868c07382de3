"""How a federation stands: who is connected, and how the runs are."""

from dataclasses import dataclass
from pathlib import Path

from pdmm.flare.admin import Admin


@dataclass(frozen=True)
class Overview:
    """A federation, as it stands."""

    sites: list[str]
    """Those that are connected."""
    runs: list[tuple[str, str, str, str]]
    """Name, when it began, state, and how far it is, of every job; the newest first."""


def overview(kit: Path) -> Overview:
    """Which sites are connected, and how the runs stand."""
    with Admin(kit) as admin:
        rows: list[tuple[str, str, str, str]] = []
        for job in sorted(admin.jobs(), key=lambda job: str(job.get("submit_time")), reverse=True):
            status = admin.status(str(job["job_id"]))
            far = "" if status.state == "finished" else status.detail
            if status.state == "running":
                told = admin.progress(str(job["job_id"]))
                if told is not None:
                    here, all_sites = len(told["answering"]), len(told["sites"])
                    far = f"round {told['round']} of {told['rounds']}, {here} of {all_sites} sites"
            began = str(job.get("submit_time", ""))[:19].replace("T", " ")
            rows.append((str(job.get("job_name", "")), began, status.state, far))
        return Overview(admin.sites(), rows)
