"""Runs with a regulariser: their objective, their gap, their box."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.runs import METHODS, PROBLEMS, REGULARISED, Array, rows_of, tall

SHRINKAGE: list[pdmm.Regulariser] = [pdmm.L1(1.5), pdmm.SquaredL2(2.0), pdmm.Box(-0.1, 0.2)]


@pytest.mark.parametrize("name", REGULARISED)
@pytest.mark.parametrize("h", SHRINKAGE, ids=lambda h: type(h).__name__)
@pytest.mark.parametrize("kind", ["list", "softmax", "functions"])
def test_objective_includes_the_regulariser(name: str, h: pdmm.Regulariser, kind: str) -> None:
    problem = PROBLEMS[kind]()
    seen: list[Array] = []
    result = pdmm.solve(
        problem, METHODS[name], rounds=4, regulariser=h, callback=lambda r, x: seen.append(x)
    )
    for x, objective in zip(seen, result.history["objective"][1:], strict=True):
        smooth = float(sum(problem.at(slice(i, i + 1)).value(x)[0] for i in range(problem.clients)))
        assert np.isfinite(objective)
        assert objective == pytest.approx(smooth + h.value(x), rel=1e-12)
    known = kind == "list" and isinstance(h, pdmm.SquaredL2)
    assert ("gap" in result.history) == known


def test_gap_with_a_regulariser_and_a_given_minimiser() -> None:
    problem = pdmm.LeastSquares(*rows_of([12] * 6))
    method = pdmm.AGPDMM(0.02, 5, rho=30.0)
    for h in (pdmm.L1(8.0), pdmm.Box(-0.05, 0.05), pdmm.SquaredL2(3.0)):
        x_star = pdmm.solve(problem, method, 600, regulariser=h, record_every=600).x
        result = pdmm.solve(problem, method, rounds=150, regulariser=h, optimum=x_star)
        gap = result.history["gap"]
        assert result.optimum is not None
        np.testing.assert_allclose(
            gap[1:4], result.history["objective"][1:4] - result.optimum, rtol=1e-8, atol=1e-12
        )
        assert abs(gap[-1]) < 1e-17, h
        if not isinstance(h, pdmm.SquaredL2):
            # Some entries stand where the regulariser has a kink or an edge.
            assert np.isin(x_star, [0.0, -0.05, 0.05]).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_box_in_any_precision_keeps_its_objective_finite(dtype: Any) -> None:
    box = pdmm.Box(-0.1, np.array([0.1, 0.2, 0.3, 1e-3]))
    for name in REGULARISED:
        result = pdmm.solve(tall(dtype), METHODS[name], rounds=5, regulariser=box)
        assert np.isfinite(result.history["objective"]).all()
        assert (result.x <= np.array([0.1, 0.2, 0.3, 1e-3]) * (1 + 1e-6)).all()


def test_a_float32_point_on_the_edge_of_a_box_is_inside_it() -> None:
    A = np.random.default_rng(0).standard_normal((3, 10, 4)).astype(np.float32)
    problem = pdmm.LeastSquares(A, (A @ np.ones(4, np.float32)))
    result = pdmm.solve(
        problem, pdmm.PDMM(10.0), 20, regulariser=pdmm.Box(-0.1, 0.1), optimum=np.full(4, 0.1)
    )
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.history["gap"][-1], 0, atol=1e-6)


def test_an_optimum_outside_the_box_is_refused() -> None:
    with pytest.raises(ValueError, match="optimum has the objective inf"):
        pdmm.solve(
            tall(),
            pdmm.PDMM(1.0),
            2,
            regulariser=pdmm.Box(-1, 1),
            optimum=np.full(tall().dimension, 9),
        )
