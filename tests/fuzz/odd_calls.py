"""The public constructors, each with right arguments; ``odd_values`` has what is odd instead."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pdmm
from builders import inputs as small
from fuzz.draws import Array

AG = pdmm.AGPDMM(0.05, 2)
Arguments = dict[str, tuple[str, Any]]  # by name: a kind of ``odd_values``, and a right value


@dataclass(frozen=True)
class Call:
    """A call, its right arguments, and the names that a message about them may use."""

    go: Callable[..., Any]
    arguments: Arguments
    names: frozenset[str]
    required: frozenset[str]
    """Those that cannot be left out."""


def call_of(target: Callable[..., Any], go: Callable[..., Any], **given: Any) -> Call:
    parameters = inspect.signature(target).parameters
    names = {name for name in parameters if name != "self"}
    required = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    others = {"method", "problem", "x0", "optimum", "checkpoint", "participation"}  # of the run
    return Call(go, given, frozenset(names | others), frozenset(required))


def x_of(result: Any) -> Array:
    """What a run ends with; nothing may be wrong that it does not say."""
    if isinstance(result, pdmm.Result):
        assert isinstance(result.reason, str)
        assert result.diverged or np.isfinite(result.x).all(), f"x is {result.x}, {result.reason}"
        return result.x
    assert isinstance(result, pdmm.NetworkResult)
    return np.asarray(result.x.flat)


def _solved(problem: pdmm.Problem, method: Any = AG, **settings: Any) -> Array:
    return x_of(pdmm.solve(problem, method, 3, threads=1, **settings))


def problems() -> dict[str, Call]:
    data: Any = ("arrays", [a.copy() for a in small.A])
    X = [np.eye(3), 2 * np.eye(3), np.ones((4, 3))]
    y = [np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([2, 1, 0, 1])]
    value = [lambda x, i=i: 0.5 * float(((x - i) ** 2).sum()) for i in range(3)]
    gradient = [lambda x, i=i: x - i for i in range(3)]
    prox = [lambda v, t, i=i: (v + t * i) / (1 + t) for i in range(3)]
    c = np.arange(6.0).reshape(3, 2)
    a = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]])
    absolute = pdmm.PDMM(1.0, 0.9)
    return {
        "LeastSquares": call_of(
            pdmm.LeastSquares,
            lambda **g: _solved(pdmm.LeastSquares(**g)),
            A=data,
            b=("arrays", [b.copy() for b in small.B]),
        ),
        "LeastSquares, auto": call_of(
            pdmm.LeastSquares,
            lambda **g: _solved(pdmm.LeastSquares(**g), None),
            A=data,
            b=("arrays", [b.copy() for b in small.B]),
        ),
        "LeastSquares.random": call_of(
            pdmm.LeastSquares.random,
            lambda **g: _solved(pdmm.LeastSquares.random(**g)),
            clients=("count", 3),
            samples=("count", 4),
            features=("count", 2),
            noise=("number", 0.5),
            seed=("count", 1),
            dtype=("thing", np.float64),
        ),
        "SoftmaxRegression": call_of(
            pdmm.SoftmaxRegression,
            lambda **g: _solved(pdmm.SoftmaxRegression(**g)),
            X=("arrays", X),
            y=("labels", y),
            classes=("count", 3),
            l2=("number", 0.1),
            batch_size=("count", 2),
        ),
        "Functions": call_of(
            pdmm.Functions,
            lambda **g: _solved(pdmm.Functions(**g)),
            value=("functions", value),
            gradient=("functions", gradient),
            dimension=("count", 2),
            prox=("functions", prox),
            smoothness=("number", 2.0),
            strong_convexity=("number", 0.5),
        ),
        "Functions, PDMM": call_of(
            pdmm.Functions,
            lambda **g: _solved(pdmm.Functions(**g), pdmm.PDMM()),
            value=("functions", value),
            gradient=("functions", gradient),
            dimension=("count", 2),
            prox=("functions", prox),
            smoothness=("array", np.full(3, 2.0)),
            strong_convexity=("array", np.full(3, 0.5)),
        ),
        "Quadratic": call_of(
            pdmm.Quadratic,
            lambda **g: _solved(pdmm.Quadratic(**g)),
            H=("array", np.stack([np.diag([1.0, 2.0])] * 3)),
            c=("array", c),
        ),
        "Quadratic of numbers": call_of(
            pdmm.Quadratic,
            lambda **g: _solved(pdmm.Quadratic(**g), None),
            H=("number", 2.0),
            c=("array", c),
        ),
        "Absolute": call_of(
            pdmm.Absolute, lambda **g: _solved(pdmm.Absolute(**g), absolute), a=("array", a)
        ),
        "Zero": call_of(pdmm.Zero, lambda **g: _solved(pdmm.Zero(**g)), d=("count", 2)),
        "Lazy": call_of(
            pdmm.Lazy,
            lambda **g: _solved(pdmm.Lazy(**g), participation=2),
            count=("count", 3),
            make_client=("thing", lambda i: pdmm.Quadratic(1.0, [float(i), 1.0])),
            evaluate=("thing", lambda x: 0.0),
            keep=("count", 2),
        ),
    }


def pieces() -> dict[str, Call]:
    def regularised(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **g: _solved(small.least_squares(), regulariser=make(**g))

    def method(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **g: _solved(small.least_squares(), make(**g))

    def lossy(make: Callable[..., Any], name: str) -> Callable[..., Any]:
        return lambda **g: _solved(small.least_squares(), **{name: make(**g)})

    rho: Any = ("number", 2.0)
    step: Any = ("number", 0.05)
    K: Any = ("count", 2)
    relaxed: Any = ("number", 0.9)
    methods: list[tuple[Any, Arguments]] = [
        (pdmm.PDMM, {"rho": rho, "relaxation": relaxed, "acceleration": ("word", "anderson")}),
        (pdmm.FedSplit, {"gamma": rho, "relaxation": relaxed}),
        (
            pdmm.InexactFedSplit,
            {"gamma": rho, "step_size": step, "local_steps": K, "start": ("word", "server")},
        ),
        (
            pdmm.GPDMM,
            {"step_size": step, "local_steps": K, "rho": rho, "iterate": ("word", "last")},
        ),
        (pdmm.AGPDMM, {"step_size": step, "local_steps": K, "rho": rho, "relaxation": relaxed}),
        (pdmm.Scaffold, {"step_size": step, "local_steps": K, "server_step": relaxed}),
        (pdmm.FedAvg, {"step_size": step, "local_steps": K}),
        (pdmm.GradientDescent, {"step_size": step}),
    ]
    chance: Any = ("number", 0.25)
    return {
        "L1": call_of(pdmm.L1, regularised(pdmm.L1), c=("number", 0.3)),
        "SquaredL2": call_of(pdmm.SquaredL2, regularised(pdmm.SquaredL2), c=("number", 0.3)),
        "Box": call_of(
            pdmm.Box,
            regularised(pdmm.Box),
            lo=("bounds", np.array([-1.0, -2.0, -3.0])),
            hi=("bounds", np.array([0.5, 1.0, 2.0])),
        ),
        "Box of numbers": call_of(
            pdmm.Box, regularised(pdmm.Box), lo=("number", -0.5), hi=("number", 0.25)
        ),
        "Bursts": call_of(
            pdmm.Bursts, lossy(pdmm.Bursts, "loss"), start=chance, end=chance, loss=chance
        ),
        "OnOff": call_of(pdmm.OnOff, lossy(pdmm.OnOff, "availability"), leave=chance, come=chance),
        **{make.__name__: call_of(make, method(make), **given) for make, given in methods},
    }
