"""Generalised linear models in other variables: f(y) = F(centre + T y)."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

import pdmm
from builders.glm import FAMILIES, problem, table
from pdmm.common.variables import Mixed, Scaled, Variables

Array = npt.NDArray[Any]
EVERY = pytest.mark.parametrize("family", FAMILIES, ids=str)


def change(glm: pdmm.GLM, kind: str, seed: int = 4) -> Variables:
    rng = np.random.default_rng(seed)
    d = glm.dimension
    centre = 0.2 * rng.standard_normal(d)
    if kind == "mixed":
        T = np.triu(rng.standard_normal((d, d)))
        T[np.arange(d), np.arange(d)] = rng.uniform(0.5, 2, d)
        return Mixed(centre, T)
    means = rng.standard_normal(d)
    if glm.intercepts is None:
        means[:] = 0
    else:
        means[np.unique(glm.intercepts)] = 0
    return Scaled(centre, rng.uniform(0.5, 2, d), means, glm.intercepts)


@EVERY
@pytest.mark.parametrize("kind", ["mixed", "scaled"])
@pytest.mark.parametrize("thin", [False, True])
def test_the_chain_rule(family: Any, kind: str, thin: bool) -> None:
    own = table(family)
    if thin:
        own = own._replace(X=[sparse.csr_array(X) for X in own.X])
    glm = problem(family, own)
    variables = change(glm, kind)
    other = glm.in_variables(variables)
    T = variables.matrix()
    rng = np.random.default_rng(7)
    for y in (0.3 * rng.standard_normal(glm.dimension), rng.standard_normal((4, glm.dimension))):
        x = variables.to_x(y)
        f, g = (one.at(slice(0, 4)) for one in (glm, other))
        np.testing.assert_allclose(g.value(y), f.value(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(g.gradient(y), f.gradient(x) @ T, rtol=1e-10, atol=1e-11)
        H = T.T @ f.hessian(x) @ T
        np.testing.assert_allclose(g.hessian(y), H, rtol=1e-9, atol=1e-10)
        H = T.T @ f.majorant(x) @ T
        np.testing.assert_allclose(g.majorant(y), H, rtol=1e-9, atol=1e-10)
        diagonal, beside = g.diagonal(y)
        np.testing.assert_allclose(diagonal, np.einsum("bdd->bd", H), rtol=1e-9, atol=1e-11)
        if other.intercepts is not None:
            expected = H[:, np.arange(glm.dimension), other.intercepts]
            np.testing.assert_allclose(beside, expected, rtol=1e-8, atol=1e-10)
        S = np.triu(rng.standard_normal((glm.dimension, glm.dimension)))
        mine = g.curvature(y, S)
        theirs = f.curvature(x, T @ S)
        for name in ("value", "gradient", "hessian", "reach", "unsettled"):
            a, b = getattr(mine, name), getattr(theirs, name)
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
        apart, doubt = g.certain_gradient(y)
        assert (np.linalg.norm(apart - f.gradient(x) @ T, axis=1) <= 1e3 * doubt + 1e-12).all()
        if family == "cox":  # begins where y = 0, which is another x
            continue
        mine, theirs = g.working(S), f.working(T @ S)
        np.testing.assert_allclose(mine.hessian, theirs.hessian, rtol=1e-8, atol=1e-9)


@EVERY
@pytest.mark.parametrize("kind", ["mixed", "scaled"])
def test_exact_steps_are_those_of_another_metric(family: Any, kind: str) -> None:
    glm = problem(family)
    variables = change(glm, kind)
    other = glm.in_variables(variables)
    rng = np.random.default_rng(8)
    anchor = 0.3 * rng.standard_normal((4, glm.dimension))
    y = other.at(slice(0, 4)).prox(anchor, 1.5, np.zeros(glm.dimension))
    inverse = np.linalg.inv(variables.matrix())
    P = np.broadcast_to(1.5 * inverse.T @ inverse, (4, glm.dimension, glm.dimension))
    x = glm.at(slice(0, 4)).prox(variables.to_x(anchor), P, np.zeros(glm.dimension))
    np.testing.assert_allclose(variables.to_x(y), x, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("family", ["binomial", "multinomial"])
@pytest.mark.parametrize("kind", ["mixed", "scaled"])
@pytest.mark.parametrize("thin", [False, True])
def test_variables_of_variables(family: str, kind: str, thin: bool) -> None:
    own = table(family)
    if thin:
        own = own._replace(X=[sparse.csr_array(X) for X in own.X])
    glm = problem(family, own)
    first = change(glm, kind)
    once = glm.in_variables(first)
    second = change(once, "mixed", 9)
    twice = once.in_variables(second)
    y = np.linspace(-0.3, 0.3, glm.dimension)
    assert twice.objective(y) == pytest.approx(glm.objective(first.to_x(second.to_x(y))), rel=1e-12)


def test_sparse_rows_stay_sparse_where_they_are_scaled() -> None:
    rng = np.random.default_rng(0)
    X = [sparse.random_array((20, 3000), density=0.01, rng=rng, format="csr") for _ in range(2)]
    glm = pdmm.GLM(X, [np.ones(20), np.zeros(20)])
    variables = change(glm, "scaled")
    other = glm.in_variables(variables)
    y = 0.01 * rng.standard_normal(glm.dimension)
    assert other.objective(y) == pytest.approx(glm.objective(variables.to_x(y)), rel=1e-12)
    held = sum(sparse.issparse(A) for A in other._A)
    assert held == 2


@pytest.mark.parametrize("family", ["poisson", "multinomial"])
def test_a_run_in_other_variables_ends_at_the_same_x(family: str) -> None:
    glm = problem(family, table(family, (40, 50)))
    variables = change(glm, "mixed")
    other = glm.in_variables(variables)
    there = pdmm.solve(other, pdmm.PDMM(), rounds=150)
    here = pdmm.solve(glm, pdmm.PDMM(), rounds=150)
    np.testing.assert_allclose(variables.to_x(there.x), here.x, atol=1e-5)
