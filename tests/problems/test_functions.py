"""A user's own functions: what is called, and what is known of them."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.formulas import (
    kkt_residual,
    numeric_gradient,
    whole,
)
from builders.own_functions import identity, own_functions, quadratics, square
from pdmm.common.threads import Threads
from pdmm.problems.block import Block

Array = npt.NDArray[Any]


def test_own_functions_value_and_gradient() -> None:
    problem, rng = own_functions(), np.random.default_rng(10)
    f = whole(problem)
    x, y = rng.standard_normal((3, 4)), rng.standard_normal(4)
    np.testing.assert_array_equal(f.value(x), [problem.value(i, x[i]) for i in range(3)])
    for i in range(3):
        slope = numeric_gradient(lambda p, i=i: problem.value(i, p), x[i])  # type: ignore[misc]
        np.testing.assert_allclose(f.gradient(x)[i], slope, atol=1e-8)
    np.testing.assert_array_equal(f.value(y), [problem.value(i, y) for i in range(3)])


def test_own_functions_may_spoil_their_argument() -> None:
    def spoil(x: Array) -> Array:
        x -= 1.0
        return x

    problem = pdmm.Functions([lambda x: 0.5 * float(spoil(x) @ x)], [spoil], 2)
    start = np.zeros(2)
    result = pdmm.solve(problem, pdmm.FedAvg(0.5, 1), rounds=60, x0=start)
    np.testing.assert_allclose(result.x, 1.0, atol=1e-12)
    np.testing.assert_array_equal(start, 0)


@pytest.mark.parametrize("rho", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("scale", [100.0, 1.0, 1e-8, 1e-12])
def test_prox_of_own_functions_reaches_its_tolerance(rho: float, scale: float) -> None:
    problem, rng = own_functions(), np.random.default_rng(9)
    anchor = rng.standard_normal((3, 4))
    near = whole(problem).prox(anchor, rho, anchor)
    f = whole(problem)
    x = f.prox(anchor, rho, near + scale * rng.standard_normal((3, 4)))
    assert f.tally.error <= Block.tolerance
    for i in range(3):
        slope = problem.gradient(i, x[i])
        assert kkt_residual(slope, x[i], anchor[i], rho) <= 1.01e-10


def test_own_prox_is_called_with_one_over_rho() -> None:
    seen: list[float] = []
    centre = np.array([1.0, -2.0])

    def prox(v: Array, t: float) -> Array:
        seen.append(t)
        return np.asarray((v + t * centre) / (1 + t))

    problem = pdmm.Functions(
        [lambda x: 0.5 * float(((x - centre) ** 2).sum())], [lambda x: x - centre], 2, [prox]
    )
    f = whole(problem)
    np.testing.assert_allclose(
        f.prox(np.array([[3.0, 4.0]]), 4.0, np.zeros(2)), [[2.6, 2.8]], atol=1e-15
    )
    assert seen == [0.25]
    assert (f.tally.exact, f.tally.gradients) == (1, 0)


# --- given constants --------------------------------------------------------------------------


def test_given_constants() -> None:
    H = [np.eye(2), 2 * np.eye(2)]
    problem = quadratics(H, smoothness=2.5, strong_convexity=np.array([0.5, 2.0]))
    L, mu = problem.smoothness([1.0, 3.0]), problem.strong_convexity([1.0, 3.0])
    np.testing.assert_array_equal(L.clients, [2.5, 2.5])
    np.testing.assert_array_equal(mu.clients, [0.5, 2.0])
    assert (L.overall, mu.overall) == (10.0, 6.5)
    assert (L.kind, mu.kind, L.overall_kind, mu.overall_kind) == (
        "given",
        "given",
        "bound",
        "bound",
    )
    # One alone bounds the estimate of the other.
    assert quadratics(H, strong_convexity=7).smoothness().clients.tolist() == [7, 7]
    assert quadratics(H, smoothness=[0.1, 8]).strong_convexity().clients[0] == 0.1
    assert quadratics(H, smoothness=[0.1, 8]).strong_convexity().kind == "estimate"


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"smoothness": 0}, "smoothness must be positive, got 0"),
        ({"smoothness": [1.0, -2.0]}, r"smoothness\[1\] \(client 1\) must be positive, got -2.0"),
        ({"smoothness": 1e308}, "smoothness must be from 1e-150 to"),
        ({"strong_convexity": 1e308}, "strong_convexity must be from 1e-150 to"),
        ({"smoothness": math.inf}, "smoothness must be finite, got inf"),
        ({"smoothness": "large"}, "smoothness must be a number, got 'large'"),
        ({"smoothness": True}, "smoothness must be a number, got True"),
        ({"smoothness": [1.0]}, "smoothness must be one number, or one for each of the 2 clients"),
        ({"smoothness": np.ones((2, 1))}, r"smoothness\[0\] \(client 0\) must be a number"),
        ({"strong_convexity": -1}, "strong_convexity must not be negative, got -1"),
        ({"strong_convexity": [0, math.nan]}, r"strong_convexity\[1\] \(client 1\) must be finite"),
        (
            {"smoothness": 2, "strong_convexity": [1, 3]},
            "strong_convexity of client 1 is 3, above its smoothness 2",
        ),
    ],
)
def test_bad_constants_are_refused(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quadratics([np.eye(2), np.eye(2)], **constants)


def test_copies_keep_their_constants() -> None:
    problem = pdmm.Functions([square] * 2, [identity] * 2, 3, smoothness=[1, 2])
    pdmm.solve(problem, pdmm.GradientDescent(0.1), rounds=5, x0=np.ones(3))
    problem.strong_convexity()
    for twin in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert twin.smoothness().clients.tolist() == [1, 2]
        assert twin.strong_convexity().overall == problem.strong_convexity().overall
        assert repr(twin.secants()) == repr(problem.secants())
        with Threads(1) as one:
            twin.prepare(1, 1, False, one)
        assert twin.secants() is None
        assert problem.secants() is not None
