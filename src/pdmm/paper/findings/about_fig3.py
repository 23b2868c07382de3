"""Fig. 3 and Table 1: training loss and validation accuracy of softmax regression."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from pathlib import Path

from pdmm.paper import fig3
from pdmm.paper.findings.verdicts import Claim, Runs, Table, verdict
from pdmm.paper.store import Columns
from pdmm.report.document import Section
from pdmm.report.paper_figures import Curve, Panel, grid

TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
MARGIN = 0.15  # percentage points that two accuracies may differ by and count as the same
SEVERAL = fig3.KS[1:]  # the K for which a client does more than one step


@dataclass(frozen=True)
class Cell:
    """A cell of Table 1: a data set, a method, and the number K of local steps."""

    data: str
    method: str
    K: int

    @property
    def paper(self) -> float:
        """The accuracy that the paper has there, in percent."""
        return fig3.TABLE[self.data][self.method][fig3.KS.index(self.K)]


Curves = dict[Cell, Columns]
Ends = dict[Cell, float]  # the last value of something, by cell


def section(runs: Runs, out: Path, quick: bool) -> Section:
    """Training loss, and Table 1."""
    by: Curves = {}
    for job, columns in runs:
        p = job.parameters
        by[Cell(p["data"], p["method"], p["settings"]["local_steps"])] = columns
    accuracy = {cell: float(columns["accuracy"][-1]) for cell, columns in by.items()}
    loss = {cell: float(columns["loss"][-1]) for cell, columns in by.items()}
    claims = [] if quick else [_table1(accuracy), _order(accuracy)]
    claims += [
        _improves_with_K(loss),
        _agpdmm_has_best_loss(loss),
        _agpdmm_beats_scaffold(loss),
        _scaffold_beats_gpdmm(accuracy),
        _agpdmm_has_best_accuracy(accuracy),
    ]
    return Section(
        "Fig. 3 and Table 1: softmax regression",
        text=_text(runs[0][0].parameters["rounds"], quick),
        tables=[_table(accuracy, data, quick) for data in TITLES],
        claims=claims,
        figures=[_figure(by, out, quick)],
    )


def _text(rounds: int, quick: bool) -> list[str]:
    setting = (
        f"One class per client, eta = {fig3.STEP}, batches of {fig3.BATCH} in stored order, "
        f"pixels / 255, a bias, {rounds} rounds from 0. The paper does not state the number of "
        "rounds."
    )
    if quick:
        return [
            setting,
            "Validation accuracy in percent. The quick version has far too few rounds for Table 1.",
        ]
    return [
        setting,
        "Table 1, validation accuracy in percent: measured (the paper's, difference); more "
        "than 0.15 apart is marked (!).",
    ]


def _figure(by: Curves, out: Path, quick: bool) -> Path:
    # In a few rounds some curves do not come far below the loss that all begin with.
    top = fig3.FIRST_LOSS if quick else 1.5
    rows = [[_panel(by, data, K) for K in fig3.KS] for data in TITLES]
    titles = list(TITLES.values())
    return grid(rows, titles, "round", "training loss", out / "fig3", top=top)[0]


def _panel(by: Curves, data: str, K: int) -> Panel:
    curves = []
    for method in fig3.METHODS:
        columns = by[Cell(data, method, K)]
        curves.append(Curve(method, columns["round"], columns["loss"]))
    return Panel(f"K = {K}", curves, log_across=True)


def _columns(Ks: Sequence[int] = fig3.KS) -> Iterator[tuple[str, int]]:
    """The columns of Table 1, each of which is a panel of Fig. 3: a data set and a K."""
    for data in TITLES:
        for K in Ks:
            yield data, K


def _outside(accuracy: Ends, cell: Cell) -> bool:
    return abs(accuracy[cell] - cell.paper) > MARGIN + 1e-9


def _table(accuracy: Ends, data: str, quick: bool) -> Table:
    """Table 1 on one data set, ours beside the paper's where the rounds are the paper's."""
    table = [[TITLES[data], *(f"K = {K}" for K in fig3.KS)]]
    for method in fig3.METHODS:
        cells = [Cell(data, method, K) for K in fig3.KS]
        shown = [f"{accuracy[cell]:.2f}" if quick else _compared(accuracy, cell) for cell in cells]
        table.append([method, *shown])
    return table


def _compared(accuracy: Ends, cell: Cell) -> str:
    ours = accuracy[cell]
    mark = " (!)" if _outside(accuracy, cell) else ""
    return f"{ours:.2f} ({cell.paper:.2f}, {ours - cell.paper:+.2f}){mark}"


def _table1(accuracy: Ends) -> Claim:
    cells = [Cell(data, method, K) for data in TITLES for method in fig3.METHODS for K in fig3.KS]
    outside = [
        f"{TITLES[cell.data]} {cell.method} K = {cell.K}"
        for cell in cells
        if _outside(accuracy, cell)
    ]
    measured = f"{len(cells) - len(outside)} of {len(cells)} cells within 0.15 points"
    if outside:
        measured += f"; not: {', '.join(outside)}"
    return "Table 1", verdict(not outside), measured


def _order(accuracy: Ends) -> Claim:
    flips = []
    for data, K in _columns():
        for a, b in permutations(fig3.METHODS, 2):
            better = Cell(data, a, K)
            worse = Cell(data, b, K)
            if better.paper - worse.paper > MARGIN and accuracy[better] <= accuracy[worse]:
                flips.append(f"{TITLES[data]} K = {K}: {a}, {b}")
    measured = f"{len(flips)} pairs in another order"
    if flips:
        measured += f": {'; '.join(flips)}"
    return (
        "The order of methods in Table 1, where margins exceed 0.15",
        verdict(not flips),
        measured,
    )


def _improves_with_K(loss: Ends) -> Claim:
    exceptions = []
    for data, title in TITLES.items():
        for method in fig3.METHODS:
            ends = [loss[Cell(data, method, K)] for K in fig3.KS]
            if any(more > fewer for fewer, more in pairwise(ends)):
                exceptions.append((method, title))
    named = ", ".join(f"{method} on {title}" for method, title in exceptions)
    return (
        "Training loss improves as K increases, except FedAvg's",
        verdict({method for method, _ in exceptions} <= {"FedAvg"}),
        f"exceptions: {named or 'none'}",
    )


def _agpdmm_has_best_loss(loss: Ends) -> Claim:
    best = 0
    for data, K in _columns():
        lowest = min(loss[Cell(data, method, K)] for method in fig3.METHODS)
        best += loss[Cell(data, "AGPDMM", K)] <= lowest * (1 + 1e-6)
    return (
        "AGPDMM performs best in training loss",
        verdict(best == 10),
        f"best or equal in {best} of 10 panels",
    )


def _agpdmm_beats_scaffold(loss: Ends) -> Claim:
    faster = sum(
        loss[Cell(data, "AGPDMM", K)] < loss[Cell(data, "SCAFFOLD", K)]
        for data, K in _columns(SEVERAL)
    )
    return (
        "AGPDMM converges faster than SCAFFOLD when K > 1",
        verdict(faster == 8),
        f"lower training loss in the end in {faster} of 8 panels",
    )


def _scaffold_beats_gpdmm(accuracy: Ends) -> Claim:
    behind = sum(
        accuracy[Cell(data, "GPDMM", K)] <= accuracy[Cell(data, "SCAFFOLD", K)]
        for data, K in _columns()
    )
    return (
        "SCAFFOLD performs slightly better than GPDMM in validation accuracy",
        verdict(behind == 10),
        f"better or equal in {behind} of 10 columns",
    )


def _agpdmm_has_best_accuracy(accuracy: Ends) -> Claim:
    best = 0
    for data, K in _columns():
        highest = max(accuracy[Cell(data, method, K)] for method in fig3.METHODS)
        best += accuracy[Cell(data, "AGPDMM", K)] >= highest
    return (
        "AGPDMM has the best validation accuracy except for K = 10, Fashion-MNIST",
        verdict(best >= 9),
        f"best or equal in {best} of 10 columns",
    )
