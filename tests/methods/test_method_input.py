"""Parameters that no method can have: every error names the argument."""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import inf, least_squares, nan

GRADIENT_METHODS: list[Callable[..., pdmm.Method]] = [
    pdmm.GPDMM,
    pdmm.AGPDMM,
    pdmm.Scaffold,
    pdmm.FedAvg,
    lambda **given: pdmm.InexactFedSplit(gamma=1.0, **given),
]
NOT_POSITIVE = [0, 0.0, -1.0, nan, inf, "1", None, True, 1j]
NOT_COUNTS = [0, -1, 1.0, nan, "1", None, True]
FAMILY: list[Callable[..., pdmm.Method]] = [
    lambda **given: pdmm.PDMM(1.0, **given),
    lambda **given: pdmm.FedSplit(1.0, **given),
    lambda **given: pdmm.InexactFedSplit(1.0, 0.1, 2, **given),
    lambda **given: pdmm.GPDMM(0.1, 2, **given),
    lambda **given: pdmm.AGPDMM(0.1, 2, **given),
]


@pytest.mark.parametrize("make", GRADIENT_METHODS)
def test_step_size_and_local_steps(make: Callable[..., pdmm.Method]) -> None:
    for bad in NOT_POSITIVE:
        with pytest.raises(ValueError, match=r"step_size must be .*got " + re.escape(repr(bad))):
            make(step_size=bad, local_steps=2)
    for bad in NOT_COUNTS:
        with pytest.raises(ValueError, match=r"local_steps must be .*got " + re.escape(repr(bad))):
            make(step_size=0.1, local_steps=bad)


@pytest.mark.parametrize("bad", [5e-324, 1e-300, 1e308, np.ma.masked])
def test_numbers_of_absurd_size_and_masked_ones(bad: Any) -> None:
    """They would divide by zero or overflow in the middle of a run."""
    makers: list[tuple[str, Callable[[Any], Any]]] = [
        ("rho", pdmm.PDMM),
        ("gamma", pdmm.FedSplit),
        ("gamma", pdmm.InexactFedSplit),
        ("step_size", pdmm.GradientDescent),
        ("step_size", pdmm.FedAvg),
        ("step_size", pdmm.GPDMM),
        ("rho", lambda rho: pdmm.AGPDMM(0.1, 2, rho=rho)),
        ("server_step", lambda step: pdmm.Scaffold(0.1, 2, server_step=step)),
    ]
    for name, make in makers:
        with pytest.raises(ValueError, match=f"{name} (must be from 1e-150|has a masked entry)"):
            make(bad)
    with pytest.raises(ValueError, match="local_steps has a masked entry"):
        pdmm.FedAvg(0.1, np.ma.masked)  # type: ignore[arg-type]


@pytest.mark.parametrize("edge", [1e-150, 1e150])
def test_the_largest_and_the_smallest_run(edge: float) -> None:
    """Whatever they do to x: nothing divides by zero."""
    problem = least_squares()
    for method in (pdmm.GPDMM(edge), pdmm.AGPDMM(rho=edge), pdmm.InexactFedSplit(edge)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "step_size|pdmm|the run|it has|AGPDMM|GPDMM")
            assert pdmm.solve(problem, method, 3).reason


@pytest.mark.parametrize("bad", NOT_POSITIVE)
def test_penalties_and_other_steps(bad: Any) -> None:
    makers: list[tuple[str, Callable[[Any], Any]]] = [
        ("rho", pdmm.PDMM),
        ("gamma", pdmm.FedSplit),
        ("gamma", lambda gamma: pdmm.InexactFedSplit(gamma, 0.1, 2)),
        ("step_size", pdmm.GradientDescent),
        ("server_step", lambda step: pdmm.Scaffold(0.1, 2, server_step=step)),
    ]
    if bad is not None:
        makers += [
            ("rho", lambda rho: pdmm.GPDMM(0.1, 2, rho=rho)),
            ("rho", lambda rho: pdmm.AGPDMM(0.1, 2, rho=rho)),
        ]
    for name, make in makers:
        with pytest.raises(ValueError, match=f"{name} must be"):
            make(bad)


@pytest.mark.parametrize("make", FAMILY)
@pytest.mark.parametrize("bad", [0, -0.5, 1.0001, nan, "half", True])
def test_relaxation(make: Callable[..., pdmm.Method], bad: Any) -> None:
    with pytest.raises(ValueError, match="relaxation must be"):
        make(relaxation=bad)


def test_words_among_the_arguments() -> None:
    with pytest.raises(ValueError, match="iterate must be 'mean' or 'last', got 'best'"):
        pdmm.GPDMM(0.1, 2, iterate="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start must be 'anchor' or 'server', got 'zero'"):
        pdmm.InexactFedSplit(1.0, 0.1, 2, start="zero")  # type: ignore[arg-type]
