"""What a site says of F at a point: a value, a gradient or curvature, summed over its clients."""

import math

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length
from pdmm.engines.sites.limits import LARGEST, MOST_CALLS
from pdmm.engines.sites.reading import Reply
from pdmm.engines.sites.roster import SiteError
from pdmm.problems.sums import CertainGradient

Vector = npt.NDArray[np.float64]

ROUNDING = 1e-3  # relative: the norm of a sum is at most the sum of the norms, up to this


def read_value(reply: Reply) -> float:
    """The sum of f_i(x). It may be infinite, where x is so far out that exp overflows."""
    found = reply.number_or_nan("value")
    if math.isnan(found) or found == -math.inf:
        reply.refuse("value", "a number: F has a value at each x")
    return found


def read_gradient(reply: Reply, dimension: int) -> CertainGradient:
    """The sum of the gradients, with what rounding may have made of it."""
    gradient = reply.bounded("gradient", (dimension,), LARGEST)
    found = CertainGradient(
        gradient=gradient,
        doubt=reply.number("doubt", 0.0, LARGEST),
        terms=reply.number("terms", 0.0, LARGEST),
        calls=reply.number("calls", 0.0, MOST_CALLS),
    )
    norm = length(gradient)
    if norm > found.terms * (1 + ROUNDING):
        raise SiteError(
            f"site {reply.site} gave an answer to {reply.verb!r} that cannot be right: its "
            f"gradient has the norm {norm:.3g}, but the gradients that it is the sum of have norms "
            f"of {found.terms:.3g} in all"
        )
    return found


def read_sums(reply: Reply, shape: tuple[int, ...], needed: bool = False) -> Vector:
    """Sums of second derivatives and the like; NaN where they are of no use.

    Far from the optimum exp overflows, at an honest site too. What is too large to be squared
    counts as NaN, so that nothing is ever proven by it.

    Args:
        reply: of the site.
        shape: of the sums.
        needed: whether a run cannot begin without them.
    """
    if needed:
        return reply.bounded("sums", shape, LARGEST)
    found = reply.array("sums", shape)
    with np.errstate(invalid="ignore"):
        if (np.abs(found) <= LARGEST).all():
            return found
    return np.full(shape, np.nan)
