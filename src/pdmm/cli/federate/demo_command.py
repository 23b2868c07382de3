"""``pdmm federate demo``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from pdmm.cli.federate.showing import explained, progress, speaker, summary, times_words
from pdmm.cli.federate.study_commands import tell
from pdmm.cli.terminal import terminal

if TYPE_CHECKING:
    from pdmm.flare.demo import Outcome
    from pdmm.flare.studies import Found
    from pdmm.flare.study_demo import Compared


def demo(
    sites: Annotated[int, typer.Option(min=1, max=20, help="How many hospitals.")] = 3,
    table: Annotated[
        bool, typer.Option("--table", help="A study of a real table at its six sites instead.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="With --table: the folder for all that the study writes.")
    ] = None,
) -> None:
    """Run a whole federation on this computer: a server, sites, TLS, and a model between them."""
    console = terminal()
    with explained(console):
        if table != (out is not None):
            raise ValueError("--table and --out FOLDER go together")
        if out is None:
            _of_methods(console, sites)
        else:
            _of_a_table(console, out)


def _of_methods(console: Console, sites: int) -> None:
    """Hospitals whose problems are their own functions, and AGPDMM between them."""
    from pdmm.flare import demo as setting

    say = speaker(console)
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
    say(f"The model of all data in one place differs by {found.apart:.1e} of its largest entry.")
    found.check()


def _accuracies(found: "Outcome") -> Table:
    table = Table("hospital", title="Share of right diagnoses", title_justify="left")
    table.add_column("its own model,\non everyone's patients", justify="right")
    table.add_column("the model of all,\non its patients", justify="right")
    for name, right in found.accuracy.items():
        table.add_row(name, f"{found.own[name]:.1%}", f"{right:.1%}")
    table.add_row("all", "", f"{found.together:.1%}", end_section=True)
    return table


def _of_a_table(console: Console, out: Path) -> None:
    """Sites that hold tables: what they have in common, a model, and how well it predicts."""
    from pdmm.flare import study_demo

    def told(found: "Found", file: str) -> None:
        report = out / "report.html" if found.kind == "fit" else None
        tell(console, found, out / file, report)

    say = speaker(console)
    say(
        "Who saw a physician in the first year of the RAND Health Insurance Experiment? Each of "
        "its six sites keeps its own rows.\n"
    )
    found = study_demo.run(out, say, lambda: progress(console), told)
    say("\n4. The same model by statsmodels, of all these rows in one table\n")
    _say_compared(console, found)
    found.check()


def _say_compared(console: Console, found: "Compared") -> None:
    table = Table("", "estimate", "pooled", "std err", "pooled std err")
    for name, row in found.table.iterrows():
        table.add_row(str(name), *(f"{row[key]:.9f}" for key in _ORDER))
    console.print(table)
    speaker(console)(
        f"The estimates differ by at most {found.apart:.1e} standard errors, and the standard "
        f"errors by {found.errors_apart:.1e} of themselves."
    )


_ORDER = ("federation", "pooled", "federation se", "pooled se")
