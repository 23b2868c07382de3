"""What the arguments of solve do: precision, start, callback, progress, optimum."""

import io

import numpy as np
import pytest
import rich.console

import pdmm
from builders.runs import (
    METHODS,
    PROBLEMS,
    Array,
    ProblemOf,
    bits,
    functions,
    rows_of,
    softmax,
    tall,
)

# --- the result -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "kind",
    ["random, float32", "stacked, float32", "wide, few samples, float32", "softmax, float32"],
)
def test_a_float32_run_stays_float32(name: str, kind: str) -> None:
    problem, seen = PROBLEMS[kind](), set()
    result = pdmm.solve(
        problem,
        METHODS[name],
        rounds=3,
        x0=np.full(problem.dimension, 0.25),
        weights=np.linspace(1, 2, problem.clients),
        callback=lambda r, x: seen.add((x.dtype, x.shape)),
    )
    assert result.x.dtype == np.float32
    assert result.x.shape == (problem.dimension,)
    assert seen == {(np.dtype(np.float32), (problem.dimension,))}
    assert result.history["objective"].dtype == np.float64


@pytest.mark.parametrize("name", METHODS)
def test_float32_follows_float64(name: str) -> None:
    wide, narrow = (
        pdmm.solve(tall(kind), METHODS[name], rounds=30) for kind in (np.float64, np.float32)
    )
    # A line search compares values, in whose rounding the last digits of x are lost.
    tolerance = 1e-4 if name == "LBFGS" else 2e-5
    np.testing.assert_allclose(narrow.x, wide.x, atol=tolerance)
    assert wide.x.dtype == np.float64


@pytest.mark.parametrize("name", ["AGPDMM", "GPDMM, mean", "PDMM", "InexactFedSplit, server"])
def test_a_float32_run_forgets_a_start_that_float32_cannot_hold(name: str) -> None:
    # Were the server's mean of the z_i to begin elsewhere than theirs, it would stay there.
    x0 = 12345.678 + np.random.default_rng(0).standard_normal(4)
    gaps = [
        pdmm.solve(tall(np.float32), METHODS[name], rounds=400, x0=x).history["gap"][-1]
        for x in (x0, x0.astype(np.float32))
    ]
    assert gaps[0] <= 10 * gaps[1] + 1e-10


def test_x0() -> None:
    x0 = np.array([1.0, 2.0, 3.0, 4.0])
    problem = tall()
    for name, method in METHODS.items():
        given = pdmm.solve(problem, method, rounds=1, x0=x0)
        listed = pdmm.solve(problem, method, rounds=1, x0=[1, 2, 3, 4])
        np.testing.assert_array_equal(listed.x, given.x, name)
        default = pdmm.solve(problem, method, rounds=1)
        zero = pdmm.solve(problem, method, rounds=1, x0=np.zeros(4))
        np.testing.assert_array_equal(default.x, zero.x)
        assert not np.array_equal(default.x, listed.x)
    np.testing.assert_array_equal(x0, [1, 2, 3, 4])


def test_the_optimum_is_a_fixed_point_of_the_methods_that_start_there() -> None:
    A, b = rows_of([12, 9, 5])
    x_star = np.linalg.lstsq(np.concatenate(A), np.concatenate(b))[0]
    result = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.GradientDescent(0.01), rounds=5, x0=x_star)
    np.testing.assert_allclose(result.x, x_star, atol=1e-14)
    assert result.history["gap"].max() < 1e-25


# --- callback, progress ---------------------------------------------------------------------


def test_callback_sees_every_round_and_a_copy() -> None:
    seen: list[tuple[int, Array]] = []

    def spoil(r: int, x: Array) -> None:
        seen.append((r, x.copy()))
        x[:] = np.nan

    result = pdmm.solve(tall(), METHODS["AGPDMM"], 5, callback=spoil, record_every=3)
    assert [r for r, _ in seen] == [1, 2, 3, 4, 5]
    plain = pdmm.solve(tall(), METHODS["AGPDMM"], 5)
    np.testing.assert_array_equal(result.x, plain.x)
    np.testing.assert_array_equal(seen[-1][1], plain.x)
    assert result.reason == "all 5 rounds done"


def test_callback_stops() -> None:
    result = pdmm.solve(tall(), METHODS["AGPDMM"], 9, callback=lambda r, x: r == 4, record_every=3)
    assert result.reason == "stopped by the callback after round 4"
    assert result.rounds == 4
    np.testing.assert_array_equal(result.history["round"], [0, 3, 4])
    np.testing.assert_array_equal(result.x, pdmm.solve(tall(), METHODS["AGPDMM"], 4).x)


def test_an_error_in_the_callback_is_the_users() -> None:
    def stumble(r: int, x: Array) -> None:
        raise LookupError("disk full")

    with pytest.raises(LookupError, match="disk full"):
        pdmm.solve(tall(), METHODS["AGPDMM"], 9, callback=stumble)


def test_progress_shows_a_bar_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = pdmm.solve(tall(), METHODS["AGPDMM"], 5)
    silent = capsys.readouterr()
    assert silent.out + silent.err == ""
    terminal = io.StringIO()
    console = rich.console.Console(file=terminal, force_terminal=True, width=100)
    monkeypatch.setattr("rich.get_console", lambda: console)
    shown = pdmm.solve(tall(), METHODS["AGPDMM"], 5, progress=True)
    assert "AGPDMM" in terminal.getvalue()
    assert "5/5" in terminal.getvalue()
    assert bits(shown) == bits(quiet)


# --- the optimum ----------------------------------------------------------------------------


def test_optimum_as_a_number_a_vector_or_not_at_all() -> None:
    A, b = rows_of([12, 9, 5])
    problem = pdmm.LeastSquares(A, b)
    x_star = np.linalg.lstsq(np.concatenate(A), np.concatenate(b))[0]
    f_star = 0.5 * float(((np.concatenate(A) @ x_star - np.concatenate(b)) ** 2).sum())
    own = pdmm.solve(problem, METHODS["AGPDMM"], 6)
    assert own.optimum == pytest.approx(f_star, rel=1e-13)
    number = pdmm.solve(problem, METHODS["AGPDMM"], 6, optimum=1.5)
    assert number.optimum == 1.5
    np.testing.assert_allclose(number.history["gap"], number.history["objective"] - 1.5, rtol=1e-13)
    whole_number = pdmm.solve(problem, METHODS["AGPDMM"], 6, optimum=1)
    np.testing.assert_allclose(whole_number.history["gap"], number.history["gap"] + 0.5)
    vector = pdmm.solve(problem, METHODS["AGPDMM"], 6, optimum=list(x_star))
    np.testing.assert_allclose(vector.history["gap"], own.history["gap"], rtol=1e-10)
    none = pdmm.solve(problem, METHODS["AGPDMM"], 6, optimum=False)
    assert none.optimum is None
    assert "gap" not in none.history
    np.testing.assert_allclose(none.history["objective"], own.history["objective"], rtol=1e-12)
    for result in (number, vector, none):
        np.testing.assert_array_equal(result.x, own.x)


def test_a_given_minimiser_makes_gaps_of_softmax_accurate() -> None:
    problem = softmax([8] * 4, l2=0.5)
    method = pdmm.AGPDMM(0.2, 5, rho=1.0)
    x_star = pdmm.solve(problem, method, rounds=150, record_every=150).x
    result = pdmm.solve(problem, method, rounds=60, optimum=x_star)
    gap = result.history["gap"]
    np.testing.assert_allclose(gap[:5], result.history["objective"][:5] - result.optimum, rtol=1e-9)
    assert 0 <= gap[-1] < 1e-17
    assert (gap >= 0).all()


@pytest.mark.parametrize("of_problem", [functions, lambda: softmax([8] * 4, l2=0.5)])
def test_gap_of_a_vector_is_the_difference_of_objectives(of_problem: ProblemOf) -> None:
    problem = of_problem()
    point = np.full(problem.dimension, 0.1)  # not a minimiser: the slope there counts too
    at_point = pdmm.solve(problem, METHODS["AGPDMM"], 1, x0=point).history["objective"][0]
    result = pdmm.solve(problem, METHODS["AGPDMM"], 5, optimum=point)
    assert result.optimum == pytest.approx(at_point, rel=1e-13)
    plain = pdmm.solve(problem, METHODS["AGPDMM"], 5).history["objective"]
    np.testing.assert_allclose(result.history["objective"], plain, rtol=1e-12)
    np.testing.assert_allclose(result.history["gap"], plain - at_point, rtol=1e-9, atol=1e-12)
