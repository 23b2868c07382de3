"""Runs that are watched from outside: the state of every client, round by round."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.common.checks import number, vector
from pdmm.engines.exchange import Question
from pdmm.engines.in_process import InProcess
from pdmm.methods.family import Family
from pdmm.problems.base import Problem
from pdmm.problems.block import Block, Floats

Vector = npt.NDArray[np.float64]
NO_PROBLEM = "problem must be a pdmm problem, e.g. LeastSquares, got {!r}"
NOT_OPTIMAL = 1e-6  # a relative slope at x_star above which it is not what it should be


class Round(NamedTuple):
    """One round of the PDMM family: what the clients had before, and what came of it."""

    before: Any  # the clients' memory, with one row per client
    anchor: Vector  # a_i = 2 x_s - z_i
    x: Vector  # what stands for x_i: z_i' = 2 x_i - a_i
    z: Vector  # z_i', after the round
    x_s: Vector  # x_s, after the round


class Watched:
    """A run whose states can be seen, and its optimum: x*, and lam_{i|s}* = grad f_i(x*)."""

    def __init__(
        self,
        problem: Problem,
        method: Family,
        rounds: int,
        x0: Any,
        x_star: Any,
        clients: InProcess,
    ) -> None:
        self.problem = problem
        self.method = method
        self.rounds = rounds
        d = problem.dimension
        start = (np.zeros(d) if x0 is None else vector("x0", x0, d)).astype(problem.dtype)
        self.x0 = start.astype(np.float64)
        problem.check_data()
        problem.check(self.x0, method.exact)
        self.clients = clients
        clients.prepare(method, self.x0, np.ones(problem.clients), rounds)
        self.x_star = self._optimum(x_star)
        self.lam_star = self.each(lambda f, _: f.gradient(self.x_star.astype(problem.dtype)))
        self._check_optimal()

    def each(self, part: Callable[[Block, slice], Floats]) -> Vector:
        """Something of every block of clients, joined, with one row per client."""
        parts = (
            part(self.clients.here.source.at(block), block) for block in self.clients.here.blocks
        )
        return np.concatenate([np.asarray(rows, dtype=np.float64) for rows in parts])

    def __iter__(self) -> Iterator[Round]:
        method = self.method
        server = method.server_start(self.x0, _identity)
        for r in range(1, self.rounds + 1):
            before = self._memories()
            message = method.broadcast(server)
            outcome = self.clients.round(Question(r, method, message))
            anchor = 2 * message.x - before.z
            z = self._memories().z
            server = method.server(server, outcome.mean, outcome.share, _identity)
            if outcome.bad_client is not None or not np.isfinite(server.x).all():
                raise ValueError(
                    f"the run diverged in round {r}: smoothness is too small for this problem, "
                    "or its functions are not convex"
                )
            yield Round(before, anchor, (z + anchor) / 2, z, server.x)

    def _memories(self) -> Any:
        """A copy of what every client remembers, in float64."""
        rows = self.clients.here.memories.read(slice(None))
        return trees.each(lambda field: field.astype(np.float64), rows)

    def _optimum(self, x_star: Any) -> Vector:
        if x_star is not None:
            return vector("x_star", x_star, self.problem.dimension)
        total = self.clients.total(minimum=True)
        found = None if total is None else total.minimiser(0.0)
        if found is None:
            raise ValueError(
                f"x_star must be given for {type(self.problem).__name__}, whose minimiser is not "
                "known: a minimiser of the sum of all f_i, e.g. the x of a long run of pdmm.PDMM"
            )
        return found

    def _check_optimal(self) -> None:
        slope = float(np.linalg.norm(self.lam_star.sum(0)))
        start = self.each(lambda f, _: f.gradient(self.x0.astype(self.problem.dtype)))
        size = float(np.linalg.norm(self.lam_star, axis=1).sum())
        size += float(np.linalg.norm(start, axis=1).sum())
        most = max(NOT_OPTIMAL, 100 * float(np.finfo(self.problem.dtype).eps))
        if slope > most * size:
            raise ValueError(
                "x_star must minimise the sum of all f_i, but there the norm of its gradient is "
                f"{slope / size:.1e} of the clients' own (at most {most:.0e} is needed): "
                "find it more accurately, e.g. by a longer run"
            )


@contextmanager
def watch(problem: Any, method: Family, rounds: int, x0: Any, x_star: Any) -> Iterator[Watched]:
    """A run of the project's own engine, unweighted and without a regulariser."""
    if not isinstance(problem, Problem):
        raise ValueError(NO_PROBLEM.format(problem))
    batch = getattr(problem, "batch_size", None)
    if batch is not None:
        raise ValueError(
            f"problem has batch_size={batch}: nothing is proven for mini-batches; "
            "use batch_size=None"
        )
    clients = InProcess(problem)
    with clients.working(None if problem.parallel else 1):
        yield Watched(problem, method, rounds, x0, x_star, clients)


def known(problem: Any, name: Literal["smoothness", "strong_convexity"], given: Any) -> float:
    """L or mu of a problem: what the user gave, or what the problem knows of all its clients."""
    if given is not None:
        return number(name, given)
    if not isinstance(problem, Problem):
        raise ValueError(NO_PROBLEM.format(problem))
    found = problem.smoothness() if name == "smoothness" else problem.strong_convexity()
    if found.kind == "estimate":
        warnings.warn(
            f"{name} of this {type(problem).__name__} is an estimate, and a bound that is made of "
            f"it proves nothing: give {name}= a number that is certain",
            RuntimeWarning,
            stacklevel=3,
        )
    return float(found.clients.max() if name == "smoothness" else found.clients.min())


def square(rows: Vector) -> float:
    """The sum of all squares."""
    return float((rows * rows).sum())


def _identity(v: Floats, t: float) -> Floats:
    return v
