"""The terminal that the command writes to."""

from rich.console import Console
from rich.progress import TextColumn


def terminal(quiet: bool = False) -> Console:
    """A console that prints text as it is: brackets are no markup, and ``x.py:a:`` no emoji."""
    return Console(quiet=quiet, markup=False, emoji=False, highlight=False)


def text_column(text: str) -> TextColumn:
    """A part of a progress bar, likewise."""
    return TextColumn(text, markup=False)
