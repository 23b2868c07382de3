"""A method run by hand on a few clients, with nothing between it and what it does."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.methods.base import Array, Method
from pdmm.methods.known import Known

CLIENTS = 4
DIMENSION = 3
KAPPA = 4.0  # of every client: runs are short


class Broken(Exception):  # noqa: N818 - it is a finding, not an error of the program
    """What a method breaks, in a sentence."""


@dataclass(frozen=True)
class Trial:
    """A method with numbers, and a few clients with least squares to try it on."""

    method: Method
    steepest: float  # the largest L of a client
    x0: npt.NDArray[np.float64]
    dtype: npt.DTypeLike = np.float64  # of the clients' numbers

    ROUNDS: ClassVar[int] = 400  # enough to forget what happened in one of the first
    EVENT: ClassVar[int] = 3  # the round in which it happens
    LATE: ClassVar[int] = 0  # the client to which it happens

    @classmethod
    def of(cls, method: Method) -> "Trial":
        """A trial of a method, what is "auto" being settled and acceleration left out."""
        if getattr(method, "acceleration", None) is not None:
            method = method.with_parameters(acceleration=None)
        step = getattr(method, "step_size", 1.0)
        steepest = 1 / step if isinstance(step, (int, float)) else 1.0
        trial = cls(method, steepest, np.linspace(-1.0, 1.0, DIMENSION))
        if not method.unsettled:
            return trial
        L = trial.problem.smoothness()
        mu = trial.problem.strong_convexity()
        settled, _ = method.auto(Known(L, mu, float(CLIENTS)), adaptive=False)
        return replace(trial, method=settled)

    def narrow(self) -> "Trial":
        """The same in float32."""
        return replace(self, dtype=np.float32)

    @cached_property
    def problem(self) -> Any:
        """Clients whose curvatures are at most ``steepest``, and whose minima lie far apart."""
        import pdmm  # not above: pdmm itself imports the methods

        rng = np.random.default_rng(0)
        roots = np.sqrt(self.steepest * np.geomspace(1 / KAPPA, 1.0, DIMENSION))
        A = []
        b = []
        for _ in range(CLIENTS):
            turn, _ = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))
            A.append((turn * roots) @ turn.T)
            b.append(A[-1] @ (3 * rng.standard_normal(DIMENSION)))
        return pdmm.LeastSquares(
            [a.astype(self.dtype) for a in A], [v.astype(self.dtype) for v in b]
        ).factorise()

    # --- states -----------------------------------------------------------------------------

    def server_start(self) -> Any:
        """The server's first state."""
        return self.method.server_start(self.x0.copy(), _identity)

    def memory_start(self, shape: tuple[int, ...]) -> Any:
        """First memories: of one client, or of a block."""
        start = np.broadcast_to(self.x0, (*shape, DIMENSION)).astype(self.dtype)
        return self.method.client_start(start)

    def one_client(self) -> dict[str, Any]:
        """The states of a first round, of a single client."""
        return self._states(self.memory_start(()), self.problem.client(0))

    def block(self) -> dict[str, Any]:
        """The states of a first round, of all clients at once."""
        return self._states(self.memory_start((CLIENTS,)), self._oracle())

    def _states(self, memory: Any, f: Any) -> dict[str, Any]:
        method = self.method
        server = self.server_start()
        sent = method.broadcast(server)
        states = {"the server's state": server, "a message": sent, "a memory": memory}
        if all(isinstance(state, tuple) for state in states.values()):
            message = trees.cast(sent, self.dtype)
            upload, draft = method.client(message, method.receive(message, memory), f, self.steps)
            after = method.accept(memory, draft, upload)
            states |= {"an upload": upload, "a draft": draft, "an accepted memory": after}
        return states

    @property
    def steps(self) -> int:
        """Local steps in a round."""
        return self.method.steps

    def _oracle(self) -> Any:
        return self.problem.at(slice(0, CLIENTS))

    def vectors(self, state: tuple[Any, ...]) -> int:
        """How many vectors a single client's state has."""
        return sum(np.size(f) // DIMENSION for f in state if np.shape(f)[-1:] == (DIMENSION,))

    def scalars(self, state: tuple[Any, ...]) -> int:
        """How many numbers it has beside its vectors."""
        return sum(np.size(f) for f in state if np.shape(f)[-1:] != (DIMENSION,))

    # --- runs -------------------------------------------------------------------------------

    def settled(self) -> Array:
        """Where the run ends if nothing happens; refuses a run that is not at rest by then."""
        x = self.run(self.ROUNDS)
        if not np.isfinite(x).all():
            raise Broken("could not be tried: the run diverges; is a step too large?")
        return x

    def distance(self, x: Array, y: Array) -> float:
        """How far two points are apart, relative to how far the run has come."""
        way = float(np.linalg.norm(x - self.x0)) or 1.0
        return float(np.linalg.norm(x - y)) / way

    def run(self, rounds: int, *, bent: int = 0, lost: int = 0, watch: bool = False) -> Array:
        """Run all clients as one block, on copies: x after so many rounds.

        Args:
            rounds: how many.
            bent: the round in which one client's upload is changed on its way; 0 for none.
            lost: the round in which it gets lost.
            watch: whether to look for what is changed in place.
        """
        method = self.method
        call = _watched if watch else _called
        server = self.server_start()
        memory = self.memory_start((CLIENTS,))
        for r in range(1, rounds + 1):
            message = trees.cast(call("broadcast", method.broadcast, server), self.dtype)
            memory = call("receive", method.receive, message, memory)
            f = self._oracle()
            upload, draft = call("client", method.client, message, memory, f, self.steps)
            if r == bent:
                upload = trees.each(self._changed, upload)
            after = call("accept", method.accept, memory, draft, upload)
            there = np.arange(CLIENTS)
            if r == lost:
                there = np.delete(there, self.LATE)
                after = trees.each(np.copy, after)
                trees.put(after, np.array([self.LATE]), trees.rows(memory, np.array([self.LATE])))
            memory = after
            mean = trees.each(lambda field: field[there].mean(axis=0), upload)  # noqa: B023
            share = len(there) / CLIENTS
            server = call("server", method.server, server, mean, share, _identity)
        return method.broadcast(server).x

    def run_one_by_one(self, rounds: int) -> Array:
        """Run every client on its own, as single vectors: x after so many rounds."""
        method = self.method
        server = self.server_start()
        memories = [self.memory_start(()) for _ in range(CLIENTS)]
        for _ in range(rounds):
            message = trees.cast(method.broadcast(server), self.dtype)
            uploads = []
            for i, held in enumerate(memories):
                memory = method.receive(message, deepcopy(held))
                f = self.problem.client(i)
                upload, draft = method.client(deepcopy(message), deepcopy(memory), f, self.steps)
                memories[i] = method.accept(memory, draft, upload)
                uploads.append(upload)
            stacked = trees.build(
                uploads[0], [np.stack(same) for same in zip(*uploads, strict=True)]
            )
            mean = trees.each(lambda field: field.mean(axis=0), stacked)
            server = method.server(server, mean, 1.0, _identity)
        return method.broadcast(server).x

    def _changed(self, field: Array) -> Array:
        """A field of an upload, that of one client changed on its way."""
        field = field.copy()
        field[self.LATE] += 1.0
        return field


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, on copies of the states that it gets."""
    return function(*(deepcopy(a) if isinstance(a, tuple) else a for a in arguments))


def _watched(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The same; refuses a function that changes its arguments, or gives something else then."""
    given = [a for a in arguments if isinstance(a, tuple)]
    before = deepcopy(given)
    first = function(*arguments)
    kept = deepcopy(first)
    for state, was in zip(given, before, strict=True):
        if label := _difference(state, was):
            raise Broken(
                f"{name}() changes {label} of the {type(state).__name__} that it is given; "
                "return a new array instead, e.g. a = a + b in place of a += b"
            )
    second = function(*arguments)
    for one, two, was in zip(_parts(first), _parts(second), _parts(kept), strict=True):
        if _difference(one, was):
            raise Broken(f"{name}() gives an array that a second call of it changes; copy it")
        if label := _difference(two, was):
            raise Broken(
                f"{name}() gives another {label} when it is called again with the same arguments; "
                "keep nothing in the method itself: it is shared by all clients"
            )
    return first


def _parts(result: Any) -> list[Any]:
    """The states in what a function gives: one, or the upload and the draft."""
    return [result] if hasattr(result, "_fields") else list(result)


def _difference(state: Any, was: Any) -> str:
    """The first field in which two states differ; empty if in none."""
    for label, field, old in zip(was._fields, state, was, strict=True):
        now = trees.flat((field,))
        then = trees.flat((old,))
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(now, then, strict=True)):
            return str(label)
    return ""


def _identity(v: Array, t: float) -> Array:
    return v
