"""``pdmm federate start`` and ``stop``: a site or a server begins, and ends; so does a run."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdmm.cli.federate.options import AnyKit, Kit
from pdmm.cli.federate.showing import Say, explained, speaker
from pdmm.cli.terminal import terminal

if TYPE_CHECKING:
    from pdmm.flare.starting import Started


def start(
    kit: Kit,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Stay here, and say what happens, until Ctrl-C."),
    ] = False,
) -> None:
    """Start a site or a server from its prepared kit, in the background. Run it at the node.

    All that NVIDIA FLARE and your function print goes to a file of the kit.
    """
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.starting import start as start_node

        started = start_node(kit)
        if foreground:
            _stay(say, kit, started)
            return
        say(_how_it_runs(started))
        say(f"Its log is {started.log}. To end it: pdmm federate stop --kit {kit}")


def _how_it_runs(started: "Started") -> str:
    node = started.node
    if started.waits_for:
        return f"{node.name} runs as process {started.pid}, but {started.waits_for}."
    ready = f"is connected to {node.server}" if node.is_site else f"listens on port {node.port}"
    return f"{node.name} runs as process {started.pid}, and {ready}."


def _stay(say: Say, kit: Path, started: "Started") -> None:
    """Say what happens at the node until somebody ends it, or it ends by itself."""
    from pdmm.flare.node import last_lines
    from pdmm.flare.node_events import Events
    from pdmm.flare.node_record import read_record
    from pdmm.flare.starting import NodeError
    from pdmm.flare.starting import stop as stop_node

    node = started.node
    say(f"{_now()}  {_how_it_runs(started)} Its log is {started.log}; Ctrl-C ends it.")
    record = read_record(node.kit)
    if record is None:
        raise NodeError(f"{node.name} has been ended by another command")
    events = Events(node, record, lambda text: say(f"{_now()}  {text}"))
    # what has been said above is no news
    events.connected = node.is_site and not started.waits_for
    try:
        events.follow()
    except KeyboardInterrupt:
        stop_node(node.kit)
        say(f"{_now()}  {node.name} has ended")
        return
    asked_for = read_record(node.kit) is None
    stop_node(node.kit)
    if not asked_for:
        raise NodeError(f"{node.name} has ended by itself: {last_lines(started.log, 1)}")
    say(f"{_now()}  {node.name} was ended by pdmm federate stop")


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def stop(
    kit: AnyKit,
    name: Annotated[
        str | None,
        typer.Argument(help="The name of your run, with an admin's kit; nothing, for a node."),
    ] = None,
) -> None:
    """End a site or a server and its jobs, or, with an admin's kit, a run of yours.

    With the kit of a site or a server, run it where that node runs.
    """
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.kit_files import is_admin

        if is_admin(kit):
            _stop_run(say, kit, name)
        else:
            _stop_node(say, kit, name)


def _stop_node(say: Say, kit: Path, name: str | None) -> None:
    from pdmm.flare.node import Node
    from pdmm.flare.starting import stop as stop_node

    node = Node.of_kit(kit)
    if name is not None:
        raise ValueError(
            f"{kit} is the kit of {node.name}, so stop takes no name: an admin's kit stops a run"
        )
    ended = stop_node(kit)
    if not ended:
        say(f"{node.name} did not run: there was nothing to end.")
        return
    jobs = f", with {ended - 1} of its jobs' processes" if ended > 1 else ""
    say(f"{node.name} has ended{jobs}.")


def _stop_run(say: Say, kit: Path, name: str | None) -> None:
    from pdmm.flare.stopping import stop_run

    if name is None:
        raise ValueError(
            f"{kit} is an admin's kit: say which run to stop, as in pdmm federate stop NAME "
            f"--kit {kit}; pdmm federate status shows them"
        )
    stop_run(kit, name, say)
