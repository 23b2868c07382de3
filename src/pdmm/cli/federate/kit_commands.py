"""``pdmm federate site`` and ``pdmm federate server``: start-up kits are prepared."""

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

        made = repr(tried_problem(problem)) if attempt else "not tried"
        prepare_site(kit, problem)
        say(f"{kit} is prepared.")
        say(f"- its problem is {problem}: {made}; it is made when a run begins, and stays here")
        say(f"- added to what a job may name there: {', '.join(CLASSES['site'])}")
        say("- jobs that bring code are refused")
        _say_how_to_start(say, kit)


def server(kit: Kit) -> None:
    """Prepare the server's start-up kit. Run it at the server."""
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.kits import CLASSES, prepare_server

        prepare_server(kit)
        say(f"{kit} is prepared.")
        say(f"- added to what a job may name there: {', '.join(CLASSES['server'])}")
        say("- jobs that bring code are refused; jobs and checkpoints are kept in the kit's folder")
        _say_how_to_start(say, kit)


def _say_how_to_start(say: Say, kit: Path) -> None:
    say(f"Start it with {kit}/startup/start.sh")
