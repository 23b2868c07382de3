"""Making a run ready: its clients, its method, what F is, and how it will be judged."""

import logging
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from pdmm.common.variables import Variables
from pdmm.engines.clients import Clients, Terms
from pdmm.methods.base import Method
from pdmm.methods.schedule import schedule_of
from pdmm.problems.sums import Total
from pdmm.regularisers import Regulariser
from pdmm.regularisers.penalty import MovedPenalty, Penalty
from pdmm.result import Certificate, Traffic
from pdmm.run.certificate import Certifier, Vector, proven_convexity
from pdmm.run.choice import Choice, pick, settle
from pdmm.run.curved import CurvedCertifier
from pdmm.run.metric import Measured, measure
from pdmm.run.objective import Objective
from pdmm.run.recorder import Recorder
from pdmm.run.settings import LARGEST_FULL, Settings, known_optimum
from pdmm.run.state import Accounts, RunState, held

log = logging.getLogger(__name__)


@dataclass
class Run:
    """A run: the parts that stay as they are, and its state."""

    clients: Clients
    settings: Settings
    choice: Choice
    objective: Objective
    certify: Certifier
    recorder: Recorder
    state: RunState
    prox: Penalty | MovedPenalty
    """The prox of t h / (sum of weights), as methods want it, and the way back to x."""
    weight: float
    """Of all clients."""
    setup_seconds: float
    certificate: Certificate | None = None
    """Of the state's x, if there is one already."""
    stopped: bool = False
    """Whether a callback stopped it."""
    measured: Measured | None = None
    """The variables that its rounds are about, where they are not about x."""

    @property
    def over(self) -> bool:
        """Whether no round is left to do."""
        state = self.state
        return state.finished or self.stopped or state.done >= self.settings.rounds


def build(clients: Clients, settings: Settings, variables: Variables | None = None) -> Run:
    """Get a run ready; its clients are at work from here on.

    Args:
        clients: who take part.
        settings: what was asked for.
        variables: those of a checkpoint, if its run has any.
    """
    begun = perf_counter()
    s = settings
    weight = float(s.weights.sum())
    clients.open(Terms(s.x0, s.weights, s.rounds, s.regulariser, s.seed))
    choice = pick(clients, s.method, clients.steady, s.curvature, s.regulariser)
    clients.check(s.x0, choice.method.exact)  # before L and mu are asked for, about x0
    measured = _measured(clients, s, choice.method, variables)
    if measured is not None:
        choice = choice.then((choice.method, (_told(measured),)))
        clients.change_variables(measured.variables)
    choice = _settled(clients, s, choice)
    method = choice.method
    log.info("%r on %d clients, at most %d rounds", method.as_named, clients.count, s.rounds)
    for sentence in choice.why:
        log.info("%s", sentence)
    start = s.x0
    prox: Penalty | MovedPenalty = Penalty(s.regulariser, weight)
    if measured is not None:
        start = np.zeros(clients.dimension)
        prox = MovedPenalty(s.regulariser, weight, measured.variables)
    clients.prepare(method, start, s.weights, s.rounds)
    total = clients.total(minimum=s.optimum is not False)
    known = known_optimum(s.optimum, clients.dimension)
    objective = Objective(total, clients, s.regulariser, known)
    traffic = _traffic(method, clients)
    server = method.server_start(start, prox)
    return Run(
        clients=clients,
        settings=s,
        choice=choice,
        objective=objective,
        certify=certifier(
            clients, s.weights, s.regulariser, total, _may_certify(clients, s, method)
        ),
        recorder=Recorder(
            traffic, clients.count, objective=objective.known, gap=objective.f_star is not None
        ),
        state=RunState(
            method=method,
            server=server,
            x=held(s.x0, clients.dtype),
            tolerance=s.tolerance,
            accounts=Accounts(exact_error=0.0 if method.exact else None),
            variables=None if measured is None else measured.variables,
        ),
        prox=prox,
        weight=weight,
        setup_seconds=perf_counter() - begun,
        measured=measured,
    )


def _measured(
    clients: Clients, s: Settings, method: Method, kept: Variables | None
) -> Measured | None:
    """The variables that the rounds are about, where the method has a metric."""
    metric = getattr(method, "metric", None)
    if metric is None:
        return None
    clients.weigh(s.weights)
    if kept is not None:
        return Measured(kept, 0, 0, 0, "nothing")
    return measure(clients, metric, s.x0, s.regulariser, float(s.weights.sum()))


def _told(measured: Measured) -> str:
    """What the clients sent for the metric, in words."""
    if not measured.exchanges:
        return "the metric is that of the checkpoint"
    rounds = "1 round" if measured.exchanges == 1 else f"{measured.exchanges} rounds"
    return (
        f"for the metric, each client sends {measured.numbers_up:,} numbers in {rounds}: "
        f"{measured.sent}"
    )


def _settled(clients: Clients, s: Settings, choice: Choice) -> Choice:
    """The method that will run, for the links that there are."""
    choice = settle(choice, clients, s.weights, adaptive=clients.steady)
    if s.local_steps is not None:
        choice = choice.then(choice.method.for_own_steps())
    if s.bits is not None:
        choice = choice.then(choice.method.for_rounding())
    if schedule_of(s.method) is not None and not clients.steady:
        choice = choice.then(choice.method.for_changing_steps())
    return choice


def _may_certify(clients: Clients, s: Settings, method: Method) -> bool:
    """Whether certificates may ask for Hessians."""
    if not clients.curved or clients.guarded or clients.dimension > LARGEST_FULL:
        return False
    if s.curvature == "auto":
        return method.curvature == "full" or (s.method is not None and clients.likelihood)
    return s.curvature == "full"


def certifier(
    clients: Clients,
    weights: Vector,
    regulariser: Regulariser | None,
    total: Total | None,
    by_curvature: bool,
) -> Certifier:
    """What says of a point how far it can be from the optimum."""
    curved = CurvedCertifier(clients, regulariser, weights) if by_curvature else None
    return Certifier(
        total,
        clients,
        regulariser,
        convexity=lambda: proven_convexity(clients, weights, total),
        precision=float(np.finfo(clients.dtype).eps),
        bytes_up=clients.count * clients.dimension * clients.dtype.itemsize,
        curved=curved,
    )


def _traffic(method: Method, clients: Clients) -> Traffic:
    down, up = method.paper_vectors
    return Traffic(
        down=method.vectors_down,
        up=method.vectors_up,
        paper_down=down,
        paper_up=up,
        bytes_per_vector=clients.dimension * clients.dtype.itemsize,
    )
