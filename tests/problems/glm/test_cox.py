"""Cox's partial likelihood: against statsmodels, plain loops in many digits, and differences."""

from typing import Any, NamedTuple

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from statsmodels.duration.hazard_regression import PHReg

import pdmm
from pdmm.problems.glm.cox import PartialLikelihood, check_survival
from pdmm.problems.glm.risk_sets import Ties
from twins.survival import Cox

Vector = npt.NDArray[np.float64]
TIES: list[Ties] = ["efron", "breslow"]
DISTINCT = {"many ties": 4, "some ties": 12, "no ties": 10**9}


class Case(NamedTuple):
    f: PartialLikelihood
    twin: Cox
    eta: Vector
    Z: Vector


def exact(values: Vector) -> list[Any]:
    return [mpmath.mpf(float(value)) for value in values]


def make(seed: int, ties: Ties, distinct: int, scale: float = 1.0, weighted: bool = True) -> Case:
    """A stratum, its twin, and rows in the order of the stratum."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 24))
    time = rng.integers(1, distinct + 1, n).astype(float)
    event = (rng.random(n) < rng.choice([0.3, 0.7, 1.0])).astype(float)
    w = np.ones(n)
    if weighted:
        w = rng.uniform(0.2, 3, n) * (rng.random(n) < 0.9)
    f = PartialLikelihood(time, event, w if weighted else None, ties)
    sorted_event = event[f.order].tolist()
    twin = Cox(time[f.order].tolist(), sorted_event, exact(w[f.order]), ties, mpmath.mp)
    eta = scale * rng.standard_normal(n)
    if seed % 3 == 0:
        eta = np.sort(eta)  # those who leave early have the largest hazard
    return Case(f, twin, eta, rng.standard_normal((n, 3)) * [1e-3, 1, 1e3])


def error(found: npt.ArrayLike, truth: Any) -> float:
    """The largest difference, in many digits."""
    pairs = zip(np.ravel(found), np.ravel(np.array(truth, dtype=object)), strict=True)
    return float(max((abs(mpmath.mpf(float(a)) - b) for a, b in pairs), default=0.0))


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mpmath.workdps(60):
        yield


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("distinct", DISTINCT.values(), ids=DISTINCT)
@pytest.mark.parametrize("ties", TIES)
def test_the_textbook(ties: Ties, distinct: int, seed: int) -> None:
    f, twin, eta, Z = make(seed, ties, distinct)
    numbers = exact(eta)
    value = twin.value(numbers)
    assert error(f.value(eta), value) <= 1e-13 * (1 + abs(value))
    assert error(f.slope(eta), twin.slope(numbers)) <= 1e-13
    H = np.array(twin.hessian([exact(row) for row in Z], numbers))
    scale = np.sqrt(np.diag(H).astype(float)) + 1e-300
    found = f.hessian(Z, eta)
    assert error(found / scale / scale[:, None], H / scale / scale[:, None]) <= 1e-12
    assert (found == found.T).all()


@pytest.mark.parametrize("distinct", DISTINCT.values(), ids=DISTINCT)
@pytest.mark.parametrize("ties", TIES)
def test_statsmodels_with_strata(ties: Ties, distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    n, d = 120, 4
    X = rng.standard_normal((n, d))
    time = rng.integers(1, distinct + 1, n).astype(float)
    event = (rng.random(n) < 0.6).astype(int)
    stratum = rng.integers(0, 5, n)
    event[stratum == 0] = 0  # a stratum that says nothing
    x = 0.3 * rng.standard_normal(d)
    model = PHReg(time, X, event, ties=ties, strata=stratum)
    value, gradient, hessian = 0.0, np.zeros(d), np.zeros((d, d))
    for k in range(5):
        own = stratum == k
        f = PartialLikelihood(time[own], event[own], ties=ties)
        rows = X[own][f.order]
        value += f.value(rows @ x)
        gradient += rows.T @ f.slope(rows @ x)
        hessian += f.hessian(rows, rows @ x)
    assert value == pytest.approx(-model.loglike(x), rel=1e-12)
    np.testing.assert_allclose(gradient, -model.score(x), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(hessian, -model.hessian(x), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("ties", TIES)
def test_derivatives_are_differences(ties: Ties) -> None:
    f, _, eta, _ = make(5, ties, 6)
    step = 1e-5
    steps = step * np.eye(eta.size)
    slopes = [(f.value(eta + s) - f.value(eta - s)) / (2 * step) for s in steps]
    np.testing.assert_allclose(f.slope(eta), slopes, atol=1e-8)
    rows = [(f.slope(eta + s) - f.slope(eta - s)) / (2 * step) for s in steps]
    np.testing.assert_allclose(f.hessian(np.eye(eta.size), eta), rows, atol=1e-8)


def test_weights_are_those_of_r() -> None:
    """R's coxph(Surv(c(4, 3, 3, 1), c(1, 1, 1, 0)) ~ x, weights = c(1, 2, 4, 1)), by hand."""
    f = PartialLikelihood([4, 3, 3, 1], [1, 1, 1, 0], [1.0, 2.0, 4.0, 1.0])
    eta = np.array([0.5, -1.0, 0.25, 3.0])
    a, b, c, _ = np.array([1, 2, 4, 1]) * np.exp(eta)
    # The last row is never at risk, and the row at 4 is alone. Those at 3 weigh 3 on average.
    terms = np.log(a) + 3 * (np.log(a + b + c) + np.log(a + (b + c) / 2))
    linear = 0.5 - 2.0 + 1.0
    assert f.value(eta[f.order]) == pytest.approx(terms - linear, rel=1e-14)


def test_whole_weights_are_repeated_rows_with_breslow() -> None:
    rng = np.random.default_rng(1)
    n = 30
    time = rng.integers(1, 8, n).astype(float)
    event = (rng.random(n) < 0.5).astype(int)
    times = rng.integers(0, 4, n)
    eta = rng.standard_normal(n)
    weighted = PartialLikelihood(time, event, times, "breslow")
    index = np.repeat(np.arange(n), times)
    repeated = PartialLikelihood(time[index], event[index], ties="breslow")
    value = repeated.value(eta[index][repeated.order])
    assert weighted.value(eta[weighted.order]) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("event", [[0, 0, 0], []])
def test_no_event(event: list[int]) -> None:
    n = len(event)
    f = PartialLikelihood(np.arange(1.0, n + 1), event)
    eta = np.linspace(0, 3, n)
    assert f.value(eta) == 0
    assert f.divergence(eta, eta) == 0
    assert f.reach(np.ones((n, 2))) == 0
    assert (f.slope(eta) == 0).all()
    assert (f.slope_doubt(eta, eta) == 0).all()
    assert (f.hessian(np.ones((n, 2)), eta) == np.zeros((2, 2))).all()
    assert f.order.shape == f.slope(eta).shape == (n,)


def test_a_row_of_weight_0_is_as_good_as_absent() -> None:
    time, event = np.array([2.0, 5.0, 5.0, 1.0]), np.array([1, 1, 1, 0])
    eta, Z = np.array([0.1, 0.7, 900.0, -2.0]), np.arange(4.0)[:, None] ** 3
    f = PartialLikelihood(time, event, [1.0, 2.0, 0.0, 1.0])
    without = np.array([0, 1, 3])
    g = PartialLikelihood(time[without], event[without], [1.0, 2.0, 1.0])
    assert f.value(eta[f.order]) == g.value(eta[without[g.order]])
    assert f.reach(Z[f.order]) == g.reach(Z[without[g.order]])
    assert f.slope(eta[f.order])[f.order == 2] == 0
    smaller = without[g.order]
    assert f.hessian(Z[f.order], eta[f.order]) == g.hessian(Z[smaller], eta[smaller])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0, 1e4])
@pytest.mark.parametrize("ties", TIES)
def test_stable_where_hazards_are_worlds_apart(ties: Ties, scale: float, seed: int) -> None:
    f, twin, eta, Z = make(seed, ties, [4, 12, 10**9][seed % 3], scale)
    with mpmath.workdps(400):
        numbers = exact(eta)
        value = twin.value(numbers)
        assert error(f.value(eta), value) <= 1e-14 * (1 + scale) * (1 + f.events.size)
        slope = twin.slope(numbers)
        found = f.slope(eta)
        doubt = f.slope_doubt(eta, np.zeros(eta.size))
        for row, bound in enumerate(doubt):
            assert error(found[row], slope[row]) <= bound
        assert doubt.max(initial=0) <= 1e-13 * (1 + scale) * (1 + f.events.size)
        H = np.array(twin.hessian([exact(row) for row in Z], numbers))
        # Where rows take turns in having the whole share, their means have but rounding left.
        sizes = np.abs(Z).max(0)
        found = f.hessian(Z, eta) / sizes / sizes[:, None]
        assert error(found, H / sizes / sizes[:, None]) <= 1e-13 * (1 + scale)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("size", [1e-3, 1e-12])
@pytest.mark.parametrize("ties", TIES)
def test_slope_doubt_holds_for_an_eta_that_is_off(ties: Ties, size: float, seed: int) -> None:
    f, twin, eta, _ = make(seed, ties, [4, 12, 10**9][seed % 3])
    rng = np.random.default_rng(seed)
    doubt = size * rng.random(eta.size)
    bound = f.slope_doubt(eta, doubt)
    for sign in (np.ones(eta.size), rng.choice([-1, 1], eta.size)):
        truth = twin.slope(exact(eta + sign * doubt))
        for row, found in enumerate(f.slope(eta)):
            assert error(found, truth[row]) <= bound[row]
    assert bound.max(initial=0) <= 30 * (size + 1e-14) * (1 + f.events.size)


@pytest.mark.parametrize("seed", range(9))
@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.1, 3.0, 40.0, 300.0])
@pytest.mark.parametrize("ties", TIES)
def test_divergence_does_not_cancel(ties: Ties, size: float, seed: int) -> None:
    f, twin, eta, _ = make(seed, ties, [4, 12, 10**9][seed % 3])
    t = size * np.random.default_rng(seed).standard_normal(eta.size) + 7 * size
    numbers, changes = exact(eta), exact(t)
    moved = [a + b for a, b in zip(numbers, changes, strict=True)]
    linear = mpmath.fdot(twin.slope(numbers), changes)
    truth = twin.value(moved) - twin.value(numbers) - linear
    assert error(f.divergence(eta, t), truth) <= 1e-12 * abs(truth)


@pytest.mark.parametrize("seed", range(6))
def test_divergence_of_small_changes_between_worlds(seed: int) -> None:
    f, twin, eta, _ = make(seed, TIES[seed % 2], 12, 300.0)
    t = 1e-6 * np.random.default_rng(seed).standard_normal(eta.size)
    with mpmath.workdps(400):
        numbers, changes = exact(eta), exact(t)
        moved = [a + b for a, b in zip(numbers, changes, strict=True)]
        linear = mpmath.fdot(twin.slope(numbers), changes)
        truth = twin.value(moved) - twin.value(numbers) - linear
        assert error(f.divergence(eta, t), truth) <= 1e-10 * abs(truth) + 1e-24


@pytest.mark.parametrize("ties", TIES)
def test_large_means_of_columns_do_no_harm(ties: Ties) -> None:
    f, _, eta, Z = make(11, ties, 6)
    Z = np.round(Z * 2**20) / 2**20 / [1e-3, 1, 1e3]
    shifted = np.round((Z + 1e7) * 2**20) / 2**20
    wanted = f.hessian(shifted - 1e7, eta)
    np.testing.assert_allclose(f.hessian(shifted, eta), wanted, rtol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_reach_bounds_the_third_derivative(seed: int) -> None:
    f, _, eta, Z = make(seed, TIES[seed % 2], 12)
    Z = Z / [1e-3, 1, 1e3]
    rng = np.random.default_rng(seed)
    rows = Z[: f.at_risk]
    distances = ((rows[:, None] - rows) ** 2).sum(-1)
    assert distances.max(initial=0) <= f.reach(Z) <= 4 * distances.max(initial=0) + 1e-12
    for _ in range(20):
        u, v = rng.standard_normal((2, 3))
        step = 1e-5 * (Z @ u)
        change = f.hessian(Z, eta + step) - f.hessian(Z, eta - step)
        third = float(v @ change @ v) / 2e-5
        bound = np.sqrt(f.reach(Z)) * np.linalg.norm(u) * float(v @ f.hessian(Z, eta) @ v)
        assert abs(third) <= bound + 1e-7


@pytest.mark.parametrize("eta", [np.nan, np.inf])
def test_what_is_not_finite_stays_visible(eta: float) -> None:
    f = PartialLikelihood([3, 2, 1], [1, 1, 1])
    etas = np.array([0.0, eta, 0.0])
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(f.value(etas))
        assert not np.isfinite(f.slope(etas)).all()
        assert np.isinf(f.slope_doubt(etas, np.zeros(3))).any()


@pytest.mark.parametrize(
    ("time", "event", "said"),
    [
        ([1, 0, 2], [1, 1, 0], "has the time 0.0 in row 1: a time must be a finite number above"),
        ([1, 3, -2], [1, 1, 0], "has the time -2.0 in row 2"),
        ([np.nan, 3, 2], [1, 1, 0], "has the time nan in row 0"),
        ([1, np.inf, 2], [1, 1, 0], "has the time inf in row 1"),
        ([1, 3, 2], [1, 2, 0], "has the event 2.0 in row 1: an event must be 1"),
        ([1, 3, 2], [np.nan, 1, 0], "has the event nan in row 0"),
    ],
)
def test_bad_outcomes_are_named(time: list[float], event: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=rf"^y\[2\] \(client 2\) {said}"):
        check_survival("y[2] (client 2)", np.array(time, float), np.array(event, float))
    check_survival("y", np.array([0.5, 3.0]), np.array([True, False]))


@pytest.mark.parametrize("year", [2000.0, -1e6, 1e8])
def test_a_column_whose_mean_is_large_costs_no_digits(year: float) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2, 60, 2))
    X[..., 0] = (year + X[..., 0]) - year  # so that the shift is exact
    times = np.ceil(rng.exponential(np.exp(-X[..., 0]), size=(2, 60)) * 8)
    y = np.stack([times, rng.random((2, 60)) < 0.7], axis=-1)
    far = X + np.array([year, 0.0])
    plain = pdmm.solve(pdmm.GLM(X, y, "cox"))
    moved = pdmm.solve(pdmm.GLM(far, y, "cox"))
    assert moved.rounds == plain.rounds
    errors = moved.certificate.standard_errors
    assert errors is not None
    assert errors < 1e-8
    np.testing.assert_allclose(moved.x, plain.x, rtol=1e-11)
