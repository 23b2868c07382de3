"""``pdmm federate site``, ``server`` and ``check``: start-up kits are prepared and looked at."""

from pathlib import Path
from typing import Annotated

import typer

from pdmm.cli.federate.options import Kit
from pdmm.cli.federate.showing import Say, explained, speaker
from pdmm.cli.terminal import terminal


def site(
    kit: Kit,
    problem: Annotated[
        str, typer.Option(help="module:function or file.py:function that returns the problem.")
    ],
    attempt: Annotated[
        bool, typer.Option("--try/--no-try", help="Make the problem once, to see that it can be.")
    ] = True,
) -> None:
    """Prepare a site's start-up kit: its problem, and what jobs may ask for. Run it at the site."""
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.kits import CLASSES, prepare_site, tried_problem
        from pdmm.flare.private_errors import FILE, FOLDER

        made = repr(tried_problem(problem)) if attempt else "not tried"
        removed = prepare_site(kit, problem)
        say(f"{kit} is prepared.")
        say(f"- its problem is {problem}: {made}; it is made when a run begins, and stays here")
        _say_what_may_run(say, CLASSES["site"], removed)
        say("- jobs must be pdmm's own and signed by their sender; none may bring code")
        say("- the server can read no file, log or setting of this site, whoever asks it to")
        say(f"- what your function says when it fails is kept in {kit / FOLDER / FILE}")
        _say_how_to_go_on(say, kit)


def server(kit: Kit) -> None:
    """Prepare the server's start-up kit. Run it at the server."""
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.kits import CLASSES, prepare_server

        removed = prepare_server(kit)
        say(f"{kit} is prepared.")
        _say_what_may_run(say, CLASSES["server"], removed)
        say("- jobs that bring code are refused; jobs and checkpoints are kept in the kit's folder")
        _say_how_to_go_on(say, kit)


def check(kit: Kit) -> None:
    """Say of each door of a site's or a server's kit whether it is closed. Run it at the node.

    The command fails if any is open, so that an operator can sign what it prints.
    """
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.checking import look

        items = look(kit)
    for item in items:
        say(f"{'closed' if item.closed else 'OPEN':6}  {item.name}: {item.found}")
        if not item.closed:
            say(f"        {item.remedy}")
    still_open = sum(not item.closed for item in items)
    say(f"{kit}: {len(items)} doors, {still_open} of them open")
    if still_open:
        raise typer.Exit(1)


def _say_what_may_run(say: Say, classes: list[str], removed: list[str]) -> None:
    say(f"- all that a job may name there: {', '.join(classes)}")
    if removed:
        say(f"- removed, though not from FLARE's defaults: {', '.join(removed)}")


def _say_how_to_go_on(say: Say, kit: Path) -> None:
    say(f"See whether all doors are closed with pdmm federate check --kit {kit}")
    say(f"Start it with {kit}/startup/start.sh")
