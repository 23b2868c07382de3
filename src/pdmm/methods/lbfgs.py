"""L-BFGS over the federation: the server is a quasi-Newton method whose F is the clients' sum."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import one_of, whole
from pdmm.methods.base import Array, Method, Nothing, Oracle, Prox
from pdmm.methods.line_search import HUGE, Line, Seen
from pdmm.methods.registry import register

Vector = npt.NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


class Message(NamedTuple):
    """What the server sends: the point on trial."""

    x: Array


class Upload(NamedTuple):
    """What a client sends: f_i and its gradient at the point on trial."""

    value: Array
    gradient: Array


class Point(NamedTuple):
    """F over the sum of the weights, and its gradient, at x."""

    x: Vector
    value: float
    gradient: Vector


class Pairs(NamedTuple):
    """The last steps s and changes y of the gradient, the newest last."""

    s: Vector  # (memory, d)
    y: Vector  # the same
    used: int  # how many of them are pairs, at the end

    @classmethod
    def none(cls, memory: int, dimension: int) -> Self:
        """Nothing is known of the curvature."""
        return cls(np.zeros((memory, dimension)), np.zeros((memory, dimension)), 0)

    def joined(self, s: Vector, y: Vector) -> Self:
        """One more pair; the oldest is forgotten where there is no room."""
        used = min(self.used + 1, len(self.s))
        return type(self)(np.vstack([self.s[1:], s]), np.vstack([self.y[1:], y]), used)

    def direction(self, gradient: Vector) -> Vector:
        """-H g, H the inverse Hessian that the pairs make (Nocedal & Wright, Algorithm 7.4)."""
        rows = range(len(self.s) - self.used, len(self.s))
        products = {k: float(self.s[k] @ self.y[k]) for k in rows}
        q = 1.0 * gradient
        alphas = {}
        for k in reversed(rows):
            alphas[k] = float(self.s[k] @ q) / products[k]
            q = q - alphas[k] * self.y[k]
        if self.used:
            newest = rows[-1]
            q = q * (products[newest] / float(self.y[newest] @ self.y[newest]))
        for k in rows:
            beta = float(self.y[k] @ q) / products[k]
            q = q + (alphas[k] - beta) * self.s[k]
        return -q


class Server(NamedTuple):
    """The server's state."""

    best: Point  # the last point that was accepted: the result
    direction: Vector
    line: Line
    pairs: Pairs
    known: bool  # whether F was asked for at all
    settled: bool  # whether F cannot be lowered any further, to rounding


@register("lbfgs")
@dataclass(frozen=True)
class LBFGS(Method):
    """L-BFGS over the federation: for each evaluation a vector goes down, a gradient and f_i up.

    The server has the quasi-Newton method, a line search for the strong Wolfe conditions included;
    every point that it tries is a round. It needs smooth functions, and every client in every
    round with all of its rows (no mini-batches). A regulariser must be quadratic, as SquaredL2
    is.

    The first step has length 1 and the columns' scales matter, as for all methods of gradients,
    unless it has a metric.

    Args:
        memory: how many of the last steps it learns the curvature from. More cost the server
            room, and nothing is sent for them.
        metric: "diagonal" scales and centres the columns by the diagonal of the clients' Hessians
            and the row of the intercept, for problems that know them.

    References:
        Liu, Nocedal, "On the limited memory BFGS method for large scale optimization",
        Math. Programming 1989.
    """

    memory: int = 10
    metric: Literal["diagonal"] | None = field(default=None, kw_only=True)

    paper_vectors = (1, 1)
    scalars = (0, 1)

    def __post_init__(self) -> None:
        self.settle(memory=whole("memory", self.memory, at_least=1))
        if self.metric is not None:
            one_of("metric", self.metric, ("diagonal",))

    @property
    def curvature(self) -> Literal["none", "diagonal", "full"]:
        return "none" if self.metric is None else "diagonal"

    @property
    def steps(self) -> int:
        return 1

    def check_partial(self) -> None:
        raise ValueError(
            "LBFGS needs every client in every round, all messages, and full precision: it takes "
            "differences of gradients of the whole sum. AGPDMM, GPDMM and PDMM work without"
        )

    # --- clients ----------------------------------------------------------------------------

    def client_start(self, x0: Array) -> Nothing:
        return Nothing()

    def client(
        self, message: Message, memory: Nothing, f: Oracle, steps: int
    ) -> tuple[Upload, Nothing]:
        value, gradient = f.value_and_gradient(message.x)
        # A trial may overflow an exp; it is then known to be too far, and no more.
        good = np.isfinite(value) & np.isfinite(gradient).all(axis=-1)
        return Upload(
            value=np.where(good, value, HUGE),
            gradient=np.where(good[..., None], gradient, gradient.dtype.type(0)),
        ), Nothing()

    # --- the server -------------------------------------------------------------------------

    def server_start(self, x0: Array, prox: Prox) -> Server:
        x = np.array(x0, dtype=np.float64)
        _quadratic(prox, len(x))  # refuses others before anything is asked
        return Server(
            best=Point(x, np.inf, 0 * x),
            direction=0 * x,
            line=Line.begun(np.inf, 0.0, 0.0),
            pairs=Pairs.none(self.memory, len(x)),
            known=False,
            settled=False,
        )

    def broadcast(self, server: Server) -> Message:
        return Message(x=server.best.x + server.line.t * server.direction)

    def solution(self, server: Server) -> Array:
        """The best point so far, which the one on trial need not be."""
        return server.best.x

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        if server.settled:
            return server
        found = _objective(self.broadcast(server).x, mean, prox)
        if not server.known:
            return self._from(server._replace(known=True), found)
        seen = Seen(server.line.t, found.value, float(found.gradient @ server.direction))
        if server.line.accepts(seen):
            return self._accepted(server, found)
        line = server.line.after(seen)
        if not line.exhausted:
            return server._replace(line=line)
        if server.pairs.used:  # what the pairs say is of no use here any more
            forgetful = server._replace(pairs=Pairs.none(self.memory, len(found.x)))
            return self._from(forgetful, server.best)
        return _at_rest(server, server.best)

    def _accepted(self, server: Server, found: Point) -> Server:
        s = found.x - server.best.x
        y = found.gradient - server.best.gradient
        pairs = server.pairs
        if s @ y > EPS * abs(s @ server.best.gradient):
            pairs = pairs.joined(s, y)
        return self._from(server._replace(pairs=pairs), found)

    def _from(self, server: Server, best: Point) -> Server:
        """The next line begins at a point."""
        pairs = server.pairs
        direction = pairs.direction(best.gradient)
        slope = float(direction @ best.gradient)
        if pairs.used and not slope < 0:  # rounding has spoilt the pairs
            pairs = Pairs.none(self.memory, len(best.x))
            direction = -best.gradient
            slope = float(direction @ best.gradient)
        if not slope < 0:
            return _at_rest(server, best)
        first = 1.0 if pairs.used else 1 / float(np.linalg.norm(direction))
        return server._replace(
            best=best,
            direction=direction,
            line=Line.begun(best.value, slope, first),
            pairs=pairs,
        )


def _at_rest(server: Server, best: Point) -> Server:
    return server._replace(
        best=best,
        direction=0 * best.x,
        line=Line.begun(best.value, 0.0, 0.0),
        settled=True,
    )


def _objective(y: Vector, mean: Upload, prox: Prox) -> Point:
    """F over the sum of the weights at y: the mean of the f_i, and the regulariser's part."""
    q = _quadratic(prox, len(y))
    variables = getattr(prox, "variables", None)  # of a metric: the regulariser is about x
    x = y if variables is None else variables.to_x(y)
    slope = q * x if variables is None else variables.transposed(q * x)
    value = float(mean.value) + 0.5 * float(q @ (x * x))
    return Point(y, value, np.asarray(mean.gradient, dtype=np.float64) + slope)


def _quadratic(prox: Prox, dimension: int) -> Vector:
    """The q of a regulariser sum of weights · sum_j q_j x_j²/2; others are refused."""
    h: Any = getattr(prox, "of_x", getattr(prox, "h", None))
    if h is None:
        return np.zeros(dimension)
    if h.kinked:
        raise ValueError(
            f"LBFGS takes no {type(h).__name__}: it needs a smooth F. Give SquaredL2, or take "
            "PDMM, AGPDMM or GPDMM"
        )
    scale: float = prox.weight  # type: ignore[attr-defined]
    return np.asarray(h.quadratic(dimension), dtype=np.float64) / scale
