"""What a policy would allow of a table: for a data officer, before any study asks."""

from typing import NamedTuple

import numpy as np

from pdmm.privacy.audit import Audit
from pdmm.privacy.contents import Contents
from pdmm.privacy.doors import Doors
from pdmm.privacy.policy import Policy
from pdmm.problems.base import Problem


class Allowed(NamedTuple):
    """How far a kind of study would get."""

    study: str
    numbers: int
    """That each of its rounds tells."""
    rounds: int
    """That it may have, of those that the policy has left."""


class Outlook(NamedTuple):
    """What a policy says of a table."""

    contents: Contents
    parameters: int
    objections: list[str]
    """Why the table may not be asked about; none if it may."""
    left: float | None
    """Numbers that may still leave; None where that is not limited."""
    most: float
    """Numbers that answers can tell, however many there are; infinite where there is no end."""
    allowed: list[Allowed]


def outlook(problem: Problem, policy: Policy, audit: Audit | None = None) -> Outlook:
    """See what a policy would allow of a problem's table.

    Args:
        problem: of the site.
        policy: what the site allows.
        audit: what has left already; nothing, if not given.
    """
    doors = Doors(policy, audit or Audit())
    objections = doors.objections(problem)
    assert doors.contents is not None
    left = doors.numbers_left
    return Outlook(
        contents=doors.contents,
        parameters=problem.dimension,
        objections=objections,
        left=left,
        most=doors.most,
        allowed=[] if objections else _studies(problem, policy, left),
    )


def _studies(problem: Problem, policy: Policy, left: float | None) -> list[Allowed]:
    d = problem.dimension
    rounds = [
        ("vectors: AGPDMM, PDMM, SCAFFOLD, FedAvg, gradient descent, L-BFGS", d + 2),
        ("two vectors: GPDMM", 2 * d + 2),
    ]
    if problem.curved and policy.hessians == "allowed":
        rounds.append(("Hessians: Newton", d * (d + 3) // 2 + 2))
    return [_allowed(name, problem.clients * each, policy, left) for name, each in rounds]


def _allowed(name: str, numbers: int, policy: Policy, left: float | None) -> Allowed:
    most = np.inf if left is None else left // numbers
    return Allowed(name, numbers, int(min(most, policy.max_rounds)))
