"""The command ``pdmm``: parse, call the API, show."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

try:
    import matplotlib
    import typer
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
except ImportError as error:
    sys.exit(f"the pdmm command needs {error.name}: pip install 'pdmm[cli]'")

import pdmm
from pdmm.cli import federate, tables
from pdmm.cli.terminal import terminal, text_column

app = typer.Typer(
    help="Federated optimisation with the primal-dual method of multipliers.",
    no_args_is_help=True,
    add_completion=False,
)


@contextmanager
def _needs(command: str) -> Iterator[None]:
    """Say in one sentence what is missing where only a part of the command was installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        print(f"{command} needs {error.name}: pip install 'pdmm[cli]'", file=sys.stderr)
        raise typer.Exit(1) from None


def _version(show: bool) -> None:
    if show:
        print(f"pdmm {pdmm.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Federated optimisation with the primal-dual method of multipliers."""
    matplotlib.use("Agg")


for command in (tables.fit, tables.predict, tables.evaluate, tables.show):
    app.command()(command)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("out"),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of messages.")] = 60,
) -> None:
    """Fit a real table with six sites, then compare all methods on the paper's problem."""
    from pdmm.paper import demo as setting
    from pdmm.report import figures, text_tables

    console = terminal()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {out}: {error}") from None
    tables.demo(out)
    console.print(
        f"\n\n2. How the methods compare, on the paper's problem\n\n"
        f"Least squares as in the paper: {setting.CLIENTS} clients with {setting.SAMPLES} samples "
        f"of {setting.FEATURES} features each, generated in memory.\n"
        f"step size {setting.STEP:g}, {setting.STEPS} local steps a round, {rounds} rounds.\n"
    )
    columns = (text_column("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("generating data", total=rounds * len(setting.methods()))
        runs = setting.run(rounds, lambda name: bar.update(task, advance=1, description=name))
        results = dict(runs)
    console.print(text_tables.comparison(results, gap=1e-6, title="To a gap F(x) - F* of 1e-6"))
    path = figures.convergence(
        results,
        f"Least squares, {setting.CLIENTS} clients, {setting.STEPS} local steps",
        out / "demo.png",
    )
    console.print(f"\nFigure: {path}", soft_wrap=True)


@app.command()
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            help="fig1, fig2, fig3, table1, theorem1, network or all; networks, networks-mlp or "
            "networks-cnn, which are not among all."
        ),
    ],
    quick: Annotated[bool, typer.Option(help="A small version of it, in two minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for runs, figures and report.")] = None,
    engine: Annotated[
        str, typer.Option(help="local, or mpi: mpirun -n 4 pdmm reproduce fig2 --engine mpi.")
    ] = "local",
) -> None:
    """Run the paper's experiments, and put the results beside the paper's claims.

    Finished runs are kept: an interrupted command goes on where it was.
    """
    with _needs("pdmm reproduce"):
        from pdmm.data import DataError
        from pdmm.paper import reproduce as paper

    if what not in paper.NAMES:
        raise typer.BadParameter(f"{what!r} is not one of {', '.join(paper.NAMES)}")
    if engine not in ("local", "mpi"):
        raise typer.BadParameter(f"engine must be local or mpi, got {engine!r}")
    if engine == "mpi" and what not in paper.SHARED:
        raise typer.BadParameter(f"--engine mpi is for {' and '.join(paper.SHARED)}, not {what}")
    try:
        mpi = pdmm.engines.MPI() if engine == "mpi" else None
    except ImportError as error:
        raise typer.BadParameter(str(error)) from None
    folder = out or Path("out") / ("reproduction-quick" if quick else "reproduction")
    console = terminal(quiet=mpi is not None and mpi.rank > 0)
    columns = (
        text_column("{task.description:<40}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=console, transient=True, speed_estimate_period=120) as bar:
            task = bar.add_task("setting up", total=paper.cost(what, quick))
            written = paper.reproduce(
                what,
                folder,
                quick,
                lambda label, cost: bar.update(task, advance=cost, description=label),
                mpi,
            )
    except (DataError, ImportError) as error:
        notes = getattr(error, "__notes__", [])
        console.print("\n".join([str(error), *notes]), soft_wrap=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        console.print(
            f"Stopped; finished runs are in {folder / 'runs'} and will not be repeated.",
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    for path in written:
        console.print(str(path), soft_wrap=True)


app.add_typer(federate.app, name="federate")
data = typer.Typer(help="Data sets of the paper.", no_args_is_help=True)
app.add_typer(data, name="data")


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="mnist or fashion-mnist.")],
    folder: Annotated[
        Path | None, typer.Option(help="A folder that may hold it; looked at first.")
    ] = None,
) -> None:
    """Find a data set or download it, check it, and say where it is."""
    from pdmm.data import NAMES, DataError
    from pdmm.data import fetch as find
    from pdmm.data.sources import cache_folder

    if name not in NAMES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(NAMES)}")
    console = terminal()
    try:
        with _needs("pdmm data fetch"):
            files, origin = find(name, folder)
    except DataError as error:
        console.print(str(error), soft_wrap=True)
        raise typer.Exit(1) from None
    size = sum(len(contents) for contents in files.values()) / 1e6
    console.print(f"{name}: {len(files)} files, {size:.0f} MB, checked.", soft_wrap=True)
    console.print(f"From {origin}", soft_wrap=True)
    if (kept := cache_folder() / name).is_dir():
        console.print(f"Kept in {kept}", soft_wrap=True)


def main() -> None:
    """Entry point of the ``pdmm`` command."""
    app()


if __name__ == "__main__":
    main()
