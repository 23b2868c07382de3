"""What the constants L and mu of all problems share."""

import math
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.own_functions import quadratics, rotated
from builders.samples import scaled_rows, two_labelled
from pdmm.problems.base import Problem


def every_kind() -> list[Problem]:
    A, b = scaled_rows([20, 30], 4)
    X, y = two_labelled(30, 4, 3)
    return [
        pdmm.LeastSquares(A, b),
        pdmm.SoftmaxRegression(X, y, 3, l2=0.1),
        quadratics([rotated(np.array([1.0, 2.0, 5.0])), rotated(np.array([2.0, 3.0, 4.0]), 1)]),
        quadratics([np.eye(2), 2 * np.eye(2)], smoothness=2.0, strong_convexity=[1.0, 2.0]),
    ]


@pytest.mark.parametrize("problem", every_kind(), ids=lambda p: type(p).__name__)
def test_constants_are_kept_and_depend_on_the_weights(problem: Problem) -> None:
    for ask in (problem.smoothness, problem.strong_convexity):
        first = ask()
        assert ask() is first
        np.testing.assert_array_equal(ask(np.ones(2)).clients, first.clients)
        doubled = ask([2.0, 2.0])
        assert doubled.overall == pytest.approx(2 * first.overall, rel=1e-9)
        np.testing.assert_array_equal(doubled.clients, first.clients)
        assert ask([2, 2]) is doubled
        assert first.seconds >= 0
        assert float(first) == first.overall
        with pytest.raises(ValueError, match="read-only"):
            first.clients[0] = 1
    L, mu = problem.smoothness([3.0, 0.1]), problem.strong_convexity([3.0, 0.1])
    assert (mu.clients >= 0).all()
    assert (mu.clients <= L.clients).all()
    assert 0 <= mu.overall <= L.overall <= 1.001 * (3.0 * L.clients[0] + 0.1 * L.clients[1])
    assert mu.overall >= (1 - 1e-9) * (3.0 * mu.clients[0] + 0.1 * mu.clients[1])


@pytest.mark.parametrize("problem", every_kind(), ids=lambda p: type(p).__name__)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"weights must have shape \(2,\), got shape \(1,\)"),
        ([1.0, 0.0], r"weights must be positive, but weights\[1\] \(client 1\) is 0.0"),
        ([-1.0, 1.0], r"weights\[0\] \(client 0\) is -1.0"),
        ([1.0, math.nan], "weights has nan"),
        ([1.0, 1j], "weights must be numbers"),
        (["a", "b"], "weights must be numbers"),
    ],
)
def test_bad_weights_are_refused(problem: Problem, weights: Any, message: str) -> None:
    for ask in (problem.smoothness, problem.strong_convexity):
        with pytest.raises(ValueError, match=message):
            ask(weights)


def test_constants_can_be_read() -> None:
    constants = pdmm.Constants(np.array([4100.0, np.nan, 7321.0]), 1.234e5, "exact", "bound", 0.021)
    assert repr(constants) == (
        "Constants(F 1.23e+05 bound, clients 4.1e+03 .. 7.32e+03 exact, 0.021 s)"
    )


@pytest.mark.parametrize("problem", every_kind(), ids=lambda p: type(p).__name__)
def test_constants_do_not_depend_on_the_number_of_threads(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdmm.common.threads.available", lambda: 1)
    one = [float(problem.smoothness()), float(problem.strong_convexity())]
    monkeypatch.setattr("pdmm.common.threads.available", lambda: 3)
    problem.__dict__.pop("_known_constants")
    problem.__dict__.get("_totals", {}).clear()
    assert [float(problem.smoothness()), float(problem.strong_convexity())] == one
