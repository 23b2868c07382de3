"""A metric for a run: variables in which the clients' functions bend alike in all directions.

PDMM in the metric P, with x'Px in the place of ‖x‖², is PDMM in y = P^(1/2) x. So a metric is a
change of variables of the whole run: the server asks for curvature, once or twice, and tells the
clients x = centre + T y. In y the mean client's Hessian is the identity, as far as it is known.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.variables import Mixed, Scaled, Variables
from pdmm.engines.clients import Clients
from pdmm.methods.whitening import factor
from pdmm.problems.sums import CurvatureSum
from pdmm.regularisers import Regulariser
from pdmm.regularisers.penalty import has_simple_prox
from pdmm.run.settings import LARGEST_FULL

Vector = npt.NDArray[np.float64]


class Measured(NamedTuple):
    """Variables for a run, and what it took to find them."""

    variables: Variables
    exchanges: int
    numbers_up: int
    """Numbers that each client sent, in all."""
    numbers_down: int
    """Numbers that each client was sent, in all."""
    sent: str
    """What was sent, in words."""


def measure(
    clients: Clients, kind: str, x0: Vector, h: Regulariser | None, weight: float
) -> Measured:
    """Ask the clients for their curvature, and choose variables by it.

    Args:
        clients: ready to be asked for F.
        kind: "diagonal", "full" or "own", which begins like "full".
        x0: the start. Where it is 0, it means nothing, and a better one is found on the way.
        h: the regulariser, which has a part in that.
        weight: of all clients.
    """
    if kind == "diagonal":
        return _diagonal(clients, x0, h, weight)
    found = _full(clients, x0, h, weight)
    if kind == "full":
        return found
    d = len(x0)
    later = f"and then its own again, {d * (d + 1) // 2:,} numbers, whenever its metric is renewed"
    return found._replace(sent=f"{found.sent}, {later}")


def _diagonal(clients: Clients, x0: Vector, h: Regulariser | None, weight: float) -> Measured:
    """Columns scaled and centred: from the diagonal of the Hessian and the intercept's row.

    Where x is long, and the proximal step of h would need a matrix, they are not centred.
    """
    diagonal, row, _ = clients.diagonal(x0) / weight
    intercepts = clients.intercepts
    means = np.zeros(len(x0))
    if intercepts is not None:
        own = diagonal[intercepts]
        others = (intercepts != np.arange(len(x0))) & (own > 0)
        means[others] = row[others] / own[others]
        diagonal = diagonal - np.where(others, means * row, 0.0)
    # A column that hardly varies has lost its digits by the centring: it is scaled as it is.
    least = 1e-14 * np.maximum(np.abs(means * row), np.finfo(float).tiny)
    scale = np.where(diagonal > least, 1 / np.sqrt(np.maximum(diagonal, least)), 1.0)
    variables = Scaled(x0, scale, means, intercepts)
    if h is not None and len(x0) > LARGEST_FULL and not has_simple_prox(h, variables):
        variables = Scaled(x0, scale, 0 * means, intercepts)
    rows = 2 if intercepts is not None else 1
    what = "the diagonals of the Hessians" + (
        " and the rows of their intercepts" if intercepts is not None else ""
    )
    d = len(x0)
    return Measured(variables, 1, rows * d, (rows + 1) * d, what)


def _full(clients: Clients, x0: Vector, h: Regulariser | None, weight: float) -> Measured:
    """The mean Hessian made the identity, at a first Newton point where x0 says nothing."""
    d = len(x0)
    size = d * (d + 3) // 2
    found = clients.curvature(x0 if x0.any() else None, None)
    factored = factor(found.hessian / weight, np.eye(d))
    T = factored.whiten(np.eye(d))
    centre = x0
    if not x0.any():
        centre = x0 - factored.solve(found.gradient / weight)
        if h is not None:
            centre = np.asarray(h.prox_in(centre, factored.in_x(np.eye(d)) * weight))
    found = clients.curvature(centre, T)
    if not _usable(found):
        centre = x0
        found = clients.curvature(centre, T)
    again = factor(found.hessian / weight, T)
    T = again.whiten(T)
    # What the data do not determine is as long here as rounding is short: go back to the column.
    undetermined = ~again.kept | again.raised
    T[:, undetermined] = np.diag(1 / factored.scale)[:, undetermined]
    variables = Mixed(centre, T)
    what = "the Hessians, at two points"
    return Measured(variables, 2, 2 * size, 2 * size, what)


def _usable(found: CurvatureSum) -> bool:
    return bool(np.isfinite(found.value) and np.isfinite(found.hessian).all())
