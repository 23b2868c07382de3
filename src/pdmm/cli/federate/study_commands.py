"""``pdmm federate describe``, ``fit`` and ``evaluate``: studies of tables at sites."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pdmm.cli import fit_options as opt
from pdmm.cli.federate import options
from pdmm.cli.federate.options import Force, Kit, Lines, Restarts, Wait
from pdmm.cli.federate.showing import explained, progress, speaker, times_words
from pdmm.cli.federate.study_words import table_of, words_of
from pdmm.cli.terminal import terminal
from pdmm.common.whole_files import write_whole

if TYPE_CHECKING:
    from pdmm.flare.studies import Asking, Found

Some = Annotated[
    str | None, typer.Option(help="site,other; those that are connected, if left out.")
]
Study = Annotated[
    str | None, typer.Option(help="The study's name, to which sites may have consented.")
]
LeaveOut = Annotated[
    bool, typer.Option("--leave-out", help="Go on without a site whose table does not fit.")
]
Secure = Annotated[
    str,
    typer.Option(
        help="Secure sums: auto, yes or no. auto is yes where three organisations take part."
    ),
]
Timeout = Annotated[float, typer.Option(help="After so many seconds a site counts as absent.")]
Patience = Annotated[
    float, typer.Option(help="After so many seconds of absence the study stops, to begin again.")
]
Run = Annotated[str | None, typer.Option(help="The run's name; made up, if left out.")]
Table = Annotated[Path | None, typer.Option(help="A CSV file for the table.")]
Model = Annotated[Path | None, typer.Option(help="The model file to write.")]
Report = Annotated[Path | None, typer.Option(help="The HTML page to write.")]


def describe(
    kit: Kit,
    out: Table = None,
    sites: Some = None,
    study: Study = None,
    secure: Secure = "auto",
    timeout: Timeout = 60.0,
    patience: Patience = 600.0,
    restarts: Restarts = 5,
    wait: Wait = 600.0,
    force: Force = False,
    lines: Lines = False,
    run: Run = None,
) -> None:
    """Show what the tables of all sites have in common, as far as their policies tell."""
    console = terminal()
    with explained(console):
        from pdmm.flare import studies

        check_places(options.ending(out, ".csv"), None, force)
        asking = _asking(sites, study, False, secure, timeout, patience, restarts, wait, run)
        found = followed(
            console, kit, asking, lines, out, lambda how: studies.run_description(kit, how)
        )
        tell(console, found, out)


def fit(
    kit: Kit,
    formula: opt.Formula,
    family: opt.Family = "binomial",
    out: Model = None,
    report: Report = None,
    l1: opt.L1 = "0",
    l2: opt.L2 = "0",
    standardise: opt.Standardise = False,
    missing: opt.Missing = "error",
    covariance: opt.Covariance = "model",
    offset: opt.Offset = None,
    weights: opt.Weights = None,
    scale: opt.Scale = None,
    delta: opt.Delta = None,
    ties: opt.Ties = "efron",
    reference: opt.Reference = None,
    folds: opt.FoldCount = "5",
    seed: opt.Seed = 0,
    sites: Some = None,
    study: Study = None,
    leave_out: LeaveOut = False,
    secure: Secure = "auto",
    timeout: Timeout = 60.0,
    patience: Patience = 600.0,
    restarts: Restarts = 5,
    wait: Wait = 600.0,
    force: Force = False,
    lines: Lines = False,
    run: Run = None,
) -> None:
    """Fit a model to the tables of all sites: the one of the pooled table, though no row moves."""
    console = terminal()
    with explained(console):
        from pdmm.flare import studies
        from pdmm.tables.silos import Options

        check_places(options.ending(out, ".pdmm"), options.ending(report, ".html"), force)
        asked = Options(
            standardise=standardise,
            missing=missing,
            covariance=covariance,
            offset=offset,
            weights=weights,
            ties=ties,
            reference=reference,
            seed=seed,
            **opt.parsed(family, delta, l1, l2, scale, folds),
        )
        asking = _asking(sites, study, leave_out, secure, timeout, patience, restarts, wait, run)
        found = followed(
            console,
            kit,
            asking,
            lines,
            out,
            lambda how: studies.run_fit(kit, formula, asked, None, how),
        )
        tell(console, found, out, report)


def evaluate(
    kit: Kit,
    model: Annotated[Path, typer.Option(help="A model that fit --out wrote.")],
    out: Table = None,
    sites: Some = None,
    study: Study = None,
    leave_out: LeaveOut = False,
    secure: Secure = "auto",
    timeout: Timeout = 60.0,
    patience: Patience = 600.0,
    restarts: Restarts = 5,
    wait: Wait = 600.0,
    force: Force = False,
    lines: Lines = False,
    run: Run = None,
) -> None:
    """Say how well a model predicts the rows that each site has set aside for that."""
    console = terminal()
    with explained(console):
        from pdmm.flare import studies
        from pdmm.tables import load

        fitted = load(model)
        check_places(options.ending(out, ".csv"), None, force)
        asking = _asking(sites, study, leave_out, secure, timeout, patience, restarts, wait, run)
        found = followed(
            console, kit, asking, lines, out, lambda how: studies.run_evaluation(kit, fitted, how)
        )
        tell(console, found, out)


# --- what is common to all ----------------------------------------------------------------------


def _asking(
    sites: str | None,
    study: str | None,
    leave_out: bool,
    secure: str,
    timeout: float,
    patience: float,
    restarts: int,
    wait: float,
    run: str | None,
) -> "Asking":
    from pdmm.flare.runs import checked_name
    from pdmm.flare.studies import Asking

    return Asking(
        sites=options.names(sites),
        study=study,
        leave_out=leave_out,
        secure=options.secure(secure),
        run=None if run is None else checked_name(run),
        timeout=timeout,
        patience=patience,
        restarts=restarts,
        wait=wait,
    )


def check_places(out: Path | None, report: Path | None, force: bool) -> None:
    """Refuse, before the work is done, files that could not be written after it."""
    from pdmm.flare.model_files import check_place

    for path in (out, report):
        if path is not None:
            check_place(path, force)


def followed(
    console: Console,
    kit: Path,
    asking: "Asking",
    lines: bool,
    out: Path | None,
    do: Callable[["Asking"], "Found"],
) -> "Found":
    """Do a study, and show how far it is."""
    from dataclasses import replace

    from pdmm.flare.runs import new_name

    say = speaker(console)
    name = asking.run or new_name("study")
    say(f"Run {name}")
    try:
        with progress(console, lines) as show:
            return do(replace(asking, run=name, show=show, say=say))
    except KeyboardInterrupt:
        say(
            f"If it has been submitted, the study goes on without you. To see it: pdmm federate "
            f"status --kit {kit}; to fetch what came of it: pdmm federate resume --kit {kit} "
            f"{f'--out {out} ' if out else ''}{name}"
        )
        raise


def tell(console: Console, found: "Found", out: Path | None, report: Path | None = None) -> None:
    """Print what came of a study, and keep it.

    Args:
        console: where.
        found: what came of it.
        out: the file for the model of a fit, or for the table of another study.
        report: the file for the page of a fit.
    """
    from pdmm.flare.studies import save_model

    say = speaker(console)
    for text in words_of(found):
        print(text)
    print()
    for text in found.warnings:
        say(f"Warning: {text}")
    if found.times is not None:
        say(times_words(found.times))
    if out is not None and found.kind == "fit":
        say(f"Model:  {save_model(found.value, out)}")
    elif out is not None:
        write_whole(out, table_of(found).to_csv().encode())
        say(f"Table:  {out}")
    if report is not None:
        say(f"Report: {found.value.report(report)}")
