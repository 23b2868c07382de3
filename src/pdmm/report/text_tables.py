"""Tables for the terminal."""

from collections.abc import Mapping

from rich.table import Table

from pdmm.result import Result


def comparison(results: Mapping[str, Result], gap: float, title: str) -> Table:
    """Rounds and megabytes to reach a gap, and the final gap, with one row per method."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.caption = "MB of all clients, up and down, as pdmm sends them; in brackets as published."
    table.add_column("method", no_wrap=True)
    for heading in ("rounds", "MB", "(MB)", "final gap"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        h = result.history
        reached = h.rounds_to(gap)
        cells = ["—"] * 3
        if reached is not None:
            row = int((h["round"] == reached).argmax())
            cells = [
                str(reached),
                f"{(h['bytes_up'] + h['bytes_down'])[row] / 1e6:.1f}",
                f"({(h['paper_bytes_up'] + h['paper_bytes_down'])[row] / 1e6:.1f})",
            ]
        table.add_row(name, *cells, f"{h['gap'][-1]:.1e}")
    return table
