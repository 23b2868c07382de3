"""A hostile server, which makes up all that a site is told.

It knows all of pdmm, and the kind of the problem; it claims what it likes of the other sites. Where
an attack needs to know how far it may go without being refused, it is told (``allowed``): nobody
could guess better.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm
from pdmm.common.packing import pack
from pdmm.engines import Refused
from pdmm.engines.sites.site import Site
from pdmm.methods.adaptive import INEXACT, Adaptive
from pdmm.methods.adaptive_states import Control
from privacy.tables import Table

Vector = npt.NDArray[np.float64]
Payload = dict[str, Any]

RUNS = 6  # that an attack begins, at most
PARTIES = ("ana", "ben", "cyd")


class OverError(Exception):
    """The site answers nothing any more."""


class Server:
    """A hostile server with one victim.

    Args:
        table: of the victim.
        policy: of the victim.
        site: the victim, if it is not a new one.
        most: runs that it begins.
    """

    def __init__(
        self, table: Table, policy: Any = None, site: Site | None = None, most: int = RUNS
    ) -> None:
        self.table = table
        self.site = site or Site(table.problem, policy)
        self.dimension = self.site.problem.dimension
        self.questions = 0
        self.round = 0
        self.runs = 0
        self.begun = False
        self.most = most

    @property
    def numbers(self) -> int:
        """That have left the site."""
        return self.site.audit.numbers

    def opening(self, **other: Any) -> Payload:
        """What the site is told of a run."""
        about = {
            "run": f"study {self.runs}",
            "rounds": 100,
            "x0": np.zeros(self.dimension),
            "verified": False,
            "parties": list(PARTIES),
            "weights": np.ones(self.site.problem.clients),
        }
        told = {**about, **other}
        told.setdefault("everyone", dict.fromkeys(PARTIES, told["weights"]))
        return told

    def begin(self, **other: Any) -> None:
        """Begin a run."""
        if self.runs == self.most:
            raise OverError
        self.runs += 1
        self.round = 1
        self.begun = False
        try:
            self.site.answer("open", self.opening(**other))
        except Refused as error:
            raise OverError from error
        self.begun = True

    def question(self, method: Any, message: Any, **other: Any) -> Payload:
        """A round's question, in which the server makes up all there is."""
        asked = {
            "round": self.round,
            "rounds": 100,
            "method": pack(method, {}, "method"),
            "have": f"memory {self.runs}.{self.round}",
            "memory": [],
            "next": "next",
            "evaluate": False,
            "variables": None,
            "message": message,
        }
        return {**asked, **other}

    def ask(self, verb: str, payload: Payload) -> Payload:
        """The answer of the site; a refusal ends the run."""
        if not self.begun:
            self.begin()
        self.questions += 1
        try:
            return self.site.answer(verb, payload)
        except Refused:
            self.begun = False
            raise

    def gradient(self, x: Vector) -> Vector:
        """The gradient at a point of the server's choice, where the site answers."""
        if "batch_size" in self.table.options:  # of all rows, and not of a mini-batch
            return np.asarray(self.ask("gradient", {"x": np.asarray(x, float)})["gradient"])
        if not self.begun or self.round >= 100:
            self.begin()
        self.round += 1
        answer = self.ask("round", self.question(pdmm.LBFGS(), [np.asarray(x, float)]))
        return np.asarray(answer["upload"][1][0], dtype=np.float64)

    def gradients(self, points: Any) -> Vector:
        """Gradients at some points."""
        return np.array([self.gradient(x) for x in points])


class Behind(Server):
    """A server that asks behind an exact step: it begins where a gradient is wanted.

    By the server's word of the last residual, the step ends after one step of Newton's method.
    Where no row bends, that leads to -gradient/rho.
    """

    RHO = 1e3
    SLACK = 1e5

    def gradient(self, x: Vector) -> Vector:
        """The gradient at a point, from where one step of Newton's method leads from there."""
        if not self.begun or self.round >= 100:
            self.begin()
        self.round += 1
        method = Adaptive(pdmm.PDMM(self.RHO), True, False, 1e-16)
        zero = np.zeros(self.dimension)
        control = Control(base=0, slot=1, rho=self.RHO, scale=1.0, relaxation=1.0, rounds=0)
        slots = np.zeros((1, method.slots, self.dimension))
        residual = slots + 2 * self.SLACK / INEXACT / self.RHO / np.sqrt(self.dimension)
        memory = [slots, residual, np.asarray(x, float)[None], zero[None]]
        mix = np.eye(method.slots)[0]
        message = [zero, mix, np.array(control)]
        answer = self.ask("round", self.question(method, message, memory=memory))
        return np.asarray(-self.RHO * answer["draft"][1][0])


Attack = Callable[[Server], Iterator[Vector]]


def claims_of(attack: Attack, server: Server) -> list[Vector]:
    """All rows that an attack claims before the site stops it."""
    found: list[Vector] = []
    with suppress(Refused, OverError):
        found.extend(attack(server))
    return found


def directions(table: Table, seed: int = 0) -> Iterator[Vector]:
    """Directions for linear predictors, in which columns weigh alike whatever their units."""
    rng = np.random.default_rng(seed)
    while True:
        w = rng.standard_normal(table.X.shape[1]) / table.X.std(0)
        yield w / np.sqrt(len(w))


class Line:
    """The points whose linear predictors are w·r + b, and the gradient there in words of rows.

    Each gradient is the sum of (mean - outcome) (r, 1) over the rows r.
    """

    def __init__(self, server: Server, w: Vector) -> None:
        self.server = server
        self.w = w
        self.centre = float((server.table.X @ w).mean())

    def at(self, b: float) -> Vector:
        """The x of a bias, b being counted from the middle of the rows."""
        x = np.append(self.w, b - self.centre)
        family = self.server.table.family
        if family == "softmax":
            return np.column_stack([0 * x, x]).ravel()
        if family == "multinomial":
            return np.column_stack([x, x - 200 * (np.arange(len(x)) == len(x) - 1)]).ravel()
        return x

    def gradient(self, b: float) -> Vector:
        """The part of a gradient that belongs to the rows' linear predictors."""
        g = self.server.gradient(self.at(b))
        table = self.server.table
        if table.family == "softmax":
            return g.reshape(-1, 2)[:, 1] * len(table.X)
        return g.reshape(len(self.w) + 1, -1)[:, 0]

    @property
    def places(self) -> Vector:
        """Where the rows are, by their linear predictors at b = 0."""
        return np.asarray(self.server.table.X @ self.w - self.centre)


def allowed(server: Server, points: Any) -> bool:
    """Whether a site with this policy would answer at all of these points, asked for nothing."""
    free = replace(
        server.site.policy, max_numbers_out_share=np.inf, max_rounds=10**6, runs_per_day=10**6
    )
    probe = Server(server.table, free)
    try:
        probe.gradients(points)
    except (Refused, OverError):
        return False
    return True
