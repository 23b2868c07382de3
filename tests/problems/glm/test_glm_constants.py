"""L and mu of generalised linear models."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from builders.glm import FAMILIES, HUBER, problem, table
from pdmm.common.variables import Mixed

SMOOTH = tuple(family for family in FAMILIES if family not in ("poisson", "gamma"))


def test_least_squares_is_exact() -> None:
    glm = problem("gaussian")
    H = glm.at(slice(0, 4)).hessian(np.zeros(4))
    L = glm.smoothness()
    mu = glm.strong_convexity()
    np.testing.assert_allclose(L.clients, np.linalg.eigvalsh(H)[:, -1], rtol=1e-9)
    np.testing.assert_allclose(mu.clients, np.linalg.eigvalsh(H)[:, 0].clip(0), atol=1e-9)
    weights = [1.0, 2.0, 3.0, 4.0]
    ends = np.linalg.eigvalsh(glm.hessian(np.zeros(4), weights))[[0, -1]]
    assert float(glm.strong_convexity(weights)) == pytest.approx(ends[0], rel=1e-9)
    assert float(glm.smoothness(weights)) == pytest.approx(ends[1], rel=1e-9)
    assert {L.kind, L.overall_kind, mu.kind, mu.overall_kind} == {"exact"}


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("family", SMOOTH, ids=str)
def test_bounds_are_never_below_a_curvature(family: Any, thin: bool) -> None:
    own = table(family)
    if thin:
        own = own._replace(X=[sparse.csr_array(X) for X in own.X])
    glm = problem(family, own)
    L = glm.smoothness()
    f = glm.at(slice(0, 4))
    for seed in range(10):
        x = np.random.default_rng(seed).standard_normal(glm.dimension) * seed / 3
        H = f.hessian(x)
        assert (np.linalg.eigvalsh(H)[:, -1] <= L.clients * (1 + 1e-9)).all()
        assert np.linalg.eigvalsh(H.sum(0))[-1] <= float(L) * (1 + 1e-9)
    assert L.kind in ("bound", "exact")


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_what_is_not_smooth_says_so(family: str) -> None:
    glm = problem(family)
    L = glm.smoothness()
    assert np.isinf(L.clients).all()
    assert float(L) == np.inf
    assert (L.kind, L.overall_kind) == ("unbounded", "unbounded")
    assert "F inf unbounded" in repr(L)
    assert np.isfinite(glm._constants("L", None).clients).all()  # what "auto" goes by


@pytest.mark.parametrize("family", ["poisson", "gamma", "binomial", "multinomial", "cox", HUBER])
def test_mu_is_a_bound_of_0(family: Any) -> None:
    mu = problem(family).strong_convexity()
    assert not mu.clients.any()
    assert (mu.kind, mu.overall_kind, float(mu)) == ("bound", "bound", 0.0)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_constants_of_other_variables_are_their_own(family: str) -> None:
    glm = problem(family)
    before = float(glm.smoothness())
    T = 2 * np.eye(glm.dimension)
    after = float(glm.in_variables(Mixed(np.zeros(glm.dimension), T)).smoothness())
    assert after == pytest.approx(4 * before, rel=1e-3)
