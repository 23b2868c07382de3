"""The exact step for smooth functions that have no closed form, by SciPy's solvers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import NoConvergence, minimize, newton_krylov

from pdmm.checks import ClientError

Vector = npt.NDArray[np.float64]


class Solution(NamedTuple):
    """The minimiser, its relative residual, and how often the function was called."""

    x: Vector
    error: float
    calls: int
    missed: bool = False  # the tolerance


class _Best:
    """h(x) = f(x) + rho/2 ‖x - anchor‖², remembering the best point that a solver tried."""

    def __init__(
        self, f: Callable[[Vector], tuple[float, Any]], anchor: Vector, rho: float
    ) -> None:
        self.f, self.anchor, self.rho = f, anchor, rho
        self.calls, self.error, self.scale, self.x = 0, np.inf, 1.0, anchor

    def __call__(self, x: Vector) -> tuple[float, Vector]:
        self.calls += 1
        value, gradient = self.f(x)
        with np.errstate(all="ignore"):
            return self._add(x, value, gradient)

    def _add(self, x: Vector, value: float, gradient: Any) -> tuple[float, Vector]:
        away = x - self.anchor
        slope = np.asarray(gradient, dtype=np.float64) + self.rho * away
        # Rounding alone makes ‖slope‖ a few eps times this:
        sizes = (np.linalg.norm(v) for v in (x, self.anchor))
        scale = float(np.linalg.norm(gradient) + self.rho * sum(sizes))
        error = float(np.linalg.norm(slope) / scale) if scale != 0 else 0.0
        if error < self.error:
            self.error, self.x, self.scale = error, x.copy(), scale
        return value + self.rho / 2 * float(away @ away), slope

    def slope(self, x: Vector) -> Vector:
        return self(x)[1]


def minimise(
    f: Callable[[Vector], tuple[float, Any]],
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
    h = _Best(f, np.asarray(anchor, dtype=np.float64), rho)
    x = np.asarray(start, dtype=np.float64)
    h(x)
    if not np.isfinite(h.error):  # nothing to go by: the engine names the client
        return Solution(np.full_like(x, np.nan), 0.0, h.calls)
    tolerance = max(tolerance, slack / h.scale) if h.scale > 0 else tolerance
    if h.error > tolerance:
        target = tolerance * h.scale / np.sqrt(x.size)
        minimize(
            h,
            x,
            jac=True,
            method="L-BFGS-B",
            options={"maxcor": 20, "gtol": target, "ftol": 0.0, "maxiter": 1000, "maxls": 40},
        )
    if h.error > tolerance:
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
        except (NoConvergence, ValueError):  # the best point so far stands, with its error
            pass
    return Solution(h.x, h.error, h.calls, missed=h.error > tolerance)
