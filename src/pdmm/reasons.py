"""Why a run stopped, in words, and what to do about it."""

from typing import Any

import numpy.typing as npt

from pdmm.methods.base import Method
from pdmm.problems.base import Problem


def grows(objective: npt.NDArray[Any]) -> bool:
    """Whether the objective ended far above where it began, and was still growing."""
    first, middle, last = objective[0], objective[len(objective) // 2], objective[-1]
    return bool(last > 10 * abs(first) and last > middle and len(objective) > 2)


def why_diverged(r: int, size: float, client: int | None, method: Method, problem: Problem) -> str:
    """What was seen when the run diverged, and what to do."""
    what = f"‖x_s‖ = {size:.3g}"
    if client is not None:
        what += f", the upload of client {client} is not finite"
    return f"diverged in round {r}: {what}. " + advice(method, problem)


def advice(method: Method, problem: Problem) -> str:
    """What step size would be safe, if the method has one and L is known."""
    step = getattr(method, "step_size", None)
    if step is None:
        return "Are all f_i convex?"
    try:
        smoothness = problem.smoothness()
        one_over_l = 1 / float(smoothness.clients.max())
    except (ValueError, ZeroDivisionError):  # a client that fails by now, or nothing but constants
        return f"step_size={step:g} may be too large: it should be at most 1/L"
    if smoothness.kind == "estimate":
        about = method.step_limit(one_over_l)[1]
        return f"step_size={step:g} may be too large: at most 1/L, about {about:.2g}, is safe"
    name, safe = method.step_limit(one_over_l)
    if step <= safe:
        doubt = " and the given smoothness right" if smoothness.kind == "given" else ""
        return f"step_size={step:g} is within {name} = {safe:.3g}: are all f_i convex{doubt}?"
    return f"step_size={step:g} is too large: at most {name} = {safe:.3g} is safe"
