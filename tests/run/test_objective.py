"""F along a run and its gap: from values, or without cancellation from divergences."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from pdmm.problems.sums import Total
from pdmm.run.objective import Objective

Vector = npt.NDArray[np.float64]
A = np.array([1.0, -2.0, 0.5])
NOBODY: Any = None  # no client is asked where F has a form of its own
LEAST = 1e6  # far above every gap here: a difference of two values would lose them


class Bowl(Total):
    """c/2 ‖x - A‖² + LEAST, which may or may not say where its minimum is.

    Args:
        c: the curvature.
        solves: whether a direct solve finds the minimiser.
        accurate: whether the divergence is known without cancellation.
    """

    def __init__(self, c: float = 2.0, solves: bool = True, accurate: bool = True) -> None:
        self.c, self.solves = c, solves
        self.accurate = accurate

    def value(self, x: Any) -> float:
        return self.c / 2 * float((x - A) @ (x - A)) + LEAST

    def gradient(self, x: Any) -> Vector:
        return np.asarray(self.c * (x - A))

    def divergence(self, x: Any, y: Any) -> float:
        return self.c / 2 * float((x - y) @ (x - y))

    def minimiser(self, l2: float) -> Vector | None:
        return self.c * A / (self.c + l2) if self.solves else None


def objective(total: Total, h: Any = None, optimum: Any = None) -> Objective:
    return Objective(total, NOBODY, h, optimum)


def at(found: Objective, x: Any) -> tuple[float, float | None]:
    """F(x), and the gap."""
    point = np.asarray(x, dtype=float)
    return found.concluded(point, found.measured(point))


def test_of_an_unknown_optimum_there_is_no_gap() -> None:
    found = objective(Bowl(solves=False))
    assert found.f_star is None
    assert at(found, A + 1) == (LEAST + 3.0, None)


@pytest.mark.parametrize("h", [pdmm.L1(0.3), pdmm.Box(-5.0, 5.0)])
def test_a_direct_solve_does_not_know_a_regulariser_with_kinks(h: Any) -> None:
    value, gap = at(objective(Bowl(), h), A)
    assert value == LEAST + h.value(A)
    assert gap is None


def test_a_given_number_is_the_minimal_value() -> None:
    found = objective(Bowl(solves=False), pdmm.L1(2.0), LEAST + 1.0)
    value, gap = at(found, A)
    assert value == LEAST + 7.0
    assert gap == 6.0


@pytest.mark.parametrize("c", [0.0, 3.0])
@pytest.mark.parametrize("distance", [1e-12, 1.0])
def test_a_gap_to_a_minimiser_has_no_cancellation(c: float, distance: float) -> None:
    """With f + c/2 ‖x‖² the gap is (2 + c)/2 times the squared distance, however small it is."""
    found = objective(Bowl(), pdmm.SquaredL2(c) if c else None)
    best = 2.0 * A / (2.0 + c)
    x = best + distance * np.array([1.0, 0.0, 0.0])
    value, gap = at(found, x)
    moved = float(x[0] - best[0])
    assert gap == pytest.approx((2.0 + c) / 2 * moved**2, rel=1e-3)
    assert found.f_star is not None
    assert gap is not None
    assert value == found.f_star + gap
    assert found.f_star == pytest.approx(LEAST + 2 * c / (2 + c) / 2 * float(A @ A))


def test_a_given_minimiser_with_a_regulariser() -> None:
    """Lasso in closed form: x* is A, shrunk by 1/2; its slope makes the gap exact nearby."""
    h = pdmm.L1(1.0)
    best = np.sign(A) * np.maximum(np.abs(A) - 0.5, 0)
    found = objective(Bowl(solves=False), h, best)
    assert at(found, best)[1] == 0.0
    x = best + np.array([1e-9, 0.0, 0.0])  # the sign stays: f and h are smooth there
    assert at(found, x)[1] == pytest.approx((x[0] - best[0]) ** 2, rel=1e-3)
    x = np.array([3.0, 1.0, -1.0])
    exact = float(((x - A) ** 2).sum() + np.abs(x).sum())
    exact -= float(((best - A) ** 2).sum() + np.abs(best).sum())
    assert at(found, x)[1] == pytest.approx(exact, rel=1e-12)


def test_a_given_minimiser_where_only_values_are_known() -> None:
    found = objective(Bowl(solves=False, accurate=False), None, A.copy())
    assert found.x_star is None
    assert found.f_star == LEAST
    assert at(found, A + 1) == (LEAST + 3.0, 3.0)


@pytest.mark.parametrize("accurate", [True, False])
def test_clients_are_asked_where_there_is_no_other_form(accurate: bool) -> None:
    clients: Any = Bowl(accurate=accurate)
    found = Objective(None, clients, None, A.copy())
    assert found.asks_clients
    assert (found.known, found.calls) == (True, 1)
    assert at(found, A + 1) == (LEAST + 3.0, 3.0)
    assert (found.x_star is not None) is accurate
    unknown = Objective(None, clients, None, None)  # they do not solve for the minimum
    assert at(unknown, A + 1) == (LEAST + 3.0, None)


def test_a_form_of_its_own_says_what_it_costs() -> None:
    total = Bowl()
    total.calls, total.known = 0, False
    found = objective(total)
    assert not found.asks_clients
    assert (found.known, found.calls) == (False, 0)


def test_rounding_does_not_make_a_gap_negative() -> None:
    """The slope at a minimiser that is itself rounded may point downhill by a rounding error."""
    best = A + 1e-17
    found = objective(Bowl(solves=False), None, best)
    found.slope = np.full(3, 1e-15)
    value, gap = at(found, best + 1e-3)
    assert gap == pytest.approx(3e-6)
    found.slope = np.full(3, 1e-6)  # F* is 1e6: less than its rounding
    value, gap = at(found, best + 1e-6)
    assert gap == 0.0
    assert value == found.f_star


def test_an_optimum_outside_the_regulariser_is_refused() -> None:
    with pytest.raises(ValueError, match=r"optimum has the objective inf: it is outside the reg"):
        objective(Bowl(), pdmm.Box(-1.0, 1.0), A.copy())


def test_a_point_outside_the_regulariser_has_no_finite_objective() -> None:
    found = objective(Bowl(solves=False), pdmm.Box(-1.0, 1.0), np.clip(A, -1.0, 1.0))
    assert at(found, A)[0] == np.inf
