"""Masked entries are refused wherever arrays are given: NumPy would use what is below the mask."""

import re
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from builders.inputs import A, B, least_squares, softmax

Array = npt.NDArray[Any]
Y = [np.array([0, 1, 0]), np.array([1, 1, 0]), np.array([0, 1, 0, 1])]
AG = pdmm.AGPDMM(0.1, 2)


def masked(values: Any, at: Any = 1) -> Array:
    """The values with one entry masked, the second unless told."""
    array = np.ma.array(values, mask=np.zeros(np.shape(values), dtype=bool))
    array[np.unravel_index(at, array.shape)] = np.ma.masked
    return array


def functions(**replaced: Any) -> pdmm.Functions:
    usual: dict[str, Any] = {
        "value": [lambda x: float(x @ x) / 2] * 2,
        "gradient": [lambda x: x] * 2,
    }
    return pdmm.Functions(**usual | replaced, dimension=3)


def solve(**arguments: Any) -> pdmm.Result:
    return pdmm.solve(least_squares(), AG, 2, **arguments)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "A": (lambda: pdmm.LeastSquares([A[0], masked(A[1]), A[2]], B), r"A\[1\] \(client 1\)"),
    "rows of A": (
        lambda: pdmm.LeastSquares([A[0], [masked(row) for row in A[1]], A[2]], B),
        r"A\[1\] \(client 1\)",
    ),
    "A as one array": (
        lambda: pdmm.LeastSquares(masked(np.ones((2, 3, 3)), 11), np.ones((2, 3))),
        r"A\[1\] \(client 1\)",
    ),
    "b": (lambda: pdmm.LeastSquares(A, [B[0], B[1], masked(B[2])]), r"b\[2\] \(client 2\)"),
    "X": (lambda: pdmm.SoftmaxRegression([masked(A[0]), *A[1:]], Y, 2), r"X\[0\] \(client 0\)"),
    "y": (lambda: pdmm.SoftmaxRegression(A, [*Y[:2], masked(Y[2])], 2), r"y\[2\] \(client 2\)"),
    "y as one array": (
        lambda: pdmm.SoftmaxRegression(np.ones((2, 3, 1)), masked(np.eye(2, 3, dtype=int), 4), 2),
        r"y\[1\] \(client 1\)",
    ),
    "weights": (lambda: solve(weights=masked(np.ones(3))), r"weights .* position \(1,\)"),
    "x0": (lambda: solve(x0=masked(np.ones(3))), "x0"),
    "x0 in a list": (lambda: solve(x0=[0.0, np.ma.masked, 0.0]), "x0"),
    "optimum": (lambda: solve(optimum=masked(np.ones(3))), "optimum"),
    "a number as optimum": (lambda: solve(optimum=np.ma.masked), "optimum"),
    "participation": (lambda: solve(participation=masked([2, 1])), "participation"),
    "clients of a round": (
        lambda: solve(participation=[[0], masked([0, 1])]),
        "participation",
    ),
    "clients of a callable": (
        lambda: solve(participation=lambda r: masked([0, 1])),
        r"participation\(1\)",
    ),
    "availability": (lambda: solve(availability=masked(np.ones(3))), "availability"),
    "a table of availability": (
        lambda: solve(availability=masked(np.ones((2, 3), dtype=bool))),
        "availability",
    ),
    "local_steps": (lambda: solve(local_steps=masked([1, 2, 3])), "local_steps"),
    "lo": (lambda: pdmm.Box(masked(np.zeros(3)), 1.0), "Box's lo"),
    "hi": (lambda: pdmm.Box(0.0, np.ma.masked), "Box's hi"),
    "H": (lambda: pdmm.Quadratic(masked(np.ones((2, 3)), 4), np.ones((2, 3))), r"H .*\(1, 1\)"),
    "a number as H": (lambda: pdmm.Quadratic(np.ma.masked, np.ones(3)), "H"),
    "c": (lambda: pdmm.Quadratic(1.0, masked(np.ones((2, 3)))), "c"),
    "a": (lambda: pdmm.Absolute(masked(np.ones((2, 3)))), "a"),
    "smoothness": (lambda: functions(smoothness=masked(np.ones(2))), "smoothness"),
    "strong_convexity": (lambda: functions(strong_convexity=masked(np.ones(2))), "strong_conv"),
    "gradients": (
        lambda: pdmm.solve(functions(gradient=[lambda x: x, masked]), AG, 2),
        r"gradient\[1\] \(client 1\) returned masked",
    ),
    "values": (
        lambda: pdmm.solve(functions(value=[lambda x: np.ma.masked] * 2), AG, 2),
        r"value\[0\] \(client 0\) returned masked",
    ),
    "prox": (
        lambda: pdmm.solve(functions(prox=[lambda v, t: masked(v)] * 2), pdmm.PDMM(1.0), 2),
        r"prox\[0\] \(client 0\) returned masked",
    ),
    "x of an objective": (lambda: least_squares().objective(masked(np.ones(3))), "x"),
    "weights of L": (lambda: least_squares().smoothness(masked(np.ones(3))), "weights"),
    "X to predict": (
        lambda: softmax(np.float64).predict(np.zeros(12), masked(np.ones((2, 3)))),
        r"X .*\(0, 1\)",
    ),
    "x to predict with": (
        lambda: softmax(np.float64).predict(masked(np.zeros(12)), np.ones((2, 3))),
        "x",
    ),
    "labels to compare with": (
        lambda: softmax(np.float64).accuracy(np.zeros(12), np.ones((2, 3)), masked([0, 1])),
        "y",
    ),
    "x0 of a network": (
        lambda: pdmm.solve_network(
            pdmm.Network(nx.path_graph(3), least_squares()), x0=masked(np.ones((3, 3)))
        ),
        "x0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_masked_entries_are_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match="masked") as refusal:
        call()
    assert re.search(f"^{message}", str(refusal.value))


def test_a_masked_array_without_masked_entries_is_an_array() -> None:
    whole = [np.ma.array(matrix) for matrix in A]
    weights = np.ma.array(np.ones(3), mask=False)
    result = pdmm.solve(pdmm.LeastSquares(whole, B), AG, 3, weights=weights)
    np.testing.assert_array_equal(result.x, pdmm.solve(least_squares(), AG, 3).x)
