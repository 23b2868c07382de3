"""How one node stands: whether it runs, what it is at, what has left it, and where its logs are."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from pdmm.flare.names import SETTINGS
from pdmm.flare.node import Node
from pdmm.flare.node_record import (
    is_connected,
    jobs_of,
    log_of,
    node_process,
    other_process,
    read_record,
)
from pdmm.flare.private_errors import FILE, FOLDER
from pdmm.flare.reports import versions
from pdmm.flare.site_kit import audit_of, held_by, policy_of
from pdmm.flare.starting import is_reachable

UNLIMITED = 10**15  # what a policy writes where there is no limit


@dataclass(frozen=True)
class NodeState:
    """A site or a server, as seen where it runs."""

    name: str
    organisation: str
    is_site: bool
    server: str
    pid: int | None
    """None, if it does not run."""
    since: float | None
    """Since when, in seconds since 1970."""
    started_here: bool
    """Whether pdmm federate start has started it, so that stop ends it."""
    connected: bool
    reachable: bool
    """Whether something listens where the server should be."""
    versions: dict[str, str]
    log: str
    runs: list[tuple[str, str]] = field(default_factory=list)
    """What runs now, and who asked for it."""
    data: str = ""
    """What the site has: a table, or a problem."""
    policy: str = ""
    left: int | None = None
    """How many numbers have left the site's table."""
    errors: str = ""
    """The file with the errors at the site, if there were any."""


def node_status(kit: Path) -> NodeState:
    """How the node of a kit stands."""
    node = Node.of_kit(kit)
    record = read_record(node.kit)
    process = None if record is None else node_process(record)
    other = None if process is not None else other_process(node)
    running = record is not None and process is not None
    connected = record is not None and running and node.is_site and is_connected(record, node)
    prepared = node.is_site and (node.kit / "local" / SETTINGS).is_file()
    errors = kit / FOLDER / FILE
    return NodeState(
        name=node.name,
        organisation=node.organisation,
        is_site=node.is_site,
        server=node.server,
        pid=other if process is None else process.pid,
        since=None if process is None else process.create_time(),
        started_here=running,
        connected=connected,
        reachable=connected or is_reachable(node),
        versions=versions(),
        log=str(log_of(kit)),
        runs=[] if record is None else [(job.run, job.by) for job in jobs_of(record, node.kit)],
        data=held_by(kit).words if prepared else "",
        policy=_policy_line(kit) if prepared else "",
        left=audit_of(kit).numbers if prepared else None,
        errors=str(errors) if errors.is_file() else "",
    )


def _policy_line(kit: Path) -> str:
    """What the policy allows, in one line."""
    policy = policy_of(kit)
    share = policy.max_numbers_out_share
    return (
        f"at least {policy.min_organisations} organisations and {policy.min_rows:,} rows; "
        f"at most {_count(policy.max_rounds)} rounds, {_count(policy.runs_per_day)} runs a day, "
        + ("any number of numbers" if share == inf else f"{share:g} times the table in numbers")
    )


def _count(number: int) -> str:
    return "any number of" if number >= UNLIMITED else f"{number:,}"
