"""What users get wrong in a call of solve: every error names the argument."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import A, B, inf, least_squares, nan


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number"),
        ({"record_every": 0}, "record_every must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"weights": [1.0, 2.0]}, r"weights must have shape \(3,\), got shape \(2,\)"),
        ({"weights": 2.0}, r"weights must have shape \(3,\)"),
        ({"weights": [1.0, 0.0, 1.0]}, r"weights\[1\] \(client 1\) is 0"),
        ({"weights": [1.0, 1.0, -2.0]}, r"weights\[2\] \(client 2\) is -2"),
        ({"weights": [1.0, nan, 1.0]}, "weights has nan"),
        ({"weights": ["a", "b", "c"]}, "weights must be numbers"),
        ({"x0": np.zeros(4)}, r"x0 must have shape \(3,\), got shape \(4,\)"),
        ({"x0": np.zeros((3, 1))}, r"x0 must have shape \(3,\)"),
        ({"x0": 0.0}, r"x0 must have shape \(3,\)"),
        ({"x0": [0.0, inf, 0.0]}, "x0 has inf"),
        ({"x0": [None] * 3}, "x0"),
        ({"x0": "abc"}, "x0 must be numbers"),
        ({"optimum": np.zeros(2)}, r"optimum must have shape \(3,\)"),
        ({"optimum": nan}, "optimum has nan"),
        ({"optimum": "low"}, "optimum must be numbers"),
        ({"regulariser": 0.1}, "regulariser must be"),
        ({"regulariser": pdmm.L1}, "regulariser must be"),
        ({"regulariser": pdmm.Box(np.zeros(2), 1.0)}, r"lo must be .*\(3,\), got shape \(2,\)"),
        ({"regulariser": pdmm.Box(0.0, np.ones(4))}, r"hi must be .*\(3,\), got shape \(4,\)"),
    ],
)
def test_solve_arguments(arguments: dict[str, Any], message: str) -> None:
    called: list[int] = []
    usual: dict[str, Any] = {"rounds": 3, "callback": lambda r, x: called.append(r)}
    with pytest.raises(ValueError, match=message):
        pdmm.solve(
            least_squares(),
            pdmm.AGPDMM(0.1, 2),
            **usual | arguments,
        )
    assert called == []


def test_solve_needs_a_problem_and_a_method() -> None:
    method: Any = pdmm.AGPDMM
    with pytest.raises(ValueError, match="method must be a pdmm method"):
        pdmm.solve(least_squares(), method)
    problem: Any = (A, B)
    with pytest.raises(ValueError, match="problem must be a pdmm problem"):
        pdmm.solve(problem, pdmm.PDMM(1.0))
    swapped: Any = pdmm.PDMM(1.0)
    with pytest.raises(ValueError, match="problem must be a pdmm problem"):
        pdmm.solve(swapped, swapped)


@pytest.mark.parametrize("method", [pdmm.FedAvg(0.1, 2), pdmm.Scaffold(0.1, 2)])
@pytest.mark.parametrize("h", [pdmm.L1(0.1), pdmm.SquaredL2(0.1), pdmm.Box(0, 1)])
def test_methods_without_a_regulariser_say_why(method: pdmm.Method, h: Any) -> None:
    name = type(method).__name__
    with pytest.raises(ValueError, match=f"{name} takes no regulariser: .*AGPDMM"):
        pdmm.solve(least_squares(), method, regulariser=h)
