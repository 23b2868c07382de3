"""Making a run ready: its clients, its method, what F is, and how it will be judged."""

import logging
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from pdmm.engines.clients import Clients
from pdmm.methods.base import Method, Prox
from pdmm.problems.block import Floats
from pdmm.problems.sums import Total
from pdmm.regularisers import Regulariser
from pdmm.result import Certificate, Traffic
from pdmm.run.certificate import Certifier, Vector, proven_convexity
from pdmm.run.choice import Choice, pick, settle
from pdmm.run.objective import Objective
from pdmm.run.recorder import Recorder
from pdmm.run.settings import Settings, known_optimum
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
    prox: Prox
    """The prox of t h / (sum of weights), as methods want it."""
    weight: float
    """Of all clients."""
    setup_seconds: float
    certificate: Certificate | None = None
    """Of the state's x, if there is one already."""
    stopped: bool = False
    """Whether a callback stopped it."""

    @property
    def over(self) -> bool:
        """Whether no round is left to do."""
        state = self.state
        return state.finished or self.stopped or state.done >= self.settings.rounds


def _prox(h: Regulariser | None, weight: float, v: Floats, t: float) -> Floats:
    """The prox of t h / weight at v; v itself without a regulariser."""
    return v if h is None else h.prox(v, t / weight)


def build(clients: Clients, settings: Settings) -> Run:
    """Get a run ready; its clients are at work from here on."""
    begun = perf_counter()
    s = settings
    choice = _chosen(clients, s)
    method = choice.method
    log.info("%r on %d clients, at most %d rounds", method.as_named, clients.count, s.rounds)
    for sentence in choice.why:
        log.info("%s", sentence)
    clients.prepare(method, s.x0, s.weights, s.rounds)
    total = clients.total(minimum=s.optimum is not False)
    known = known_optimum(s.optimum, clients.dimension)
    objective = Objective(total, clients, s.regulariser, known)
    traffic = _traffic(method, clients)
    weight = float(s.weights.sum())
    prox = partial(_prox, s.regulariser, weight)
    server = method.server_start(s.x0, prox)
    return Run(
        clients=clients,
        settings=s,
        choice=choice,
        objective=objective,
        certify=certifier(clients, s.weights, s.regulariser, total),
        recorder=Recorder(
            traffic, clients.count, objective=objective.known, gap=objective.f_star is not None
        ),
        state=RunState(
            method=method,
            server=server,
            x=held(method.broadcast(server).x, clients.dtype),
            tolerance=s.tolerance,
            accounts=Accounts(exact_error=0.0 if method.exact else None),
        ),
        prox=prox,
        weight=weight,
        setup_seconds=perf_counter() - begun,
    )


def _chosen(clients: Clients, s: Settings) -> Choice:
    """The method that will run, for the links that there are."""
    choice = pick(clients, s.method, adaptive=clients.steady)
    clients.check(s.x0, choice.method.exact)  # before L and mu are asked for, about x0
    choice = settle(choice, clients, s.weights, adaptive=clients.steady)
    if s.local_steps is not None:
        choice = choice.then(choice.method.for_own_steps())
    if s.bits is not None:
        choice = choice.then(choice.method.for_rounding())
    return choice


def certifier(
    clients: Clients, weights: Vector, regulariser: Regulariser | None, total: Total | None
) -> Certifier:
    """What says of a point how far it can be from the optimum."""
    return Certifier(
        total,
        clients,
        regulariser,
        convexity=lambda: proven_convexity(clients, weights, total),
        precision=float(np.finfo(clients.dtype).eps),
        bytes_up=clients.count * clients.dimension * clients.dtype.itemsize,
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
