"""The conditions of the theorems: checked once, with errors that say what to do."""

import math
from typing import Any

from pdmm.common.checks import moderate, moderate_or_zero, number


def curvatures(smoothness: Any, strong_convexity: Any) -> tuple[float, float]:
    """L and mu with L >= mu > 0."""
    L = moderate("smoothness", smoothness)
    mu = moderate_or_zero("strong_convexity", strong_convexity)
    if mu == 0:
        raise ValueError(
            "strong_convexity must be positive for a linear rate, got 0: where the f_i are convex "
            "but not strongly convex, use pdmm.theory.theorem2_bound or trace_theorem2, which "
            "need no mu"
        )
    if mu > L:
        raise ValueError(
            f"strong_convexity={mu!r} must not exceed smoothness={L!r}, because mu <= L for every "
            "function: were the two swapped?"
        )
    return L, mu


def step_below(step_size: Any, L: float) -> float:
    """A step size eta with 1/eta > L, as Theorems 1 and 2 require."""
    eta = moderate("step_size", step_size)
    if eta * L >= 1:
        raise ValueError(
            f"step_size must be below 1/L = {1 / L:.6g} for Theorems 1 and 2, got {eta!r}: "
            f"try step_size={0.9 / L:.3g}"
        )
    return eta


def rounds_to(accuracy: Any, decrease: float) -> int:
    """The least n with (1 - decrease)^n <= accuracy."""
    part = number("accuracy", accuracy)
    if not 0 < part < 1:
        raise ValueError(
            f"accuracy must be between 0 and 1, got {accuracy!r}: it is the part of the first "
            "value that may be left, e.g. 1e-6"
        )
    if decrease >= 1:
        return 1
    # log1p: a rate within rounding of 1 has a logarithm all the same.
    count = math.log(part) / math.log1p(-decrease)
    if count == math.inf:
        raise ValueError(
            f"a decrease of {decrease:g} a round takes more rounds to accuracy={part:g} than a "
            "floating-point number can count"
        )
    return math.ceil(count)
