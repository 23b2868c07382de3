"""Regularisers of one's own: what is enough, and how a missing piece is named."""

from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.regularisers import Pieces, Separable


class Bare(pdmm.Regulariser):
    """c ‖x‖, with no more than it must have."""

    def value(self, x: Any) -> float:
        return 3.0 * float(np.linalg.norm(x))

    def prox(self, v: Any, t: float) -> Any:
        length = max(float(np.linalg.norm(v)), 3 * t)
        return v * (1 - 3 * t / length)


class Net(Separable):
    """An elastic net that says only what it is made of."""

    @property
    def pieces(self) -> Pieces:
        return Pieces(l1=0.7, l2=0.4)


v = np.array([1.0, -2.0, 0.1])
w = np.array([0.5, 0.2, 0.3])


def test_value_and_prox_are_enough_for_a_run() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 20, 4))
    b = rng.normal(size=(3, 20))
    problem = pdmm.LeastSquares(A, b)
    result = pdmm.solve(problem, pdmm.PDMM(20.0), 80, regulariser=Bare())
    x = result.x
    rest = A.reshape(-1, 4).T @ (A.reshape(-1, 4) @ x - b.ravel())
    np.testing.assert_allclose(rest, -3 * x / np.linalg.norm(x), atol=1e-6)
    assert result.certificate.gap is None


def test_a_missing_prox_in_is_named() -> None:
    h = Bare()
    np.testing.assert_array_equal(h.prox_in(v, np.full(3, 4.0)), h.prox(v, 0.25))
    wanted = r"need prox_in\(v, P\) of the regulariser, which Bare does not define.*'none'"
    for call in (
        h.check_metric,
        lambda: h.prox_in(v, np.array([1.0, 2.0, 3.0])),
        lambda: h.prox_in(v, np.eye(3)),
    ):
        with pytest.raises(ValueError, match=wanted):
            call()
    pdmm.Box(0, 1).check_metric()


def test_what_the_others_are_without_being_written() -> None:
    h = Bare()
    assert h.divergence(v, w, v) == h.value(v) - h.value(w) - float(v @ (v - w))
    assert h.subgradient(v, w) is None
    assert h.subgradient_in(v, w, np.eye(3)) is None
    assert h.strong_convexity == 0
    assert h.for_problem(3, np.array([2])) is h
    assert h.kinked
    np.testing.assert_array_equal(h.quadratic(3), np.zeros(3))


def test_pieces_are_enough_for_everything() -> None:
    own = Net()
    net = pdmm.ElasticNet(0.7, 0.4)
    x = np.array([1.0, 0.0, -3.0])
    assert own.value(x) == pytest.approx(net.value(x))
    assert own.divergence(x, v, w) == pytest.approx(net.divergence(x, v, w))
    np.testing.assert_array_equal(own.prox(v, 0.2), net.prox(v, 0.2))
    np.testing.assert_array_equal(own.subgradient(x, w), net.subgradient(x, w))
    assert own.strong_convexity == 0.4
    own.check_metric()
    problem = pdmm.LeastSquares.random(clients=3, samples=20, features=4, seed=1)
    result = pdmm.solve(problem, regulariser=own, tolerance=1e-6)
    assert result.reason.startswith("certified")


def test_pieces_of_another_dimension_are_refused() -> None:
    class Uneven(Separable):
        @property
        def pieces(self) -> Pieces:
            return Pieces(lo=np.zeros(3))

    with pytest.raises(ValueError, match=r"Uneven's lo must be a number or have shape \(4,\)"):
        Uneven().for_problem(4)


def test_a_class_without_prox_is_refused_by_name() -> None:
    class Half(pdmm.Regulariser):
        def value(self, x: Any) -> float:
            return 0.0

    with pytest.raises(TypeError, match=r"Half.*prox"):
        Half()  # type: ignore[abstract]
