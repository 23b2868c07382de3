"""Checks of what ``pdmm.solve`` is given, and of what goes together."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import finite, vector
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.regularisers import Regulariser


def check(problem: Any, method: Any, x0: Any, regulariser: Any) -> npt.NDArray[np.float64]:
    """Refuse what does not go together; returns the start in float64."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a pdmm problem, e.g. LeastSquares, got {problem!r}")
    if method is not None and not isinstance(method, Method):
        raise ValueError(
            f"method must be a pdmm method, e.g. pdmm.AGPDMM(step_size, local_steps), or None "
            f"to have it chosen, got {method!r}"
        )
    if regulariser is not None:
        if not isinstance(regulariser, Regulariser):
            raise ValueError(
                f"regulariser must be L1, SquaredL2 or Box of pdmm, got {regulariser!r}"
            )
        if method is not None and method.no_regulariser:
            raise ValueError(
                f"{type(method).__name__} takes no regulariser: {method.no_regulariser}"
            )
        regulariser.check(problem.dimension)
    if x0 is None:
        return np.zeros(problem.dimension)
    start = vector("x0", x0, problem.dimension)
    with np.errstate(over="ignore"):  # clients and server start from what the clients can hold
        held = start.astype(problem.dtype).astype(np.float64)
    finite(f"x0 in the run's {problem.dtype}", held)
    return held


def known_optimum(optimum: Any, dimension: int) -> float | npt.NDArray[np.float64] | None:
    """What the user knows of the optimum: F*, x* or nothing."""
    if optimum is None or optimum is False:
        return None
    if optimum is True:
        raise ValueError("optimum must be a number, a point x*, None or False, got True")
    if np.ndim(optimum) == 0:
        return float(vector("optimum", [optimum], 1)[0])
    return vector("optimum", optimum, dimension)
