"""Runs that stop by their certificate, and what its checks cost."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.certified import Data, least_squares, optimum, sum_gradient
from pdmm.methods import Method
from twins.methods import Vector


def sizes_by_hand(data: Data, method: Method, rounds: int) -> list[float]:
    """What a tolerance is compared with, at the start and after every round."""
    mu = data.ends[0] if data.ends[0] > 1e-9 else 0.0
    points: list[Any] = [data.x0]
    pdmm.solve(
        data.problem,
        method,
        rounds,
        x0=data.x0,
        weights=data.w,
        callback=lambda r, x: points.append(x.copy()),
    )
    norms = [float(np.linalg.norm(data.gradient(x))) for x in points]
    return [g**2 / (2 * mu) if mu else g for g in norms]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["tall", "wide", "flat"])
@pytest.mark.parametrize("check_every", [1, 3, 5])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
def test_stops_at_the_first_check_that_is_good_enough(
    shape: str, check_every: int, tolerance: float
) -> None:
    data = least_squares(5, shape)
    for method in (pdmm.PDMM(data.client_L / 4, 0.7), pdmm.AGPDMM(0.9 / data.client_L, 5)):
        sizes = sizes_by_hand(data, method, 300)
        checks = [r for r in range(1, 301) if r % check_every == 0 or r == 300]
        good = [r for r in checks if sizes[r] <= tolerance * sizes[0]]
        assert good
        result = pdmm.solve(
            data.problem,
            method,
            300,
            x0=data.x0,
            weights=data.w,
            tolerance=tolerance,
            check_every=check_every,
        )
        assert result.rounds == good[0]
        assert result.certificate.round == good[0]
        assert result.history["round"][-1] == good[0]
        assert not result.diverged
        assert result.reason.startswith("certified")
        size = result.certificate.gap
        if shape == "flat":
            assert size is None
            size = result.certificate.stationarity
        assert size == pytest.approx(sizes[good[0]], rel=1e-5)


def test_the_default_is_to_check_every_fifth_round() -> None:
    data = least_squares(5, "tall")
    method = pdmm.PDMM(data.client_L / 4)
    default = pdmm.solve(data.problem, method, 300, tolerance=1e-8)
    fifth = pdmm.solve(data.problem, method, 300, tolerance=1e-8, check_every=5)
    assert default.rounds == fifth.rounds < 300
    assert default.history["vectors_up"][-1] == fifth.history["vectors_up"][-1]


@pytest.mark.parametrize(
    "method",
    [
        pdmm.FedAvg(0.02, 5),  # stalls
        pdmm.InexactFedSplit(0.1, 0.01, 1),  # stalls
        pdmm.GradientDescent(1e-6),  # crawls
        pdmm.AGPDMM(1e-7, 2),
    ],
)
def test_a_run_that_only_slows_down_does_not_stop(method: Method) -> None:
    data = least_squares(5, "tall")
    result = pdmm.solve(data.problem, method, 400, tolerance=1e-8)
    assert result.rounds == 400
    assert result.reason.startswith("all 400 rounds done, tolerance=")


@pytest.mark.parametrize("method", [None, pdmm.AGPDMM(0.1, 2), pdmm.PDMM(1.0), pdmm.FedAvg(0.1, 1)])
def test_an_optimal_start_needs_no_rounds(method: Method | None) -> None:
    problem = pdmm.LeastSquares([np.eye(2), 2 * np.eye(2)], [[1.0, 2.0], [2.0, 4.0]])
    result = pdmm.solve(problem, method, 50, x0=[1.0, 2.0], tolerance=1e-8)
    assert result.rounds == 0
    np.testing.assert_array_equal(result.x, [1.0, 2.0])
    np.testing.assert_array_equal(result.history["round"], [0])
    assert not result.diverged
    assert "optimal" in result.reason
    assert result.certificate.stationarity == 0
    assert result.certificate.gap is not None
    assert 0 < result.certificate.gap < 1e-25  # what rounding may hide
    assert result.certificate.round == 0


def test_an_optimum_found_elsewhere_needs_no_rounds() -> None:
    # Its gradient is not 0 but rounding, of which no round can make less.
    data = least_squares(6, "tall")
    result = pdmm.solve(
        data.problem,
        pdmm.PDMM(data.client_L / 4),
        50,
        x0=optimum(data, "none"),
        weights=data.w,
        tolerance=1e-8,
    )
    assert result.rounds == 0


def test_what_checks_cost() -> None:
    data = least_squares(5, "tall")
    m, d = len(data.A), len(data.x0)
    method = pdmm.AGPDMM(0.9 / data.client_L, 3)
    free = pdmm.solve(data.problem, method, 12)
    paid = pdmm.solve(data.problem, method, 12, tolerance=1e-300, check_every=5)
    np.testing.assert_array_equal(free.x, paid.x)
    rounds = np.arange(13)
    checks = 1 + rounds // 5 + (rounds == 12)  # at the start, every fifth round, at the last
    assert paid.reason.startswith("all 12 rounds done, tolerance=1e-300 not reached")
    np.testing.assert_array_equal(free.history["vectors_up"], m * rounds)
    np.testing.assert_array_equal(free.history["bytes_up"], m * d * 8 * rounds)
    np.testing.assert_array_equal(paid.history["vectors_up"], m * (rounds + checks))
    np.testing.assert_array_equal(paid.history["bytes_up"], m * d * 8 * (rounds + checks))
    np.testing.assert_array_equal(free.history["gradient_calls"], 3 * rounds)
    np.testing.assert_array_equal(paid.history["gradient_calls"], 3 * rounds + checks)
    for column in ("vectors_down", "bytes_down", "objective"):
        np.testing.assert_array_equal(free.history[column], paid.history[column])
    # The last certificate is not part of the history, but says what it cost.
    assert free.certificate.bytes_up == paid.certificate.bytes_up == m * d * 8
    assert free.certificate.stationarity == paid.certificate.stationarity


def test_what_checks_cost_in_float32_when_few_rounds_are_recorded() -> None:
    data = least_squares(5, "tall", np.float32)
    m, d = len(data.A), len(data.x0)
    method = pdmm.AGPDMM(0.9 / data.client_L, 3)
    paid = pdmm.solve(data.problem, method, 12, tolerance=1e-300, check_every=2, record_every=5)
    np.testing.assert_array_equal(paid.history["round"], [0, 5, 10, 12])
    sent = m * d * 4 * np.array([0 + 1, 5 + 3, 10 + 6, 12 + 7])
    np.testing.assert_array_equal(paid.history["bytes_up"], sent)
    assert paid.certificate.bytes_up == m * d * 4


def test_calls_for_certificates_are_the_calls_that_are_made() -> None:
    calls = 0

    def gradient(x: Vector) -> Vector:
        nonlocal calls
        calls += 1
        return x - 1

    problem = pdmm.Functions([lambda x: 0.5 * float((x - 1) @ (x - 1))], [gradient], 2)
    method = pdmm.AGPDMM(0.1, 3, rho=1.0)
    problem.check(np.zeros(2), exact=False)
    before = calls
    result = pdmm.solve(problem, method, 10, tolerance=1e-300, check_every=4)
    # A certificate takes a gradient at x, and one beside x that shows what rounding does.
    assert result.history["gradient_calls"][-1] == 10 * 3 + 2 * (1 + 3)
    assert calls - before == before + 10 * 3 + 2 * (1 + 3)


def test_a_callback_that_stops_is_certified_too() -> None:
    data = least_squares(5, "tall")
    method = pdmm.AGPDMM(0.9 / data.client_L, 3)
    for tolerance in (None, 1e-300):
        result = pdmm.solve(
            data.problem, method, 50, callback=lambda r, x: r == 3, tolerance=tolerance
        )
        assert result.rounds == result.certificate.round == 3
        truth = float(np.linalg.norm(np.asarray(sum_gradient(data, result.x))))
        assert result.certificate.stationarity == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize("value", [0, 0.0, -1e-8, np.nan, np.inf, "small", True, [1e-8]])
def test_a_tolerance_that_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        pdmm.solve(least_squares(5, "tall").problem, pdmm.PDMM(1.0), 3, tolerance=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, 5.0, "5", True, None])
def test_a_check_every_that_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="check_every"):
        pdmm.solve(
            least_squares(5, "tall").problem, pdmm.PDMM(1.0), 3, tolerance=1e-3, check_every=value
        )


def test_a_start_outside_the_box_does_not_count_as_a_first_certificate() -> None:
    # Gradient descent begins at x0 itself, where h is infinite.
    data = least_squares(5, "tall")
    result = pdmm.solve(
        data.problem,
        pdmm.GradientDescent(0.5 / data.client_L),
        400,
        regulariser=pdmm.Box(1.0, 2.0),
        tolerance=1e-8,
        check_every=1,
    )
    assert result.rounds > 1
    assert result.certificate.gap is not None
    assert result.certificate.gap < 1e-8


class Ridge(pdmm.Regulariser):
    """A user's own h, which does not say what its subgradients are."""

    def value(self, x: Any) -> float:
        return 0.5 * float(x @ x)

    def prox(self, v: Any, t: float) -> Any:
        return v / (1 + t)

    def divergence(self, x: Any, y: Any, slope: Any) -> float:
        return self.value(x - y) + float((y - slope) @ (x - y))


@pytest.mark.parametrize("method", [None, pdmm.PDMM(1.0)])
def test_without_subgradients_nothing_is_certified(method: Method | None) -> None:
    data = least_squares(5, "tall")
    result = pdmm.solve(data.problem, method, 40, regulariser=Ridge(), tolerance=1e-8)
    assert not result.reason.startswith("certified")
    assert result.rounds == 40
    assert result.certificate.gap is None
    assert result.certificate.distance is None
