"""What clients know of their functions at a point, to second order."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


class Curvature(NamedTuple):
    """Value, gradient and Hessian of each f_i at x, in the coordinates y of x + T y.

    All have one row per client. Without a T the coordinates are those of x.
    """

    value: Vector
    """(b,): f_i(x)."""
    gradient: Vector
    """(b, k): T' grad f_i(x)."""
    doubt: Vector
    """(b,): how far rounding may have moved that gradient, as a Euclidean norm."""
    hessian: Vector
    """(b, k, k): T' H_i(x) T, formed from the rows times T, so that a good T spares digits."""
    reach: Vector
    """(b,): R_i², for which |D³f_i[v, v, u]| <= R_i ‖u‖ D²f_i[v, v] for all v and u in these
    coordinates: 0 for a quadratic, infinite where nothing is known."""
    unsettled: Vector
    """(b,): how many rows x does not put on the side of their outcome, beyond rounding; where
    outcomes have no sides, the number of rows. If it is 0 for all, x separates the outcomes."""


def in_coordinates(
    value: Vector,
    gradient: Vector,
    doubt: Vector,
    hessian: Vector,
    T: Vector | None,
    reach: Vector,
    rows: Vector,
) -> Curvature:
    """The curvature of functions whose Hessians are at hand, carried over to T's coordinates."""
    if T is not None:
        gradient = gradient @ T
        hessian = T.T @ hessian @ T
        doubt = doubt * float(np.linalg.norm(T))
        reach = reach * float(np.linalg.norm(T, 2)) ** 2
    return Curvature(value, gradient, doubt, hessian, reach, rows)
