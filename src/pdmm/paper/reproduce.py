"""``pdmm reproduce``: the paper's experiments, their figures, and a report."""

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pdmm.common.whole_files import write_whole
from pdmm.data import DataError
from pdmm.engines import MPI
from pdmm.paper import (
    fig1,
    fig2,
    fig3,
    findings,
    network,
    network_findings,
    theorem1,
    theory_findings,
)
from pdmm.paper.jobs import Job, complete
from pdmm.paper.store import Columns, Store
from pdmm.report.document import Section, markdown, page

EXPERIMENTS: dict[
    str,
    tuple[Callable[[bool], list[Job]], Callable[..., Section]],
] = {
    "fig1": (fig1.jobs, findings.about_fig1),
    "fig2": (fig2.jobs, findings.about_fig2),
    "fig3": (fig3.jobs, findings.about_fig3),
    "theorem1": (theorem1.jobs, theory_findings.about_theorem1),
    "network": (network.jobs, network_findings.about_network),
}
NAMES: dict[str, tuple[str, ...]] = {
    "fig1": ("fig1",),
    "fig2": ("fig2",),
    "fig3": ("fig3",),
    "table1": ("fig3",),
    "theorem1": ("theorem1",),
    "network": ("network",),
}
NAMES["all"] = tuple(EXPERIMENTS)
SHARED = ("fig1", "fig2")  # whose runs the ranks of an MPI program can share


def cost(name: str, quick: bool) -> float:
    """How much there is to do, in units of which a job's progress is a part."""
    return sum(_share(experiment, quick) for experiment in NAMES[name])


def _share(experiment: str, quick: bool) -> float:
    # About the seconds that it takes on two cores, so that progress is close to time.
    if quick:
        return {"theorem1": 3.0, "network": 10.0}.get(experiment, 30.0)
    seconds = {"fig1": 5.0, "fig2": 390.0, "fig3": 1900.0, "theorem1": 5.0, "network": 60.0}
    return seconds[experiment]


def reproduce(
    name: str,
    out: Path,
    quick: bool,
    advance: Callable[[str, float], object],
    engine: MPI | None = None,
) -> list[Path]:
    """Run what is not in the store yet, and write figures, curves and the report.

    Args:
        name: a key of ``NAMES``.
        out: the folder for all that is written; finished runs are in its ``runs/``.
        quick: the small version.
        advance: called as ``advance(label, cost)`` as work is done.
        engine: whose ranks share every run, for the names in ``SHARED``; rank 0 writes.

    Returns:
        The files that were written, the report last; none by other ranks than 0.

    Raises:
        DataError: if images cannot be had; after the rest was run and reported.
    """
    store = Store(out / "runs")
    sections, written, missing = [], [], None
    for experiment in NAMES[name]:
        jobs, about = EXPERIMENTS[experiment]
        wanted = jobs(quick)
        scale = _share(experiment, quick) / sum(job.cost for job in wanted)
        try:
            runs = complete(wanted, store, partial(_scaled, advance, scale), engine)
        except DataError as error:
            missing = error
            continue
        if engine is not None and engine.rank > 0:
            continue
        section = about(runs, out, quick)
        sections.append(section)
        curves = out / f"{experiment}.csv"
        write_whole(curves, _csv(runs).encode())
        written += [*(f.with_suffix(s) for f in section.figures for s in (".png", ".svg")), curves]
    if engine is not None and engine.rank > 0:
        return []
    title = "The paper's experiments" + (", quick version" if quick else "")
    for suffix, render in ((".md", markdown), (".html", page)):
        path = out / f"report{suffix}"
        write_whole(path, render(title, sections).encode())
        written.append(path)
    if missing is not None:
        missing.add_note(f"The report in {out} has all that needs no such data.")
        raise missing
    return written


def _scaled(advance: Callable[[str, float], object], scale: float, label: str, cost: float) -> None:
    advance(label, scale * cost)


def _csv(runs: Sequence[tuple[Job, Columns]]) -> str:
    """All curves as one table, a row a recorded round."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for job, columns in runs:
        p = job.parameters
        fixed = {
            "method": p["method"],
            **p.get("problem", {"data": p.get("data")}),
            **p["settings"],
        }
        for row in zip(*columns.values(), strict=True):
            values = dict(zip(columns, (entry.item() for entry in row), strict=True))
            if writer is None:
                names = {**fixed, "rho": "", **values}
                writer = csv.DictWriter(text, list(names), lineterminator="\n")
                writer.writeheader()
            writer.writerow({**fixed, **values})
    return text.getvalue()
