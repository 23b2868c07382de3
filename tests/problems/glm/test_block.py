"""Blocks of generalised linear models: derivatives, rounding, divergences, coordinates."""

from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import pdmm
from builders.glm import FAMILIES, HUBER, Table, problem, table
from twins import glm as twin

Array = npt.NDArray[Any]
EVERY = pytest.mark.parametrize("family", FAMILIES, ids=str)
ROWS_ALONE = tuple(family for family in FAMILIES if family not in ("cox", "multinomial"))


def point(glm: pdmm.GLM, seed: int = 5, size: float = 0.5) -> Array:
    return size * np.random.default_rng(seed).standard_normal(glm.dimension)


def triangle(d: int, seed: int = 6) -> Array:
    return np.triu(np.random.default_rng(seed).standard_normal((d, d)))


def exact(family: Any, own: Table, i: int, x: Array) -> tuple[Any, list[Any]]:
    offset = 0 * own.offset[i] if family == "multinomial" else own.offset[i]
    return twin.value_and_gradient(family, own.X[i], own.y[i], own.w[i], offset, x)


@EVERY
def test_value_and_gradient_are_the_textbooks(family: Any) -> None:
    own = table(family)
    glm = problem(family, own)
    x = point(glm)
    f = glm.at(slice(0, 4))
    with mpmath.workdps(40):
        for i in range(4):
            value, gradient = exact(family, own, i, x)
            assert f.value(x)[i] == pytest.approx(float(value), rel=1e-13, abs=1e-14)
            np.testing.assert_allclose(
                f.gradient(x)[i], [float(g) for g in gradient], rtol=1e-11, atol=1e-13
            )


@EVERY
def test_doubt_is_never_below_the_rounding(family: Any) -> None:
    scales = np.array([1e-3, 1.0, 1e5])
    for seed in range(4):
        own = table(family, (20, 2, 7), seed=seed)
        own = own._replace(X=[X * scales + 10.0**seed for X in own.X])
        glm = problem(family, own)
        unit = np.append(scales + 10.0**seed, 1.0)[: glm.features + glm.intercept]
        x = point(glm, seed) / np.repeat(unit, glm.dimension // len(unit))
        f = glm.at(slice(0, 3))
        T = triangle(glm.dimension, seed)
        g, doubt = f.certain_gradient(x)
        turned = f.curvature(x, T)
        with mpmath.workdps(40):
            for i in range(3):
                _, truth = exact(family, own, i, x)
                off = twin.distance(g[i], truth)
                assert off <= doubt[i]
                assert doubt[i] <= 1e4 * off + 1e-11 * (1 + np.linalg.norm(unit))
                assert twin.distance(turned.gradient[i], twin.times(T, truth)) <= turned.doubt[i]


@EVERY
def test_hessians_are_differences_of_gradients(family: Any) -> None:
    glm = problem(family)
    f = glm.at(slice(0, 4))
    x = point(glm)
    h = 1e-6
    H = f.hessian(x)
    for j, unit in enumerate(np.eye(glm.dimension)):
        numeric = (f.gradient(x + h * unit) - f.gradient(x - h * unit)) / (2 * h)
        np.testing.assert_allclose(H[:, :, j], numeric, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(H, H.swapaxes(1, 2), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(glm.hessian(x), H.sum(0), rtol=1e-13)
    weighed = glm.hessian(x, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(weighed, np.tensordot([1.0, 2, 3, 4], H, axes=1), rtol=1e-13)


@EVERY
@pytest.mark.parametrize("thin", [False, True])
def test_curvature_in_coordinates(family: Any, thin: bool) -> None:
    own = table(family)
    if thin:
        own = own._replace(X=[sparse.csr_array(X) for X in own.X])
    glm = problem(family, own)
    f = glm.at(slice(0, 4))
    x = point(glm)
    rows = np.stack([point(glm, seed) for seed in range(4)])
    T = triangle(glm.dimension)[:, 1:]
    for where in (x, rows):
        plain = f.curvature(where)
        found = f.curvature(where, T)
        np.testing.assert_allclose(plain.value, f.value(where), rtol=1e-14)
        np.testing.assert_allclose(plain.gradient, f.gradient(where), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(plain.hessian, f.hessian(where), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found.gradient, plain.gradient @ T, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(found.hessian, T.T @ plain.hessian @ T, rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(found.unsettled, plain.unsettled)
        whole = f.curvature(where, np.eye(glm.dimension))
        np.testing.assert_allclose(whole.reach, plain.reach, rtol=1e-12)
        diagonal, beside = f.diagonal(where)
        H = f.majorant(where)
        if not isinstance(family, pdmm.Huber):
            np.testing.assert_array_equal(H, f.hessian(where))
        np.testing.assert_allclose(diagonal, np.einsum("bdd->bd", H), rtol=1e-11)
        if glm.intercepts is None:
            assert not beside.any()
            continue
        expected = H[:, np.arange(glm.dimension), glm.intercepts]
        np.testing.assert_allclose(beside, expected, rtol=1e-11, atol=1e-13)


@EVERY
def test_along_gives_values_on_a_line(family: Any) -> None:
    glm = problem(family)
    f = glm.at(slice(0, 4))
    x = point(glm)
    direction = point(glm, 8)
    t = np.array([0.0, 0.5, 1.0, 3.0])
    expected = np.stack([f.value(x + s * direction) for s in t], axis=-1)
    np.testing.assert_allclose(f.along(x, direction, t), expected, rtol=1e-12, atol=1e-12)


@EVERY
@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.3, 4.0])
def test_divergence_does_not_cancel(family: Any, size: float) -> None:
    own = table(family)
    glm = problem(family, own)
    f = glm.at(slice(0, 4))
    y = point(glm)
    x = y + size * point(glm, 9, 1.0)
    found = f.divergence(x, y)
    with mpmath.workdps(60):
        for i in range(4):
            at_x, _ = exact(family, own, i, x)
            at_y, slope = exact(family, own, i, y)
            way = [mpmath.mpf(float(a)) - mpmath.mpf(float(b)) for a, b in zip(x, y, strict=True)]
            truth = at_x - at_y - sum(s * v for s, v in zip(slope, way, strict=True))
            assert found[i] == pytest.approx(float(truth), rel=1e-6, abs=1e-40)


@EVERY
def test_reach_bounds_the_third_derivative(family: Any) -> None:
    glm = problem(family)
    f = glm.at(slice(0, 4))
    x = point(glm)
    T = triangle(glm.dimension)
    at = f.curvature(x, T)
    rng = np.random.default_rng(3)
    h = 1e-5
    for _ in range(20):
        u = rng.standard_normal(glm.dimension)
        v = rng.standard_normal(glm.dimension)
        u *= 1 / np.linalg.norm(u)
        if family == HUBER:  # a quadratic as far as it says
            far = 0.99 / np.sqrt(at.reach.max()) * u
            np.testing.assert_array_equal(f.curvature(x + T @ far, T).hessian, at.hessian)
            continue
        after = f.curvature(x + h * (T @ u), T).hessian
        before = f.curvature(x - h * (T @ u), T).hessian
        third = np.einsum("j,bjk,k->b", v, after - before, v) / (2 * h)
        second = np.einsum("j,bjk,k->b", v, at.hessian, v)
        assert (np.abs(third) <= np.sqrt(at.reach) * second + 1e-6 * (1 + second)).all()


@pytest.mark.parametrize("family", ["binomial", "multinomial"])
def test_separation_is_seen_and_offsets_do_not_matter(family: str) -> None:
    X = [np.array([[1.0], [2.0], [-1.0]]), np.array([[-3.0], [0.5]])]
    y = [np.array([1, 1, 0]), np.array([0, 1])]
    glm = pdmm.GLM(X, y, family)
    f = glm.at(slice(0, 2))
    assert not f.curvature(np.array([1.0, 0.0])).unsettled.any()
    assert f.curvature(np.array([-1.0, 0.0])).unsettled.tolist() == [3, 2]
    assert f.curvature(np.array([1.0, -0.5])).unsettled.tolist() == [0, 1]  # on the border
    assert f.curvature(np.zeros(2)).unsettled.tolist() == [3, 2]
    if family == "binomial":
        moved = pdmm.GLM(X, y, offset=[np.full(3, -50.0), np.full(2, 50.0)])
        assert not moved.at(slice(0, 2)).curvature(np.array([1.0, 0.0])).unsettled.any()


def test_only_sides_can_be_settled() -> None:
    for family in ("gaussian", "gamma", HUBER):
        glm = problem(family)
        far = glm.at(slice(0, 4)).curvature(100 * point(glm)).unsettled
        assert far.tolist() == [30, 1, 45, 2]
    for family in ("poisson", "cox"):  # a count of 0, and a risk set whose only one has the event
        glm = problem(family)
        far = glm.at(slice(0, 4)).curvature(100 * point(glm)).unsettled
        assert (far <= [30, 1, 45, 2]).all()
    shares = pdmm.GLM([np.eye(2)], [np.array([0.5, 1.0])])
    assert shares.at(slice(0, 1)).curvature(np.array([9.0, 9.0, 0.0])).unsettled.tolist() == [1]


def test_working_responses_of_least_squares_are_least_squares() -> None:
    glm = problem("gaussian")
    f = glm.at(slice(0, 4))
    begin = f.working()
    there = f.curvature(np.zeros(glm.dimension))
    np.testing.assert_allclose(begin.value, there.value, rtol=1e-13)
    np.testing.assert_allclose(begin.gradient, there.gradient, rtol=1e-12)
    np.testing.assert_allclose(begin.hessian, there.hessian, rtol=1e-13)


@EVERY
def test_working_responses_are_a_good_start(family: Any) -> None:
    glm = problem(family)
    begin = glm.at(slice(0, 4)).working()
    x = -np.linalg.solve(begin.hessian.sum(0), begin.gradient.sum(0))
    assert glm.objective(x) < glm.objective(np.zeros(glm.dimension))
    assert not begin.reach.any()


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(ROWS_ALONE),
    eta=st.floats(-700, 700),
    y=st.floats(0.01, 0.99),
    t=st.floats(-30, 30),
)
def test_rows_at_any_eta(family: Any, eta: float, y: float, t: float) -> None:
    rows = pdmm.GLM([np.zeros((1, 1))], [np.array([y])], _quietly(family), intercept=True)
    f = rows.at(slice(0, 1))
    x = np.array([0.0, eta])
    value, gradient, hessian = f.second_order(x)
    with mpmath.workdps(40):
        truth, slope = twin.value_and_gradient(
            _quietly(family), [[0.0]], [y], [1.0], [0.0], x.tolist()
        )
        assert value[0] == pytest.approx(float(truth), rel=1e-13, abs=1e-13 * abs(eta))
        g, doubt = f.certain_gradient(x)
        assert twin.distance(g[0], slope) <= doubt[0]
    assert hessian[0, 1, 1] >= 0
    assert (f.divergence(np.array([0.0, eta + t]), x) >= 0).all()
    np.testing.assert_array_equal(gradient, g)


def _quietly(family: Any) -> Any:
    """A Poisson model warns of fractions: gamma stands for it, which has exp too."""
    return "gamma" if family == "poisson" else family


def test_the_majorant_of_huber_is_nowhere_below_it() -> None:
    loss = pdmm.Huber(0.8)
    y = np.zeros(9)
    eta = np.linspace(-4, 4, 9)
    bend = loss.majorant(eta, y)
    assert (bend > 0).all()
    for t in np.linspace(-8, 8, 33):
        assert (loss.divergence(eta, np.full(9, t), y) <= bend * t * t / 2 + 1e-15).all()
