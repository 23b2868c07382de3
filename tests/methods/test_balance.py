"""Which rho is balanced: closed forms, and when the looks at long moves begin and end."""

import numpy as np
import pytest

from pdmm.methods import balance
from pdmm.methods.balance import Balance, Moves, balanced_rho, dual_steepness

ALIKE = np.full(7, 3.0)


def test_of_clients_that_are_alike_it_is_the_root_of_mu_times_l() -> None:
    rho = balanced_rho(ALIKE, np.ones(7), 0.02)
    assert rho == pytest.approx(np.sqrt(0.02 * 3.0), rel=1e-12)
    assert balanced_rho(1e9 * ALIKE, np.ones(7), 2e7) == pytest.approx(1e9 * rho, rel=1e-12)


def test_copies_of_a_client_count_as_much_as_its_weight() -> None:
    L = np.array([1.0, 5.0, 40.0])
    copied = balanced_rho(np.repeat(L, 6), np.repeat([1.0, 0.5, 2.0], 6), 0.3)
    # Copies have duals of their own, which may differ: only the slowest change is another one.
    weighted = balanced_rho(L, np.array([6.0, 3.0, 12.0]), 0.3)
    assert copied >= weighted
    assert copied == pytest.approx(balanced_rho(np.repeat(L, 6), np.repeat([6.0, 3, 12], 6), 0.3))


def test_the_steepness_of_the_duals_is_that_of_their_best_change() -> None:
    rng = np.random.default_rng(0)
    L = rng.uniform(0.1, 10.0, 6)
    w = rng.uniform(0.5, 2.0, 6)
    w /= w.sum()
    best = 0.0
    for i in range(6):
        # Of the changes with lam_i = 1 that add up to 0, the one with the least sum of w lam²/L.
        others = np.delete(np.arange(6), i)
        lam = np.ones(6)
        lam[others] = -w[i] * L[others] / (w[others] @ L[others])
        assert w @ lam == pytest.approx(0.0, abs=1e-12)
        best = max(best, float((w @ lam**2) / (w @ (lam**2 / L))))
    assert dual_steepness(L, w) == pytest.approx(best, rel=1e-12)
    assert dual_steepness(np.array([2.0]), np.array([1.0])) == 2.0
    assert dual_steepness(np.array([2.0, 0.0]), np.array([0.5, 0.5])) == 2.0


def test_one_that_is_far_steeper_does_not_count_as_such() -> None:
    L = np.array([1e6, *np.ones(19)])
    mu = float(L.mean())  # each bends alike in every direction
    assert dual_steepness(L, np.full(20, 0.05)) == pytest.approx(20, rel=0.01)
    assert 1 < balanced_rho(L, np.ones(20), mu) < 20


# --- looks ----------------------------------------------------------------------------------


def said(mu: float, L: float, fresh: float = 1.0) -> Moves:
    return Moves(fresh=fresh, x_s=1.0, slope=mu, lam=1.0, product=1 / L)


def test_looks_lie_further_and_further_apart_and_end() -> None:
    b = Balance.start(1.0)
    begun = []
    for r in range(1, 10_000):
        b = b.after(1.0, said(1.0, 1.0, fresh=0.4))
        if b.complete():
            b = b.decided(1.0, 1e-16)
        before = b.look
        b = b.next()
        if b.look > before:
            begun.append(r)
    assert begun == [2 ** (k + 1) for k in range(balance.LOOKS)]
    assert b.over
    assert b.rho == 1.0


@pytest.mark.parametrize(
    ("mu", "L", "rho"), [(1.0, 1.9, 1.0), (1.0, 4.0, 2.0), (1e-9, 1.0, 1 / 8), (5.0, 1e9, 8.0)]
)
def test_rho_goes_to_the_nearest_power_of_two_that_is_near(mu: float, L: float, rho: float) -> None:
    b = Balance.start(1.0)._replace(look=1, closed=False, moves=said(mu, L))
    decided = b.decided(1.0, 1e-16)
    assert decided.rho == rho
    assert decided.closed
    assert decided.scale == 1 / rho


@pytest.mark.parametrize(
    "moves",
    [
        Moves(),
        said(-1.0, 100.0),
        said(100.0, -1.0),
        said(100.0, np.inf),
        said(np.nan, 1.0),
        Moves(1.0, 1e-30, 1e-28, 1.0, 1e-4),
    ],
)
def test_what_shows_nothing_changes_nothing(moves: Moves) -> None:
    b = Balance.start(1.0)._replace(look=1, closed=False, moves=moves)
    assert b.decided(1.0, 2.2e-16).rho == 1.0


def test_rho_falls_no_further_than_rounding_allows() -> None:
    b = Balance.start(1.0)
    for _ in range(30):
        b = b._replace(look=1, closed=False, moves=said(1e-30, 1.0)).decided(1.0, 1.2e-7)
    assert 1 / 300 < b.rho <= 1 / 32
    assert b._replace(closed=False, moves=said(1e9, 1.0)).decided(1.0, 1.2e-7).rho == 8 * b.rho
