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
from pdmm.methods import AGPDMM, LBFGS, PDMM, Newton
from pdmm.methods.automatic import Reasons
from pdmm.methods.base import Method
from pdmm.methods.family import Acceleration, Family
from pdmm.methods.known import Known
from pdmm.methods.schedule import check_scheduled, schedule_of, step_in
from pdmm.problems.constants import Constants
from pdmm.regularisers import Regulariser
from pdmm.regularisers.separable import Separable
from pdmm.run.settings import LARGEST_FULL

Vector = npt.NDArray[np.float64]

RELAXATION = 0.9  # of full auto: PDMM's is 1, but below 1 every convex sum converges
NEWTON_ROUNDS = 10
VECTOR_ROUNDS = 50
ROUND = 10_000  # numbers that could be sent in the time that a round takes anyway
LONG_MEMORY = 100  # of L-BFGS: nothing is sent for it
MANY = 10_000  # entries of x, of which the server does not hold 200 vectors
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
    flat: bool = False
    """Whether no client's function is known to bend in every direction."""
    learns: bool = False
    """Whether rho adapts also where clients may be missing."""

    def then(self, change: tuple[Method, Reasons]) -> "Choice":
        """The choice after a change of its method, e.g. ``method.for_rounding()``."""
        method, why = change
        return replace(self, method=method, why=(*self.why, *why))


def pick(
    clients: Clients,
    method: Method | None,
    adaptive: bool,
    curvature: str = "none",
    h: Regulariser | None = None,
) -> Choice:
    """The method to run, as it was given or, where none was, a good one; its parameters wait.

    Args:
        clients: what they are decides which method is a good one.
        method: as the user gave it.
        adaptive: whether all clients take part in every round.
        curvature: what they may reveal of their Hessians.
        h: the regulariser, of which not every one has a proximal step in a metric.
    """
    if method is not None:
        return Choice(in_round_1(method, clients), ())
    level, why = _level(clients, curvature, h)
    if level == "full" and adaptive:
        return Choice(Newton(), (f"Newton: {why}",))
    if level == "full":
        own = "PDMM with a metric for each client, which copes with clients that are missing"
        return Choice(PDMM(rho="auto", metric="own"), (f"{own}: {why}",))
    if level == "diagonal" and adaptive and _smooth(h):
        memory = LONG_MEMORY if clients.dimension <= MANY else LBFGS().memory
        what = "L-BFGS, columns scaled and centred, which needs fewer rounds than PDMM does there"
        return Choice(LBFGS(memory, metric="diagonal"), (f"{what}: {why}",))
    if level != "none":
        chosen, how = _pick(0, adaptive)
        return Choice(chosen.with_parameters(metric=level), (f"{how[0]}, in a metric: {why}",))
    method, reasons = _pick(clients.eigenbasis_size, adaptive)
    return Choice(method, (*reasons, why) if why else reasons)


def in_round_1(method: Method, clients: Clients) -> Method:
    """The method with numbers where a callable of the round gives its step size."""
    schedule = schedule_of(method)
    if schedule is None:
        return method
    check_scheduled(method)
    if clients.computes_x:
        raise ValueError(
            "step_size is a callable of the round, and sites that compute x themselves have agreed "
            "to one step size: give a number"
        )
    return method.with_step(step_in(schedule, 1))


def _smooth(h: Regulariser | None) -> bool:
    """Whether L-BFGS takes it."""
    return h is None or (isinstance(h, Separable) and not h.kinked)


def _level(clients: Clients, curvature: str, h: Regulariser | None) -> tuple[str, str]:
    """What is made of the permission to use curvature, and why."""
    d = clients.dimension
    numbers = d * (d + 3) // 2
    if not clients.curved or curvature == "none":
        return "none", ""
    if h is not None and not h.has_prox_in:
        if curvature != "auto":
            h.check_metric()
        return "none", f"no curvature is used, because {type(h).__name__} has no prox_in(v, P)"
    if clients.guarded and (clients.likelihood or curvature != "auto"):
        return "diagonal", "the policies of the sites keep whole Hessians there"
    if curvature == "full":
        return "full", f"curvature='full' permits gradients and Hessians, {_numbers(numbers)}"
    if curvature == "diagonal":
        return "diagonal", "curvature='diagonal' permits no more"
    if not clients.likelihood:
        return "none", ""
    full = NEWTON_ROUNDS * (numbers + ROUND)
    vectors = VECTOR_ROUNDS * (d + ROUND)
    if full <= vectors and d <= LARGEST_FULL:
        return "full", (
            f"about {NEWTON_ROUNDS} rounds with gradients and Hessians, {_numbers(numbers)}, cost "
            f"less than {VECTOR_ROUNDS} or more with vectors of {d:,}"
        )
    return "diagonal", (
        f"whole Hessians would be {numbers:,} numbers from each client in every round, and "
        f"their diagonals are {2 * d:,} once"
    )


def _numbers(count: int) -> str:
    return f"{count:,} numbers from each client"


def settle(choice: Choice, clients: Clients, weights: Vector, adaptive: bool) -> Choice:
    """Settle every "auto" of the method that was picked.

    Args:
        choice: the method, with or without "auto".
        clients: they are asked for L and mu only if these are needed.
        weights: of the clients.
        adaptive: whether all clients take part in every round.

    Returns:
        The choice, with a sentence for everything that was chosen.
    """
    if not adaptive:
        choice.method.check_partial()
    names = choice.method.unsettled
    if names:
        choice = _settled(choice, clients, weights, adaptive)
    choice = choice.then((choice.method.running(), ()))
    precision = float(np.finfo(clients.dtype).eps)
    if adaptive:
        return choice.then((choice.method.adapting(names, precision, choice.flat), ()))
    if choice.learns:
        return choice.then((choice.method.adapting_patiently(names, precision), ()))
    return choice


def _settled(choice: Choice, clients: Clients, weights: Vector, adaptive: bool) -> Choice:
    """The choice with numbers for all that is "auto" in its method."""
    method = choice.method
    if method.unsettled == ("rho",) and isinstance(method, Family) and method.metric is not None:
        return choice.then(method.auto_in_metric(adaptive))
    try:
        L, mu = clients.moved_smoothness(weights)
    except ClientError:
        if not method.exact:
            raise
        return choice.then(method.auto_without_gradients(adaptive))
    known = Known(L, mu, float(weights.sum()), weights=weights)
    if known.estimated:
        known = replace(known, valley=clients.valley(weights))
    choice = choice.then(method.auto(known, adaptive))
    estimated = "step_size" in method.unsettled and known.estimated
    return replace(
        choice,
        smoothness=L,
        strong_convexity=mu,
        estimated_step=estimated,
        flat=known.in_the_valley().flat,
        learns=known.mean_mu is None,
    )


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
