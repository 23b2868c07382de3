"""``pdmm reproduce``: the paper's experiments, their figures, and a report."""

import csv
import io
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from pdmm.common.whole_files import write_whole
from pdmm.data import DataError
from pdmm.engines import MPI
from pdmm.paper import fig1, fig2, fig3, network, theorem1
from pdmm.paper.findings import (
    about_fig1,
    about_fig2,
    about_fig3,
    about_network,
    about_networks,
    about_theorem1,
)
from pdmm.paper.jobs import Job, complete
from pdmm.paper.neural import trials
from pdmm.paper.store import Columns, Store
from pdmm.report.document import Section, markdown, page

log = logging.getLogger(__name__)


class Experiment(NamedTuple):
    """What to run, given whether it is the quick version, and what to say of the runs."""

    jobs: Callable[[bool], list[Job]]
    section: Callable[[Sequence[tuple[Job, Columns]], Path, bool], Section]
    then: tuple[Callable[[bool, Sequence[tuple[Job, Columns]]], list[Job]], ...] = ()
    """Jobs that depend on what came of the first ones, step by step."""


EXPERIMENTS = {
    "fig1": Experiment(fig1.jobs, about_fig1.section),
    "fig2": Experiment(fig2.jobs, about_fig2.section),
    "fig3": Experiment(fig3.jobs, about_fig3.section),
    "theorem1": Experiment(theorem1.jobs, about_theorem1.section),
    "network": Experiment(network.jobs, about_network.section),
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
for _model, _data in product(trials.MODELS, trials.DATA):
    EXPERIMENTS[trials.name(_model, _data)] = Experiment(
        partial(trials.trials, _model, _data),
        about_networks.section,
        (partial(trials.tests, _model, _data), partial(trials.rounded, _model, _data)),
    )
for _model in trials.MODELS:  # not among all: they need PyTorch, and hours
    NAMES[f"networks-{_model}"] = trials.names(_model)
NAMES["networks"] = NAMES["networks-mlp"] + NAMES["networks-cnn"]
QUICK = {name: NAMES[name][:1] for name in ("networks", "networks-mlp", "networks-cnn")}
SHARED = ("fig1", "fig2")  # whose runs the ranks of an MPI program can share


def experiments(name: str, quick: bool) -> tuple[str, ...]:
    """The experiments that a name stands for."""
    return QUICK.get(name, NAMES[name]) if quick else NAMES[name]


def cost(name: str, quick: bool) -> float:
    """How much there is to do, in units of which a job's progress is a part."""
    return sum(_share(experiment, quick) for experiment in experiments(name, quick))


def _share(experiment: str, quick: bool) -> float:
    # About the seconds that it takes on two cores, so that progress is close to time.
    if experiment.startswith("networks-"):
        return 30.0 if quick else 1000.0
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
    writes = engine is None or engine.rank == 0
    sections: list[Section] = []
    written: list[Path] = []
    missing: DataError | None = None
    for experiment in experiments(name, quick):
        try:
            runs = _runs(experiment, quick, store, advance, engine)
        except DataError as error:
            log.warning("%s: left out, because its data were not found", experiment)
            missing = error
            continue
        if writes:
            section = EXPERIMENTS[experiment].section(runs, out, quick)
            sections.append(section)
            written += _drawn(section)
            written.append(_write_curves(runs, out / f"{experiment}.csv"))
    if not writes:
        return []
    written += _write_report(sections, out, quick)
    if missing is not None:
        missing.add_note(f"The report in {out} has all that needs no such data.")
        raise missing
    return written


def _runs(
    name: str,
    quick: bool,
    store: Store,
    advance: Callable[[str, float], object],
    engine: MPI | None,
) -> list[tuple[Job, Columns]]:
    """All runs of an experiment, from the store or made now."""
    experiment = EXPERIMENTS[name]
    share = _share(name, quick) / (1 + len(experiment.then))  # each step takes about as long

    def of(jobs: list[Job]) -> list[tuple[Job, Columns]]:
        log.info("%s: %d runs, those that are finished in %s", name, len(jobs), store.folder)
        scale = share / sum(job.cost for job in jobs)
        return complete(jobs, store, partial(_scaled, advance, scale), engine)

    runs = of(experiment.jobs(quick))
    for then in experiment.then:
        runs += of(then(quick, runs))
    return runs


def _scaled(advance: Callable[[str, float], object], scale: float, label: str, cost: float) -> None:
    advance(label, scale * cost)


def _drawn(section: Section) -> list[Path]:
    """The files of a section's figures, each of which is there in both formats."""
    return [figure.with_suffix(suffix) for figure in section.figures for suffix in (".png", ".svg")]


def _write_curves(runs: Sequence[tuple[Job, Columns]], path: Path) -> Path:
    write_whole(path, _csv(runs).encode())
    return path


def _write_report(sections: list[Section], out: Path, quick: bool) -> list[Path]:
    title = "The paper's experiments" + (", quick version" if quick else "")
    paths = [out / "report.md", out / "report.html"]
    for path, render in zip(paths, (markdown, page), strict=True):
        write_whole(path, render(title, sections).encode())
    return paths


def _csv(runs: Sequence[tuple[Job, Columns]]) -> str:
    """All curves as one table, with one row for each recorded round."""
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
