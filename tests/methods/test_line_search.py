"""The line search: Wolfe's conditions, brackets, overflow and rounding."""

import math
from collections.abc import Callable

import pytest

from pdmm.methods.line_search import HUGE, Line, Seen

Along = Callable[[float], tuple[float, float]]


def search(along: Along, t: float, most: int = 60) -> tuple[Seen, int]:
    """The point that is accepted, and after how many trials."""
    line = Line.begun(*along(0.0), t)
    for trial in range(1, most):
        seen = Seen(line.t, *along(line.t))
        if line.accepts(seen):
            return seen, trial
        line = line.after(seen)
        assert not line.exhausted
    raise AssertionError("no point was accepted")


def parabola(t: float) -> tuple[float, float]:
    return (t - 3) ** 2, 2 * (t - 3)


@pytest.mark.parametrize("first", [1e-4, 0.1, 1.0, 3.0, 5.5, 40.0, 1e5])
def test_a_parabola_takes_few_trials_from_any_first_one(first: float) -> None:
    seen, trials = search(parabola, first)
    assert seen.value <= 9 - 1e-4 * 6 * seen.t
    assert abs(seen.slope) <= 0.9 * 6
    assert trials <= 2 + abs(math.log10(first))


def test_a_cubic_is_met_in_one_step() -> None:
    line = Line.begun(0.0, -1.0, 1.0)  # t³ - t
    line = line.after(Seen(2.0, 6.0, 11.0))
    assert line.t == pytest.approx(1 / math.sqrt(3), rel=1e-12)


def test_a_trial_that_overflows_is_only_too_far() -> None:
    def steep(t: float) -> tuple[float, float]:
        if t > 700:
            return HUGE, 0.0
        return math.exp(t) - 100 * t, math.exp(t) - 100

    seen, trials = search(steep, 1e6)
    assert seen.t == pytest.approx(math.log(100), rel=0.5)
    assert trials < 15


def test_where_values_are_equal_to_rounding_slopes_decide() -> None:
    def flat(t: float) -> tuple[float, float]:
        return 1e6 + 1e-9 * math.sin(1e9 * t), 1e-8 * (t - 1)  # values are noise

    seen, _ = search(flat, 1.9)
    assert abs(seen.slope) <= 0.9e-8
    assert 0 < seen.t < 2


def test_a_line_without_a_better_point_is_exhausted() -> None:
    line = Line.begun(0.0, -1.0, 1.0)
    trials = 0
    while not line.exhausted:
        line = line.after(Seen(line.t, 1.0, 1.0))
        trials += 1
    assert trials <= 30
