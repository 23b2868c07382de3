"""Anderson acceleration, piece by piece: coefficients, combinations, history and safeguard."""

import numpy as np
import numpy.typing as npt
import pytest

from pdmm.methods import anderson
from pdmm.methods.anderson import Guard, History, coefficients, combine

Vectors = npt.NDArray[np.float64]


def residuals(seed: int, count: int, size: int = 12) -> Vectors:
    """Residuals that get smaller, as those of a converging run."""
    rng = np.random.default_rng(seed)
    return np.array([0.5**k * rng.standard_normal(size) for k in range(count)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [2, 3, 6, 11])
def test_coefficients_are_those_of_least_squares(seed: int, count: int) -> None:
    F = residuals(seed, count)
    mix = coefficients(F @ F.T, np.arange(count), anderson.CUT)
    assert mix is not None
    # The shortest F[-1] - theta·(differences), by a general solver.
    differences = np.diff(F, axis=0).T
    theta = np.linalg.lstsq(differences, F[-1], rcond=None)[0]
    expected = F[-1] - differences @ theta
    np.testing.assert_allclose(mix @ F, expected, atol=1e-5)
    assert mix.sum() == pytest.approx(1, abs=1e-5)
    others = np.random.default_rng(seed).standard_normal((100, count))
    others /= others.sum(axis=1, keepdims=True)
    assert np.linalg.norm(mix @ F) <= np.linalg.norm(others @ F, axis=1).min() + 1e-6


def test_only_kept_slots_are_combined_and_their_order_counts() -> None:
    F = residuals(1, 5)
    kept = np.array([4, 0, 2])
    mix = coefficients(F @ F.T, kept, anderson.CUT)
    assert mix is not None
    assert mix[1] == mix[3] == 0
    again = coefficients(F[kept] @ F[kept].T, np.arange(3), anderson.CUT)
    assert again is not None
    np.testing.assert_allclose(mix[kept], again, atol=1e-6)


def test_there_is_nothing_to_combine_in_one_round_or_in_equal_ones() -> None:
    F = residuals(0, 3)
    assert coefficients(F @ F.T, np.array([1]), anderson.CUT) is None
    assert coefficients(F @ F.T, np.zeros(0, dtype=np.int64), anderson.CUT) is None
    same = np.repeat(F[:1], 3, axis=0)
    assert coefficients(same @ same.T, np.arange(3), anderson.CUT) is None


def test_rounds_before_one_that_stood_still_do_not_count() -> None:
    F = residuals(3, 5)
    F[2] = F[1] * (1 + 1e-9)
    mix = coefficients(F @ F.T, np.arange(5), anderson.CUT)
    assert mix is not None
    assert (mix[:2] == 0).all()
    assert (mix[2:] != 0).all()


def test_coefficients_are_never_large() -> None:
    # Differences that are nearly parallel make large coefficients, unless they are cut off.
    rng = np.random.default_rng(0)
    base, step, tiny = rng.standard_normal((3, 20))
    F = np.array([base + k * step + 1e-5 * (k == 1) * tiny for k in range(4)])
    mix = coefficients(F @ F.T, np.arange(4), 1e-16)
    assert mix is None or np.abs(mix).sum() < anderson.COEFFICIENTS * (1 + 1e-6)


def test_a_combination_is_affine_for_any_coefficients() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal((3, 4, 5))  # three clients, four slots
    mix = np.array([0.5, 0.0, -1.5, 99.0])  # that of the base is what is missing to 1
    expected = 0.5 * y[:, 0] - 1.5 * y[:, 2] + 2.0 * y[:, 3]
    np.testing.assert_allclose(combine(mix, 3, y), expected)
    alone = combine(np.array([0.0, 1.0, 0.0, 0.0]), 1, y)
    np.testing.assert_array_equal(alone, y[:, 1])
    assert not np.shares_memory(alone, y)


def test_the_history_keeps_the_last_rounds_and_has_a_free_slot() -> None:
    rng = np.random.default_rng(0)
    history = History.start(np.zeros(3), 4)
    slots: list[int] = []
    for r in range(9):
        before = history.y.copy()
        history = history.filled(np.full(3, 1.0)).joined(rng.standard_normal(4))
        slots.append(history.base)
        np.testing.assert_array_equal(history.y[history.base], r + 1)  # the sum of all changes
        others = [k for k in range(4) if k != history.base]
        np.testing.assert_array_equal(history.y[others], before[others])
        assert history.kept.tolist() == slots[-3:]
        history = history.going_on(history.newest())
        assert history.slot not in {*history.kept.tolist(), history.base}
    np.testing.assert_array_equal(history.gram[history.base], history.gram[:, history.base])
    assert history.only_base().kept.tolist() == [history.base]
    assert history.forgotten().kept.tolist() == []


def test_the_safeguard_allows_what_does_not_grow() -> None:
    guard = Guard.start()
    assert guard.allows(1e300)  # a relaxed step is always good
    guard = guard.after_good(4.0)
    trial = guard._replace(on_trial=True)
    assert trial.allows(4.0)
    assert not trial.allows(4.1)
    assert not trial.allows(float("nan"))
    better = trial.after_good(1.0)
    assert (better.first, better.last, better.accepted) == (4.0, 1.0, 1)
    assert trial.after_bad().rejected == 1
    fresh = better.afresh()
    assert (fresh.first, fresh.last, fresh.accepted) == (np.inf, np.inf, 0)


def test_the_safeguards_bounds_are_summable() -> None:
    # ‖f‖ after n combinations is at most BOUND ‖f_0‖ / n^1.1, of which the sum is finite.
    for n in (0, 9, 999):
        guard = Guard(on_trial=True, first=1.0, last=1e9, accepted=n, rejected=0)
        most = (anderson.BOUND / (n + 1) ** 1.1) ** 2
        assert guard.allows(0.999 * most)
        assert not guard.allows(1.001 * most)


def test_only_a_relaxed_step_that_grew_far_is_alarming() -> None:
    guard = Guard.start().after_good(1.0)
    assert guard.alarmed(1.01 * anderson.BOUND**2)
    assert not guard.alarmed(0.99 * anderson.BOUND**2)
    assert not guard._replace(on_trial=True).alarmed(1e9)
