"""Spectral rho, piece by piece: what it proposes, when, and by how much it changes."""

import numpy as np
import pytest

from pdmm.methods import spectral
from pdmm.methods.spectral import Moves, Penalty, in_24_bits, spectral_rho

EPS = 2.2e-16


def moves_of(H: np.ndarray, seed: int = 0) -> Moves:
    """What a client with f = x·Hx/2 shows between two of its points."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, len(H)))
    dx = x - y
    dlam = H @ dx
    return Moves(
        residual=1.0,
        dx=float(dx @ dx),
        dlam=float(dlam @ dlam),
        x=float(x @ x),
        product=float(dx @ dlam),
    )


@pytest.mark.parametrize("c", [1e-6, 0.5, 3.0, 1e7])
def test_on_a_quadratic_with_one_curvature_rho_is_that_curvature(c: float) -> None:
    assert spectral_rho(moves_of(c * np.eye(4)), 0.0, np.inf) == pytest.approx(c)


@pytest.mark.parametrize("seed", range(10))
def test_on_any_quadratic_rho_lies_between_mu_and_l(seed: int) -> None:
    H = np.diag(np.geomspace(0.1, 50.0, 6))
    assert 0.1 <= spectral_rho(moves_of(H, seed), 0.0, np.inf) <= 50.0


def test_rho_changes_by_a_bounded_factor_and_not_by_a_small_one() -> None:
    penalty = Penalty.start(1.0, adapts=True).after_good_round(1)
    for c, rho in ((1e6, spectral.LARGEST), (1e-6, 1 / spectral.LARGEST), (1.9, 1.0), (0.6, 1.0)):
        assert penalty.proposed(2, moves_of(c * np.eye(3)), EPS) == pytest.approx(rho)
    assert penalty.proposed(2, moves_of(5.0 * np.eye(3)), EPS) == pytest.approx(5.0)


def test_rho_stays_where_there_is_nothing_to_judge_by() -> None:
    moves = moves_of(5.0 * np.eye(3))
    start = Penalty.start(1.0, adapts=True)
    ready = start.after_good_round(1)
    assert start.proposed(2, moves, EPS) == 1.0  # no good round to compare with
    assert ready.proposed(1, moves, EPS) == 1.0  # not due yet
    assert ready._replace(left=0).proposed(2, moves, EPS) == 1.0
    assert ready.proposed(2, moves._replace(dx=0.0), EPS) == 1.0  # x stands still
    assert ready.proposed(2, moves._replace(x=1e30), EPS) == 1.0  # or moves in its last digits
    fixed = Penalty.start(1.0, adapts=False).after_good_round(1)
    assert fixed.proposed(2, moves, EPS) == 1.0


def test_rho_is_not_lowered_by_moves_in_flat_directions() -> None:
    penalty = Penalty.start(10.0, adapts=True).after_good_round(1)
    flat = moves_of(np.diag([10.0] + 29 * [0.0]))
    assert flat.perpendicular(spectral.PERPENDICULAR)
    assert penalty.proposed(2, flat, EPS, flat=True) == 10.0
    assert penalty.proposed(2, flat, EPS, flat=False) < 10.0  # where that is how f_i bends
    steep = moves_of(np.diag([1e4] + 99 * [0.0]))
    assert penalty.proposed(2, steep, EPS, flat=True) > 10.0  # it may always rise
    bent = moves_of(0.5 * np.eye(4))
    assert not bent.perpendicular(spectral.PERPENDICULAR)
    assert penalty.proposed(2, bent, EPS, flat=True) == pytest.approx(1.0)
    linear = Moves(1.0, 1.0, 0.0, 1.0, 0.0)
    assert not linear.perpendicular(spectral.PERPENDICULAR)  # any rho will do


def test_rho_is_not_lowered_where_lam_hardly_changes_along_x_whatever_is_known() -> None:
    penalty = Penalty.start(10.0, adapts=True).after_good_round(1)
    nearly_all_flat = moves_of(np.diag([10.0] + 9999 * [0.0]))
    assert penalty.proposed(2, nearly_all_flat, EPS, flat=False) == 10.0


def test_rho_is_due_in_rounds_further_and_further_apart() -> None:
    penalty = Penalty.start(1.0, adapts=True)
    due = []
    for r in range(1, 40):
        if r >= penalty.due:
            due.append(r)
        penalty = penalty.after_good_round(r)
    assert due == [2, 3, 5, 9, 17, 33]


def test_a_change_tells_the_clients_by_how_much() -> None:
    penalty = Penalty.start(3.0, adapts=True)
    changed = penalty.changed(0.7)
    assert changed.rho == pytest.approx(0.7, rel=1e-7)
    assert changed.scale == pytest.approx(3.0 / 0.7, rel=1e-7)
    assert changed.left == spectral.CHANGES - 1


def changes_towards(goals: list[float], rounds: int = 300) -> list[float]:
    """Every rho of a run whose evidence is always for the next goal."""
    penalty = Penalty.start(1.0, adapts=True)
    found = [1.0]
    waiting = list(goals)
    for r in range(1, rounds):
        rho = penalty.proposed(r, moves_of(waiting[0] * np.eye(3)), EPS)
        penalty = penalty.after_good_round(r)
        if rho != penalty.rho:
            penalty = penalty.changed(rho)
            found.append(penalty.rho)
        elif len(waiting) > 1 and penalty.rho == pytest.approx(waiting[0], rel=1e-6):
            waiting.pop(0)
    return found


@pytest.mark.parametrize("goal", [1e25, 1e-25])
def test_rho_goes_as_far_as_it_must_where_it_always_goes_the_same_way(goal: float) -> None:
    found = changes_towards([goal])
    assert found[-1] == pytest.approx(goal, rel=1e-6)
    assert len(found) == 26


def test_rho_comes_to_rest_wherever_it_is_led() -> None:
    away = changes_towards([1e120], rounds=4000)
    assert len(away) == 1 + spectral.FOLLOWED + spectral.CHANGES - spectral.COUNTED
    to_and_fro = changes_towards([1e20, 1e-20] * 10, rounds=4000)
    assert len(to_and_fro) <= 1 + spectral.CHANGES // spectral.COUNTED * spectral.FOLLOWED


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3, 1e30, 1e-30, 7.123456789e5])
def test_what_is_sent_is_the_same_in_float32(value: float) -> None:
    narrow = in_24_bits(value)
    assert float(np.float32(narrow)) == narrow
    assert narrow == pytest.approx(value, rel=2**-24)
