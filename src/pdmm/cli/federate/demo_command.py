"""``pdmm federate demo``."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from pdmm.cli.federate.showing import explained, progress, speaker, summary, times_words
from pdmm.cli.terminal import terminal

if TYPE_CHECKING:
    from pdmm.flare.demo import Outcome


def demo(
    sites: Annotated[int, typer.Option(min=1, max=20, help="How many hospitals.")] = 3,
) -> None:
    """Run a whole federation on this computer: a server, sites, TLS, and AGPDMM between them."""
    console = terminal()
    say = speaker(console)
    with explained(console):
        from pdmm.flare import demo as setting

        say(
            f"{sites} hospitals, each with its own patients (some {setting.PATIENTS} and more), "
            f"{setting.FEATURES} measurements and one of {setting.CLASSES} diagnoses.\n"
        )
        with progress(console) as show:
            found = setting.run(sites, show, say)
        say("")
        console.print(_accuracies(found))
        for line in summary(found.model.result):
            say(line)
        if found.model.times is not None:
            say(times_words(found.model.times))
        say(
            f"The model of all data in one place differs by {found.apart:.1e} of its largest entry."
        )
        found.check()


def _accuracies(found: "Outcome") -> Table:
    table = Table("hospital", title="Share of right diagnoses", title_justify="left")
    table.add_column("its own model,\non everyone's patients", justify="right")
    table.add_column("the model of all,\non its patients", justify="right")
    for name, right in found.accuracy.items():
        table.add_row(name, f"{found.own[name]:.1%}", f"{right:.1%}")
    table.add_row("all", "", f"{found.together:.1%}", end_section=True)
    return table
