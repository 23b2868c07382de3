"""A regulariser of x in a run whose variables are scaled and centred."""

import numpy as np
import pytest
import scipy.sparse as sp

import pdmm
from pdmm.common.variables import Scaled
from pdmm.regularisers import Regulariser
from pdmm.regularisers.penalty import MovedPenalty

INTERCEPTS = np.array([4, 4, 4, 4, 4])


def scaled(rng: np.random.Generator) -> Scaled:
    means = np.append(rng.normal(size=4), 0.0)
    return Scaled(rng.normal(size=5), rng.uniform(0.1, 3.0, 5), means, INTERCEPTS)


@pytest.mark.parametrize(
    "h",
    [
        pdmm.SquaredL2(2.0).for_problem(5, INTERCEPTS),
        pdmm.L1(0.7).for_problem(5, INTERCEPTS),
        pdmm.Box([-0.1, 0, 0, 0, -np.inf], [0.1, 1, 1, 1, np.inf]),
        pdmm.L1([1.0, 1.0, 1.0, 1.0, 1.0]),
        pdmm.Box(-0.5, 0.5),
    ],
)
def test_the_proximal_step_is_optimal_in_y(h: Regulariser) -> None:
    rng = np.random.default_rng(1)
    variables = scaled(rng)
    prox = MovedPenalty(h, 3.0, variables)
    v = 3 * rng.normal(size=5)
    t = 0.4
    y = prox(v, t)
    x = prox.to_x(y)
    assert np.allclose(x, variables.to_x(y), rtol=1e-13)
    # 0 is a subgradient: weight/t (y - v) + T' s with s in the subdifferential of h at x
    wanted = -np.linalg.solve(variables.matrix().T, 3.0 / t * (y - v))
    found = h.subgradient(x, -wanted)
    assert found is not None
    assert np.allclose(found, wanted, atol=1e-11)


@pytest.mark.parametrize(
    "h", [pdmm.SquaredL2(1.0), pdmm.L1(0.1), pdmm.SquaredL2(np.ones(40_001)), pdmm.Box(-1.0, 1.0)]
)
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_long_x_with_a_regulariser_takes_no_matrix(h: Regulariser, participation: float) -> None:
    rng = np.random.default_rng(0)
    X = [sp.random(20, 40_000, 1e-3, format="csr", random_state=seed) for seed in (0, 1)]
    problem = pdmm.GLM(X, rng.integers(0, 2, size=(2, 20)))
    result = pdmm.solve(problem, regulariser=h, rounds=12, participation=participation)
    assert getattr(result.method, "metric", None) == "diagonal"
    assert result.history["objective"][-1] < result.history["objective"][0]
