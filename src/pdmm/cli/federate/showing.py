"""What the commands for federations print: words, progress, and errors in one sentence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TimeElapsedColumn

from pdmm.cli.federate.signals import as_ctrl_c
from pdmm.cli.terminal import text_column

Say = Callable[[str], None]
Show = Callable[[dict[str, Any]], None]


@contextmanager
def explained(console: Console) -> Iterator[None]:
    """Turn errors into a sentence for people, also where a library is missing."""
    try:
        import nvflare  # noqa: F401
    except ImportError:
        console.print("pdmm federate needs NVIDIA FLARE: pip install 'pdmm[flare]'")
        raise typer.Exit(1) from None
    from pdmm.flare.admin import AdminError
    from pdmm.flare.runs import RunError
    from pdmm.flare.starting import NodeError

    known = (AdminError, NodeError, RunError, ValueError, OSError, RuntimeError, ArithmeticError)
    with as_ctrl_c() as ending:
        try:
            yield
        except known as error:
            with suppress(OSError):  # of a terminal that was closed
                console.print(f"Error: {error}", style="red", soft_wrap=True)
            raise typer.Exit(ending.code(1)) from None
        except KeyboardInterrupt:
            with suppress(OSError):
                console.print("Stopped.")
            raise typer.Exit(ending.code(130)) from None


@contextmanager
def progress(console: Console) -> Iterator[Show]:
    """A line that says how far a run is; yields the function that takes the run's reports."""
    columns = (
        text_column("round {task.completed:.0f}"),
        BarColumn(bar_width=16),
        text_column("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting for the sites", total=None)

        def show(told: dict[str, Any]) -> None:
            words = standing(told)
            bar.update(task, completed=told["round"], total=told["rounds"], description=words)

        yield show


def standing(told: dict[str, Any]) -> str:
    """How a run stands, in a few words.

    >>> standing({"gap": 1e-3, "bytes": 5e6, "answering": ["north"], "sites": ["north", "south"]})
    'gap 1.0e-03  5.00 MB  1 of 2 sites'
    """
    words = []
    for name in ("gap", "residual"):
        if told.get(name) is not None:
            words.append(f"{name} {told[name]:.1e}")
            break
    words.append(f"{told['bytes'] / 1e6:.2f} MB")
    words.append(f"{len(told['answering'])} of {len(told['sites'])} sites")
    return "  ".join(words)


def speaker(console: Console) -> Say:
    """A function that prints text, whose lines only the terminal breaks."""
    return lambda text: console.print(text, soft_wrap=True)


def summary(result: dict[str, Any]) -> list[str]:
    """What came of a run, line by line; all sites beside each other if one stands out."""
    first = f"{result['rounds']} rounds, {result['bytes'] / 1e6:.2f} MB: {result['reason']}"
    rows = result.get("shares") or []
    told = [row["words"] for row in rows]
    if not any(row["flagged"] for row in rows):
        told = []
    notes = [text for text in result["choices"] if text not in told]
    return [first, *(f"- {text}" for text in (*notes, *told))]
