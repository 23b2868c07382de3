"""Networks: the accuracy of seven methods against rounds and bytes, and which rho is best."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdmm.paper.findings.verdicts import Runs, Table
from pdmm.paper.neural import trials
from pdmm.paper.neural.training import METHODS
from pdmm.paper.neural.trials import Clients, Pair
from pdmm.paper.store import Columns
from pdmm.report.accuracy_figures import Band, Row, draw
from pdmm.report.document import Section

TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
MODELS = {"mlp": "a network 784-64-10", "cnn": "a network of two convolutions"}
WHO = {"shards": "two shards each", "dirichlet": "Dirichlet(0.1) labels"}
FAMILY = ("GPDMM", "GPDMM, last", "AGPDMM")
OWN = {"FedProx": "mu", "FedDyn": "alpha", **dict.fromkeys(FAMILY, "c")}


class Kind(NamedTuple):
    """What runs that differ only in their seed have in common."""

    clients: int
    bits: int | None
    method: str


def section(runs: Runs, out: Path, quick: bool) -> Section:
    """A figure, and tables of what was chosen, of the ends, and of rho."""
    first = runs[0][0].parameters
    where = first["problem"]
    dealt = trials.splits(quick)
    bands = _bands(runs)
    best = trials.chosen(runs)
    rows = [Row(_title(how), _of(bands, how)) for how in dealt]
    return Section(
        f"{TITLES[where['data']]}, {MODELS[where['model']]}",
        text=[*_text(quick), *(_about(how) for how in dealt)],
        tables=[
            *(_ends(bands, best, how) for how in dealt),
            *(_grid(runs, how) for how in dealt),
        ],
        figures=[draw(rows, out / first["experiment"])[0]],
    )


def _text(quick: bool) -> list[str]:
    seeds = len(trials.seeds(quick))
    return [
        f"K = {trials.LOCAL_STEPS} local steps, shuffled batches of {trials.BATCH}, weights by the "
        "clients' numbers of samples; rho of GPDMM and AGPDMM is c/(K eta). Every method has "
        f"{len(trials.tried('FedAvg')[:: trials.QUICK_EVERY if quick else 1])} trials: eta of "
        f"{_list(trials.STEPS)} with three values of its own parameter, or as many eta from "
        f"{min(trials.MORE_STEPS):g} to {max(trials.MORE_STEPS):g} where it has none. A trial has "
        "half of the rounds, and is judged on a tenth of the training images, set aside (seed 0). "
        f"Then {seeds} seeds, each of which deals the data and starts the network anew, with all "
        "training images. Accuracy on the test images after the last round, in percent: mean "
        "(least to largest). Lines of the figure are means, bands reach from the least to the "
        "largest. MB: what all clients send and receive in a run, in float32 or in so many bits.",
    ]


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _title(how: Clients) -> str:
    return f"{how.clients} clients, {WHO[how.by]}"


def _about(how: Clients) -> str:
    part = "all of them" if how.participation == 1 else f"{how.participation:.0%} of them"
    return f"{_title(how)}: {part} in each of {how.rounds} rounds."


def _bands(runs: Runs) -> dict[Kind, Band]:
    by: dict[Kind, list[Columns]] = {}
    for job, columns in trials.stage(runs, "test"):
        clients, method = trials.key(job)
        kind = Kind(clients, job.parameters["settings"]["bits"], method)
        by.setdefault(kind, []).append(columns)
    return {kind: _band(kind, found) for kind, found in by.items()}


def _band(kind: Kind, found: list[Columns]) -> Band:
    common = min(len(columns["round"]) for columns in found)  # one that diverged ends early
    sent = [columns["bytes_up"][:common] + columns["bytes_down"][:common] for columns in found]
    return Band(
        kind.method,
        kind.bits,
        found[0]["round"][:common],
        np.mean(sent, axis=0) / 1e6,
        np.array([columns["accuracy"][:common] for columns in found]),
    )


def _of(bands: dict[Kind, Band], how: Clients) -> list[Band]:
    return [band for kind, band in bands.items() if kind.clients == how.clients]


def _ends(bands: dict[Kind, Band], best: dict[trials.Key, Pair], how: Clients) -> Table:
    """The accuracy of every method in the end, with all bits and with few."""
    few = [f"{bits} bits" for bits in trials.BITS]
    few_megabytes = [f"MB, {name}" for name in few]
    table = [[_title(how), "chosen", "accuracy", "MB", *_alternating(few, few_megabytes)]]
    for method in METHODS:
        cells: list[str] = []
        for bits in (None, *trials.BITS):
            cells += _end(bands.get(Kind(how.clients, bits, method)))
        table.append([method, _chosen(method, best[how.clients, method]), *cells])
    return table


def _alternating(one: list[str], other: list[str]) -> Iterator[str]:
    for both in zip(one, other, strict=True):
        yield from both


def _chosen(method: str, pair: Pair) -> str:
    step = f"eta {pair.step_size:g}"
    return step if pair.own is None else f"{step}, {OWN[method]} {pair.own:g}"


def _end(band: Band | None) -> list[str]:
    if band is None:
        return ["", ""]
    last = band.accuracy[:, -1]
    reached = f"{last.mean():.1f} ({last.min():.1f} to {last.max():.1f})"
    return [reached, f"{band.megabytes[-1]:.3g}"]


def _grid(runs: Runs, how: Clients) -> Table:
    """Validation accuracy for every c, with the step size that is best for it."""
    reached: dict[tuple[str, float], tuple[float, float]] = {}
    for job, columns in trials.stage(runs, "validation"):
        clients, method = trials.key(job)
        pair = trials.pair_of(job)
        if clients == how.clients and method in FAMILY and pair.own is not None:
            found = trials.score(job, columns), pair.step_size
            what = method, pair.own
            reached[what] = max(reached.get(what, (0.0, 0.0)), found)
    cs = sorted({c for _, c in reached})
    table = [["validation accuracy, best eta", *(f"rho = {c:g}/(K eta)" for c in cs)]]
    for method in FAMILY:
        cells = [reached.get((method, c)) for c in cs]
        table.append(
            [method, *(f"{cell[0]:.1f} (eta {cell[1]:g})" if cell else "" for cell in cells)]
        )
    return table
