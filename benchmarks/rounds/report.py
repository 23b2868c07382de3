"""The measurements as tables, for the terminal and for a page."""

from collections.abc import Callable, Sequence

import numpy as np
from rich.table import Table

from benchmarks.rounds.columns import METHODS, SWEPT, Row
from benchmarks.rounds.runs import Reached
from benchmarks.rounds.targets import VECTORS, full_limit

Lines = list[list[str]]
LEFT = ("problem", "target", "verdict", "measured", "what it is")


def rounds(rows: Sequence[Row]) -> tuple[list[str], Lines]:
    """Rounds to the target; a dagger where Newton's certificate did not say so."""
    head = ["problem", "m", "d", *METHODS]
    lines = []
    for row in rows:
        p = row.goal.problem
        cells = [_rounds(name, row.by[name]) for name in METHODS]
        lines.append([_name(row), str(p.clients), str(p.dimension), *cells])
    return head, lines


def _rounds(column: str, reached: Reached) -> str:
    exact = column in ("Newton", "auto, full")
    unproven = exact and reached.rounds is not None and not reached.proven
    return f"{reached} †" if unproven else str(reached)


def numbers(rows: Sequence[Row]) -> tuple[list[str], Lines]:
    """Numbers that each client sent by then."""
    return _of_each(rows, lambda reached: f"{reached.numbers:,.0f}")


def seconds(rows: Sequence[Row]) -> tuple[list[str], Lines]:
    """Seconds of one core by then."""
    return _of_each(rows, lambda reached: f"{reached.seconds:.2f}")


def _of_each(rows: Sequence[Row], told: Callable[[Reached], str]) -> tuple[list[str], Lines]:
    lines = []
    for row in rows:
        found = [row.by[name] for name in METHODS]
        lines.append([_name(row), *(told(r) if r.rounds is not None else "–" for r in found)])
    return ["problem", *METHODS], lines


def swept(rows: Sequence[Row]) -> tuple[list[str], Lines]:
    """Rounds of the methods that were swept, as the columns come and on treated ones."""
    head = ["problem", *SWEPT, *(f"{name}, treated" for name in SWEPT)]
    lines = []
    for row in rows:
        if row.swept:
            plain = [str(row.swept[name]) for name in SWEPT]
            lines.append([_name(row), *plain, *(str(row.swept_treated[name]) for name in SWEPT)])
    return head, lines


def ratios(rows: Sequence[Row]) -> tuple[list[str], Lines]:
    """Rounds with the diagonal metric for each of L-BFGS, the worst first."""
    head = ["problem", "auto, diagonal", "L-BFGS, treated", "ratio"]
    there = [r for r in rows if not r.goal.synthetic and not np.isnan(r.ratio)]
    lines = []
    for row in sorted(there, key=lambda row: -row.ratio):
        ours, theirs = row.by["auto, diagonal"], row.by["L-BFGS, treated"]
        lines.append([_name(row), str(ours), str(theirs), _ratio(ours, theirs)])
    return head, lines


def _ratio(ours: Reached, theirs: Reached) -> str:
    if ours.rounds is None:
        return f">{ours.most / theirs.number:.2f}"
    if theirs.rounds is None:
        return f"<{ours.rounds / theirs.most:.2f}"
    return f"{ours.rounds / theirs.rounds:.2f}"


def coarse(rows: Sequence[Row]) -> tuple[list[str], Lines]:
    """Rounds to the coarser target on the synthetic problems, beside those that were asked for."""
    head = ["problem", "none", "before", "diagonal", "full", "at most", "PDMM, own", "PDMM, full"]
    lines = []
    for row in rows:
        if row.goal.synthetic:
            name = row.goal.name
            told = {column: _coarse(row.by[column]) for column in METHODS}
            lines.append(
                [
                    name,
                    told["auto, none"],
                    str(VECTORS[name]),
                    told["auto, diagonal"],
                    told["auto, full"],
                    str(full_limit(name)),
                    told["PDMM, own"],
                    told["PDMM, full"],
                ]
            )
    return head, lines


def _coarse(reached: Reached) -> str:
    if reached.refused or reached.failed:
        return str(reached)
    return f">{reached.most}" if reached.coarse is None else str(reached.coarse)


def _name(row: Row) -> str:
    return row.goal.name + (" *" if row.goal.held_out else "")


# --- where they go ----------------------------------------------------------------------------


def table(title: str, head: list[str], lines: Lines) -> Table:
    """For the terminal."""
    shown = Table(title=title, title_justify="left")
    for name in head:
        left = name in LEFT
        shown.add_column(
            name.replace(", ", ",\n"), justify="left" if left else "right", no_wrap=left
        )
    for line in lines:
        shown.add_row(*line)
    return shown


def markdown(head: list[str], lines: Lines) -> str:
    """The same for a page."""
    rule = ["---" if name in LEFT else "--:" for name in head]
    escaped = [[cell.replace("*", "\\*") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *escaped])
