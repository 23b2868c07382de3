"""Claims of the paper, and whether what was measured bears them out."""

from collections.abc import Sequence
from typing import TypeAlias

from pdmm.paper.jobs import Job
from pdmm.paper.store import Columns

HOLDS = "holds"
PART = "holds with a condition"
FAILS = "does not hold"

Runs: TypeAlias = Sequence[tuple[Job, Columns]]
Claim: TypeAlias = tuple[str, str, str]  # what the paper says, the verdict, what was measured
Table: TypeAlias = list[list[str]]


def verdict(holds: bool, otherwise: str = PART) -> str:
    """The word for a claim that holds, or the given one for a claim that does not.

    >>> verdict(1 < 2)
    'holds'
    >>> verdict(2 < 1, FAILS)
    'does not hold'
    """
    return HOLDS if holds else otherwise


def problem_size(job: Job) -> str:
    """The size of a least-squares problem, in the paper's letters."""
    p = job.parameters["problem"]
    return f"m = {p['clients']} clients, n = {p['samples']}, d = {p['features']}"
