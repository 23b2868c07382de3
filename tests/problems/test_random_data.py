"""The paper's random problem."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.formulas import whole
from builders.samples import DTYPES
from pdmm.common.threads import Threads

Array = npt.NDArray[Any]


def test_random_has_the_stated_statistics() -> None:
    problem = pdmm.LeastSquares.random(clients=4, samples=400, features=100, noise=0.5, seed=3)
    f, units = whole(problem), np.eye(100)
    # The curvature along e_j is ‖A_i e_j‖², whose mean over j is that of n squared normals.
    curvature = np.array([f.divergence(e, 0 * e) for e in units]) * 2
    assert curvature.mean() / 400 == pytest.approx(1, abs=0.02)
    result = pdmm.solve(problem, pdmm.GradientDescent(1e-4), rounds=1)
    assert result.optimum is not None
    assert np.sqrt(2 * result.optimum / (1600 - 100)) == pytest.approx(0.5, abs=0.03)
    clean = pdmm.LeastSquares.random(clients=4, samples=400, features=100, noise=0.0, seed=3)
    with Threads(1) as threads:
        y0 = clean.total(np.ones(4), threads).minimiser(0)
    assert y0 is not None
    assert y0.mean() == pytest.approx(0, abs=0.3)
    assert y0.std() == pytest.approx(1, abs=0.25)
    np.testing.assert_allclose(whole(clean).value(y0), 0, atol=1e-8)
    # A_i of mean 0: for v of ones, ‖A_i v‖² is n d, not n d².
    ones = np.ones(100)
    assert f.divergence(ones, 0 * ones).mean() * 2 / (400 * 100) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("features", [5, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_is_reproducible_client_by_client(features: int, dtype: Any) -> None:
    def make(clients: int, seed: int) -> pdmm.LeastSquares:
        return pdmm.LeastSquares.random(
            clients=clients, samples=10, features=features, seed=seed, dtype=dtype
        )

    few, many, again, other = make(2, 0), make(7, 0), make(7, 0), make(7, 1)
    assert few.dtype == dtype
    x = np.random.default_rng(0).standard_normal(features).astype(dtype)
    np.testing.assert_array_equal(whole(many).gradient(x)[:2], whole(few).gradient(x))
    np.testing.assert_array_equal(whole(many).value(x), whole(again).value(x))
    assert (whole(many).value(x) != whole(other).value(x)).all()
    assert len(np.unique(whole(many).value(x))) == 7
    assert whole(many).gradient(x).dtype == dtype


def test_random_in_float32_is_the_float64_problem_rounded() -> None:
    kinds = [
        pdmm.LeastSquares.random(clients=3, samples=10, features=5, dtype=kind) for kind in DTYPES
    ]
    gradients = [whole(p).gradient(np.ones(5, p.dtype)) for p in kinds]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)


def test_generated_data() -> None:
    for features, samples in ((10, 200), (150, 200), (30, 20), (30, 5)):
        for dtype in (np.float64, np.float32):
            problem = pdmm.LeastSquares.random(3, samples, features, dtype=dtype)
            f = problem.at(slice(None))
            unit: Array = np.eye(features, dtype=dtype)
            at_zero = f.gradient(np.zeros(features, dtype))
            H = np.array([f.gradient(e) - at_zero for e in unit])
            rtol = 1e-10 if dtype is np.float64 else 1e-4
            values = np.linalg.eigvalsh(H.transpose(1, 0, 2).astype(np.float64))
            np.testing.assert_allclose(problem.smoothness().clients, values[:, -1], rtol=rtol)
            low = values[:, 0] if samples >= features else np.zeros(3)
            np.testing.assert_allclose(
                problem.strong_convexity().clients, low, rtol=rtol, atol=rtol * values.max()
            )
