"""Newton's method over a federation: the server gets sums of gradients and Hessians, no more."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from pdmm.methods.base import Array, Evidence, Method, Nothing, Prox
from pdmm.methods.newton_steps import (
    GRID,
    HUGE,
    SHARE,
    TOO_LARGE,
    Penalty,
    Step,
    drifted,
    full_step,
    longer,
    shorter,
    usable,
)
from pdmm.methods.registry import register
from pdmm.methods.whitening import Vector, packed, symmetric, triangle

STREAK = 6  # rounds in a row that look like the way to infinity
NOTHING_LEFT = 1e-6  # of the largest F: what can still be gained there
MUCH = 1e-3  # the same, absolute: a likelihood's
ARRIVED = 1e-16  # lam², a likelihood's: 1e-8 of a standard error


class Server(NamedTuple):
    """The server's state."""

    at: Evidence
    """The result, and what the clients said of it; NaN until they were asked there."""
    objective: float
    """F at the result."""
    scale: float
    """The largest |F| so far."""
    step: Array
    """The direction from the result that is on trial, or a part of it."""
    trial: Array
    """The point at which the clients are asked next."""
    T: Array
    """The coordinates in which they are asked, (d, d)."""
    working: bool
    """Whether they are asked for the quadratics that stand for the f_i before x is known."""
    fall: float
    """By how much F would fall along the step, at its slope."""
    left: float
    """The same of the full step from the result: lam²."""
    q: float
    """R lam at the result."""
    lost: int
    """Directions of x of which the data say nothing."""
    vague: bool
    """Whether it is not clear yet which these are."""
    arrived: bool
    """Whether no more can be gained than 1e-8 of a standard error, or rounding hides it."""
    drift: int
    """Rounds in a row that looked like the way to infinity."""
    separated: bool
    """Whether the result puts every outcome on its side, and nothing holds x back."""
    drifting: bool
    """Whether x goes to infinity."""


class _Message(NamedTuple):
    x: Array
    direction: Array
    T: Array  # its upper triangle
    working: Array


class Message(_Message):
    """The point on trial, how the server came there, and the coordinates for the answer."""

    EXACT: ClassVar = _Message._fields


class _Upload(NamedTuple):
    value: Array
    gradient: Array
    doubt: Array
    hessian: Array  # its upper triangle
    reach: Array
    unsettled: Array
    grid: Array


class Upload(_Upload):
    """Value, gradient and Hessian at the point on trial, and values on the way to it."""

    EXACT: ClassVar = _Upload._fields


@register("newton")
@dataclass(frozen=True)
class Newton(Method):
    """Newton's method: few rounds whatever the scales, for clients that know their Hessians.

    ``x_s <- x_s - I^-1 sum_i w_i grad f_i(x_s)``, I the sum of the Hessians and of that of an l2
    penalty; with l1 or Box the server solves the small prox-Newton problem. In each round a client
    sends d (d + 3)/2 numbers and its values at a few points on the way, so that a step that was
    too long costs one more round. Only sums over clients are needed.

    It needs every client in every round, all messages, and full precision.
    """

    paper_vectors = (2, 1)  # no paper has it: the point and the direction go down, a gradient up
    vectors_down = 2
    knows_its_end = True

    @property
    def curvature(self) -> Literal["full"]:
        return "full"

    @property
    def steps(self) -> int:
        return 0

    def check_partial(self) -> None:
        raise ValueError(
            "Newton needs every client in every round, all messages, and full precision: its steps "
            "are those of the sum of all Hessians. PDMM with a metric, e.g. "
            "PDMM(rho='auto', metric='own'), works without"
        )

    def exact_numbers(self, message: Message) -> tuple[int, int]:
        triangle_size = np.shape(message.T)[-1]
        return triangle_size + 1, triangle_size + len(GRID) + 4

    # --- clients ----------------------------------------------------------------------------

    def client_start(self, x0: Array) -> Nothing:
        return Nothing()

    def client(
        self, message: Message, memory: Nothing, f: Any, steps: int
    ) -> tuple[Upload, Nothing]:
        T = triangle(np.asarray(message.T))
        with np.errstate(all="ignore"):
            seen = f.working(T) if message.working else f.curvature(message.x, T)
            grid = np.asarray(f.along(message.x, message.direction, GRID - 1))
            hessian = packed(seen.hessian)
            good = usable(seen.value, seen.gradient, seen.doubt, hessian)
        return Upload(
            value=np.where(good, seen.value, HUGE),
            gradient=np.where(good[..., None], seen.gradient, 0.0),
            doubt=np.where(good, seen.doubt, 0.0),
            hessian=np.where(good[..., None], hessian, 0.0),
            reach=np.where(seen.reach < HUGE, seen.reach, HUGE),
            unsettled=1.0 * seen.unsettled,
            grid=np.where(np.abs(grid) < TOO_LARGE, grid, HUGE),
        ), Nothing()

    # --- the server -------------------------------------------------------------------------

    def server_start(self, x0: Array, prox: Prox) -> Server:
        d = len(x0)
        x = np.array(x0, dtype=np.float64)
        unknown = Evidence(x, np.eye(d), np.nan, np.zeros(d), 0.0, np.eye(d), 0.0, np.nan)
        return Server(
            at=unknown,
            objective=np.inf,
            scale=0.0,
            # From 0 to x0: values on this way say whether x0 is a better start than nothing.
            step=1 * x,
            trial=1 * x,
            T=np.eye(d),
            working=not x.any(),
            fall=0.0,
            left=np.inf,
            q=np.inf,
            lost=0,
            vague=False,
            arrived=False,
            drift=0,
            separated=False,
            drifting=False,
        )

    def broadcast(self, server: Server) -> Message:
        return Message(
            x=server.trial,
            direction=server.step,
            T=packed(server.T),
            working=np.array(float(server.working)),
        )

    def solution(self, server: Server) -> Array:
        return server.at.x

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        penalty = Penalty.of(prox, len(server.trial))
        seen = Evidence(
            x=server.trial,
            T=server.T,
            value=float(mean.value),
            gradient=np.array(mean.gradient, dtype=np.float64),
            doubt=float(mean.doubt),
            hessian=symmetric(np.asarray(mean.hessian, dtype=np.float64)),
            reach=float(mean.reach),
            unsettled=float(mean.unsettled),
        )
        grid = np.asarray(mean.grid, dtype=np.float64)
        if server.working:
            return _after_working(server, seen, grid, penalty)
        value = penalty.total(seen.value, seen.x)
        if np.isnan(server.at.value) and _is_worse_than_nothing(server, value, grid, penalty):
            return server._replace(working=True, step=0 * server.step)
        if value == np.inf:
            return _rejected(server, grid, penalty)
        step = full_step(seen, penalty)
        if not _is_good(server, value, step):
            return _rejected(server, grid, penalty)
        return _accepted(server, seen, value, step, grid, penalty)

    def evidence(self, server: Server) -> Evidence | None:
        if server.lost or server.vague or np.isnan(server.at.value):
            return None
        reach = server.at.reach
        if not reach < TOO_LARGE:
            reach = np.inf
        return server.at._replace(reach=reach)

    def telemetry(self, server: Server) -> dict[str, float]:
        return {"decrement": float(np.sqrt(server.left))}

    def verdict(self, server: Server) -> str:
        if server.separated:
            return (
                "the outcomes are separated: x puts every row on the side of its outcome, so that "
                "the likelihood grows for ever along x and has no maximum; a penalty gives one"
            )
        if server.drifting:
            return (
                "x goes to infinity: F falls by the same factor in round after round while x "
                "grows, as where a part of the outcomes is separated, and there seems to be no "
                "minimum; a penalty gives one"
            )
        if server.lost == len(server.trial) and not server.at.hessian.any():
            return (
                "F is the same for every x, so that the data say nothing of it: in Cox's model, "
                "there are no events (or nobody else was at risk when they happened); elsewhere, "
                "all columns are 0. Nothing is certified"
            )
        if server.lost and not server.vague and server.arrived:
            return (
                f"{server.lost} of the {len(server.trial)} directions of x are not determined by "
                "the data, to rounding (columns depend on each other, or classes do with "
                "reference=False): x is the shortest of the minimisers, or with l1 or bounds one "
                "of them, and nothing is certified"
            )
        return ""


def _after_working(server: Server, seen: Evidence, grid: Vector, penalty: Penalty) -> Server:
    """The first trial is the minimiser of the working quadratics; the way to it begins at 0."""
    start = server.trial
    step = full_step(seen._replace(x=0 * start, value=0.0), penalty)
    value = np.inf
    if not start.any():
        value = penalty.total(float(grid[0]), start)
    return server._replace(
        objective=value,
        scale=abs(value) if value < np.inf else 0.0,
        step=step.direction,
        trial=1 * step.direction,
        T=step.T,
        working=False,
        fall=0.0,
        at=server.at._replace(value=np.nan),
        left=np.inf,
    )


def _is_worse_than_nothing(server: Server, value: float, grid: Vector, penalty: Penalty) -> bool:
    """Whether F is lower near 0 than at an x0 of the user's own."""
    if server.objective < np.inf or not np.array_equal(server.trial, server.at.x):
        return False  # not the first round
    if value == np.inf:
        return True
    return penalty.total(float(grid[0]), GRID[0] * server.trial) < value


def _is_good(server: Server, value: float, step: Step) -> bool:
    """Whether F fell enough, or as far as rounding lets one see near the minimum."""
    if value <= server.objective - SHARE * server.fall:
        return True
    enough = server.left
    if step.lost and step.shortest:
        enough = max(enough, ARRIVED, step.rounding)  # of two minimisers, take the shorter
    if not step.fall < enough:
        return False
    noise = 1e-10 * max(abs(value), abs(server.objective))
    return server.q < 0.25 or value - server.objective <= noise


def _accepted(
    server: Server, seen: Evidence, value: float, step: Step, grid: Vector, penalty: Penalty
) -> Server:
    """The trial is the new result, and a full step from there is the next trial."""

    def length(direction: Vector) -> float:
        y = solve_triangular(seen.T, direction, check_finite=False)
        return float(np.sqrt(max(float(y @ seen.hessian @ y), 0.0)))

    first = np.isnan(server.at.value)
    drift = drifted(server.drift, 0.0 if first else server.left, step)
    scale = max(server.scale, abs(value))
    alarmed = drift >= STREAK and step.fall < min(MUCH, NOTHING_LEFT * scale)
    following = server._replace(
        at=seen,
        objective=value,
        scale=scale,
        step=step.direction,
        trial=seen.x + step.direction,
        T=step.T,
        fall=step.fall,
        left=step.fall,
        q=step.q,
        lost=step.lost,
        vague=step.vague,
        # With kinks it is h that chooses among the minimisers, not their length.
        arrived=(step.shortest or penalty.kinked) and step.fall <= max(ARRIVED, step.rounding),
        drift=drift,
        separated=_is_separated(seen, penalty),
        drifting=alarmed and not penalty.bounds(seen.x, step.direction, length),
    )
    if first or seen.unsettled == 0:
        return following
    t = longer(grid, value, step.fall, seen.x, server.step, penalty)
    if not t:
        return following
    far = (t - 1) * server.step
    return following._replace(step=far, trial=seen.x + far, fall=0.0)


def _is_separated(seen: Evidence, penalty: Penalty) -> bool:
    """Whether x proves that F has no minimum: there is something to gain, and for ever."""
    return seen.unsettled == 0 and bool(seen.gradient.any()) and penalty.h is None


def _rejected(server: Server, grid: Vector, penalty: Penalty) -> Server:
    """Go on from the best point on the way, or try a much shorter step."""
    t = shorter(grid, server.objective, server.fall, server.trial, server.step, penalty)
    if t:
        return server._replace(
            trial=server.trial - (1 - t) * server.step, step=t * server.step, fall=t * server.fall
        )
    t = float(GRID[0]) / 2
    base = server.trial - server.step
    if server.objective < np.inf:
        base = server.at.x
    if t * server.fall <= 1e-16 * abs(server.objective):
        t = 0.0  # below rounding: ask again at the result
    return server._replace(step=t * server.step, trial=base + t * server.step, fall=t * server.fall)
