"""``pdmm federate status``: of a federation, by an admin's kit, or of a node, by its own."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pdmm.cli.federate.options import AnyKit
from pdmm.cli.federate.showing import explained, speaker
from pdmm.cli.federate.status_words import federation_words, full_run_words, node_words
from pdmm.cli.terminal import terminal


def status(
    kit: AnyKit,
    run: Annotated[
        str | None, typer.Option(help="Only this run, in full, with its settings and choices.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
) -> None:
    """Show how a federation stands; with the kit of a site or a server, how that node stands."""
    console = terminal()
    with explained(console):
        from pdmm.flare.kit_files import is_admin

        found, lines = _of_federation(kit, run) if is_admin(kit) else _of_node(kit, run)
        if as_json:
            # as it is: neither wrapped nor coloured
            print(json.dumps(found, indent=2, default=float))
            return
        say = speaker(console)
        for line in lines:
            say(line)


def _of_federation(kit: Path, run: str | None) -> tuple[dict[str, Any], list[str]]:
    from pdmm.flare import overview

    if run is not None:
        state, result = overview.one_run(kit, run)
        return {**asdict(state), "result": result}, full_run_words(state, result)
    found = overview.overview(kit)
    return asdict(found), federation_words(found)


def _of_node(kit: Path, run: str | None) -> tuple[dict[str, Any], list[str]]:
    from pdmm.flare.node_status import node_status

    if run is not None:
        raise ValueError(
            f"{kit} is the kit of a site or a server, and --run is for an admin's: what was asked "
            "of a site in a run is shown by pdmm federate audit --run"
        )
    found = node_status(kit)
    return asdict(found), node_words(found)
