"""A user's functions that fail: the error names the client and keeps its cause."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import Array, nan, quadratics
from pdmm.problems.minimise import minimise


class OwnError(Exception):
    """An error that only the user's code knows."""


def fails(x: Array) -> Any:
    raise OwnError("no data today")


ANY_METHOD: list[pdmm.Method] = [pdmm.AGPDMM(0.1, 2), pdmm.PDMM(1.0), pdmm.GradientDescent(0.1)]


@pytest.mark.parametrize("method", ANY_METHOD)
@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("name", ["value", "gradient"])
def test_a_function_that_raises(method: pdmm.Method, threads: int | None, name: str) -> None:
    problem = (
        quadratics(gradient={1: fails}) if name == "gradient" else quadratics(value={1: fails})
    )
    called: list[int] = []
    with pytest.raises(
        pdmm.ClientError, match=rf"{name}\[1\] \(client 1\) raised OwnError: no data today"
    ) as caught:
        pdmm.solve(problem, method, threads=threads, callback=lambda r, x: called.append(r))
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value.__cause__, OwnError)
    assert called == []


@pytest.mark.parametrize("method", ANY_METHOD)
@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (quadratics(gradient={2: lambda x: x[:1]}), r"gradient\[2\] \(client 2\).*\(2,\).*\(1,\)"),
        (quadratics(gradient={0: lambda x: x[None]}), r"gradient\[0\] \(client 0\).*\(1, 2\)"),
        (quadratics(gradient={0: lambda x: None}), r"gradient\[0\] \(client 0\) must return"),
        (quadratics(gradient={0: lambda x: "up"}), r"gradient\[0\] \(client 0\) must return"),
        (quadratics(value={1: lambda x: x}), r"value\[1\] \(client 1\) must return a number"),
        (quadratics(value={1: lambda x: None}), r"value\[1\] \(client 1\)"),
        (quadratics(value={1: lambda x: nan}), r"value\[1\] \(client 1\) is nan at the start"),
    ],
)
def test_a_function_that_returns_what_it_must_not(
    method: pdmm.Method, problem: pdmm.Functions, message: str
) -> None:
    called: list[int] = []
    with pytest.raises(ValueError, match=message):
        pdmm.solve(problem, method, callback=lambda r, x: called.append(r))
    assert called == []


@pytest.mark.parametrize("method", ANY_METHOD)
@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("how", ["shape", "raises"])
def test_a_function_that_fails_later(method: pdmm.Method, threads: int | None, how: str) -> None:
    rounds: list[int] = []

    def gradient(x: Array) -> Any:
        if len(rounds) < 3:
            return x - 1
        return fails(x) if how == "raises" else np.zeros(5)

    expected = r"raised OwnError" if how == "raises" else r"must return shape \(2,\), got .*\(5,\)"
    with pytest.raises(pdmm.ClientError, match=r"gradient\[1\] \(client 1\) " + expected) as caught:
        pdmm.solve(
            quadratics(gradient={1: gradient}),
            method,
            threads=threads,
            callback=lambda r, x: rounds.append(r),
        )
    assert rounds == [1, 2, 3]
    assert any("in round 4" in note for note in caught.value.__notes__)


def test_no_failure_inside_the_exact_step_is_swallowed() -> None:
    weights = np.linspace(1, 3, 4)

    def solve_failing_at(call: int) -> int:
        calls = 0

        def f(x: Array) -> tuple[float, Array]:
            nonlocal calls
            calls += 1
            if calls == call:
                raise pdmm.ClientError("gradient[0] (client 0) raised")
            t = weights * (x - 1)
            # A large constant hides the last decreases: Newton-Krylov has to take over.
            return 1e6 + float(np.logaddexp(t, -t).sum()), weights * np.tanh(t)

        solution = minimise(f, np.zeros(4), 1.0, np.zeros(4), 1e-10)
        assert call or solution.error <= 1e-10
        return solution.calls

    total = solve_failing_at(0)
    for call in range(1, total + 1):
        with pytest.raises(pdmm.ClientError):
            solve_failing_at(call)


def proximal(convention: Callable[[float], float]) -> pdmm.Functions:
    centres = [np.array([3.0, 4.0]), np.array([-1.0, 2.0])]

    def prox(c: Array) -> Callable[[Array, float], Array]:
        def step(v: Array, t: float) -> Array:
            s = convention(t)
            return np.asarray((v + s * c) / (1 + s))

        return step

    def value(c: Array) -> Callable[[Array], float]:
        return lambda x: 0.5 * float(((x - c) ** 2).sum())

    def gradient(c: Array) -> Callable[[Array], Array]:
        return lambda x: x - c

    return pdmm.Functions(
        [value(c) for c in centres],
        [gradient(c) for c in centres],
        dimension=2,
        prox=[prox(c) for c in centres],
    )


@pytest.mark.parametrize("rho", [0.2, 3.0, 50.0])
def test_a_prox_of_the_wrong_convention(rho: float) -> None:
    right = pdmm.solve(proximal(lambda t: t), pdmm.PDMM(rho), rounds=3)
    assert right.rounds == 3
    problem = proximal(lambda t: 1 / t)
    # Every time: a second try must not get past the check.
    for _ in range(3):
        with pytest.raises(pdmm.ClientError, match=r"prox\[0\] \(client 0\).*t = 1/rho"):
            pdmm.solve(problem, pdmm.PDMM(rho), rounds=3)


def test_a_prox_of_the_wrong_shape_or_that_raises() -> None:
    usual = proximal(lambda t: t)
    value, gradient = usual.functions["value"], usual.functions["gradient"]
    good = usual.functions["prox"][0]
    for bad, message in (
        (lambda v, t: v[:1], r"prox\[1\] \(client 1\) must return shape \(2,\)"),
        (lambda v, t: fails(v), r"prox\[1\] \(client 1\) raised OwnError"),
        (lambda v: v, r"prox\[1\] \(client 1\) raised TypeError"),
    ):
        problem = pdmm.Functions(value, gradient, 2, prox=[good, bad])  # type: ignore[list-item]
        with pytest.raises(pdmm.ClientError, match=message):
            pdmm.solve(problem, pdmm.FedSplit(2.0), rounds=2)


def test_a_prox_of_a_function_without_gradient_is_accepted() -> None:
    def distance(c: float) -> tuple[Callable[..., Any], ...]:
        return (
            lambda x: float(np.abs(x - c).sum()),
            lambda x: np.sign(x - c),
            lambda v, t: c + np.sign(v - c) * np.maximum(np.abs(v - c) - t, 0),
        )

    value, gradient, prox = zip(*map(distance, [-1.0, 0.5, 4.0]), strict=True)
    problem = pdmm.Functions(value, gradient, dimension=1, prox=prox)
    result = pdmm.solve(problem, pdmm.PDMM(1.0, relaxation=0.5), rounds=200)
    np.testing.assert_allclose(result.x, 0.5, atol=1e-9)
