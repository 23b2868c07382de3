"""rho="auto" where clients are missing, against the best of 15 fixed values.

Three of ten clients take part in each round, and a fifth of all messages is lost.
``python -m benchmarks.missing`` prints rounds to a gap on eight problems: where mu of F is known,
as it is of least squares in one process, and where it is not, as between sites, so that rho has to
adapt. ``--others`` takes 13 other problems, ``--seed 2`` other clients and losses.
"""

import argparse
import warnings
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

import pdmm
from benchmarks.auto import Watch
from benchmarks.auto_problems import Known, cases
from benchmarks.timing import heading
from pdmm.common.threads import Threads
from pdmm.methods import Method
from pdmm.methods import known as constants
from pdmm.methods.patient import Patient

PROBLEMS = (
    *("different optima", "hard clients, easy F", "scales", "wide clients"),
    *("power law", "one outlier", "duplicates", "sensor network"),
)
OTHERS = (
    *("iid", "iid, bad columns", "ill-conditioned", "very ill-conditioned", "singular F"),
    *("two clients", "1000 clients", "polynomial", "d > all rows", "4 to 2000 rows"),
    *("logistic mixture", "log-cosh", "Huber"),  # of these mu of F is never known
)
PARTICIPATION = 0.3
LOSS = 0.2
ROUNDS = 3000  # the most
RELAXATION = 0.9  # that of pdmm.solve without a method
FACTORS = np.geomspace(1e-2, 1e2, 15)  # the fixed values, in units of sqrt(L mu)
ENOUGH = 1.5  # times the rounds of the best: the target


@dataclass(frozen=True)
class Run:
    """The rho that a run ended with, and its rounds to the target; None if it did not arrive."""

    rho: float
    rounds: int | None

    def __str__(self) -> str:
        return str(self.rounds or f">{ROUNDS}")


@dataclass(frozen=True)
class Row:
    """A problem, and what each way to choose rho made of it."""

    name: str
    first: Run
    """sqrt(L mu) of the mean client."""
    auto: Run
    """rho="auto", which knows mu of F here."""
    learnt: Run
    """The same where it is not known."""
    best: Run
    """The best of the fixed values."""

    def ratio(self, run: Run) -> float | None:
        """Rounds over those of the best, None if one of them did not arrive."""
        if run.rounds is None or self.best.rounds is None:
            return None
        return run.rounds / self.best.rounds

    def good(self, run: Run) -> bool:
        """Whether it is near the best."""
        ratio = self.ratio(run)
        return ratio is not None and ratio <= ENOUGH


class Steadfast(Watch):
    """Follows a run to its end: with some clients in each round, a gap may rest for a while."""

    def _late(self, r: int) -> bool:
        return False


def run(known: Known, method: Method, seed: int, most: int = ROUNDS) -> Run:
    """One run, to the target or the most rounds."""
    watch = Steadfast(known, most)
    result = pdmm.solve(
        known.quick,
        method,
        rounds=most,
        optimum=False,
        record_every=most,
        callback=watch,
        participation=PARTICIPATION,
        loss=LOSS,
        seed=seed,
        threads=1,
    )
    assert isinstance(result.method, pdmm.PDMM)
    return Run(result.method.penalty, len(watch.gaps) - 1 if watch.arrived else None)


def first_rho(problem: pdmm.Problem) -> float:
    """sqrt(L mu) of the mean client, from which rho starts where mu of F is not known."""
    L = problem.smoothness()
    mu = problem.strong_convexity()
    known = constants.Known(L, mu, float(problem.clients))
    if known.estimated:
        known = replace(known, valley=problem.valley())
    return known.in_the_valley().first_rho()


def row(known: Known, seed: int) -> Row:
    """One problem; of the fixed values, each is cut off when it can no longer be best."""
    rho = first_rho(known.quick)
    first = run(known, pdmm.PDMM(rho, RELAXATION), seed)
    auto = run(known, pdmm.PDMM("auto", RELAXATION), seed)
    precision = float(np.finfo(np.float64).eps)
    learnt = run(known, Patient(pdmm.PDMM(rho, RELAXATION), precision), seed)
    best = first
    for value in sorted(rho * FACTORS, key=lambda value: abs(np.log(value / rho))):
        most = ROUNDS if best.rounds is None else best.rounds - 1
        found = run(known, pdmm.PDMM(float(value), RELAXATION), seed, most)
        if found.rounds is not None:
            best = found
    return Row(known.case.name, first, auto, learnt, best)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    asked, _ = parser.parse_known_args()
    names = OTHERS if asked.others else PROBLEMS
    heading("rho='auto' where clients are missing: participation 0.3, loss 0.2")
    table = Table(
        *("problem", "best rho of 15", "rounds", "sqrt(L mu)", "rounds", "ratio"),
        *('"auto", mu of F known', "rounds", "ratio", "not known: the last rho"),
        *("rounds", "ratio"),
    )
    with Threads(1) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [case for case in cases() if case.name in names]
        rows = [row(Known(case, threads), asked.seed) for case in chosen]
    for r in rows:
        cells = [r.name, f"{r.best.rho:.3g}", str(r.best)]
        for one in (r.first, r.auto, r.learnt):
            ratio = r.ratio(one)
            cells += [f"{one.rho:.3g}", str(one), "" if ratio is None else f"{ratio:.2f}"]
        table.add_row(*cells)
    console = Console(width=140)
    console.print(table)
    for label in ("auto", "learnt"):
        within = sum(r.good(getattr(r, label)) for r in rows)
        told = f"at most {ENOUGH} times the best on {within} of {len(rows)}"
        console.print(f"mu of F {'known' if label == 'auto' else 'not known'}: {told}")


if __name__ == "__main__":
    main()
