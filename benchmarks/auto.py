"""Full auto, untuned, against methods whose parameters are swept: rounds and bytes to a gap.

``python -m benchmarks.auto`` prints tables and draws out/auto_profile.png; with ``--docs``, they
go into docs/ too.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Self

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize

import pdmm
from benchmarks.auto_problems import Known, cases
from benchmarks.timing import heading
from pdmm.common.threads import Threads
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.base import settled
from pdmm.problems.block import Floats

Array = npt.NDArray[np.float64]
Make = Callable[[float], pdmm.Method]

TARGET = 1e-6  # of the first gap
ROUNDS = 400  # the most
HOPELESS = 1e6  # times the first gap: such a run is given up
ILL = 100  # a kappa of F from here on is ill-conditioned
STEPS = (1, 5, 20)  # K
PENALTIES = np.geomspace(1e-3, 1e3, 21)  # of PDMM, about sqrt(L mu)
STEP_SIZES = np.geomspace(0.03, 30, 13)  # about 1/L; of gradient descent, about 2/(L + mu)
EPS = float(np.finfo(np.float64).eps)
KINDS = {"AGPDMM": pdmm.AGPDMM, "SCAFFOLD": pdmm.Scaffold, "FedAvg": pdmm.FedAvg}
SWEPT = ("SCAFFOLD", "FedAvg", "gradient descent")
METHODS = ("auto", "PDMM", "AGPDMM", *SWEPT, "L-BFGS")
LABELS = (
    "auto",
    "PDMM,\nbest ρ",
    "AGPDMM,\nρ = 1/(Kη)",
    "SCAFFOLD",
    "FedAvg",
    "gradient\ndescent",
    "L-BFGS,\ncentralised",
)
COLUMNS = ("auto", "PDMM, best ρ", "AGPDMM", "SCAFFOLD", "FedAvg", "GD", "L-BFGS")
DOCS = Path(__file__).parent.parent / "docs"


@dataclass(frozen=True)
class Reached:
    """Rounds and bytes to the target, None if it was not reached, and with which parameters."""

    rounds: int | None = None
    sent: float = np.nan
    settings: str = ""

    def __str__(self) -> str:
        return f">{ROUNDS}" if self.rounds is None else str(self.rounds)

    @property
    def number(self) -> float:
        """The rounds, infinite if the target was not reached."""
        return np.inf if self.rounds is None else self.rounds


# --- one run, and the best of many ----------------------------------------------------------


class Watch:
    """Follows a run's gap, and stops the run when it has arrived or never will."""

    def __init__(self, known: Known, most: int) -> None:
        self.known, self.most = known, most
        self.target, self.gaps = TARGET * known.first, [known.first]

    def __call__(self, r: int, x: Floats) -> bool:
        self.gaps.append(self.known.gap(x))
        return self.arrived or not self.last < HOPELESS * self.known.first or self._late(r)

    @property
    def last(self) -> float:
        return self.gaps[-1]

    @property
    def arrived(self) -> bool:
        return self.last <= self.target

    def _late(self, r: int) -> bool:
        """Whether four times the speed of the last rounds would not do."""
        if r < 30 or r % 10:
            return False
        before, now = max(self.gaps[-30:-15]), max(self.gaps[-15:])
        speed = max(0.0, np.log(before / now)) / 15
        return bool(4 * speed * (self.most - r) < np.log(self.last / self.target))


@dataclass
class Best:
    """The fewest rounds of all that was tried; later tries are cut off when they are no better."""

    known: Known
    most: int = ROUNDS
    rounds: int | None = None
    gap: float = np.inf  # where none arrived, the smallest that was left
    method: pdmm.Method | None = None
    settings: str = ""

    def sweep(self, make: Make, grid: Array, label: str, finer: bool = True) -> Self:
        """Try a grid, beyond an edge that is best, and finer about the best."""
        ratio, middle = grid[1] / grid[0], len(grid) // 2
        found = grid[middle]
        for k in sorted(range(len(grid)), key=lambda k: ((k - middle) % 4 > 0, abs(k - middle))):
            found = grid[k] if self.attempt(make, grid[k], label) else found
        for edge, factor in ((grid[0], 1 / ratio), (grid[-1], ratio)):
            while found == edge:
                edge *= factor
                found = edge if self.attempt(make, edge, label) else found
        near = self.gap <= 100 * TARGET * self.known.first
        for _ in range(2 if finer and near else 0):
            ratio **= 1 / 3
            for value in found * ratio ** np.array([-2, -1, 1, 2]):
                found = value if self.attempt(make, value, label) else found
        return self

    def attempt(self, make: Make, value: float, label: str) -> bool:
        """Whether this arrives in fewer rounds than all before, or comes nearer if none did."""
        most = self.most if self.rounds is None else self.rounds - 1
        if most == 0:
            return False
        method, watch = make(float(value)), Watch(self.known, most)
        pdmm.solve(
            self.known.quick,
            _cheaper(method, self.known),
            rounds=most,
            optimum=False,
            record_every=most,
            callback=watch,
            threads=1,
        )
        if not watch.arrived and not (self.rounds is None and watch.last < self.gap):
            return False
        self.rounds, self.gap = len(watch.gaps) - 1 if watch.arrived else None, watch.last
        self.method, self.settings = method, f"{label}{value:.3g}"
        return True

    def reached(self) -> Reached:
        """The best of them, run again and read off its history."""
        if self.method is None or self.rounds is None:
            return Reached()
        return read_off(self.known, self.method, ROUNDS, self.settings)


def _cheaper(method: pdmm.Method, known: Known) -> pdmm.Method:
    """PDMM as a sweep can afford it, where an exact step takes many gradients.

    Its steps then start at the client's last one and end when the error is 1% of the
    residual. Only the best rho is run with the library's own accuracy.
    """
    if isinstance(known.problem, pdmm.LeastSquares) or not isinstance(method, pdmm.PDMM):
        return method
    return Adaptive(method, adapt=False, accelerate=False, precision=EPS)


def read_off(known: Known, method: pdmm.Method | None, rounds: int, settings: str = "") -> Reached:
    """Rounds and bytes to the target from a run's own history."""
    h = pdmm.solve(
        known.problem,
        method,
        rounds=rounds,
        tolerance=1e-30 if method is None else None,  # certified as often as it would be
        optimum=known.x,
        callback=None if method is None else Watch(known, rounds),
        threads=1,
    ).history
    reached = h.rounds_to(TARGET * known.first)
    if reached is None:
        return Reached()
    row = int((h["round"] == reached).argmax())
    return Reached(reached, float((h["bytes_up"] + h["bytes_down"])[row]), settings)


def auto(known: Known) -> Reached:
    """No parameters at all."""
    soon = read_off(known, None, 100)
    return soon if soon.rounds is not None else read_off(known, None, ROUNDS)


def swept(known: Known) -> dict[str, Reached]:
    """All other methods, each with the best of the parameters that are tried for it."""
    L, mu = known.L, max(known.mu, 1e-4 * known.L)
    exact = Best(known).sweep(pdmm.PDMM, PENALTIES * np.sqrt(L * mu), "ρ = ", finer=False)
    grid = STEP_SIZES * 2 / (known.L_mean + known.mu_mean)
    plain = Best(known).sweep(pdmm.GradientDescent, grid, "η = ")
    best = {"PDMM": exact, "gradient descent": plain}
    for K in STEPS:
        label = f"K = {K}, η = "
        for name, kind in KINDS.items():
            make: Make = partial(kind, local_steps=K)
            before = best.get(name, Best(known))
            # Rounds go as 1/step, and the grid's next step is 1.8 times as large.
            tried = Best(known, most=min(ROUNDS, 2 * (before.rounds or ROUNDS)))
            if name == "AGPDMM":  # the paper's rho = 1/(K eta) is what it takes if none is given
                tried.attempt(make, 1 / L, label)
            elif K > 1:
                tried.sweep(make, STEP_SIZES / L, label)
            elif isinstance(plain.method, pdmm.GradientDescent):  # the same iterates
                tried.attempt(make, settled("step_size", plain.method.step_size), label)
            best[name] = min(before, tried, key=lambda b: b.rounds or np.inf)
    return {name: b.reached() for name, b in best.items()}


def l_bfgs(known: Known) -> Reached:
    """Centralised: every value and gradient of F that it asks for is a round."""
    asked, point, limit = 0, None, TARGET * known.first

    class DoneError(Exception):
        pass

    def f(x: Array) -> tuple[float, Array]:
        nonlocal asked
        if known.gap(x) <= limit or asked >= ROUNDS:
            raise DoneError
        asked += 1
        return known.total.value(x), known.total.gradient(x)

    d, m = known.problem.dimension, known.problem.clients
    try:
        options = {"maxfun": 10 * ROUNDS, "maxiter": 10 * ROUNDS, "ftol": 0.0, "gtol": 0.0}
        point = minimize(f, np.zeros(d), jac=True, method="L-BFGS-B", options=options).x
    except DoneError:
        pass
    if point is not None or asked >= ROUNDS:
        return Reached()
    return Reached(asked, 8.0 * m * asked * (2 * d + 1))


# --- what it comes to -----------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A problem's results."""

    known: Known
    by: dict[str, Reached]

    @property
    def hard(self) -> bool:
        """Ill-conditioned, with clients that differ."""
        return self.known.kappa >= ILL and not self.known.case.alike

    @property
    def swept(self) -> float:
        """Rounds of the best swept baseline."""
        return min(self.by[name].number for name in SWEPT)

    def missed(self) -> list[int]:
        """The targets 2 to 4 that full auto misses here."""
        mine = self.by["auto"].number
        arrived = mine < np.inf
        met = {
            2: not self.hard or (arrived and mine <= self.swept),
            3: self.hard or (arrived and mine <= max(3 * self.swept, 20)),
            4: arrived and mine <= 2 * self.by["PDMM"].number,
        }
        return [target for target, good in met.items() if not good]


def verdicts(rows: Sequence[Row], paper: int | None) -> list[tuple[str, str, str]]:
    """Each target: what it asks, whether it is met, and where it is not."""
    hard, other = [r for r in rows if r.hard], [r for r in rows if not r.hard]
    within = paper is not None and paper <= 12
    found = f"in {paper} rounds" if paper is not None else f"not within {ROUNDS} rounds"
    lines = [("1. the paper's problem: gap 1e-6 in at most 12 rounds", _word(within), found)]
    for number, asked, where in (
        (2, "ill-conditioned, clients differ: no more rounds than the best swept baseline", hard),
        (3, "elsewhere: at most the larger of 3 times the best swept baseline and 20", other),
        (4, "everywhere: at most twice PDMM with its best fixed rho", rows),
    ):
        bad = [r.known.case.name for r in where if number in r.missed()]
        missed = f"; missed on {', '.join(bad)}" if bad else ""
        met = f"on {len(where) - len(bad)} of {len(where)}{missed}"
        lines.append((f"{number}. {asked}", _word(not bad), met))
    return lines


def _word(met: bool) -> str:
    return "met" if met else "MISSED"


def cells(row: Row, sent: bool) -> list[str]:
    """A line of a table: rounds, or kilobytes sent by and to all clients."""
    p = row.known.problem
    mark = " *" if row.known.case.afterwards else ""
    kind = "ill, differ" if row.hard else "alike" if row.known.case.alike else "differ"
    head = [row.known.case.name + mark]
    if sent:
        return head + [_kilobytes(row.by[name].sent) for name in METHODS]
    numbers = [str(row.by[name]) for name in METHODS]
    missed = ", ".join(map(str, row.missed())) or "–"
    return [
        *head,
        str(p.clients),
        str(p.dimension),
        _short(row.known.kappa),
        kind,
        *numbers,
        missed,
    ]


def _short(kappa: float) -> str:
    return f"{kappa:.1f}" if kappa < 100 else f"{kappa:.0f}" if kappa < 1e4 else f"{kappa:.0e}"


def _kilobytes(sent: float) -> str:
    return "–" if np.isnan(sent) else f"{sent / 1e3:,.{0 if sent >= 1e5 else 1}f}"


ROUNDS_HEAD = ["problem", "m", "d", "κ of F", "clients", *COLUMNS, "missed"]
BYTES_HEAD = ["problem", *COLUMNS]
NOTE = (
    "* chosen afterwards. auto: one run without any parameter. The others: the best of all that\n"
    "was tried, K in {1, 5, 20}, step size or rho swept. GD: gradient descent. L-BFGS: centralised."
)


def table(title: str, head: list[str], lines: list[list[str]]) -> Table:
    """For the terminal."""
    shown = Table(title=title, title_justify="left", caption=NOTE, caption_justify="left")
    for name in head:
        left = name in ("problem", "clients")
        style = "bold" if name == "auto" else "red" if name == "missed" else None
        shown.add_column(name, justify="left" if left else "right", no_wrap=True, style=style)
    for k, line in enumerate(lines):
        shown.add_row(
            *line, end_section=not line[0].endswith("*") and lines[k + 1][0].endswith("*")
        )
    return shown


def markdown(head: list[str], lines: list[list[str]]) -> str:
    """The same for a page."""
    rule = ["---" if name in ("problem", "clients") else "--:" for name in head]
    starred = [[line[0].replace(" *", " \\*"), *line[1:]] for line in lines]
    if "auto" in head:
        k = head.index("auto")
        starred = [[*line[:k], f"**{line[k]}**", *line[k + 1 :]] for line in starred]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *starred])


def profile(rows: Sequence[Row], path: Path) -> None:
    """The share of problems that a method solves within tau times the fewest rounds."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from pdmm.report.figures import look

    rounds = np.array([[row.by[name].number for name in METHODS] for row in rows])
    ratio = rounds / rounds.min(axis=1, keepdims=True)
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axis = plt.subplots(figsize=(6.6, 4.4), layout="constrained")
    own = {
        "auto": {"color": "black", "linewidth": 2.6, "zorder": 4},
        "L-BFGS": {"color": "#7a5195", "linewidth": 1.8, "linestyle": (0, (1, 1.2)), "zorder": 3},
    }
    labels = dict(zip(METHODS, LABELS, strict=True))
    taus = np.geomspace(1, 40, 2001)
    for k, name in enumerate(METHODS):
        share = (ratio[:, k, None] <= taus * (1 + 1e-12)).mean(axis=0)
        line = own.get(name) or {**look(name), "linewidth": 1.8}
        axis.semilogx(taus, share, label=labels[name], **line)
    axis.set(
        xlim=(1, 40), ylim=(0, 1.02), xlabel="rounds, as a multiple of the fewest of any method"
    )
    axis.set_ylabel(f"share of the {len(rows)} problems")
    axis.set_xticks([1, 2, 3, 5, 10, 20, 40], ["1", "2", "3", "5", "10", "20", "40"])
    axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    axis.minorticks_off()
    axis.grid(which="major", color="#e5e5e5", linewidth=0.7)
    axis.set_axisbelow(True)
    figure.legend(loc="outside right center", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def write(page: Path, parts: dict[str, str]) -> None:
    """Put what was measured between the page's marks, <!-- name --> to <!-- end -->."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not mark or not end:
            raise SystemExit(f"{page} has no place for {name!r}")
        text = f"{before}{mark}{part}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def measure(console: Console, threads: Threads) -> tuple[list[Row], int | None]:
    """All rows, and the rounds of full auto to an absolute gap of 1e-6 on the paper's problem."""
    rows, paper = [], None
    with console.status("") as status:
        for case in cases():
            status.update(case.name)
            known = Known(case, threads)
            if case.name == "paper":
                history = pdmm.solve(known.problem, rounds=40, tolerance=1e-30, threads=1).history
                paper = history.rounds_to(1e-6)
            rows.append(Row(known, {"auto": auto(known), **swept(known), "L-BFGS": l_bfgs(known)}))
    return rows, paper


def main(arguments: list[str]) -> None:
    heading("Full auto against methods whose parameters are swept")
    begun, console = perf_counter(), Console(width=None if sys.stdout.isatty() else 140)
    with Threads(1) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps that are too large are tried too
        rows, paper = measure(console, threads)
    rounds, sent = ([cells(row, kind) for row in rows] for kind in (False, True))
    title = f"Rounds to {TARGET:g} of the first gap, at most {ROUNDS}, from 0"
    console.print(table(title, ROUNDS_HEAD, rounds))
    console.print(table("Kilobytes to the same, up and down, all clients", BYTES_HEAD, sent))
    judged = verdicts(rows, paper)
    for asked, word, found in judged:
        colour = "green" if word == "met" else "red"
        console.print(f"  [{colour}]{word:6s}[/] {asked}: [bold]{found}[/]", highlight=False)
    figure = (DOCS if "--docs" in arguments else Path("out")) / "auto_profile.png"
    profile(rows, figure)
    if "--docs" in arguments:
        best = [
            [row.known.case.name, *(row.by[name].settings or "–" for name in METHODS[1:-1])]
            for row in rows
        ]
        about = [
            [row.known.case.name, row.known.case.about, "yes" if row.known.case.afterwards else ""]
            for row in rows
        ]
        parts = {
            "set": markdown(["problem", "what it is", "chosen afterwards"], about),
            "rounds": markdown(ROUNDS_HEAD, rounds),
            "bytes": markdown(BYTES_HEAD, sent),
            "verdicts": markdown(["target", "verdict", "measured"], [list(v) for v in judged]),
            "best": markdown(["problem", *COLUMNS[1:-1]], best),
        }
        write(DOCS / "auto_results.md", parts)
    console.print(f"  figure: {figure}; {perf_counter() - begun:.0f} s", highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:])
