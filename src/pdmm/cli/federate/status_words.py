"""How a federation, a run or a node stands, in words that fit into 80 columns."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pdmm.cli.federate.progress import awaited, standing

if TYPE_CHECKING:
    from pdmm.flare.node_status import NodeState
    from pdmm.flare.overview import Overview, Party, RunState

SILENT = 15.0  # seconds: a site gives a sign of life every 10


def when(seconds: float | None) -> str:
    """A moment, by the clock of this computer."""
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def ago(seconds: float) -> str:
    """How long something is ago, in one unit.

    >>> ago(7.2), ago(400), ago(9000), ago(200000)
    ('7 s', '6 min', '2 h', '2 days')
    """
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds // 60:.0f} min"
    if seconds < 172800:
        return f"{seconds // 3600:.0f} h"
    return f"{seconds // 86400:.0f} days"


def federation_words(found: "Overview") -> list[str]:
    """The server, the sites and the runs."""
    up = "" if found.up_since is None else f", up since {when(found.up_since)}"
    lines = [f"Server {found.server}{up}", f"  {_versions(found.versions)}", "", "Sites"]
    width = max((len(party.name) for party in found.parties), default=0)
    lines += [f"  {party.name:{width}}  {_party(party)}" for party in found.parties]
    if not found.parties:
        lines.append("  none has connected yet")
    lines.append("")
    lines.append("Runs, the newest first" if found.runs else "No runs yet.")
    for run in found.runs:
        lines += [f"  {run.name}", *(f"    {line}" for line in run_words(run))]
    if found.more:
        lines.append(f"  and {found.more} older ones")
    return lines


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _party(party: "Party") -> str:
    whose = f", of {party.organisation}" if party.organisation else ""
    if party.connected:
        silent = time.time() - (party.seen or time.time())
        return f"connected{whose}" + (f", silent for {silent:.0f} s" if silent > SILENT else "")
    if party.seen is None:
        return f"not connected{whose}"
    return f"not connected{whose}; last seen {when(party.seen)}"


def run_words(run: "RunState") -> list[str]:
    """What a run is, how it stands, and what can be done."""
    owner = "you" if run.mine else run.owner or "somebody"
    kind = run.method if run.kind == "run" else run.kind
    first = f"{kind}, asked for by {owner}, {when(run.began)}"
    if run.jobs > 1:
        first += f", taken up {run.jobs - 1} {'time' if run.jobs == 2 else 'times'}"
    lines = [first, f"{run.state}{_far(run)}"]
    waited = awaited(run.told)
    if waited:
        lines.append(waited)
    if run.state in ("failed", "aborted") and run.resumable and run.mine:
        lines.append(f"to go on: pdmm federate resume {run.name} --kit ... --out ...")
    return lines


def _far(run: "RunState") -> str:
    told = run.told
    if told.get("round") is not None:
        return f": round {told['round']} of {told.get('rounds', '?')}  {standing(told)}"
    if told.get("phase"):
        return f": {told['phase']}"
    detail = " ".join(run.detail.split())
    return f": {detail}" if detail else ""


def full_run_words(run: "RunState", result: dict[str, Any]) -> list[str]:
    """One run with its settings, its sites, and what came of it."""
    lines = [run.name, *(f"  {line}" for line in run_words(run))]
    lines.append(f"  sites: {', '.join(run.sites)}")
    settings = {k: v for k, v in run.asked.items() if k not in ("kind", "method", "resumed")}
    told = [f"{name} {value}" for name, value in settings.items()]
    if told:
        lines.append(f"  settings: {', '.join(told)}")
    if result:
        lines.append(f"  {result.get('rounds')} rounds: {result.get('reason')}")
        lines += [f"  - {note}" for note in result.get("choices", ())]
    if run.state == "finished" and run.mine:
        lines.append(f"  its model: pdmm federate resume {run.name} --kit ... --out ...")
    return lines


def node_words(node: "NodeState") -> list[str]:
    """How a node stands, for its operator."""
    kind = "site" if node.is_site else "server"
    lines = [f"{node.name}, a {kind} of {node.organisation}; {_versions(node.versions)}"]
    lines += [f"  {line}" for line in (_process(node), *_server(node), *_work(node.runs))]
    if node.data:
        lines.append(f"  {node.data}")
        lines.append(f"  policy: {node.policy}")
    if node.left is not None:
        lines.append(f"  {node.left:,} numbers have left: pdmm federate audit shows them")
    lines.append(f"  log: {node.log}")
    if node.errors:
        lines.append(f"  errors of the site's own code: {node.errors}")
    return lines


def _process(node: "NodeState") -> str:
    if node.pid is None:
        return "does not run: pdmm federate start begins it"
    if not node.started_here:
        return f"runs as process {node.pid}, which pdmm federate start has not started"
    since = node.since or time.time()
    return f"runs as process {node.pid} since {when(since)} ({ago(time.time() - since)})"


def _server(node: "NodeState") -> Sequence[str]:
    if not node.is_site:
        listens = "listens" if node.reachable else "does not listen"
        return [f"{listens} at {node.server}"]
    if node.connected:
        return [f"connected to {node.server}"]
    if node.reachable:
        return [f"not connected, though the server {node.server} can be reached"]
    return [f"not connected: the server {node.server} cannot be reached"]


def _work(runs: Sequence[tuple[str, str]]) -> Sequence[str]:
    return [f"at work on the run {run}, asked for by {by}" for run, by in runs] or ["no run now"]
