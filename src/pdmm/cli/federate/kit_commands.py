"""``pdmm federate site``, ``server``, ``check`` and ``audit``: what operators do with a kit."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdmm.cli.federate import options
from pdmm.cli.federate.options import Kit
from pdmm.cli.federate.policy_words import (
    audit_words,
    count_words,
    left_words,
    problem_words,
    table_words,
    who_words,
)
from pdmm.cli.federate.showing import Say, explained, speaker
from pdmm.cli.terminal import terminal

if TYPE_CHECKING:
    from pdmm.flare.site_data import SiteData
    from pdmm.privacy.audit import Audit
    from pdmm.privacy.policy import Policy


def site(
    kit: Kit,
    table: Annotated[
        Path | None, typer.Option(help="The site's rows, a CSV or Parquet file: no code is needed.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="age,sex,...: the columns that studies may use; all, if left out."),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="Instead of a table: module:function or file.py:function that returns a problem."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="What the site allows, a TOML file. If left out, the policy that is there stays, "
            "and one with every default and its reason is written where there is none."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what a study would be allowed.")
    ] = False,
    attempt: Annotated[
        bool, typer.Option("--try/--no-try", help="Make the problem once, to see that it can be.")
    ] = True,
) -> None:
    """Prepare a site's start-up kit: its table, and what may be asked of it. Run it at the site.

    The site itself enforces its policy, whatever the server or a researcher does.
    """
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.kits import CLASSES, prepare_site
        from pdmm.flare.names import POLICY
        from pdmm.flare.private_errors import FILE, FOLDER
        from pdmm.flare.site_kit import fingerprint

        data = _data(table, columns, problem)
        allowed = _what_is_allowed(kit, data, policy, attempt or dry_run)
        if dry_run:
            say(f"The site's {data.words}")
            for line in allowed:
                say(line)
            say("Nothing was written.")
            return
        removed = prepare_site(kit, data, policy)
        say(f"{kit} is prepared.")
        say(f"- its {data.words}; it is read when a run begins, and stays here")
        _say_what_may_run(say, CLASSES["site"], removed)
        say("- jobs must be pdmm's own and signed by their sender; none may bring code")
        say("- the server can read no file, log or setting of this site, whoever asks it to")
        say(f"- what goes wrong at the site is kept in {kit / FOLDER / FILE}")
        say(f"- its certificate has the SHA-256 {fingerprint(kit)}: partners may name it")
        say(f"What it allows is in {kit / 'local' / POLICY}, which you may edit:")
        for line in allowed:
            say(line)
        _say_how_to_go_on(say, kit)


def _data(table: Path | None, columns: str | None, problem: str | None) -> "SiteData":
    """What the site has, by the options."""
    from pdmm.flare.site_data import own_problem, own_table

    if (table is None) == (problem is None):
        raise ValueError(
            "give --table FILE, or --problem file.py:function for a problem of your own"
        )
    if problem is not None:
        if columns is not None:
            raise ValueError("--columns goes with --table: a problem has the columns it has")
        return own_problem(problem)
    assert table is not None
    return own_table(table, options.names(columns, "--columns"))


def _what_is_allowed(kit: Path, data: "SiteData", policy: Path | None, attempt: bool) -> list[str]:
    """What the policy means for what the site has, line by line."""
    from pdmm.flare.site_data import OwnTable
    from pdmm.flare.site_kit import policy_of
    from pdmm.privacy.policy import Policy

    held = policy_of(kit) if policy is None else Policy.read(policy)
    lines = who_words(held)
    if isinstance(data, OwnTable):
        from pdmm.study import table_outlook

        return [*lines, *table_words(table_outlook(data.read(held), held), held)]
    return [*lines, *_of_problem(kit, data, held)] if attempt else lines


def _of_problem(kit: Path, data: Any, policy: Any) -> list[str]:
    from pdmm.flare.site_kit import earlier_audit
    from pdmm.privacy.outlook import outlook

    made = data.tried()
    return [
        f"- made once, it is {made!r}",
        *problem_words(outlook(made, policy, earlier_audit(kit))),
    ]


def audit(
    kit: Kit,
    run: Annotated[str | None, typer.Option(help="Only the questions of this run.")] = None,
    last: Annotated[int, typer.Option(min=0, help="So many questions, the newest last.")] = 40,
    reset: Annotated[
        bool,
        typer.Option("--reset", help="Count from 0 again: the table is another than before."),
    ] = False,
) -> None:
    """Show every question that was put to this site: who, what, when, and how many numbers left.

    What left is counted over all runs on the site's table. A question that had been asked before
    counts once, with 0 numbers after that.
    """
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare.site_kit import audit_of, begin_anew, entries, policy_of

        if reset:
            begin_anew(kit)
            say("The count begins from 0 again; the audit says so.")
        policy = policy_of(kit)
        found = audit_of(kit)
        for line in (*_left(kit, policy, found), count_words(found)):
            say(line)
        asked = [e for e in entries(kit) if run is None or e.run.rpartition("/")[0] == run]
        shown = asked[-last:] if last else []
        for line in audit_words(shown):
            say(line)
        say(f"{len(shown)} of {len(asked)} questions are shown.")


def _left(kit: Path, policy: "Policy", audit: "Audit") -> Iterator[str]:
    """How much has left, beside what there is."""
    from pdmm.flare.site_data import OwnTable
    from pdmm.flare.site_kit import held_by
    from pdmm.privacy.audit import EVALUATION, FITS
    from pdmm.privacy.contents import contents_of

    data = held_by(kit)
    share = policy.max_numbers_out_share
    if not isinstance(data, OwnTable):
        found = contents_of(data.tried(), policy.stated_rows, policy.stated_columns)
        yield left_words(audit.numbers, found.rows, found.columns, share)
        return
    held = data.read(policy)
    yield left_words(audit.left[FITS], len(held.for_fits), None, share)
    if len(held.for_evaluation):
        rows = len(held.for_evaluation)
        yield left_words(audit.left[EVALUATION], rows, None, share, "the rows set aside, ")


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
    say(f"Start it with pdmm federate start --kit {kit}")
