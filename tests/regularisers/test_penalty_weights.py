"""Weights of penalties, one for each entry of x: checks, intercepts, packing, bits of a number."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import inf, nan
from pdmm.common.packing import Arrays, pack, unpack

x = np.array([1.5, 0.0, -2.5, 0.3])
y = np.array([1.0, 0.5, -2.0, 0.0])
slope = np.array([0.2, -0.4, 3.0, 0.1])
MAKERS: list[Callable[[Any], pdmm.Regulariser]] = [
    pdmm.L1,
    pdmm.SquaredL2,
    lambda c: pdmm.ElasticNet(c, 2 * np.asarray(c) if np.ndim(c) else 2 * c),
]
HELD = [
    pdmm.L1(0.5),
    pdmm.L1([0.5, 0.0, 1.0, 2.0]),
    pdmm.SquaredL2(np.arange(4)),
    pdmm.ElasticNet(0.5, [0.5, 0.0, 1.0, 2.0]),
    pdmm.ElasticNet(l2=1.0),
]


@pytest.mark.parametrize("make", MAKERS)
def test_equal_weights_are_one_weight(make: Callable[[Any], pdmm.Regulariser]) -> None:
    one = make(0.7)
    each = make(np.full(4, 0.7))
    assert each.value(x) == pytest.approx(one.value(x), rel=1e-15)
    np.testing.assert_allclose(each.prox(x, 0.3), one.prox(x, 0.3), rtol=1e-15)
    np.testing.assert_array_equal(each.subgradient(x, slope), one.subgradient(x, slope))
    expected = pytest.approx(one.divergence(x, y, slope), rel=1e-14)
    assert each.divergence(x, y, slope) == expected
    assert each.strong_convexity == one.strong_convexity


@pytest.mark.parametrize("make", MAKERS)
def test_each_entry_has_its_own_weight(make: Callable[[Any], pdmm.Regulariser]) -> None:
    weights = [0.7, 0.1, 0.0, 2.0]
    h = make(weights)
    alone = [make(c) for c in weights]
    entries = [slice(j, j + 1) for j in range(4)]
    values = [one.value(x[j]) for one, j in zip(alone, entries, strict=True)]
    assert h.value(x) == pytest.approx(sum(values))
    prox = [one.prox(x[j], 0.3)[0] for one, j in zip(alone, entries, strict=True)]
    np.testing.assert_allclose(h.prox(x, 0.3), prox, rtol=1e-15)
    parts = [one.divergence(x[j], y[j], slope[j]) for one, j in zip(alone, entries, strict=True)]
    assert h.divergence(x, y, slope) == pytest.approx(sum(parts))
    assert h.strong_convexity == 0.0


def test_the_elastic_net_is_the_sum_of_its_parts() -> None:
    net = pdmm.ElasticNet(l1=0.7, l2=0.4)
    l1 = pdmm.L1(0.7)
    l2 = pdmm.SquaredL2(0.4)
    assert net.value(x) == l1.value(x) + l2.value(x)
    plain = net.value(x) - net.value(y) - float(slope @ (x - y))
    assert net.divergence(x, y, slope) == pytest.approx(plain)
    np.testing.assert_allclose(net.prox(x, 0.3), l2.prox(l1.prox(x, 0.3), 0.3))
    assert net.strong_convexity == 0.4
    assert net.kinked
    assert not pdmm.ElasticNet(l2=0.4).kinked
    np.testing.assert_array_equal(net.quadratic(3), [0.4, 0.4, 0.4])
    np.testing.assert_array_equal(l1.quadratic(2), [0.0, 0.0])
    # Near a minimiser whose entries keep their signs, only the square of the distance is left.
    near = y + 1e-12 * np.array([1.0, -1.0, 1.0, 0.0])
    at_y = net.subgradient(y, slope)
    assert at_y is not None
    expected = pytest.approx(0.2 * float((near - y) @ (near - y)), rel=1e-3)
    assert net.divergence(near, y, at_y) == expected


@pytest.mark.parametrize("make", MAKERS)
def test_a_number_spares_the_intercepts_and_a_vector_does_not(
    make: Callable[[Any], pdmm.Regulariser],
) -> None:
    intercepts = np.array([1, 3])
    spared = make(0.5).for_problem(4, intercepts)
    assert spared == make(np.array([0.5, 0.0, 0.5, 0.0]))
    assert spared.for_problem(4, intercepts) == spared
    assert make([0.5] * 4).for_problem(4, intercepts) == make([0.5] * 4)
    assert make(0.5).for_problem(4) == make(0.5)
    with pytest.raises(ValueError, match=r"of shape \(4,\).* got shape \(3,\)"):
        make([0.5] * 3).for_problem(4, intercepts)


def test_a_box_has_no_intercepts_to_spare() -> None:
    box = pdmm.Box(0.0, 1.0)
    assert box.for_problem(4, np.array([3])) is box


@pytest.mark.parametrize("h", HELD)
def test_packed_and_unpacked(h: pdmm.Regulariser) -> None:
    arrays: Arrays = {}
    text = json.dumps(pack(h, arrays, "h"))
    again = unpack(json.loads(text), arrays)
    assert again == h
    assert hash(again) == hash(h)
    assert again != pdmm.L1(0.123)


def test_a_checkpoint_keeps_weights(tmp_path: Path) -> None:
    problem = pdmm.LeastSquares.random(clients=3, samples=20, features=4, seed=1)
    h = pdmm.ElasticNet([1.0, 0.0, 50.0, 0.0], 2.0)
    method = pdmm.PDMM(20.0)
    whole = pdmm.solve(problem, method, 8, regulariser=h)
    file = tmp_path / "run"
    pdmm.solve(problem, method, 4, regulariser=h, checkpoint=file)
    np.testing.assert_array_equal(pdmm.resume(file, problem, rounds=8).x, whole.x)


@pytest.mark.parametrize(
    "h", [pdmm.SquaredL2([1.0, 0.0, 50.0, 0.0]), pdmm.ElasticNet([9.0, 0, 9, 0], 2.0)]
)
def test_a_run_with_weights_arrives(h: pdmm.Regulariser) -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 20, 4))
    b = rng.normal(size=(3, 20))
    result = pdmm.solve(pdmm.LeastSquares(A, b), regulariser=h, tolerance=1e-9)
    assert result.reason.startswith("certified")
    P = A.reshape(-1, 4).T @ A.reshape(-1, 4)
    v = np.linalg.solve(P, A.reshape(-1, 4).T @ b.ravel())
    np.testing.assert_allclose(result.x, h.prox_in(v, P), atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.L1([1.0, -2.0]), "L1's c must not be negative, but its entry 1 is -2.0"),
        (lambda: pdmm.L1([1.0, nan]), "L1's c has nan at position"),
        (lambda: pdmm.L1(np.ones((2, 2))), r"L1's c must be a number, or a vector .*\(2, 2\)"),
        (lambda: pdmm.SquaredL2([]), "SquaredL2's c must be a number, or a vector"),
        (lambda: pdmm.SquaredL2(["a", "b"]), "SquaredL2's c must be numbers"),
        (lambda: pdmm.ElasticNet(l1=-1.0), "ElasticNet's l1 must not be negative"),
        (lambda: pdmm.ElasticNet(l2=[inf, 1.0]), "ElasticNet's l2 has inf at position"),
        (lambda: pdmm.ElasticNet("1"), "ElasticNet's l1 must be a number"),
        (lambda: pdmm.ElasticNet(None), "ElasticNet's l1 must be a number"),
        (lambda: pdmm.ElasticNet(0.0, [1.0]).check(2), r"ElasticNet's l2 must be .*\(2,\)"),
    ],
)
def test_weights_that_make_no_sense(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_weights_are_a_copy_that_nobody_changes() -> None:
    given = np.ones(3)
    h = pdmm.L1(given)
    given[0] = 5.0
    assert isinstance(h.c, np.ndarray)
    assert h.c[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        h.c[0] = 5.0
