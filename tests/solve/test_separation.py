"""Outcomes that are separated: proven where all are, recognised where some are, never certified."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm

Array = npt.NDArray[Any]


def shared(X: Array, y: Array, clients: int = 3) -> tuple[list[Array], list[Array]]:
    return [X[i::clients] for i in range(clients)], [y[i::clients] for i in range(clients)]


def normal(rows: int, columns: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def survival(order: Array) -> Array:
    return np.column_stack([1.0 + np.argsort(np.argsort(order)), np.ones(len(order))])


def complete() -> dict[str, pdmm.GLM]:
    X = normal(80, 3)
    eta = X @ [1.0, 2.0, -1.0]
    classes = np.argmax(np.column_stack([eta, -eta, X[:, 0]]), axis=1)
    return {
        "binomial": pdmm.GLM(*shared(X, (eta > 0).astype(int))),
        "multinomial": pdmm.GLM(*shared(X, classes), "multinomial"),
        "poisson": pdmm.GLM(*shared(X, np.zeros(80)), "poisson"),
        "cox": pdmm.GLM(*shared(X, survival(-eta)), "cox"),
    }


@pytest.mark.parametrize("family", ["binomial", "multinomial", "poisson", "cox"])
def test_complete_separation_is_proven(family: str) -> None:
    result = pdmm.solve(complete()[family])
    assert "the outcomes are separated" in result.reason
    assert result.rounds <= 12
    assert result.certificate.gap is None
    assert result.certificate.standard_errors is None


@pytest.mark.parametrize("family", ["binomial", "multinomial", "poisson", "cox"])
@pytest.mark.parametrize("penalty", [pdmm.SquaredL2(1e-3), pdmm.L1(0.05)])
def test_a_penalty_gives_a_maximum(family: str, penalty: Any) -> None:
    if family == "poisson":  # its intercept goes to infinity, and a number spares it
        penalty = type(penalty)(np.full(4, 0.05))
    result = pdmm.solve(complete()[family], regulariser=penalty)
    assert "certified" in result.reason
    assert result.certificate.gap is not None


def partly() -> dict[str, pdmm.GLM]:
    rng = np.random.default_rng(1)
    cell = np.arange(90) % 5 == 0
    X = np.column_stack([normal(90, 2), cell])
    noise = rng.random(90)
    two = np.where(cell, 1, noise < 0.5).astype(int)
    three = rng.integers(0, 3, 90)
    event = np.where(cell, 0.0, noise < 0.7)
    return {
        "binomial": pdmm.GLM(*shared(X, two)),
        "multinomial": pdmm.GLM(*shared(X, np.where(cell & (three == 2), 0, three)), "multinomial"),
        "poisson": pdmm.GLM(*shared(X, np.where(cell, 0, rng.poisson(2, 90))), "poisson"),
        "cox": pdmm.GLM(*shared(X, np.column_stack([1 + noise, event])), "cox"),
    }


@pytest.mark.parametrize("family", ["binomial", "multinomial", "poisson", "cox"])
def test_partial_separation_is_recognised(family: str) -> None:
    result = pdmm.solve(partly()[family])
    assert "x goes to infinity" in result.reason
    assert result.certificate.gap is None


def test_events_of_one_time_cannot_all_be_above_the_others() -> None:
    x = np.array([[3.0], [2.0], [1.0], [0.0], [-1.0]])
    time = np.array([1.0, 2.0, 2.0, 3.0, 4.0])
    result = pdmm.solve(pdmm.GLM([x], [np.column_stack([time, np.ones(5)])], "cox"))
    assert "the outcomes are separated" not in result.reason
    assert result.certificate.gap is not None


def test_without_any_event_nothing_is_separated() -> None:
    y = np.column_stack([np.arange(1.0, 9.0), np.zeros(8)])
    problem = pdmm.GLM(*shared(normal(8, 2), y, 2), "cox")
    for x0 in (None, [1.0, 2.0]):
        result = pdmm.solve(problem, x0=x0, rounds=5)
        assert "there are no events" in result.reason
        assert "separated" not in result.reason
        assert "depend on each other" not in result.reason
        assert result.certificate.gap is None


@pytest.mark.parametrize("curvature", ["none", "diagonal"])
@pytest.mark.parametrize("family", ["binomial", "multinomial", "poisson", "cox"])
def test_nothing_is_called_certified_where_hessians_may_not_be_asked_for(
    family: str, curvature: Any
) -> None:
    for problem in (partly()[family], complete()[family]):
        result = pdmm.solve(problem, curvature=curvature, rounds=60)
        assert "certified" not in result.reason
        assert "optimal" not in result.reason
        assert result.certificate.gap is None


@pytest.mark.parametrize("beyond", [1e-1, 1e-3, 1e-5, 1e-8])
def test_no_false_alarm_where_two_rows_just_overlap(beyond: float) -> None:
    x = np.concatenate([np.linspace(-2, -0.5, 40), np.linspace(0.5, 2, 40), [beyond, -beyond]])
    y = np.concatenate([np.zeros(40), np.ones(40), [0, 1]])
    result = pdmm.solve(pdmm.GLM(*shared(x[:, None], y)))
    assert "certified" in result.reason
    assert result.certificate.gap is not None
