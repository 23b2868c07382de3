"""``pdmm federate submit`` and ``resume``: runs on a federation that exists."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pdmm.cli.federate import options
from pdmm.cli.federate.options import Force, Kit, Lines, Number, Out, Restarts, Wait
from pdmm.cli.federate.showing import explained, progress, speaker, summary, times_words
from pdmm.cli.federate.study_commands import check_places, followed, tell
from pdmm.cli.terminal import terminal


def submit(
    kit: Kit,
    out: Out,
    method: Annotated[
        str,
        typer.Option(
            help="auto, agpdmm, gpdmm, pdmm, fedsplit, inexact-fedsplit, scaffold, fedavg, "
            "fedprox, feddyn, gradient-descent or lbfgs."
        ),
    ] = "agpdmm",
    rounds: Annotated[int, typer.Option(min=1, help="At most so many.")] = 400,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Stop when the proven bound is this part of the first; else go on."),
    ] = None,
    step_size: Number = None,
    local_steps: Annotated[int | None, typer.Option(min=1, help="Chosen, if left out.")] = None,
    rho: Annotated[
        str | None,
        typer.Option(
            help="A number; auto, if left out; of a network then 1/(local steps times step size)."
        ),
    ] = None,
    gamma: Number = None,
    mu: Annotated[float | None, typer.Option(help="Of fedprox.")] = None,
    alpha: Number = None,
    relaxation: Annotated[float | None, typer.Option(help="1 is PDMM, 0.5 is ADMM.")] = None,
    acceleration: Annotated[str | None, typer.Option(help="anderson; needs --absent wait.")] = None,
    weights: Annotated[str | None, typer.Option(help="site=3,other=1; ones if left out.")] = None,
    l1: Annotated[float | None, typer.Option(help="Adds this times the sum of |x_k|.")] = None,
    l2: Annotated[float | None, typer.Option(help="Adds this / 2 times ‖x‖².")] = None,
    sites: Annotated[
        str | None, typer.Option(help="site,other; those that are connected, if left out.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="After so many seconds a site counts as absent.")
    ] = 60.0,
    patience: Annotated[
        float, typer.Option(help="After so many seconds of absence the job stops, to be resumed.")
    ] = 600.0,
    absent: Annotated[
        str, typer.Option(help="A site that is absent: skip it in a round, or wait for it.")
    ] = "skip",
    verify: Annotated[
        str,
        typer.Option(help="Who computes x: the server, or the sites, which then trust no server."),
    ] = "server",
    secure: Annotated[
        str,
        typer.Option(
            help="Secure sums: auto, yes or no. auto is yes where three organisations take part."
        ),
    ] = "auto",
    every: Annotated[int, typer.Option(min=1, help="Rounds between checkpoints.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of the mini-batches of a network.")] = 0,
    restarts: Restarts = 5,
    wait: Wait = 600.0,
    force: Force = False,
    lines: Lines = False,
    run: Annotated[str | None, typer.Option(help="The run's name; made up if left out.")] = None,
) -> None:
    """Run a method on a federation that exists, and fetch the model."""
    console = terminal()
    with explained(console):
        from pdmm.flare import runs

        regulariser = options.regulariser(l1, l2)
        chosen = runs.named_method(
            method,
            step_size=options.number("step-size", step_size),
            local_steps=local_steps,
            rho=options.number("rho", rho),
            gamma=options.number("gamma", gamma),
            mu=mu,
            alpha=options.number("alpha", alpha),
            relaxation=relaxation,
            acceleration=acceleration,
        )
        asked = runs.settings(
            chosen,
            rounds=rounds,
            tolerance=tolerance,
            weights=options.weights(weights),
            regulariser=regulariser,
            timeout=timeout,
            patience=patience,
            absent=absent,
            verify=verify,
            secure=options.secure(secure),
            every=every,
            seed=seed,
            run=run,
        )
        how = {"sites": options.names(sites), "restarts": restarts, "wait": wait, "force": force}
        _complete(console, kit, asked, out, how, lines)


def _complete(
    console: Console,
    kit: Path,
    asked: dict[str, Any],
    out: Path,
    how: dict[str, Any],
    lines: bool,
) -> None:
    from pdmm.flare import model_files, runs

    model_files.check_out(out, how["force"])
    say = speaker(console)
    say(f"Run {asked['run']}")
    try:
        with progress(console, lines) as show:
            model = runs.complete(kit, asked, out, show=show, say=say, **how)
    except KeyboardInterrupt:
        say(
            f"If it has been submitted, the run goes on without you. To see it: pdmm federate "
            f"status --kit {kit}; to fetch its model, or go on with it: pdmm federate resume "
            f"--kit {kit} --out {out} {asked['run']}"
        )
        raise
    for line in summary(model.result):
        say(line)
    if model.times is not None:
        say(times_words(model.times))
    say(f"Model: {out}\nHistory: {model_files.history_path(out)}")


def resume(
    name: Annotated[str, typer.Argument(help="The run's name.")],
    kit: Kit,
    out: Annotated[
        Path | None, typer.Option(help="As of the run: a model file, or a table of a study.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Of a fit: the HTML page to write.")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Another number of rounds, in all.")
    ] = None,
    sites: Annotated[
        str | None, typer.Option(help="site,other; those of the run, if left out.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="As in submit; as before, if left out.")
    ] = None,
    patience: Annotated[
        float | None, typer.Option(help="As in submit; as before, if left out.")
    ] = None,
    restarts: Restarts = 5,
    wait: Wait = 600.0,
    force: Force = False,
    lines: Lines = False,
) -> None:
    """Go on with a run or a study, and fetch what comes of it.

    One that still goes on is followed; one that had come to its end gives its model again. A run
    goes on from its checkpoint at the server. A study, and a run with secure sums or whose sites
    compute x, has no checkpoint: it begins again.
    """
    console = terminal()
    with explained(console):
        from pdmm.flare import runs, studies
        from pdmm.flare.job import RUN

        check_places(out, report, force)
        if studies.kind_of(kit, name, wait) != RUN:
            asking = studies.Asking(
                sites=options.names(sites), run=name, restarts=restarts, wait=wait
            )

            def again(how: studies.Asking) -> studies.Found:
                return studies.resume_study(kit, name, how, timeout, patience)

            found = followed(console, kit, asking, lines, out, again)
            tell(console, found, out, report)
            return
        if out is None:
            raise ValueError(f"give --out, a file for the model of the run {name}")
        asked = runs.resumption(name, rounds=rounds, timeout=timeout, patience=patience)
        how = {"sites": options.names(sites), "restarts": restarts, "wait": wait, "force": force}
        _complete(console, kit, asked, out, how, lines)
