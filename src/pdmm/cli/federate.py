"""The commands ``pdmm federate ...``: parse, call, show."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import pdmm

app = typer.Typer(
    help="Runs between organisations whose data may not move, over NVIDIA FLARE.",
    no_args_is_help=True,
)
Kit = Annotated[Path, typer.Option(help="A start-up kit, as `nvflare provision` makes it.")]
NUMBER = "A number; auto, if left out."


@contextmanager
def _explained(console: Console) -> Iterator[None]:
    """Errors for people, in one sentence; a missing library too."""
    try:
        import nvflare  # noqa: F401
    except ImportError:
        console.print("pdmm federate needs NVIDIA FLARE: pip install 'pdmm[flare]'", markup=False)
        raise typer.Exit(1) from None
    from pdmm.flare.admin import AdminError
    from pdmm.flare.runs import RunError

    try:
        yield
    except (AdminError, RunError, ValueError, OSError, RuntimeError, ArithmeticError) as error:
        console.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print("Stopped.")
        raise typer.Exit(130) from None


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A line that says how far a run is."""
    columns = (
        TextColumn("round {task.completed:.0f}"),
        BarColumn(bar_width=16),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting for the sites", total=None)

        def show(told: dict[str, Any]) -> None:
            known = [name for name in ("gap", "residual") if told.get(name) is not None]
            what = [f"{name} {told[name]:.1e}" for name in known[:1]]
            here, sites = len(told["answering"]), len(told["sites"])
            what += [f"{told['bytes'] / 1e6:.2f} MB", f"{here} of {sites} sites"]
            bar.update(
                task, completed=told["round"], total=told["rounds"], description="  ".join(what)
            )

        yield show


def _say(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True)


@app.command()
def demo(
    sites: Annotated[int, typer.Option(min=1, max=20, help="How many hospitals.")] = 3,
) -> None:
    """Run a whole federation on this computer: a server, sites, TLS, and AGPDMM between them."""
    console = Console()
    say = _say(console)
    with _explained(console):
        from pdmm.flare import demo as setting

        say(
            f"{sites} hospitals, each with its own patients (some {setting.PATIENTS} and more), "
            f"{setting.FEATURES} measurements and one of {setting.CLASSES} diagnoses.\n"
        )
        with _progress(console) as show:
            found = setting.run(sites, show, say)
        result = found.model.result
        table = Table("hospital", title="Share of right diagnoses", title_justify="left")
        table.add_column("its own model,\non everyone's patients", justify="right")
        table.add_column("the model of all,\non its patients", justify="right")
        for name, right in found.accuracy.items():
            table.add_row(name, f"{found.own[name]:.1%}", f"{right:.1%}")
        table.add_row("all", "", f"{found.together:.1%}", end_section=True)
        say("")
        console.print(table)
        for line in _summary(result):
            say(line)
        say(
            f"The same run in one process, with all data in one place: the model differs by "
            f"{found.apart:.1e} of its largest entry."
        )
        if not found.apart <= 1e-10:
            raise RuntimeError("the federation's model is not that of one process")


def _summary(result: dict[str, Any]) -> list[str]:
    lines = [f"{result['rounds']} rounds, {result['bytes'] / 1e6:.2f} MB: {result['reason']}"]
    return lines + [f"- {text}" for text in result["choices"]]


@app.command()
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
    console = Console()
    with _explained(console):
        from pdmm.flare.kits import CLASSES, prepare_site
        from pdmm.flare.site_problem import load

        say, made = _say(console), "not tried"
        if attempt:
            found = load(problem)()
            if not isinstance(found, pdmm.Problem):
                kind = type(found).__name__
                raise ValueError(f"{problem} must return a pdmm problem, and returns a {kind}")
            made = repr(found)
        prepare_site(kit, problem)
        say(f"{kit} is prepared.")
        say(f"- its problem is {problem}: {made}; it is made when a run begins, and stays here")
        say(f"- added to what a job may name there: {', '.join(CLASSES['site'])}")
        say("- jobs that bring code are refused")
        say(f"Start it with {kit}/startup/start.sh")


@app.command()
def server(kit: Kit) -> None:
    """Prepare the server's start-up kit. Run it at the server."""
    console = Console()
    with _explained(console):
        from pdmm.flare.kits import CLASSES, prepare_server

        prepare_server(kit)
        say = _say(console)
        say(f"{kit} is prepared.")
        say(f"- added to what a job may name there: {', '.join(CLASSES['server'])}")
        say("- jobs that bring code are refused; jobs and checkpoints are kept in the kit's folder")
        say(f"Start it with {kit}/startup/start.sh")


def _number(name: str, text: str | None) -> Any:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--{name} must be a number or auto, got {text!r}") from None


def _weights(text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    weights = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"--weights must be site=number,site=number, got {text!r}")
        weights[name.strip()] = float(_number("weights", value))
    return weights


@app.command()
def submit(
    kit: Kit,
    out: Annotated[Path, typer.Option(help="A file for the model, safetensors.")],
    method: Annotated[
        str,
        typer.Option(
            help="auto, agpdmm, gpdmm, pdmm, fedsplit, inexact-fedsplit, scaffold, fedavg or "
            "gradient-descent."
        ),
    ] = "agpdmm",
    rounds: Annotated[int, typer.Option(min=1, help="At most so many.")] = 400,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Stop when the proven bound is this part of the first; else go on."),
    ] = None,
    step_size: Annotated[str | None, typer.Option(help=NUMBER)] = None,
    local_steps: Annotated[int | None, typer.Option(min=1, help="Chosen, if left out.")] = None,
    rho: Annotated[str | None, typer.Option(help=NUMBER)] = None,
    gamma: Annotated[str | None, typer.Option(help=NUMBER)] = None,
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
    every: Annotated[int, typer.Option(min=1, help="Rounds between checkpoints.")] = 10,
    restarts: Annotated[int, typer.Option(min=0, help="How often to take the run up again.")] = 5,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the server, and for all sites to begin.")
    ] = 600.0,
    run: Annotated[str | None, typer.Option(help="The run's name; made up if left out.")] = None,
) -> None:
    """Run a method on a federation that exists, and fetch the model."""
    console = Console()
    with _explained(console):
        from pdmm.flare import runs

        if l1 is not None and l2 is not None:
            raise ValueError("give --l1 or --l2, not both")
        regulariser: pdmm.Regulariser | None = None
        if l1 is not None:
            regulariser = pdmm.L1(l1)
        if l2 is not None:
            regulariser = pdmm.SquaredL2(l2)
        chosen = runs.named_method(
            method,
            step_size=_number("step-size", step_size),
            local_steps=local_steps,
            rho=_number("rho", rho),
            gamma=_number("gamma", gamma),
            relaxation=relaxation,
            acceleration=acceleration,
        )
        asked = runs.settings(
            chosen,
            rounds=rounds,
            tolerance=tolerance,
            weights=_weights(weights),
            regulariser=regulariser,
            timeout=timeout,
            patience=patience,
            absent=absent,
            every=every,
            run=run,
        )
        names = None if sites is None else [name.strip() for name in sites.split(",")]
        _complete(console, kit, asked, out, names, restarts, wait)


def _complete(
    console: Console,
    kit: Path,
    asked: dict[str, Any],
    out: Path,
    sites: list[str] | None,
    restarts: int,
    wait: float,
) -> None:
    from pdmm.flare import runs

    say = _say(console)
    say(f"Run {asked['run']}")
    try:
        with _progress(console) as show:
            model = runs.complete(
                kit, asked, out, sites=sites, restarts=restarts, wait=wait, show=show, say=say
            )
    except KeyboardInterrupt:
        say(
            f"If it has been submitted, the run goes on without you. To see it: pdmm federate "
            f"status --kit {kit}; to fetch its model, or go on with it: pdmm federate resume "
            f"--kit {kit} --out {out} {asked['run']}"
        )
        raise
    for line in _summary(model.result):
        say(line)
    say(f"Model: {out}\nHistory: {runs.history_path(out)}")


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="The run's name.")],
    kit: Kit,
    out: Annotated[Path, typer.Option(help="A file for the model, safetensors.")],
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
    restarts: Annotated[int, typer.Option(min=0, help="How often to take the run up again.")] = 5,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for the server, and for all sites to begin.")
    ] = 600.0,
) -> None:
    """Go on with a run from its checkpoint at the server, and fetch the model.

    A run that still goes on is followed; one that had come to its end gives its model again.
    """
    console = Console()
    with _explained(console):
        from pdmm.flare import runs

        asked = runs.resumption(name, rounds=rounds, timeout=timeout, patience=patience)
        names = None if sites is None else [part.strip() for part in sites.split(",")]
        _complete(console, kit, asked, out, names, restarts, wait)


@app.command()
def status(kit: Kit) -> None:
    """Show which sites are connected, and how the runs stand."""
    console = Console()
    with _explained(console):
        from pdmm.flare.runs import overview

        found = overview(kit)
        console.print(f"Sites connected: {', '.join(found.sites) or 'none'}", markup=False)
        if not found.runs:
            console.print("No runs yet.")
            return
        table = Table(title="Runs", title_justify="left")
        for heading in ("run", "began", "state"):
            table.add_column(heading, no_wrap=True)
        table.add_column("how far, or why not")
        for row in found.runs:
            table.add_row(*row)
        console.print(table)
