"""How far a point is from the optimum, from gradient and Hessian alone: self-concordance.

With H the Hessian of F at x, s a subgradient, lam² = s'H^-1 s, and R such that
|D³F[v, v, u]| <= R ‖u‖_H D²F[v, v] for all v and u, let q = R lam. If q < 1 there is a minimiser,

    F(x) - F* <= (q + (1 - q) log(1 - q))/R²,      ‖x - x*‖_H <= -log(1 - q)/R.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from pdmm.common.rounding import UNIT, gamma, length

Vector = npt.NDArray[np.float64]

LARGEST_Q = 0.5
TERMS = 64  # of a power series: q to this power is nothing beside 1
SLACK = 1.001  # of the bounds, for what is not counted: rounding within the weights of rows
SAFE = 0.1  # a matrix that rounding could change by more, relative to itself, proves nothing
UPWARDS = 1 + 1e-9  # of a norm, for the rounding in it


class Decrement(NamedTuple):
    """What gradient and Hessian prove of a point. All are upper bounds."""

    lam: float
    """The Newton decrement; infinite where rounding could make the Hessian singular."""
    q: float
    """R lam: how much the Hessian can change on the way to the optimum."""
    gap: float | None
    """Of F(x) - F*. None where q is above 1/2, or nothing is known."""
    deviation: float | None
    """Of ‖x - x*‖_H: no coefficient is further off than so many of its standard errors."""
    distance: float | None
    """Of ‖x - x*‖."""


UNKNOWN = Decrement(np.inf, np.inf, None, None, None)


def decrement(
    gradient: Vector,
    doubt: float,
    hessian: Vector,
    reach: float,
    operations: int,
    *,
    x: Vector,
    l2: Vector | None = None,
    T: Vector | None = None,
) -> Decrement:
    """What is proven of x by the derivatives of f and a penalty sum_j l2_j x_j²/2.

    Derivatives are in the coordinates y of x + T y, as in
    :class:`~pdmm.problems.curvature.Curvature`, summed over all clients with their weights. A
    good T makes the Hessian about the identity; then rounding plays no part.

    Args:
        gradient: T' grad f(x), (k,), or that of a subgradient of all terms other than l2's.
        doubt: how far rounding may have moved it, as a Euclidean norm.
        hessian: T' H T, (k, k).
        reach: R², for which |D³f[v, v, u]| <= R ‖u‖ D²f[v, v] in these coordinates.
        operations: of how many products an entry of the Hessian is the sum: all rows of all
            clients, and the clients.
        x: the point (d,).
        l2: (d,), not negative.
        T: (d, k). Where k is less than d a direction is lost, and nothing is proven.
    """
    d = len(x)
    if len(gradient) != d:
        return UNKNOWN
    with np.errstate(all="ignore"):
        penalty = _penalty(x, l2, T)
        M = hessian + penalty.hessian
        s = gradient + penalty.gradient
        if not (np.isfinite(M).all() and np.isfinite(s).all() and (np.diag(M) > 0).all()):
            return UNKNOWN
        # Scaling by powers of two rounds nothing, and no column is small then.
        scale = np.ldexp(1.0, -(np.frexp(np.diag(M))[1] // 2))
        scaled_T = np.diag(scale) if T is None else T * scale
        rows = 0.0 if T is None else gamma(d + 2) * _growth(scaled_T)
        # The sizes of the terms in all entries make a matrix whose norm is at most the trace.
        relative = gamma(operations + 10) + rows * (2 + rows)
        error = relative * float(scale**2 @ np.diag(hessian))
        error += gamma(d + 8) * float(scale**2 @ np.diag(penalty.hessian))
        root = _root(M * scale * scale[:, None], error)
        if root is None:
            return UNKNOWN
        steps = solve_triangular(root.R, s * scale, trans=1, check_finite=False)
        to_y = _norm(scale[:, None] * root.inverse) * root.inflation
        lam = length(steps) * root.inflation * UPWARDS + doubt * to_y
        lam += length(scale * (penalty.doubt + UNIT * np.abs(s))) * root.norm * root.inflation
        to_x = _norm(scaled_T @ root.inverse) * root.inflation
        to_x += gamma(d + 2) * length(np.abs(scaled_T) @ np.abs(root.inverse)) * root.inflation
        q = float(np.sqrt(reach) * (1 + rows) * to_y * lam * UPWARDS)
    return _bounds(float(lam), q, float(to_x))


def _bounds(lam: float, q: float, to_x: float) -> Decrement:
    """The bounds as power series in q: nothing cancels, and R may be 0."""
    if not np.isfinite(lam):
        return UNKNOWN
    if not q <= LARGEST_Q:
        return Decrement(lam, q, None, None, None)
    j = np.arange(TERMS)
    powers = q**j
    gap = SLACK * lam * lam * float(powers @ (1 / ((j + 1) * (j + 2))))
    deviation = SLACK * lam * float(powers @ (1 / (j + 1)))
    distance = deviation * to_x
    if not np.isfinite([gap, distance]).all():
        return Decrement(lam, q, None, None, None)
    return Decrement(lam, q, gap, deviation, distance)


class _Penalty(NamedTuple):
    """The derivatives of sum_j l2_j x_j²/2 in T's coordinates."""

    gradient: Vector
    doubt: Vector
    """(k,): how far rounding may have moved each of its entries."""
    hessian: Vector


def _penalty(x: Vector, l2: Vector | None, T: Vector | None) -> _Penalty:
    d = len(x)
    if l2 is None:
        return _Penalty(np.zeros(d), np.zeros(d), np.zeros((d, d)))
    pull = l2 * x
    if T is None:
        return _Penalty(pull, UNIT * np.abs(pull), np.diag(l2))
    sizes = np.abs(T).T @ np.abs(pull)
    return _Penalty(T.T @ pull, gamma(d + 4) * sizes, T.T @ (l2[:, None] * T))


class _Root(NamedTuple):
    """R, for which the exact Hessian is close to R'R, and what follows from it."""

    R: Vector
    inverse: Vector
    norm: float
    """Of the inverse."""
    inflation: float
    """By what norms in H^-1 can be larger than those by the computed inverse."""


def _root(M: Vector, error: float) -> _Root | None:
    """The Cholesky factor of M, which is off by at most ``error`` in the spectral norm.

    R'R - M is at most gamma(k + 1) |R'| |R| (Higham, Theorem 10.3), and R times its computed
    inverse is off from I by at most gamma(k) |R| |inverse| (Theorem 8.5). None where that is
    not safely positive definite.
    """
    k = len(M)
    try:
        R = np.asarray(np.linalg.cholesky(M).T, dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    inverse = solve_triangular(R, np.eye(k), check_finite=False)
    norm = _norm(inverse)
    rough = gamma(k + 2) * length(np.abs(R) @ np.abs(inverse))
    if not rough <= SAFE:
        return None
    off = (error + gamma(k + 4) * float(np.trace(M))) * (norm / (1 - rough)) ** 2 * UPWARDS
    if not off <= SAFE:
        return None
    return _Root(R, inverse, norm, (1 + rough) / (1 - rough) / float(np.sqrt(1 - off)))


def _norm(A: Vector) -> float:
    """The spectral norm of a square matrix, rounded upwards."""
    squares = A.T @ A
    if not np.isfinite(squares).all():
        return np.inf
    # All eigenvalues: LAPACK's search for the largest alone fails on some ordinary matrices.
    largest = np.linalg.eigvalsh(squares)[-1]
    return float(np.sqrt(largest)) * UPWARDS


def _growth(T: Vector) -> float:
    """‖|T^-1| |T|‖: how much larger rounding in a row times T is than in the result.

    A row r = z T^-1 has |r| |T| <= |z| |T^-1| |T|.
    """
    try:
        inverse = np.linalg.inv(T)
    except np.linalg.LinAlgError:
        return np.inf
    return 2 * length(np.abs(inverse) @ np.abs(T))
