"""The command ``pdmm``: parse, call the API, show."""

import sys
from pathlib import Path
from typing import Annotated

try:
    import matplotlib
    import typer
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
except ImportError as error:
    sys.exit(f"the pdmm command needs {error.name}: pip install 'pdmm[cli]'")

import pdmm

app = typer.Typer(
    help="Federated optimisation with the primal-dual method of multipliers.",
    no_args_is_help=True,
    add_completion=False,
)


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("out"),
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of messages.")] = 60,
) -> None:
    """Run every method on the paper's least-squares problem, and compare them."""
    from pdmm.paper import demo as setting
    from pdmm.report import figures, tables

    console = Console()
    console.print(
        f"Least squares as in the paper: {setting.CLIENTS} clients with {setting.SAMPLES} samples "
        f"of {setting.FEATURES} features each, generated in memory.\n"
        f"step size {setting.STEP:g}, {setting.STEPS} local steps a round, {rounds} rounds.\n"
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("generating data", total=rounds * len(setting.methods()))
        runs = setting.run(rounds, lambda name: bar.update(task, advance=1, description=name))
        results = dict(runs)
    console.print(tables.comparison(results, gap=1e-6, title="To a gap F(x) - F* of 1e-6"))
    path = figures.convergence(
        results,
        f"Least squares, {setting.CLIENTS} clients, {setting.STEPS} local steps",
        out / "demo.png",
    )
    console.print(f"\nFigure: {path}")


def main() -> None:
    """Entry point of the ``pdmm`` command."""
    app()
