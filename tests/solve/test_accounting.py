"""What a run costs: vectors, bytes and calls, counted by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.runs import METHODS, Array, bowl, functions, softmax, tall

# Of LBFGS, which sends a scalar too and asks for values, tests/methods/test_lbfgs.py has its own.
VECTORS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {  # (down, up): ours, the paper's
    "PDMM": ((1, 1), (1, 1)),
    "FedSplit": ((1, 1), (1, 1)),
    "InexactFedSplit, anchor": ((1, 1), (1, 1)),
    "InexactFedSplit, server": ((1, 1), (1, 1)),
    "GPDMM, mean": ((1, 1), (1, 1)),
    "GPDMM, last": ((1, 1), (1, 1)),
    "AGPDMM": ((1, 1), (2, 1)),
    "Scaffold": ((2, 1), (2, 2)),
    "FedAvg": ((1, 1), (1, 1)),
    "FedProx": ((1, 1), (1, 1)),
    "FedDyn": ((1, 1), (1, 1)),
    "GradientDescent": ((1, 1), (1, 1)),
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize(("dtype", "width"), [(np.float64, 8), (np.float32, 4)])
def test_traffic(name: str, dtype: Any, width: int) -> None:
    result = pdmm.solve(tall(dtype, m=5), METHODS[name], rounds=4, record_every=2)
    (down, up), (paper_down, paper_up) = VECTORS[name]
    assert result.traffic == (down, up, paper_down, paper_up, 4 * width)
    history, clients_by_round = result.history, 5 * np.array([0, 2, 4])
    for column, count in {
        "up": up,
        "down": down,
    }.items():
        np.testing.assert_array_equal(history[f"vectors_{column}"], count * clients_by_round)
        np.testing.assert_array_equal(
            history[f"bytes_{column}"], count * clients_by_round * 4 * width
        )
    for column, count in {"up": paper_up, "down": paper_down}.items():
        np.testing.assert_array_equal(history[f"paper_vectors_{column}"], count * clients_by_round)
        np.testing.assert_array_equal(
            history[f"paper_bytes_{column}"], count * clients_by_round * 4 * width
        )


@pytest.mark.parametrize("name", VECTORS)
def test_what_is_counted_is_what_the_method_sends(name: str) -> None:
    # The uploads and messages themselves, not their declared numbers.
    method, problem = METHODS[name], tall(m=1)
    x = np.zeros((1, 4))
    message = method.broadcast(method.server_start(x[0], lambda v, t: v))
    f = problem.factorise().at(slice(0, 1))
    upload, _ = method.client(message, method.client_start(x), f, method.steps)
    (down, up), _ = VECTORS[name]
    assert (len(message), len(upload)) == (down, up)
    assert all(np.size(field) == 4 for field in (*message, *upload))


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("kind", ["least squares", "softmax", "batches"])
def test_calls_per_client(name: str, kind: str) -> None:
    method = METHODS[name]
    problem: pdmm.Problem = tall()
    if kind != "least squares":
        problem = softmax([8] * 5, batch_size=3 if kind == "batches" else None)
    history = pdmm.solve(problem, method, rounds=4, record_every=2).history
    rows = np.array([0, 2, 4])
    np.testing.assert_array_equal(history["exact_calls"], rows if method.exact else 0)
    values = np.zeros(3) if kind == "least squares" else np.array([1, 2, 3])
    if not method.exact:
        steps = 1 if name == "GradientDescent" else 3
        np.testing.assert_array_equal(history["gradient_calls"], steps * rows)
        np.testing.assert_array_equal(history["value_calls"], values)
    elif kind == "least squares":
        np.testing.assert_array_equal(history["gradient_calls"], 0)
        np.testing.assert_array_equal(history["value_calls"], 0)
    else:
        # A solver's calls ask for value and gradient together, at least one a round.
        assert (np.diff(history["gradient_calls"]) >= 2).all()
        np.testing.assert_array_equal(history["value_calls"], history["gradient_calls"] + values)


def test_evaluations_without_an_own_optimum_are_counted() -> None:
    history = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=4, optimum=False).history
    np.testing.assert_array_equal(history["value_calls"], [1, 2, 3, 4, 5])
    assert "gap" not in history


@pytest.mark.parametrize("name", ["AGPDMM", "PDMM", "GradientDescent"])
@pytest.mark.parametrize("with_optimum", [False, True])
def test_counted_calls_are_the_calls_that_are_made(name: str, with_optimum: bool) -> None:
    counts = {"value": 0, "gradient": 0}

    def counted(kind: str, f: Callable[[Array], Any]) -> Callable[[Array], Any]:
        def call(x: Array) -> Any:
            counts[kind] += 1
            return f(x)

        return call

    value, gradient = bowl(np.ones(4))
    problem = pdmm.Functions([counted("value", value)], [counted("gradient", gradient)], 4)
    at: list[tuple[int, int]] = []
    result = pdmm.solve(
        problem,
        METHODS[name],
        rounds=5,
        optimum=np.ones(4) if with_optimum else None,
        callback=lambda r, x: at.append((counts["value"], counts["gradient"])),
    )
    history = result.history
    # Between the callbacks of two rounds: one evaluation for the history, one round.
    made = np.diff(np.array(at), axis=0)
    np.testing.assert_array_equal(np.diff(history["gradient_calls"])[1:], made[:, 1])
    np.testing.assert_array_equal(np.diff(history["value_calls"])[1:].sum(), made[:, 0].sum())


@pytest.mark.parametrize("name", ["PDMM", "FedSplit"])
def test_exact_error_column(name: str) -> None:
    closed = pdmm.solve(tall(), METHODS[name], rounds=3).history["exact_error"]
    np.testing.assert_array_equal(closed, 0)
    for problem in (softmax([8] * 3), functions()):
        error = pdmm.solve(problem, METHODS[name], rounds=6, record_every=2).history["exact_error"]
        assert error[0] == 0
        assert (error[1:] > 0).all()
        assert (error <= 1e-10).all()
