"""``pdmm.certify``: how far any point can be from the optimum, whoever found it."""

from typing import Any

import numpy as np

from pdmm.common.checks import client_weights, vector
from pdmm.engines.in_process import InProcess
from pdmm.problems.base import Problem
from pdmm.regularisers import Regulariser
from pdmm.result import Certificate
from pdmm.run.build import certifier
from pdmm.run.settings import fitting_regulariser


def certify(
    problem: Problem,
    x: Any,
    *,
    weights: Any = None,
    regulariser: Regulariser | None = None,
    threads: int | None = None,
) -> Certificate:
    """Prove how far a point is from the minimum of F(x) = sum_i w_i f_i(x) + h(x), at most.

    It needs the clients' functions and the point, and nothing of the run that found it: so it
    checks ``pdmm.solve``, or any other program. It costs one gradient from every client, or two
    or three where the functions are your own. The clients of a ``pdmm.GLM`` are asked for their
    Hessians too, up to three times, and no mu is needed.

    Args:
        problem: the clients' functions, all in this process.
        x: the point, shape (d,), in the problem's dtype.
        weights: w_i > 0, one for each client; ones if not given.
        regulariser: h, e.g. ``pdmm.L1(0.1)``.
        threads: how many work at the same time, as in ``pdmm.solve``.

    Returns:
        A certificate. Its ``gap`` and ``distance`` are None where nothing is proven: no mu > 0 is
        known or, of a GLM, x is too far from the optimum, or there is none.

    Example:
        >>> import numpy as np, pdmm
        >>> problem = pdmm.LeastSquares([[[1.0]], [[3.0]]], [[1.0], [5.0]])   # optimum 1.6
        >>> certificate = pdmm.certify(problem, [1.7])
        >>> 0.05 <= certificate.gap <= 0.0500001, 0.1 <= certificate.distance <= 0.1000001
        (True, True)
    """
    clients = InProcess(problem)
    if not clients.reaches_all:
        raise ValueError("certify asks all clients for a gradient: not those of a Lazy problem")
    if not clients.convex:
        raise ValueError(
            f"certify proves something of convex functions alone, and the loss of {problem!r} need "
            "not be convex"
        )
    point = vector("x", x, problem.dimension)
    held = point.astype(problem.dtype)
    if (held != point).any():
        raise ValueError(
            f"x must be of {problem.dtype} numbers, as the problem is, since another x would be "
            f"another point: give x.astype(np.{problem.dtype})"
        )
    w = client_weights(weights, clients.count)
    h = fitting_regulariser(regulariser, clients)
    if threads is None and not clients.parallel:
        threads = 1
    with clients.working(threads), np.errstate(over="ignore"):
        clients.weigh(w)
        total = clients.total(minimum=True)
        return certifier(clients, w, h, total, problem.likelihood)(held, 0)
