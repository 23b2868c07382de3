"""The exact step for smooth functions that have no closed form, by SciPy's solvers."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import NoConvergence, minimize, newton_krylov

from pdmm.common.checks import ClientError
from pdmm.problems.newton import newton_path

Vector = npt.NDArray[np.float64]


NEWTON_STEPS = 200
NEAR = 1e-4  # a relative residual from which on Newton's method doubles its digits in each step
PATIENCE = 5  # steps from there on, before rounding is held to be the reason why it does not
STUCK = 1e-3  # a relative residual at which a solver has stopped for another reason than rounding
BISECTIONS = 200  # of a line, until its two ends are nearly neighbouring numbers
NEIGHBOURS = 1e-12  # the relative distance at which they are


class Solution(NamedTuple):
    """The minimiser, its relative residual, and how often the function was called."""

    x: Vector
    error: float
    calls: int
    missed: bool = False  # the tolerance
    kink: bool = False  # whether the gradient jumps where the solvers are stuck


class Terms(NamedTuple):
    """A quadratic at a point."""

    value: float
    slope: Vector
    size: float  # of the terms that cancel in the slope


Quadratic: TypeAlias = Callable[[Vector], Terms]
Smooth: TypeAlias = Callable[[Vector], tuple[float, Any]]  # x -> (value, gradient)


def _towards(anchor: Vector, rho: float) -> Quadratic:
    """rho/2 ‖x - anchor‖², as a function of x."""

    def quadratic(x: Vector) -> Terms:
        away = x - anchor
        size = rho * float(np.linalg.norm(x) + np.linalg.norm(anchor))
        return Terms(rho / 2 * float(away @ away), rho * away, size)

    return quadratic


def _general(M: Vector, right: Vector) -> Quadratic:
    """1/2 x'M x - right·x, as a function of x."""

    def quadratic(x: Vector) -> Terms:
        Mx = M @ x
        size = float(np.linalg.norm(Mx) + np.linalg.norm(right))
        return Terms(float(x @ (0.5 * Mx - right)), Mx - right, size)

    return quadratic


class _Best:
    """h(x) = f(x) + a quadratic, remembering the best point that a solver tried."""

    def __init__(
        self,
        f: Smooth,
        quadratic: Quadratic,
        least: float,
        start: Vector,
    ) -> None:
        self.f = f
        self.quadratic = quadratic
        self.least = least
        self.calls = 0
        self.x = start
        self.error = np.inf  # the relative residual at x
        self.scale = 1.0  # what that is relative to

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        self.calls += 1
        value, gradient = self.f(x)
        with np.errstate(all="ignore"):
            return self._add(x, value, gradient)

    def _add(self, x: Vector, value: float, gradient: Any) -> tuple[float, Vector]:
        added = self.quadratic(x)
        slope = np.asarray(gradient, dtype=np.float64) + added.slope
        # Rounding alone makes ‖slope‖ a few eps times this:
        scale = max(float(np.linalg.norm(gradient)) + added.size, self.least)
        error = float(np.linalg.norm(slope) / scale) if scale != 0 else 0.0
        if error < self.error:
            self.error = error
            self.scale = scale
            self.x = x.copy()
        return value + added.value, slope

    def slope(self, x: Vector) -> Vector:
        return self(x)[1]


def minimise(
    f: Smooth,
    anchor: npt.NDArray[np.floating],
    rho: float,
    start: npt.NDArray[np.floating],
    tolerance: float,
    slack: float = 0.0,
) -> Solution:
    """Minimise f(x) + rho/2 ‖x - anchor‖² until its gradient is relatively small.

    L-BFGS goes down as far as differences of function values can be told from rounding;
    from there Newton-Krylov, which needs gradients alone, goes on.

    Args:
        f: x -> (value, gradient).
        anchor: centre of the quadratic term.
        rho: weight of the quadratic term.
        start: where to begin.
        tolerance: on ‖gradient‖ / (‖grad f(x)‖ + rho ‖x‖ + rho ‖anchor‖).
        slack: a ‖gradient‖ that is small enough in any case.

    Returns:
        The best point that was found; its ``error`` says whether the tolerance was reached.
    """
    towards = _towards(np.asarray(anchor, dtype=np.float64), rho)
    return _minimise(f, towards, start, tolerance, slack)


def minimise_with(
    f: Smooth,
    M: Vector,
    right: Vector,
    start: npt.NDArray[np.floating],
    tolerance: float,
    least: float = 0.0,
) -> Solution:
    """Minimise f(x) + 1/2 x'M x - right·x likewise; M may be 0.

    Args:
        f: x -> (value, gradient).
        M: symmetric, without negative eigenvalues.
        right: a vector.
        start: where to begin.
        tolerance: on ‖gradient‖ / (‖grad f(x)‖ + ‖M x‖ + ‖right‖).
        least: what that denominator is at least: where M = 0, all that it has cancels.
    """
    return _minimise(f, _general(M, right), start, tolerance, least=least)


def _minimise(
    f: Smooth,
    quadratic: Quadratic,
    start: npt.NDArray[np.floating],
    tolerance: float,
    slack: float = 0.0,
    least: float = 0.0,
) -> Solution:
    x = np.asarray(start, dtype=np.float64)
    h = _Best(f, quadratic, least, x)
    h(x)
    if not np.isfinite(h.error):  # nothing to go by: the engine names the client
        return Solution(np.full_like(x, np.nan), 0.0, h.calls)
    if h.scale > 0:
        tolerance = max(tolerance, slack / h.scale)
    if h.error > tolerance:
        _lbfgs(h, x, tolerance)
    if h.error > max(tolerance, STUCK) and _jumps(h):
        return Solution(h.x, h.error, h.calls, missed=True, kink=True)
    if h.error > tolerance:
        _newton_krylov(h, tolerance)
    if h.error > tolerance:
        _newton(h, tolerance)
    return Solution(h.x, h.error, h.calls, missed=h.error > tolerance)


def _lbfgs(h: _Best, x: Vector, tolerance: float) -> None:
    target = tolerance * h.scale / np.sqrt(x.size)
    minimize(
        h,
        x,
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "gtol": target, "ftol": 0.0, "maxiter": 1000, "maxls": 40},
    )


def _jumps(h: _Best) -> bool:
    """Whether the slope jumps on the line down from the best point, from down to up.

    The line is bisected until its two ends are nearly neighbouring numbers. Between these the slope
    of a smooth function hardly changes, and that of a kink changes by all that it has.
    """
    x = h.x
    with np.errstate(all="ignore"):
        down = -h.slope(x)

        def ahead(t: float) -> float:
            """The slope along the line, at x + t down."""
            return float(h.slope(x + t * down) @ down)

        low, high = 0.0, 1.0
        slope_low, slope_high = ahead(low), ahead(high)
        while slope_high < 0 and high < 1e30:
            low, slope_low = high, slope_high
            high *= 16
            slope_high = ahead(high)
        for _ in range(BISECTIONS):
            if high - low <= NEIGHBOURS * high or not np.isfinite(slope_low):
                break
            middle = (low + high) / 2
            slope = ahead(middle)
            if slope < 0:
                low, slope_low = middle, slope
            else:  # or not finite: too far
                high, slope_high = middle, slope
        found = high - low <= NEIGHBOURS * high and np.isfinite(slope_high)
        return bool(found and slope_high - slope_low > 0.1 * float(down @ down))


def _newton(h: _Best, tolerance: float) -> None:
    """Go on by Newton's method, whose steps are safe however steep f becomes."""

    def slope(x: Vector) -> Vector | None:
        found = h.slope(x)
        return found if np.isfinite(found).all() else None

    left = PATIENCE
    with np.errstate(all="ignore"):
        for _ in newton_path(slope, h.x, h.slope(h.x), NEWTON_STEPS):
            if h.error <= tolerance:
                return
            left = PATIENCE if h.error > NEAR else left - 1
            if left < 0:
                return


def _newton_krylov(h: _Best, tolerance: float) -> None:
    try:
        with np.errstate(all="ignore"):
            newton_krylov(
                h.slope,
                h.x,
                f_tol=tolerance * h.scale,
                tol_norm=np.linalg.norm,
                maxiter=30,
                inner_maxiter=50,
            )
    except ClientError:
        raise
    except (NoConvergence, ValueError, OverflowError):  # the best point so far stands
        pass
