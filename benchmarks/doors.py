"""What a site's default policy keeps in, and what it costs honest fits.

``python -m benchmarks doors`` lets the hostile server of the tests attack one site of a federation
in this process: once where everything is allowed, once under the default policy, and once where
the numbers that leave are not counted, which shows what the limits on points alone are worth. Then
it fits models as an honest server does, and prints how near to its limits each fit comes.

A row is found out if it is claimed to within 1e-3 of its distance from the mean row, in standard
deviations of the columns; of Cox's model, which knows no more, a difference of two rows.
"""

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pdmm
from pdmm.engines import Policy
from pdmm.engines.sites.sites import Sites

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from sklearn.datasets import load_breast_cancer, load_diabetes

from builders.sites import FakeSites
from privacy.attacks import ATTACKS
from privacy.server import PARTIES, Server, claims_of
from privacy.tables import TABLES, Table, recovered, standardised, whole

UNCOUNTED = replace(Policy(), max_numbers_out_share=np.inf, runs_per_day=10**6)
POLICIES = {"open": Policy.open(), "default": Policy(), "uncounted": UNCOUNTED}


class Found(NamedTuple):
    """What came of an attack."""

    rows: int
    questions: int
    numbers: int

    def __str__(self) -> str:
        return f"{self.rows:5d} {self.questions:5d} {self.numbers:6d}"


def attacked(attack: str, table: str, policy: Policy) -> Found:
    """Let an attack run until the site stops it."""
    victim = TABLES[table]()
    server = Server(victim, policy)
    claims = claims_of(ATTACKS[attack][0], server)
    return Found(recovered(claims, victim), server.questions, server.numbers)


def print_attacks() -> None:
    print("Rows found out, questions asked and numbers out, by policy\n")
    titles = "".join(f" | {name:^18}" for name in POLICIES)
    print(f"{'attack':18} {'table':20} {'rows':>5}{titles}")
    for attack, (_, tables) in ATTACKS.items():
        for table in tables:
            found = [attacked(attack, table, policy) for policy in POLICIES.values()]
            parts = "".join(f" | {part}" for part in found)
            print(f"{attack:18} {table:20} {len(TABLES[table]().X):5d}{parts}", flush=True)


# --- honest fits ----------------------------------------------------------------------------------


def honest_tables() -> dict[str, Table]:
    """What is fitted: tables that three sites share row by row."""
    logistic = whole()
    cancer = load_breast_cancer(return_X_y=True)
    diabetes = load_diabetes(return_X_y=True)
    return {
        "logistic": logistic,
        "cancer": Table(standardised(cancer[0]), cancer[1] * 1.0, "binomial"),
        "least squares": Table(standardised(diabetes[0]), standardised(diabetes[1]), "gaussian"),
        "softmax": logistic._replace(family="softmax", options={"classes": 2}),
    }


def fits() -> Iterator[tuple[Any, Any]]:
    """Methods, each with its regulariser."""
    ridge = pdmm.SquaredL2(1.0)
    yield None, ridge
    yield pdmm.AGPDMM(), ridge
    yield pdmm.PDMM(), ridge
    yield pdmm.LBFGS(), ridge
    yield pdmm.Scaffold(), None


def federation(table: Table) -> FakeSites:
    """Three sites, with the default policy."""
    shares = {name: k for k, name in enumerate(PARTIES)}
    return FakeSites(lambda k: table.part(k, len(PARTIES)).problem(), shares, policy=None)


def fitted(table: Table, method: Any, regulariser: Any) -> str:
    """A line about one fit."""
    sites = federation(table)
    clients = Sites(sites, absent="wait")
    given = {} if method is None else {"method": method}
    try:
        result = pdmm.solve(clients, regulariser=regulariser, rounds=100, **given)
        rounds = str(result.rounds)
    except pdmm.engines.Refused:
        rounds = "refused"
    entries = [entry for site in sites.sites.values() for entry in site.audit.kept]
    numbers = max(site.audit.numbers for site in sites.sites.values())
    share = numbers / (table.X.size / len(PARTIES))
    eta = max(entry.max_eta or 0.0 for entry in entries)
    rows = min(entry.effective_rows or np.inf for entry in entries)
    leverage = max(entry.leverage or 0.0 for entry in entries)
    loss = max(entry.loss_ratio or 0.0 for entry in entries)
    return (
        f"{rounds:>7} {numbers:8d} {share:6.2f} {eta:8.1f} {rows:8.1f} {leverage:9.3f} {loss:6.2f}"
    )


def print_fits() -> None:
    print("\nHonest fits of three sites under the default policy: the worst of them\n")
    print(
        f"{'table':14} {'method':9} {'rounds':>7} {'numbers':>8} {'share':>6} {'|eta|':>8} "
        f"{'rows':>8} {'leverage':>9} {'loss':>6}"
    )
    for name, table in honest_tables().items():
        for method, regulariser in fits():
            label = "auto" if method is None else type(method).__name__
            print(f"{name:14} {label:9} {fitted(table, method, regulariser)}", flush=True)


def main() -> None:
    warnings.simplefilter("ignore", RuntimeWarning)
    print_attacks()
    print_fits()


if __name__ == "__main__":
    main()
