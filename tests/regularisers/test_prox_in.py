"""The proximal step in any metric, and the least subgradient: optimality, CVXPY, closed forms."""

from typing import Any

import cvxpy
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from pdmm.regularisers import Pieces, Separable

Vector = npt.NDArray[Any]
cp: Any = cvxpy  # whose functions have no types
EPS = float(np.finfo(np.float64).eps)
WAYS = ("l1", "net", "box", "all", "partly")


class Any4(Separable):
    """Absolute values, squares and bounds together."""

    def __init__(self, **parts: Any) -> None:
        self.parts = Pieces(**parts)

    @property
    def pieces(self) -> Pieces:
        return self.parts


def matrix(rng: np.random.Generator, d: int, log_condition: float) -> Vector:
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    P = (Q * np.logspace(0, -log_condition, d)) @ Q.T
    return np.asarray((P + P.T) / 2)


def regulariser(rng: np.random.Generator, way: str, P: Vector, v: Vector) -> Separable:
    """One of each kind, whose answer has some entries on kinks."""
    d = len(v)
    c = float(np.abs(P @ v).max() * 10 ** rng.uniform(-4, 0))
    lo = v - rng.exponential(size=d)
    hi = lo + rng.exponential(size=d)
    if way == "l1":
        return pdmm.L1(c)
    if way == "net":
        return pdmm.ElasticNet(c * rng.uniform(0, 2, d), c)
    if way == "box":
        return pdmm.Box(lo, hi)
    if way == "all":
        return Any4(l1=c, l2=c * rng.uniform(0, 2, d), lo=lo, hi=hi)
    some = rng.integers(3, size=d)
    return Any4(
        l1=np.where(some == 0, c, 0.0),
        lo=np.where(some == 1, lo, -np.inf),
        hi=np.where(rng.random(d) < 0.2, np.where(some == 1, lo, 0.0), np.inf),
    )


def wrong(h: Separable, x: Vector, g: Vector, sizes: Vector) -> float:
    """How far -g is outside of the subgradients of h at x, in units of rounding."""
    assert h.value(x) < np.inf
    off = np.maximum(-g - h.pieces.right(x), 0) + np.maximum(g + h.pieces.left(x), 0)
    units = sizes + h.pieces.l1 + h.pieces.l2 * np.abs(x)
    # 0 of 0 is right: an entry at rest whose row of P has nothing to say.
    return float((off / np.maximum(units, 1e-300)).max()) / EPS


def misses(h: Separable, P: Vector, v: Vector, x: Vector) -> float:
    sizes = np.abs(P) @ (np.abs(x - v) + np.abs(x))
    return wrong(h, x, P @ (x - v), sizes)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    d=st.integers(1, 40),
    log_condition=st.floats(0, 12),
    log_scales=st.floats(0, 6),
    way=st.sampled_from(WAYS),
    seed=st.integers(0, 2**32),
)
def test_prox_in_satisfies_its_optimality_conditions_to_rounding(
    d: int, log_condition: float, log_scales: float, way: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scales = 10 ** rng.uniform(-log_scales, log_scales, d)
    P = matrix(rng, d, log_condition) * scales * scales[:, None]
    v = rng.normal(size=d) / scales
    h = regulariser(rng, way, P, v)
    before = P.copy()
    x = h.prox_in(v, P)
    assert misses(h, P, v, x) < 10 + np.sqrt(d)
    np.testing.assert_array_equal(P, before)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("log_condition", [0.5, 3.0])
def test_prox_in_is_what_cvxpy_finds(way: str, log_condition: float) -> None:
    rng = np.random.default_rng(3)
    P = matrix(rng, 12, log_condition)
    v = rng.normal(size=12)
    h = regulariser(rng, way, P, v)
    l1, l2, lo, hi = (np.broadcast_to(part, 12) for part in h.pieces)
    x = cp.Variable(12)
    F = cp.quad_form(x - v, cp.psd_wrap(P)) / 2 + l1 @ cp.abs(x) + l2 / 2 @ cp.square(x)
    bounds = [x[j] >= lo[j] for j in range(12) if np.isfinite(lo[j])]
    bounds += [x[j] <= hi[j] for j in range(12) if np.isfinite(hi[j])]
    tight = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13}
    cp.Problem(cp.Minimize(F), bounds).solve(solver=cp.CLARABEL, **tight)
    np.testing.assert_allclose(h.prox_in(v, P), x.value, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_prox_in_a_diagonal_is_the_prox_of_each_entry(way: str) -> None:
    rng = np.random.default_rng(4)
    P = 10 ** rng.uniform(-3, 3, 30)
    v = rng.normal(size=30)
    h = regulariser(rng, way, np.diag(P), v)
    x = h.prox_in(v, P)
    np.testing.assert_allclose(h.prox_in(v, np.diag(P)), x, rtol=1e-13, atol=1e-300)
    assert ((x == 0) == (h.prox_in(v, np.diag(P)) == 0)).all()
    same = h.prox_in(v, np.full(30, 4.0))
    np.testing.assert_allclose(same, h.prox(v, 0.25), rtol=1e-15)


@pytest.mark.parametrize("way", WAYS)
def test_columns_in_other_units_give_the_same_answer(way: str) -> None:
    rng = np.random.default_rng(5)
    d = 25
    P = matrix(rng, d, 6)
    v = rng.normal(size=d)
    h = regulariser(rng, way, P, v)
    x = h.prox_in(v, P)
    units = np.exp2(rng.integers(-20, 20, d))
    pieces = Any4(
        l1=h.pieces.l1 * units,
        l2=h.pieces.l2 * units**2,
        lo=h.pieces.lo / units,
        hi=h.pieces.hi / units,
    )
    np.testing.assert_array_equal(pieces.prox_in(v / units, P * units * units[:, None]), x / units)


def test_what_is_optimal_already_stays_as_it_is() -> None:
    rng = np.random.default_rng(6)
    P = matrix(rng, 15, 10)
    v = rng.normal(size=15)
    for h in (pdmm.L1(0.0), pdmm.SquaredL2(0.0), pdmm.Box(-9, 9), pdmm.Box(-np.inf, v)):
        np.testing.assert_array_equal(h.prox_in(v, P), v)
    np.testing.assert_array_equal(pdmm.Box(0.3, 0.3).prox_in(v, P), np.full(15, 0.3))
    np.testing.assert_array_equal(pdmm.L1(100.0).prox_in(v, P), np.zeros(15))


def test_bounds_are_met_exactly_though_the_columns_are_scaled() -> None:
    rng = np.random.default_rng(7)
    P = matrix(rng, 30, 5) * 7e-5
    lo = np.full(30, -0.1)
    x = pdmm.Box(lo, 0.3).prox_in(3 * rng.normal(size=30), P)
    assert ((x == -0.1) | (x == 0.3)).sum() > 10
    assert (x >= -0.1).all()
    assert (x <= 0.3).all()


def test_the_descent_alone_finds_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    P = matrix(rng, 60, 9)
    v = rng.normal(size=60)
    hs = [regulariser(rng, way, P, v) for way in WAYS]
    monkeypatch.setattr("pdmm.regularisers.active_set.GUESSES", 0)
    for h in hs:
        assert misses(h, P, v, h.prox_in(v, P)) < 20


@pytest.mark.parametrize("h", [pdmm.L1(1.0), pdmm.SquaredL2(1.0), pdmm.Box(0, 1)])
def test_a_matrix_that_is_no_metric_is_refused(h: pdmm.Regulariser) -> None:
    for P in (np.diag([1.0, -4.0]), np.full((2, 2), np.nan), np.array([[1.0, 5.0], [5.0, 1.0]])):
        with pytest.raises(ValueError, match="must be symmetric and positive definite"):
            h.prox_in(np.array([0.6, 0.7]), P)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    d=st.integers(1, 25),
    log_condition=st.floats(0, 10),
    way=st.sampled_from(WAYS),
    seed=st.integers(0, 2**32),
)
def test_the_least_subgradient_is_one_and_is_least(
    d: int, log_condition: float, way: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    H = matrix(rng, d, log_condition)
    h = regulariser(rng, way, H, rng.normal(size=d))
    x = h.prox(rng.normal(size=d), 1.0)  # with some entries on kinks
    slope = rng.normal(size=d) * 10 ** rng.uniform(-3, 3)
    v = h.subgradient_in(x, slope, H)
    assert v is not None
    assert (v >= h.pieces.left(x)).all()
    assert (v <= h.pieces.right(x)).all()
    # At the least, no entry of v can move to where u = H^-1(slope + v) says.
    u = np.linalg.solve(H, slope + v)
    size = float((slope + v) @ u)
    room_left = np.where(v > h.pieces.left(x), 1.0, 0.0)
    room_right = np.where(v < h.pieces.right(x), 1.0, 0.0)
    gain = np.maximum(u, 0) * room_left + np.maximum(-u, 0) * room_right
    # What moving entry j alone could take off size is gain_j²/(H^-1)_jj.
    could = gain**2 / np.diag(np.linalg.inv(H))
    noise = EPS * 10**log_condition * d * float((slope + v) @ (slope + v))
    assert (could <= 1e-9 * size + 100 * noise + 1e-300).all()
    nearest = h.subgradient(x, slope)
    assert nearest is not None
    other = float((slope + nearest) @ np.linalg.solve(H, slope + nearest))
    assert size <= other * (1 + 1e-9) + 100 * noise


def test_no_subgradient_outside_of_a_box() -> None:
    box = pdmm.Box(0.0, 1.0)
    slope = np.array([1.0, 1.0])
    assert box.subgradient_in(np.array([0.5, 1.5]), slope, np.eye(2)) is None
    np.testing.assert_array_equal(
        box.subgradient_in(np.array([0.5, 0.0]), slope, np.eye(2)), [0.0, -1.0]
    )
    tenth = np.full(2, 0.1, dtype=np.float32)  # on the bound, as float32 holds it
    np.testing.assert_array_equal(
        pdmm.Box(0.1, 1.0).subgradient_in(tenth, slope, np.eye(2)), [-1.0, -1.0]
    )


def test_ridge_in_a_metric_is_a_linear_solve() -> None:
    rng = np.random.default_rng(9)
    P = matrix(rng, 10, 3)
    v = rng.normal(size=10)
    c = rng.uniform(0, 2, 10)
    expected = np.linalg.solve(P + np.diag(c), P @ v)
    np.testing.assert_allclose(pdmm.SquaredL2(c).prox_in(v, P), expected, rtol=1e-10)
