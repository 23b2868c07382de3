"""rho="auto" where clients are missing: how far its one value is from the best of 15.

Three of ten clients take part in each round, and a fifth of all messages is lost. There rho is
chosen once. ``python -m benchmarks.missing`` prints rounds to a gap on eight problems.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

import pdmm
from benchmarks.auto import Watch
from benchmarks.auto_problems import Known, cases
from benchmarks.timing import heading
from pdmm.common.threads import Threads
from pdmm.methods import Method

PROBLEMS = (
    *("different optima", "hard clients, easy F", "scales", "wide clients"),
    *("power law", "one outlier", "duplicates", "sensor network"),
)
PARTICIPATION = 0.3
LOSS = 0.2
SEED = 1
ROUNDS = 3000  # the most
RELAXATION = 0.9  # that of pdmm.solve without a method
FACTORS = np.geomspace(1e-2, 1e2, 15)  # the fixed values, in units of what "auto" takes
ENOUGH = 1.5  # times the rounds of the best: the target


@dataclass(frozen=True)
class Row:
    """A problem: rho and rounds of "auto", and of the best fixed value."""

    name: str
    rho: float
    rounds: int | None
    best_rho: float
    best_rounds: int | None

    @property
    def ratio(self) -> float:
        """Rounds of "auto" over those of the best."""
        if self.rounds is None or self.best_rounds is None:
            return np.inf
        return self.rounds / self.best_rounds


class Patient(Watch):
    """Follows a run to its end: with some clients in each round, a gap may rest for a while."""

    def _late(self, r: int) -> bool:
        return False


def rounds_of(known: Known, method: Method, most: int) -> tuple[int | None, Method]:
    """Rounds to the target, None if there are more than ``most``; and the method with numbers."""
    watch = Patient(known, most)
    result = pdmm.solve(
        known.quick,
        method,
        rounds=most,
        optimum=False,
        record_every=most,
        callback=watch,
        participation=PARTICIPATION,
        loss=LOSS,
        seed=SEED,
        threads=1,
    )
    return (len(watch.gaps) - 1 if watch.arrived else None), result.method


def row(known: Known) -> Row:
    """One problem: "auto", then 15 fixed values, each cut off when it can no longer be best."""
    rounds, method = rounds_of(known, pdmm.PDMM("auto", RELAXATION), ROUNDS)
    assert isinstance(method, pdmm.PDMM)
    first = method.penalty
    best_rho = first
    best = rounds
    for rho in sorted(first * FACTORS, key=lambda rho: abs(np.log(rho / first))):
        most = ROUNDS if best is None else best - 1
        found, _ = rounds_of(known, pdmm.PDMM(float(rho), RELAXATION), most)
        if found is not None:
            best = found
            best_rho = float(rho)
    return Row(known.case.name, first, rounds, best_rho, best)


def main() -> None:
    """Print the table."""
    heading("rho='auto' where clients are missing: participation 0.3, loss 0.2")
    table = Table("problem", 'rho of "auto"', "rounds", "best rho of 15", "rounds", "ratio")
    with Threads(1) as threads, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = [case for case in cases() if case.name in PROBLEMS]
        rows = [row(Known(case, threads)) for case in chosen]
    for r in rows:
        rounds = (str(r.rounds or f">{ROUNDS}"), str(r.best_rounds or f">{ROUNDS}"))
        table.add_row(
            r.name, f"{r.rho:.3g}", rounds[0], f"{r.best_rho:.3g}", rounds[1], f"{r.ratio:.2f}"
        )
    console = Console(width=100)
    console.print(table)
    within = sum(r.ratio <= ENOUGH for r in rows)
    console.print(f"at most {ENOUGH} times the best on {within} of {len(rows)}")


if __name__ == "__main__":
    main()
