"""Exact steps of generalised linear models, all clients of a block at once."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse
from scipy.optimize import minimize

import pdmm
from builders.glm import FAMILIES, optimum, outcomes, problem, table
from pdmm.problems.block import Tally

Array = npt.NDArray[Any]
EVERY = pytest.mark.parametrize("family", FAMILIES, ids=str)


def metrics(glm: pdmm.GLM, seed: int = 3) -> Array:
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((glm.clients, glm.dimension, glm.dimension))
    return half @ half.swapaxes(1, 2) + np.eye(glm.dimension)


@EVERY
@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_slope_vanishes(family: Any, matrix: bool, size: float) -> None:
    glm = problem(family)
    f = glm.at(slice(0, 4))
    rng = np.random.default_rng(1)
    anchor = 0.3 * rng.standard_normal((4, glm.dimension))
    rho: Any = size * metrics(glm) if matrix else size
    x = f.prox(anchor, rho, np.zeros(glm.dimension))
    away = x - anchor
    pull = np.einsum("bij,bj->bi", rho, away) if matrix else rho * away
    g = f.gradient(x)
    assert (np.linalg.norm(g + pull, axis=1) <= 1e-9 * (np.linalg.norm(g, axis=1) + size)).all()
    assert f.tally.exact == 4
    assert f.tally.error <= 1e-10
    assert f.tally.missed == 0


@EVERY
def test_scipy_finds_the_same(family: Any) -> None:
    glm = problem(family)
    f = glm.at(slice(0, 4))
    anchor = np.full((4, glm.dimension), 0.2)
    x = f.prox(anchor, 2.0, np.zeros(glm.dimension))
    for i in range(4):
        smooth = f.smooth(i)

        def both(v: Array, smooth: Any = smooth) -> tuple[float, Array]:
            value, gradient = smooth(v)
            away = v - 0.2
            return value + away @ away, gradient + 2 * away

        found = minimize(both, np.zeros(glm.dimension), jac=True, method="BFGS", tol=1e-10)
        np.testing.assert_allclose(x[i], found.x, atol=1e-6)


@EVERY
def test_warm_steps_take_few_evaluations(family: Any) -> None:
    counts = (40, 25, 60, 2, 1)
    glm = problem(family, table(family, counts))
    result = pdmm.solve(glm, pdmm.PDMM(), rounds=20)
    history = result.history
    assert history["gradient_calls"][-1] <= 4 * history["exact_calls"][-1]


@pytest.mark.parametrize("family", ["poisson", "gamma", "binomial"])
@pytest.mark.parametrize("start", [-300.0, 300.0, 1e6, -1e6])
def test_a_start_from_which_exp_overflows(family: str, start: float) -> None:
    glm = problem(family)
    f = glm.at(slice(0, 4))
    anchor = np.zeros((4, glm.dimension))
    x = f.prox(anchor, 0.5, np.full(glm.dimension, start))
    good = f.prox(anchor, 0.5, np.zeros(glm.dimension))
    np.testing.assert_allclose(x, good, atol=1e-8)
    assert f.tally.missed == 0


def test_an_anchor_far_away() -> None:
    glm = problem("poisson")
    f = glm.at(slice(0, 4))
    anchor = np.full((4, glm.dimension), 500.0)
    x = f.prox(anchor, 1.0, np.zeros(glm.dimension))
    slope = f.gradient(x) + x - anchor
    assert np.abs(slope).max() < 1e-6
    assert f.tally.missed == 0


def test_slack_spares_evaluations() -> None:
    glm = problem("binomial")
    anchor = np.full((4, glm.dimension), 0.2)
    tight, loose = (glm.at(slice(0, 4)) for _ in range(2))
    tight.prox(anchor, 1.0, np.zeros(glm.dimension))
    x = loose.prox(anchor, 1.0, np.zeros(glm.dimension), np.full(4, 0.1))
    assert loose.tally.gradients < tight.tally.gradients
    residual = np.linalg.norm(loose.gradient(x) + x - anchor, axis=1)
    assert (residual <= 0.1).all()
    assert loose.tally.missed == 0


def test_clients_are_apart() -> None:
    glm = problem("poisson")
    rng = np.random.default_rng(2)
    anchor = rng.standard_normal((4, glm.dimension))
    rho = metrics(glm)
    whole = glm.at(slice(0, 4)).prox(anchor, rho, anchor)
    for i in range(4):
        one = glm.at(np.array([i])).prox(anchor[[i]], rho[[i]], anchor[[i]])
        np.testing.assert_allclose(one[0], whole[i], rtol=1e-9, atol=1e-9)


def test_columns_of_any_size() -> None:
    own = table("binomial", (40, 3, 60))
    scales = np.array([1e-4, 1.0, 1e6])
    glm = problem("binomial", own._replace(X=[X * scales + 1e3 * scales for X in own.X]))
    x = optimum(glm)
    f = glm.at(slice(0, 3))
    for rho in (1e-8, 1.0, 1e6):
        f.tally = Tally()
        f.prox(np.broadcast_to(x, (3, 4)).copy(), rho, np.zeros(4))
        assert f.tally.missed == 0


def test_many_sparse_columns_need_no_hessian() -> None:
    rng = np.random.default_rng(0)
    X = [sparse.random_array((30, 1500), density=0.01, rng=rng, format="csr") for _ in range(2)]
    y = [outcomes("poisson", np.zeros(30), rng) for _ in range(2)]
    glm = pdmm.GLM(X, y, "poisson")
    f = glm.at(slice(0, 2))
    anchor = np.zeros((2, glm.dimension))
    x = f.prox(anchor, 1.0, np.zeros(glm.dimension))
    assert np.abs(f.gradient(x) + x).max() < 1e-8
    diagonal, beside = f.diagonal(np.zeros(glm.dimension))
    np.testing.assert_allclose(diagonal[:, -1], 30)
    np.testing.assert_allclose(beside[0, :-1], X[0].sum(0))
    np.testing.assert_allclose(diagonal[0, :-1], X[0].power(2).sum(0))


@pytest.mark.parametrize("family", ["binomial", "poisson", "multinomial", "cox"])
def test_a_client_whose_outcomes_are_all_equal(family: str) -> None:
    own = table(family, (30, 20, 10))
    y = own.y[1].copy()
    y[:] = y[0] * 0 + (1 if family == "cox" else 0)
    glm = problem(family, own._replace(y=[own.y[0], y, own.y[2]]))
    best = glm.objective(optimum(glm))
    result = pdmm.solve(glm, pdmm.PDMM(), rounds=80)
    assert glm.objective(result.x) - best < 1e-5 * abs(best)
