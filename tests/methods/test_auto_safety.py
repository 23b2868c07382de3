"""Runs that choose their parameters never end worse than they began."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pdmm
from builders.automatic import (
    clients,
    every_auto,
    logcosh,
    logcosh_slope,
)
from pdmm.methods import Method
from twins.methods import Matrix, Vector

# Without shrinking: a run is too long to be repeated a hundred times.
some = settings(derandomize=True, deadline=None, phases=(Phase.explicit, Phase.generate))

# --- never worse than the start --------------------------------------------------------------


def assert_safe(problem: pdmm.Problem, method: Method | None, rounds: int, **more: Any) -> None:
    result = pdmm.solve(problem, method, rounds, threads=1, record_every=rounds, **more)
    start, end = result.history["objective"][[0, -1]]
    rounding = 1e-12 if problem.dtype == np.float64 else 1e-5
    assert not result.diverged, result.reason
    assert np.isfinite(result.x).all()
    assert end <= start + rounding * max(1.0, abs(start)), (method, start, end)


GRADIENT_METHODS = [
    "AGPDMM",
    "AGPDMM, accelerated",
    "AGPDMM, the paper's rho",
    "GPDMM",
    "GPDMM, accelerated",
    "Scaffold",
    "FedAvg",
    "GradientDescent",
    "InexactFedSplit",
    "InexactFedSplit, accelerated",
]
start_scales = st.sampled_from([0.0, 1.0, 30.0])


@dataclass
class Recipe:
    """Least squares of any conditioning, rank and scale."""

    seed: int
    m: int
    d: int
    n: int
    kappa: float
    spread: float
    dtype: Any

    def problem(self) -> pdmm.LeastSquares:
        rng = np.random.default_rng(self.seed)
        A, b = [], []
        for scale in 10 ** (self.spread * rng.uniform(-1, 1, self.m)):
            shape = (self.n, self.d)
            U, s, V = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
            s = np.sqrt(np.geomspace(1, self.kappa, len(s)))
            s[0] *= rng.random() > 0.2  # now and then a rank is missing
            a = scale * U * s @ V
            target = a @ rng.standard_normal(self.d) + scale * rng.standard_normal(self.n)
            A.append(a.astype(self.dtype))
            b.append(target.astype(self.dtype))
        return pdmm.LeastSquares(A, b)


any_least_squares = st.builds(
    Recipe,
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 30),
    d=st.integers(1, 8),
    n=st.integers(1, 16),
    kappa=st.sampled_from([1.0, 30.0, 1e3, 1e6]),
    spread=st.sampled_from([0.0, 1.0, 3.0]),
    dtype=st.sampled_from([np.float64, np.float64, np.float32]),
)


@pytest.mark.slow
@settings(some, max_examples=40)
@given(case=any_least_squares, far=start_scales)
def test_least_squares_never_diverge(case: Recipe, far: float) -> None:
    problem = case.problem()
    x0 = far * np.random.default_rng(case.seed).standard_normal(case.d)
    assert_safe(problem, None, 60, x0=x0)
    name = GRADIENT_METHODS[case.seed % len(GRADIENT_METHODS)]
    assert_safe(problem, every_auto()[name], 60, x0=x0)


@pytest.mark.slow
@settings(some, max_examples=7)
@given(
    seed=st.integers(0, 2**32 - 1),
    apart=st.booleans(),
    l2=st.sampled_from([0.0, 1e-6, 1e-2]),
    scale=st.sampled_from([0.3, 1.0, 10.0]),
    far=start_scales,
)
def test_softmax_never_diverges(
    seed: int, apart: bool, l2: float, scale: float, far: float
) -> None:
    rng = np.random.default_rng(seed)
    m = 3 if apart else int(rng.integers(1, 6))
    X = [scale * (rng.standard_normal((5, 2)) + rng.standard_normal(2)) for _ in range(m)]
    y = [np.full(5, i) if apart else rng.integers(0, 3, 5) for i in range(m)]
    problem = pdmm.SoftmaxRegression(X, y, classes=3, l2=l2)
    x0 = far * rng.standard_normal(problem.dimension) / scale
    assert_safe(problem, None, 60, x0=x0)
    name = GRADIENT_METHODS[seed % len(GRADIENT_METHODS)]
    assert_safe(problem, every_auto()[name], 60, x0=x0)


def huber(x: Vector, a: Vector, s: float, w: float) -> float:
    away = np.abs(x - a)
    return float(w * np.where(away < 1 / s, s * away**2 / 2, away - 1 / (2 * s)).sum())


def huber_slope(x: Vector, a: Vector, s: float, w: float) -> Vector:
    return np.asarray(w * np.clip(s * (x - a), -1, 1))


def logistic(x: Vector, R: Matrix, w: float) -> float:
    return float(w * np.logaddexp(0, -R @ x).sum())


def logistic_slope(x: Vector, R: Matrix, w: float) -> Vector:
    return np.asarray(-w * np.exp(-np.logaddexp(0, R @ x)) @ R)


def smooth_functions(seed: int, most: int) -> tuple[pdmm.Functions, Vector]:
    """A few clients with functions of different kinds, steepnesses and weights."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    values: list[Callable[[Vector], float]] = []
    slopes: list[Callable[[Vector], Vector]] = []
    for _ in range(int(rng.integers(1, most + 1))):
        a = 10 ** rng.uniform(-1, 2) * rng.standard_normal(d)
        s, w = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1)
        kind = int(rng.integers(3))
        if kind == 2:
            R = s * rng.standard_normal((3, d))
            values.append(partial(logistic, R=R, w=w))
            slopes.append(partial(logistic_slope, R=R, w=w))
        else:
            values.append(partial(huber if kind else logcosh, a=a, s=s, w=w))
            slopes.append(partial(huber_slope if kind else logcosh_slope, a=a, s=s, w=w))
    x0 = rng.standard_normal(d) * rng.choice([0.0, 1.0, 30.0])
    return pdmm.Functions(values, slopes, d), x0


@pytest.mark.slow
@settings(some, max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_smooth_functions_never_diverge(seed: int) -> None:
    problem, x0 = smooth_functions(seed, most=8)
    assert_safe(problem, None, 60, x0=x0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_gradient_methods_never_diverge_on_smooth_functions(seed: int) -> None:
    problem, x0 = smooth_functions(seed, most=2)
    assert_safe(problem, every_auto()[GRADIENT_METHODS[seed]], 60, x0=x0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        pdmm.PDMM(1.0, 0.9, "anderson"),
        pdmm.GPDMM(0.5, 8, 1.0, acceleration="anderson"),
        pdmm.GPDMM(rho="auto", acceleration="anderson"),
        pdmm.AGPDMM(0.5, 8, 1.0, acceleration="anderson"),
        pdmm.AGPDMM(rho="auto", acceleration="anderson"),
        pdmm.InexactFedSplit(1.0, 0.4, 8, start="server", acceleration="anderson"),
    ],
)
@pytest.mark.parametrize("rounds", [30, 60, 200])
def test_a_slope_that_does_not_change(method: Method, rounds: int) -> None:
    # Far from its centre a Huber function is a straight line: all residuals are alike there,
    # their differences are rounding, and so would be a combination that is made of them.
    shape: dict[str, Any] = {"a": np.array([100.0]), "s": 1.0, "w": 1.0}
    problem = pdmm.Functions([partial(huber, **shape)], [partial(huber_slope, **shape)], 1)
    assert_safe(problem, method, rounds)


@pytest.mark.parametrize("rounds", [60, 150])
def test_gpdmm_with_one_far_client(rounds: int) -> None:
    # Combinations whose ‖f‖ grew, each by less than it may, add up.
    shape: dict[str, Any] = {"a": np.array([-300.0, 100.0]), "s": 20.0, "w": 5.0}
    problem = pdmm.Functions([partial(huber, **shape)], [partial(huber_slope, **shape)], 2)
    method = pdmm.GPDMM(rho="auto", relaxation=0.9, acceleration="anderson")
    assert_safe(problem, method, rounds)


def absolute(x: Vector, a: Vector, w: float) -> float:
    return float(w * np.abs(x - a).sum())


def absolute_slope(x: Vector, a: Vector, w: float) -> Vector:
    return np.asarray(w * np.sign(x - a))


def absolute_prox(v: Vector, t: float, a: Vector, w: float) -> Vector:
    return np.asarray(a + np.sign(v - a) * np.maximum(np.abs(v - a) - t * w, 0))


def absolutes(centres: Sequence[Vector], w: Sequence[float]) -> pdmm.Functions:
    """The sum of w_i ‖x - a_i‖₁, with its prox."""
    pairs = list(zip(centres, w, strict=True))
    return pdmm.Functions(
        [partial(absolute, a=a, w=v) for a, v in pairs],
        [partial(absolute_slope, a=a, w=v) for a, v in pairs],
        len(centres[0]),
        prox=[partial(absolute_prox, a=a, w=v) for a, v in pairs],
    )


def test_two_kinks() -> None:
    # Away from the kinks every residual is the same, and an extrapolation may go anywhere.
    problem = absolutes([np.array([0.0]), np.array([2.4])], [0.5, 0.3])
    assert_safe(problem, None, 60, x0=[-6.3])


@pytest.mark.slow
@settings(some, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 10), d=st.integers(1, 3))
def test_sums_of_absolute_values_never_diverge(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    centres = list(rng.standard_normal((m, d)) * 10 ** rng.uniform(0, 2, (m, 1)))
    problem = absolutes(centres, (10 ** rng.uniform(-1, 1, m)).tolist())
    assert_safe(problem, None, 60, x0=10 * rng.standard_normal(d))


def steeper(x: Vector, p: Vector, q: Vector, k: float) -> float:
    return float(max(p @ x, q @ x + k))


def steeper_slope(x: Vector, p: Vector, q: Vector, k: float) -> Vector:
    return p if p @ x >= q @ x + k else q


def steeper_prox(v: Vector, t: float, p: Vector, q: Vector, k: float) -> Vector:
    u = p - q
    share = ((u @ v - k) / t - u @ q) / (u @ u)  # on the kink p·x = q·x + k, between the two
    return np.asarray(v - t * (q + np.clip(share, 0, 1) * u))


@pytest.mark.slow
@settings(some, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 12), d=st.integers(1, 3))
def test_piecewise_linear_functions_never_diverge(seed: int, m: int, d: int) -> None:
    # f_i = max(p_i·x, q_i·x + k_i), and one client whose |x| keeps the sum above zero.
    rng = np.random.default_rng(seed)
    p, q = rng.standard_normal((2, m, d))
    k = rng.standard_normal(m)
    rows = [{"p": p[i], "q": q[i], "k": float(k[i])} for i in range(m)]
    hold: dict[str, Any] = {"a": np.zeros(d), "w": float(np.abs([p, q]).sum())}
    problem = pdmm.Functions(
        [*(partial(steeper, **r) for r in rows), partial(absolute, **hold)],
        [*(partial(steeper_slope, **r) for r in rows), partial(absolute_slope, **hold)],
        d,
        prox=[*(partial(steeper_prox, **r) for r in rows), partial(absolute_prox, **hold)],
    )
    assert_safe(problem, None, 60, x0=5 * rng.standard_normal(d))


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e20])
def test_units_do_not_matter(scale: float) -> None:
    # The data of a float64 problem may be in any unit; only the scalars travel narrower.
    data = clients(2)
    problem = pdmm.LeastSquares([scale * a for a in data.A], [scale * v for v in data.b])
    result = pdmm.solve(problem, rounds=60)
    plain = pdmm.solve(data.problem(), rounds=60)
    np.testing.assert_allclose(result.x, plain.x, rtol=1e-5, atol=1e-6)
    assert abs(result.rounds - plain.rounds) <= 5


def test_one_client_and_nothing_to_do() -> None:
    alone = pdmm.LeastSquares([np.diag([1.0, 100.0])], [np.ones(2)])
    assert pdmm.solve(alone, rounds=60).history["gap"][-1] < 1e-10
    flat = pdmm.LeastSquares([np.zeros((2, 2))] * 2, [np.ones(2)] * 2)
    for method in (None, *every_auto().values()):
        result = pdmm.solve(flat, method, 5, x0=[1.0, -2.0])
        np.testing.assert_array_equal(result.x, [1.0, -2.0])


# --- clients with flat directions ---------------------------------------------------------------


@pytest.mark.parametrize("metric", [None, "diagonal", "full"])
@pytest.mark.parametrize("seed", [4, 7])
def test_rho_does_not_fall_for_ever_where_one_client_is_flat_and_a_penalty_is_not(
    metric: Any, seed: int
) -> None:
    rng = np.random.default_rng(70 + seed)
    rows = int(rng.integers(60, 300))
    columns = int(rng.integers(2, 12))
    X = rng.normal(size=(rows, columns)) * 10 ** rng.uniform(-1, 1, columns)
    y = X @ rng.normal(size=columns) / 5 + rng.normal(size=rows)
    cuts = [rows // 3, rows // 3 + 4, rows // 2]  # the second client has four rows
    problem = pdmm.GLM(np.split(X, cuts), np.split(y, cuts), "gaussian")
    method = pdmm.PDMM(rho="auto", metric=metric)
    result = pdmm.solve(problem, method, 120, regulariser=pdmm.SquaredL2(1.0), curvature="full")
    assert result.history["objective"][-1] <= result.history["objective"].min() * (1 + 1e-2)
