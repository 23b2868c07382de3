"""What a site's policy means for its table, and what its audit has, in words."""

from collections.abc import Sequence
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING

from pdmm.privacy.audit import Audit, Entry
from pdmm.privacy.outlook import Outlook
from pdmm.privacy.policy import Policy

if TYPE_CHECKING:
    from pdmm.study import TableOutlook


def table_words(found: "TableOutlook", policy: Policy) -> list[str]:
    """What the site's table is like, and which columns studies may use."""
    lines = [f"- fits are about {found.rows:,} rows, and studies hear of sums over them"]
    if found.aside:
        lines.append(f"- {found.aside:,} more rows are set aside, on which models are evaluated")
    else:
        lines.append("- no rows are set aside for evaluation: evaluation_share is 0")
    lines.extend(f"- no study may ask about this table: {each}" for each in found.objections)
    rows = [("column", "kind", "missing", "values", "rarest", "")]
    for one in found.columns:
        missing = f"{one.missing:.1%}" if one.missing else ""
        levels = "" if one.levels is None else f"{one.levels:,}"
        rarest = "" if one.rarest is None else f"{one.rarest:,} rows"
        rows.append((one.name, one.kind, missing, levels, rarest, one.remark))
    lines += ["", *(f"  {line}" for line in lines_of(rows)), ""]
    share = policy.max_parameters_per_row
    most = "any number of" if share == inf else f"at most {share * found.rows:,.0f}"
    lines.append(f"- a study may have {most} parameters, and at most {policy.max_rounds:,} rounds")
    return lines


def problem_words(found: Outlook) -> list[str]:
    """What the rows behind a problem are like, and whether studies may ask about them."""
    contents = found.contents
    lines = [
        f"- the table has {contents.rows:,} rows and {contents.columns:,} columns that vary; the "
        f"model has {found.parameters:,} parameters"
    ]
    if contents.rarest_level is not None:
        lines.append(f"- the rarest value of a column stands in {contents.rarest_level:,} rows")
    if contents.rarest_cell is not None:
        lines.append(
            "- the rarest combination of the discrete columns' values stands in "
            f"{contents.rarest_cell:,} rows"
        )
    if found.objections:
        lines.append("- no study may ask about this table:")
        lines.extend(f"  - {reason}" for reason in found.objections)
        return lines
    if found.left is not None:
        lines.append(f"- {max(found.left, 0):,.0f} numbers may still leave")
    elif found.most < inf:
        lines.append("- answers tell sums of squares and products, and nothing beyond these")
    else:
        lines.append("- any number of numbers may leave")
    lines.extend(
        f"- {allowed.study}: {allowed.numbers:,} numbers in a round, so {allowed.rounds:,} rounds"
        for allowed in found.allowed
    )
    return lines


def who_words(policy: Policy) -> list[str]:
    """Who may take part."""
    lines = [f"- at least {policy.min_organisations} organisations must take part"]
    if policy.partners is not None:
        lines.append(f"- only {len(policy.partners)} certificates that the policy names may")
    if policy.require_verified:
        lines.append("- the sites must compute every point themselves")
    return lines


HEADINGS = ("time", "question", "numbers", "max eta", "rows", "leverage", "outcome", "reason")


def audit_words(entries: Sequence[Entry]) -> list[str]:
    r"""The entries of an audit: each run with its questions below it.

    >>> entry = Entry("2026-01-02T03:04:05.678+00:00", "run-1/ab12", "ada", "round", 3, 21,
    ...               max_eta=2.5, effective_rows=98.7, leverage=0.25)
    >>> print(*audit_words([entry]), sep="\n")
    run-1, asked for by ada, 2026-01-02
      time      question  numbers  max eta  rows  leverage  outcome   reason
      03:04:05  round 3   21       2.5      98.7  0.25      answered
    """
    if not entries:
        return []
    heading, *rows = lines_of([HEADINGS, *map(_cells, entries)])
    lines: list[str] = []
    told = zip(entries, rows, strict=True)
    for run, own in groupby(told, lambda pair: _whose(pair[0])):
        lines += [run, f"  {heading}", *(f"  {row}" for _, row in own)]
    return lines


def _whose(entry: Entry) -> str:
    run = entry.run.rpartition("/")[0] or entry.run
    asked = f"{run}, asked for by {entry.by}" if run else f"by {entry.by}"
    return f"{asked}, {entry.time[:10]}"


def _cells(entry: Entry) -> tuple[str, ...]:
    asked = entry.verb if entry.round is None else f"{entry.verb} {entry.round}"
    return (
        entry.time[11:19],
        asked,
        str(entry.numbers),
        _number(entry.max_eta),
        _number(entry.effective_rows),
        _number(entry.leverage),
        entry.outcome,
        entry.reason,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def left_words(
    numbers: int, rows: int, columns: int | None, most: float, which: str = "a table of "
) -> str:
    """What has left of a table, and how much may.

    >>> left_words(250, 100, 10, 0.5)
    '250 numbers have left of a table of 1,000: a share of 0.250, and max_numbers_out_share is 0.5'
    >>> left_words(250, 100, None, 0.5)
    '250 numbers have left of a table of 100 rows: a study of k columns may take it to 50 k'
    """
    said = f"{numbers:,} numbers have left of {which}"
    if columns is not None:
        size = rows * columns
        share = numbers / size if size else 0.0
        limit = f"max_numbers_out_share is {most:g}"
        return f"{said}{size:,}: a share of {share:.3f}, and {limit}"
    if most == float("inf"):
        return f"{said}{rows:,} rows, and max_numbers_out_share has no limit"
    return f"{said}{rows:,} rows: a study of k columns may take it to {most * rows:,.0f} k"


def count_words(audit: Audit) -> str:
    """What happened in the last day."""
    return (
        f"In the last 24 hours {audit.begun_today()} runs began and {audit.refused_today()} "
        "questions were refused"
    )


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A line for each row, with columns below each other; the last column is open."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in padded]
