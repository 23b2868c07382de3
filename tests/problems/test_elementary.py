"""Quadratics, absolute values and zero: in ``pdmm.solve``, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.networks import positive_definite


@pytest.mark.parametrize("form", ["matrix", "diagonal", "number"])
@pytest.mark.parametrize("method", ["PDMM", "AGPDMM", "auto"])
def test_quadratics_in_solve(method: str, form: str) -> None:
    rng = np.random.default_rng(4)
    m, d = 6, 3
    H: Any = {
        "matrix": np.stack([positive_definite(rng, d) for _ in range(m)]),
        "diagonal": rng.uniform(0.5, 2, (m, d)),
        "number": 1.5,
    }[form]
    c = 4 * rng.standard_normal((m, d))
    problem = pdmm.Quadratic(H, c)
    total = m * H * np.eye(d) if form == "number" else H.sum(0)
    total = np.diag(total) if form == "diagonal" else total
    best = np.linalg.solve(total, c.sum(0))
    least = -0.5 * float(c.sum(0) @ best)
    assert least < 0
    if method == "auto":
        result = pdmm.solve(problem)
    else:
        chosen: Any = {"PDMM": pdmm.PDMM(1.0), "AGPDMM": pdmm.AGPDMM(0.1, 3)}[method]
        result = pdmm.solve(problem, chosen, 200)
    np.testing.assert_allclose(result.x, best, atol=1e-6)
    assert result.optimum == pytest.approx(least, rel=1e-10)
    assert problem.objective(best) == pytest.approx(least, rel=1e-10)
    assert result.history["gap"][0] == pytest.approx(-least, rel=1e-9)
    assert 0 <= result.history["gap"][-1] < 1e-10


def test_absolute_values_in_solve() -> None:
    a = np.random.default_rng(3).standard_normal((9, 2))
    result = pdmm.solve(pdmm.Absolute(a), pdmm.PDMM(1.0, 0.9), 1000)
    np.testing.assert_allclose(result.x, np.median(a, axis=0), atol=1e-9)
    least = float(np.abs(a - np.median(a, axis=0)).sum())
    assert pdmm.Absolute(a).objective(np.median(a, axis=0)) == pytest.approx(least)
    with pytest.raises(ValueError, match="Absolute has no smoothness"):
        pdmm.Absolute(a).smoothness()


def test_zero_in_solve() -> None:
    result = pdmm.solve(pdmm.Zero(3), pdmm.PDMM(1.0), 3, x0=[1.0, 2.0, 3.0])
    assert result.x.tolist() == [1.0, 2.0, 3.0]
    assert pdmm.Zero(3).objective([1.0, 2.0, 3.0]) == 0


@pytest.mark.parametrize(
    ("H", "c", "message"),
    [
        ([[1.0, 2.0], [0.0, 1.0]], [1.0, 1.0], "H is not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], [1.0, 1.0], "not convex"),
        ([1.0, -1.0], [1.0, 1.0], "not convex"),
        (-0.5, [1.0], "not convex"),
        (np.stack([np.eye(2), -np.eye(2)]), np.ones((2, 2)), r"H\[1\] \(client 1\)"),
        (np.stack([np.eye(2), [[1.0, 0.5], [0.0, 1.0]]]), np.ones((2, 2)), r"H\[1\]"),
        (
            np.ones((3, 3)),
            [1.0, 1.0],
            "H must be a number, a diagonal or a matrix",
        ),
        (np.nan, [1.0], "H"),
        (1.0, [np.nan], "c has nan"),
        (1.0, [], "c is empty"),
        (1.0, np.ones((1, 1, 1)), "c must be"),
        ("a", [1.0], "H"),
    ],
)
def test_quadratics_that_are_refused(H: Any, c: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.Quadratic(H, c)


def test_a_singular_quadratic_is_convex() -> None:
    v = np.random.default_rng(0).standard_normal((5, 2))
    pdmm.Quadratic(v @ v.T, np.ones(5))
    pdmm.Quadratic(0.0, [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.Absolute([]), "a is empty"),
        (lambda: pdmm.Absolute([np.inf]), "a has inf"),
        (lambda: pdmm.Absolute("a"), "a must hold"),
        (lambda: pdmm.Zero(0), "d must be"),
        (lambda: pdmm.Zero(1.5), "d must be"),  # type: ignore[arg-type]
    ],
)
def test_elementary_functions_that_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_one_matrix_or_diagonals_is_asked_for() -> None:
    H = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="may be one matrix or 3 diagonals"):
        pdmm.Quadratic(H, np.eye(3))
