"""Least squares to second order: Hessians, other variables, Newton's method and metrics."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

import pdmm
from builders.runs import rows_of
from pdmm.common.variables import Mixed, Scaled

Vector = npt.NDArray[np.float64]

T = np.triu(np.random.default_rng(4).standard_normal((4, 4))) + 2 * np.eye(4)
CENTRE = np.array([1.0, -2.0, 0.5, 3.0])
SAMPLES = [9, 3, 12, 2]


def given() -> pdmm.LeastSquares:
    return pdmm.LeastSquares(*rows_of(SAMPLES))


def of_sparse() -> pdmm.LeastSquares:
    A, b = rows_of(SAMPLES)
    return pdmm.LeastSquares([sparse.csr_array(a) for a in A], b)


def of_moments() -> pdmm.LeastSquares:
    return pdmm.LeastSquares.random(clients=4, samples=20, features=4, seed=3)


PROBLEMS = {"rows": given, "sparse": of_sparse, "moments": of_moments}


def sources(problem: pdmm.LeastSquares) -> list[Any]:
    """The blocks that a run works on, and those that values come from."""
    here = problem.at(slice(0, 4))
    return [here, problem.evaluator(problem).at(slice(0, 4))]


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_curvature_is_that_of_differences(make: Any) -> None:
    for block in sources(make()):
        H = block.hessian(CENTRE)
        steps = [block.gradient(CENTRE + e) - block.gradient(CENTRE) for e in np.eye(4)]
        np.testing.assert_allclose(H, np.stack(steps, axis=-1), rtol=1e-9, atol=1e-10)
        found = block.curvature(CENTRE, T)
        np.testing.assert_allclose(found.gradient, block.gradient(CENTRE) @ T, rtol=1e-10)
        np.testing.assert_allclose(found.hessian, T.T @ H @ T, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.value, block.value(CENTRE))
        assert (found.reach == 0).all()
        np.testing.assert_allclose(block.diagonal(CENTRE)[0], np.einsum("bdd->bd", H))


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_other_variables_are_the_same_functions(make: Any) -> None:
    problem = make()
    y = np.array([0.3, -0.2, 0.1, 1.0])
    scale = np.array([1.0, 10.0, 0.1, 2.0])
    for variables in (Mixed(CENTRE, T), Scaled(CENTRE, scale, np.zeros(4), None)):
        other = problem.in_variables(variables)
        x = variables.to_x(y)
        np.testing.assert_allclose(other.objective(y), problem.objective(x), rtol=1e-12)
        expected = variables.transposed(problem.at(slice(0, 4)).gradient(x))
        np.testing.assert_allclose(other.at(slice(0, 4)).gradient(y), expected, rtol=1e-9)


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("method", [pdmm.Newton(), pdmm.PDMM(metric="own")], ids=repr)
def test_hessians_solve_it_at_once(make: Any, method: pdmm.Method) -> None:
    result = pdmm.solve(make(), method, rounds=4)
    assert result.history["round"][1] <= 2
    gap = result.history["gap"]
    assert gap[-1] <= 1e-20 * gap[0]


def test_a_metric_with_losses_and_a_regulariser_is_exact() -> None:
    problem = given()
    h = pdmm.L1(1.0)
    best = pdmm.solve(problem, regulariser=h)
    method = pdmm.PDMM(metric="own")
    links: Any = {"participation": 0.6, "loss": 0.2, "seed": 1}
    result = pdmm.solve(problem, method, rounds=200, regulariser=h, **links)
    np.testing.assert_allclose(result.x, best.x, atol=1e-7)


def test_float32_data_take_curvature_too() -> None:
    A, b = rows_of(SAMPLES, dtype=np.float32)
    problem = pdmm.LeastSquares(A, b)
    best = pdmm.solve(given())
    for method in (pdmm.Newton(), pdmm.PDMM(metric="own")):
        result = pdmm.solve(problem, method, rounds=20)
        assert result.x.dtype == np.float32
        np.testing.assert_allclose(result.x, best.x, atol=1e-5)


def test_full_permission_takes_newton_and_auto_stays_with_vectors() -> None:
    problem = given()
    full = pdmm.solve(problem, curvature="full")
    assert isinstance(full.method, pdmm.Newton)
    assert full.certificate.gap is not None
    assert isinstance(pdmm.solve(problem).method, pdmm.PDMM)
    assert pdmm.solve(problem).method.curvature == "none"
