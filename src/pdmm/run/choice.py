"""Which method runs, with which numbers in the place of "auto", and why.

How a method settles its own parameters is in the method's file, in
:meth:`pdmm.methods.Method.auto`. Here is what comes before: asking the clients for their L and
mu, and picking a method where none was given.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError
from pdmm.engines.clients import Clients
from pdmm.methods import AGPDMM, PDMM
from pdmm.methods.automatic import Reasons
from pdmm.methods.base import Method
from pdmm.methods.family import Acceleration
from pdmm.methods.known import Known
from pdmm.problems.constants import Constants

Vector = npt.NDArray[np.float64]

RELAXATION = 0.9  # of full auto: PDMM's is 1, but below 1 every convex sum converges
LARGEST_RANK = 3000  # eigenbases of least squares beyond this cost more than gradient steps


@dataclass(frozen=True)
class Choice:
    """A method whose parameters are all numbers, and how they came about."""

    method: Method
    """The method that runs; ``method.as_named`` is the one that the user knows."""
    why: Reasons
    """What was chosen and why, one sentence each."""
    smoothness: Constants | None = None
    strong_convexity: Constants | None = None
    estimated_step: bool = False
    """Whether the step size stands on an estimate of L, to be watched during the run."""

    def then(self, change: tuple[Method, Reasons]) -> "Choice":
        """The choice after a change of its method, e.g. ``method.for_rounding()``."""
        method, why = change
        return replace(self, method=method, why=(*self.why, *why))


def pick(clients: Clients, method: Method | None, adaptive: bool) -> Choice:
    """The method to run, as it was given or, where none was, a good one; its parameters wait.

    Args:
        clients: what they are decides which method is a good one.
        method: as the user gave it.
        adaptive: whether all clients take part in every round.
    """
    if method is not None:
        return Choice(method, ())
    return Choice(*_pick(clients.eigenbasis_size, adaptive))


def settle(choice: Choice, clients: Clients, weights: Vector, adaptive: bool) -> Choice:
    """Settle every "auto" of the method that was picked.

    Args:
        choice: the method, with or without "auto".
        clients: they are asked for L and mu only if these are needed.
        weights: of the clients.
        adaptive: whether rho may change during the run, for which all clients must take part
            in every round.

    Returns:
        The choice, with a sentence for everything that was chosen.
    """
    if not adaptive:
        choice.method.check_partial()
    names = choice.method.unsettled
    if names:
        choice = _settled(choice, clients, weights, adaptive)
    if adaptive:
        precision = float(np.finfo(clients.dtype).eps)
        choice = choice.then((choice.method.adapting(names, precision), ()))
    return choice


def _settled(choice: Choice, clients: Clients, weights: Vector, adaptive: bool) -> Choice:
    """The choice with numbers for all that is "auto" in its method."""
    method = choice.method
    try:
        L = clients.smoothness(weights)
        mu = clients.strong_convexity(weights)
    except ClientError:
        if not method.exact:
            raise
        return choice.then(method.auto_without_gradients(adaptive))
    known = Known(L, mu, float(weights.sum()))
    if known.estimated:
        known = replace(known, valley=clients.valley(weights))
    choice = choice.then(method.auto(known, adaptive))
    estimated = "step_size" in method.unsettled and known.estimated
    return replace(choice, smoothness=L, strong_convexity=mu, estimated_step=estimated)


def _pick(rank: int, adaptive: bool) -> tuple[Method, Reasons]:
    """A method where none was given, and why."""
    acceleration: Acceleration = "anderson" if adaptive else None
    if rank > LARGEST_RANK:
        method: Method = AGPDMM(rho="auto", relaxation=RELAXATION, acceleration=acceleration)
        why = "AGPDMM: exact steps would need large eigenbases"
        if adaptive:
            why = f"AGPDMM: the eigenbases that exact steps need would have {rank} vectors a client"
        return method, (why,)
    method = PDMM(rho="auto", relaxation=RELAXATION, acceleration=acceleration)
    what = "exact steps, Anderson acceleration" if adaptive else "exact steps"
    return method, (f"PDMM with {what} and relaxation {RELAXATION}: rounds are what costs",)
