"""Data that make no problem: every error names the argument, and the client where there is one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import A, Array, B, inf, nan

X = [np.eye(3), 2 * np.eye(3), np.ones((4, 3))]
Y = [np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([2, 1, 0, 1])]


def with_client(arrays: list[Array], i: int, new: Any) -> list[Any]:
    return [*arrays[:i], new, *arrays[i + 1 :]]


def with_entry(arrays: list[Array], i: int, where: Any, entry: float) -> list[Array]:
    changed = arrays[i].copy()
    changed[where] = entry
    return with_client(arrays, i, changed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.LeastSquares([], []), "A is empty"),
        (lambda: pdmm.LeastSquares(np.array(None), B), "A must be a list of arrays"),
        (lambda: pdmm.LeastSquares(A, np.array(None)), "b must be a list of arrays"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, np.ones((0, 3))), B), r"A\[1\] \(client 1\)"),
        (lambda: pdmm.LeastSquares(A, with_client(B, 2, np.ones(0))), r"b\[2\] \(client 2\)"),
        (lambda: pdmm.LeastSquares(np.ones((3, 0, 2)), np.ones((3, 0))), r"A has shape"),
        (lambda: pdmm.LeastSquares(A, B[:2]), "A has 3 clients and b has 2"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, np.eye(4)), B), r"A\[1\] \(client 1\).*4"),
        (lambda: pdmm.LeastSquares(A, with_client(B, 2, np.ones(3))), r"A\[2\] \(client 2\).*b\[2"),
        (lambda: pdmm.LeastSquares(np.ones((2, 4, 3)), np.ones((2, 5))), r"A\[0\].*4.*b\[0\].*5"),
        (
            lambda: pdmm.LeastSquares(with_client(A, 1, np.ones(3)), B),
            r"A\[1\] \(client 1\).*2 dim",
        ),
        (lambda: pdmm.LeastSquares(A, with_client(B, 0, np.eye(3))), r"b\[0\] \(client 0\).*1 dim"),
        (lambda: pdmm.LeastSquares(np.eye(3), np.ones(3)), "A as one array must have 3 dim"),
        (lambda: pdmm.LeastSquares("AAA", B), "A must be a list"),
        (lambda: pdmm.LeastSquares(3, B), "A must be a list.*int"),
        (lambda: pdmm.LeastSquares(A, None), "b must be a list"),
        (
            lambda: pdmm.LeastSquares(with_client(A, 2, A[2].astype(np.float32)), B),
            r"A\[2\] \(client 2\) is float32.*float64",
        ),
        (
            lambda: pdmm.LeastSquares(A, with_client(B, 1, B[1].astype(np.float32))),
            r"b\[1\] \(client 1\) is float32.*float64",
        ),
        (lambda: pdmm.LeastSquares(with_client(A, 0, 1j * A[0]), B), r"A\[0\].*complex"),
        (lambda: pdmm.LeastSquares(with_client(A, 0, A[0].astype("f2")), B), r"A\[0\].*float16"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, [["a"] * 3] * 3), B), r"A\[1\] \(client 1\)"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, [[1.0], [1.0, 2.0]]), B), r"A\[1\].*client 1"),
        (
            lambda: pdmm.LeastSquares(with_entry(A, 1, (2, 0), nan), B),
            r"A\[1\] \(client 1\) has nan at position \(2, 0\)",
        ),
        (
            lambda: pdmm.LeastSquares(A, with_entry(B, 2, 3, -inf)),
            r"b\[2\] \(client 2\) has -inf at position \(3,\)",
        ),
        (
            lambda: pdmm.LeastSquares(np.stack(with_entry(A[:2], 1, (0, 1), inf)), np.ones((2, 3))),
            r"A\[1\] \(client 1\) has inf at position \(0, 1\)",
        ),
        (
            lambda: pdmm.LeastSquares(np.ones((2, 2, 3)), np.array([[1.0, 1.0], [nan, 1.0]])),
            r"b\[1\] \(client 1\) has nan",
        ),
    ],
)
def test_least_squares_data(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_infinities_that_cancel_are_found() -> None:
    bad = A[0].copy()
    bad[0, 0], bad[1, 1] = inf, -inf
    with pytest.raises(ValueError, match=r"A\[0\] \(client 0\) has inf at position \(0, 0\)"):
        pdmm.LeastSquares(with_client(A, 0, bad), B)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "clients must be at least 1"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"features": 1.5}, "features must be a whole number"),
        ({"noise": -0.1}, "noise must not be negative"),
        ({"noise": nan}, "noise must be finite"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"dtype": np.int64}, "dtype must be float32 or float64"),
    ],
)
def test_random_least_squares(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.LeastSquares.random(**({"clients": 2, "samples": 5, "features": 2} | arguments))


@pytest.mark.parametrize(
    ("X_", "Y_", "arguments", "message"),
    [
        ([], [], {}, "X is empty"),
        (with_client(X, 1, np.ones((0, 3))), Y, {}, r"X\[1\] \(client 1\) is empty"),
        (X, Y[:2], {}, "X has 3 clients and y has 2"),
        (X, None, {}, "y must be a list"),
        (with_client(X, 2, np.ones((4, 2))), Y, {}, r"X\[2\] \(client 2\) has 2 columns.*3"),
        (X, with_client(Y, 1, Y[1][:2]), {}, r"y\[1\] \(client 1\) has shape \(2,\).*3 rows"),
        (X, with_client(Y, 1, np.eye(3, dtype=int)), {}, r"y\[1\] \(client 1\) has shape"),
        (with_client(X, 1, X[1].astype("f4")), Y, {}, r"X\[1\] \(client 1\) is float32"),
        (with_entry(X, 2, (3, 1), nan), Y, {}, r"X\[2\] \(client 2\) has nan"),
        (with_entry(X, 0, (1, 1), inf), Y, {}, r"X\[0\] \(client 0\) has inf"),
        (X, with_client(Y, 1, np.array([0, 3, 1])), {}, r"y\[1\] \(client 1\).*label 3.*0 .. 2"),
        (X, with_client(Y, 0, np.array([0, -1, 1])), {}, r"y\[0\] \(client 0\).*label -1"),
        (X, with_client(Y, 2, np.ones(4)), {}, r"y\[2\] \(client 2\).*whole numbers.*float64"),
        (X, with_client(Y, 2, np.array([0, nan, 1, 1])), {}, r"y\[2\] \(client 2\)"),
        (X, Y, {"classes": 1}, "classes must be at least 2"),
        (X, Y, {"classes": 3.0}, "classes must be a whole number"),
        (X, Y, {"l2": -1.0}, "l2 must not be negative"),
        (X, Y, {"l2": nan}, "l2 must be finite"),
        (X, Y, {"batch_size": 0}, "batch_size must be at least 1"),
        (X, Y, {"batch_size": 2.0}, "batch_size must be a whole number"),
        (X[::-1], Y[::-1], {"batch_size": 4}, "batch_size is 4, but client 1 has only 3 samples"),
    ],
)
def test_softmax_data(X_: Any, Y_: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.SoftmaxRegression(X_, Y_, **({"classes": 3} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": []}, "gradient has 2 functions and value has 0|value is empty"),
        ({"value": [], "gradient": []}, "value is empty"),
        ({"gradient": [np.negative]}, "gradient has 1 functions and value has 2"),
        ({"prox": [np.maximum]}, "prox has 1 functions and value has 2"),
        ({"value": np.sum}, "value must be a list of functions"),
        ({"gradient": [np.negative, 3]}, r"gradient\[1\] \(client 1\) is not callable"),
        ({"prox": [None, np.maximum]}, r"prox\[0\] \(client 0\) is not callable"),
        ({"dimension": 0}, "dimension must be at least 1"),
        ({"dimension": 2.0}, "dimension must be a whole number"),
    ],
)
def test_own_functions(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {
        "value": [np.sum, np.sum],
        "gradient": [np.ones_like, np.ones_like],
        "dimension": 2,
    }
    with pytest.raises(ValueError, match=message):
        pdmm.Functions(**(usual | arguments))


# --- dicts of sites, and targets as columns -----------------------------------------------------

SITES = ["north", "south", "west"]


def by_site(values: list[Any], order: list[str] | None = None) -> dict[str, Any]:
    named = dict(zip(SITES, values, strict=True))
    return {site: named[site] for site in order or SITES}


def test_a_dict_of_sites_is_a_list_in_the_order_of_the_first() -> None:
    expected = pdmm.solve(pdmm.LeastSquares(A, B), pdmm.PDMM(1.0), 5).x
    other = ["west", "north", "south"]
    for b in (by_site(B), by_site(B, other)):
        problem = pdmm.LeastSquares(by_site(A), b)
        np.testing.assert_array_equal(pdmm.solve(problem, pdmm.PDMM(1.0), 5).x, expected)
    turned = pdmm.LeastSquares(by_site(A, other), by_site(B))
    np.testing.assert_array_equal(turned.samples, [4, 3, 3])
    softmax = pdmm.SoftmaxRegression(by_site(X), by_site(Y, other), 3)
    plain = pdmm.SoftmaxRegression(X, Y, 3)
    x = np.linspace(-1, 1, 12)
    np.testing.assert_array_equal(softmax.client(2).gradient(x), plain.client(2).gradient(x))
    assert softmax.accuracy(x, by_site(X, other), by_site(Y)) == plain.accuracy(x)


@pytest.mark.parametrize(
    ("A_", "b", "message"),
    [
        (by_site(A), B, "A is a dict and b is not"),
        (A, by_site(B), "b is a dict and A is not"),
        ({**by_site(A), "east": A[0]}, by_site(B), "A has the key 'east', which b has not"),
        (by_site(A), {**by_site(B), "east": B[0]}, "b has the key 'east', which A has not"),
        ({}, {}, "A is empty"),
        (by_site(with_entry(A, 1, (0, 0), nan)), by_site(B), r"A\['south'\] \(client 1\) has nan"),
        (by_site(A), by_site(with_client(B, 2, np.ones(3))), r"A\['west'\] .* b\['west'\]"),
    ],
)
def test_dicts_that_do_not_go_together(A_: Any, b: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.LeastSquares(A_, b)


def test_targets_may_be_columns() -> None:
    expected = pdmm.solve(pdmm.LeastSquares(A, B), pdmm.PDMM(1.0), 5).x
    columns = pdmm.LeastSquares(A, [[[entry] for entry in b] for b in B])
    np.testing.assert_array_equal(pdmm.solve(columns, pdmm.PDMM(1.0), 5).x, expected)
    stacked = pdmm.LeastSquares(np.ones((2, 4, 3)), np.ones((2, 4, 1)))
    assert pdmm.solve(stacked, pdmm.PDMM(1.0), 5).optimum == 0
    with pytest.raises(ValueError, match=r"b\[0\] \(client 0\).*1 dim.*\(1, 3\)"):
        pdmm.LeastSquares(A, with_client(B, 0, B[0][None]))
