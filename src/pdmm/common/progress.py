"""A progress bar on the terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    name: str, rounds: int, show: bool, unit: str = "rounds"
) -> Iterator[Callable[[int], object]]:
    """Yields a function that advances the bar by so many rounds, or other units."""
    if not show:
        yield lambda count: None
        return
    try:
        from rich import get_console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )
    except ImportError:
        raise ImportError("progress=True needs rich: pip install 'pdmm[cli]'") from None
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    console = get_console()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(name, total=rounds)
        yield lambda count: bar.update(task, advance=count)
