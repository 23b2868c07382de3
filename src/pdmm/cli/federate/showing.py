"""What the commands for federations print: words, progress, and errors in one sentence."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich.console import Console

from pdmm.cli.federate.progress import Show, progress, size, standing, times_words
from pdmm.cli.federate.signals import as_ctrl_c

__all__ = ["Say", "Show", "explained", "progress", "speaker", "standing", "summary", "times_words"]
Say = Callable[[str], None]


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


def speaker(console: Console) -> Say:
    """A function that prints text, whose lines only the terminal breaks."""
    return lambda text: console.print(text, soft_wrap=True)


def summary(result: dict[str, Any]) -> list[str]:
    """What came of a run, line by line; all sites beside each other if one stands out."""
    first = f"{result['rounds']} rounds, {size(result['bytes'])}: {result['reason']}"
    rows = result.get("shares") or []
    told = [row["words"] for row in rows]
    if not any(row["flagged"] for row in rows):
        told = []
    notes = [text for text in result["choices"] if text not in told]
    return [first, *(f"- {text}" for text in (*notes, *told))]
