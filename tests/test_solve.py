"""Runs: history, accounting, the same bits every time, and what the arguments of solve do."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import rich.console
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import pdmm
from pdmm.common.threads import Threads

Array = npt.NDArray[Any]
ProblemOf = Callable[[], pdmm.Problem]

METHODS: dict[str, pdmm.Method] = {
    "PDMM": pdmm.PDMM(20.0),
    "FedSplit": pdmm.FedSplit(0.05, relaxation=0.5),
    "InexactFedSplit, anchor": pdmm.InexactFedSplit(0.05, 0.005, 3),
    "InexactFedSplit, server": pdmm.InexactFedSplit(0.05, 0.005, 3, start="server"),
    "GPDMM, mean": pdmm.GPDMM(0.01, 3),
    "GPDMM, last": pdmm.GPDMM(0.01, 3, rho=20.0, iterate="last"),
    "AGPDMM": pdmm.AGPDMM(0.01, 3),
    "Scaffold": pdmm.Scaffold(0.01, 3),
    "FedAvg": pdmm.FedAvg(0.01, 3),
    "GradientDescent": pdmm.GradientDescent(0.01),
}
REGULARISED = [name for name in METHODS if name not in ("Scaffold", "FedAvg")]


def rows_of(samples: list[int], d: int = 4, dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    A = [rng.standard_normal((n, d)).astype(dtype) for n in samples]
    return A, [rng.standard_normal(n).astype(dtype) for n in samples]


def softmax(samples: list[int], dtype: Any = np.float64, **given: Any) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(2)
    X = [rng.standard_normal((n, 3)).astype(dtype) for n in samples]
    y = [rng.integers(0, 3, n) for n in samples]
    return pdmm.SoftmaxRegression(X, y, classes=3, **({"l2": 0.1} | given))


def bowl(c: Array) -> tuple[Callable[[Array], float], Callable[[Array], Array]]:
    def value(x: Array) -> float:
        return float(np.sqrt(1 + (x - c) ** 2).sum() + 0.5 * ((x - c) ** 2).sum())

    return value, lambda x: (x - c) / np.sqrt(1 + (x - c) ** 2) + (x - c)


def functions(m: int = 3) -> pdmm.Functions:
    rng = np.random.default_rng(3)
    pairs = [bowl(rng.standard_normal(4)) for _ in range(m)]
    return pdmm.Functions([v for v, _ in pairs], [g for _, g in pairs], dimension=4)


def tall(dtype: Any = np.float64, m: int = 6) -> pdmm.LeastSquares:
    return pdmm.LeastSquares.random(clients=m, samples=12, features=4, seed=1, dtype=dtype)


def stacked(shape: tuple[int, int, int], dtype: Any = np.float64) -> pdmm.LeastSquares:
    A, b = rows_of([shape[1]] * shape[0], shape[2], dtype)
    return pdmm.LeastSquares(np.stack(A), np.stack(b))


PROBLEMS: dict[str, ProblemOf] = {
    "random": tall,
    "random, wide": lambda: pdmm.LeastSquares.random(clients=6, samples=3, features=9),
    "random, float32": lambda: tall(np.float32),
    "list": lambda: pdmm.LeastSquares(*rows_of([12] * 6)),
    "stacked": lambda: stacked((6, 12, 4)),
    "stacked, float32": lambda: stacked((6, 12, 4), np.float32),
    "wide": lambda: stacked((6, 3, 12)),
    "wide, few samples, float32": lambda: stacked((3, 3, 20), np.float32),
    "ragged": lambda: pdmm.LeastSquares(*rows_of([3, 12, 7, 7, 30, 5, 9])),
    "ragged, wide": lambda: pdmm.LeastSquares(*rows_of([1, 3, 2, 2, 4, 1, 3], 11)),
    "one client": lambda: pdmm.LeastSquares(*rows_of([12])),
    "softmax": lambda: softmax([8] * 6),
    "softmax, batches": lambda: softmax([8, 11, 9, 8, 14, 7], batch_size=3),
    "softmax, ragged": lambda: softmax([8, 8, 5, 9, 9, 9, 9, 9]),
    "softmax, float32": lambda: softmax([8] * 6, np.float32, batch_size=3),
    "functions": functions,
}


# --- the same bits --------------------------------------------------------------------------


def bits(result: pdmm.Result) -> dict[str, bytes]:
    """Everything of a run that is a number, but for the time it took."""
    columns = {name: c.tobytes() for name, c in result.history.items() if name != "seconds"}
    return columns | {"x": result.x.tobytes()}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_same_bits_on_any_number_of_threads_and_every_time(name: str) -> None:
    shared = PROBLEMS[name]()
    first: dict[str, dict[str, bytes]] = {}
    for key, method in METHODS.items():
        first[key] = bits(pdmm.solve(PROBLEMS[name](), method, rounds=3, threads=1))
        for threads in (2, 3):
            result = pdmm.solve(shared, method, rounds=3, threads=threads)
            assert bits(result) == first[key], (key, threads)
    # Long enough for an eigenbasis to pay, where there is one.
    long = pdmm.AGPDMM(0.001, 40)
    alone = bits(pdmm.solve(PROBLEMS[name](), long, rounds=5, threads=1))
    for threads in (1, 2, 3):
        assert bits(pdmm.solve(shared, long, rounds=5, threads=threads)) == alone, threads
    # The runs on this problem so far have left their forms behind.
    for key in reversed(METHODS):
        assert bits(pdmm.solve(shared, METHODS[key], rounds=3)) == first[key], key


def test_without_its_own_optimum_the_bits_are_the_same_too() -> None:
    for name in ("random", "ragged, wide", "stacked, float32"):
        runs = [
            pdmm.solve(PROBLEMS[name](), METHODS["GPDMM, mean"], 6, threads=t, optimum=False)
            for t in (1, 2, 3)
        ]
        assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])


def test_blocks_of_many_clients_on_threads() -> None:
    A, b = rows_of([5] * 1000, 3)
    problem = pdmm.LeastSquares(np.stack(A), np.stack(b))
    runs = [pdmm.solve(problem, METHODS["AGPDMM"], 5, threads=t) for t in (1, 2, 3)]
    assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])


# --- history --------------------------------------------------------------------------------

COLUMNS = {
    "round",
    "objective",
    "gap",
    "gradient_calls",
    "value_calls",
    "exact_calls",
    "seconds",
    *(
        f"{prefix}{what}_{way}"
        for prefix in ("", "paper_")
        for what in ("bytes", "vectors")
        for way in ("up", "down")
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_history_columns_and_rows(name: str) -> None:
    x0 = np.array([1.0, -2.0, 3.0, 0.5])
    A, b = rows_of([12, 9, 5])
    result = pdmm.solve(pdmm.LeastSquares(A, b), METHODS[name], rounds=7, x0=x0)
    history = result.history
    exact = name in ("PDMM", "FedSplit")
    assert set(history) == (COLUMNS | {"exact_error"} if exact else COLUMNS)
    assert {len(column) for column in history.values()} == {8}
    np.testing.assert_array_equal(history["round"], range(8))
    start = sum(0.5 * ((a @ x0 - v) ** 2).sum() for a, v in zip(A, b, strict=True))
    end = sum(0.5 * ((a @ result.x - v) ** 2).sum() for a, v in zip(A, b, strict=True))
    assert history["objective"][0] == pytest.approx(start, rel=1e-13)
    assert history["objective"][-1] == pytest.approx(end, rel=1e-13)
    assert result.optimum is not None
    np.testing.assert_allclose(
        history["gap"], history["objective"] - result.optimum, rtol=1e-9, atol=1e-12
    )
    assert (np.diff(history["seconds"]) > 0).all()
    assert result.rounds == 7
    assert result.reason == "all 7 rounds done"
    assert not result.diverged
    assert result.seed == 0
    for column in ("bytes_up", "vectors_down", "gradient_calls", "exact_calls"):
        assert history[column][0] == 0


@pytest.mark.parametrize(
    ("record_every", "rounds", "recorded"),
    [
        (1, 4, [0, 1, 2, 3, 4]),
        (3, 9, [0, 3, 6, 9]),
        (3, 10, [0, 3, 6, 9, 10]),
        (50, 4, [0, 4]),
        (4, 4, [0, 4]),
    ],
)
def test_record_every(record_every: int, rounds: int, recorded: list[int]) -> None:
    full = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=rounds)
    some = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=rounds, record_every=record_every)
    np.testing.assert_array_equal(some.history["round"], recorded)
    np.testing.assert_array_equal(some.x, full.x)
    for name in COLUMNS - {"seconds", "value_calls"}:
        np.testing.assert_array_equal(some.history[name], full.history[name][recorded], name)


def test_a_tiny_gap_is_not_zero() -> None:
    result = pdmm.solve(tall(), pdmm.AGPDMM(0.03, 5), rounds=200)
    gap = result.history["gap"]
    assert (gap >= 0).all()
    assert gap[-1] < 1e-25
    later = gap[(gap < 1e-17) & (gap > 1e-26)]
    # Far below the rounding of F (about 1e-14) the gap still shrinks from round to round.
    assert len(later) >= 3
    assert (np.diff(later) < 0).all()


def test_missing_columns_say_what_to_do() -> None:
    result = pdmm.solve(softmax([8, 8]), METHODS["AGPDMM"], rounds=2)
    assert "gap" not in result.history
    assert result.optimum is None
    with pytest.raises(KeyError, match=r"optimum is not known.*optimum="):
        result.history["gap"]
    with pytest.raises(KeyError, match="no 'loss', only round, objective"):
        result.history["loss"]
    with pytest.raises(KeyError, match="optimum="):
        result.history.rounds_to(1.0)
    assert "gap" not in repr(result)


def test_rounds_to_a_gap() -> None:
    history = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=40, record_every=2).history
    target = float(history["gap"][5])
    assert history.rounds_to(target) == 10
    assert history.rounds_to(np.inf) == 0
    assert history.rounds_to(-1.0) is None


# --- accounting -----------------------------------------------------------------------------

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
    "GradientDescent": ((1, 1), (1, 1)),
}


@pytest.mark.parametrize("name", METHODS)
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


@pytest.mark.parametrize("name", METHODS)
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


@pytest.mark.parametrize("name", METHODS)
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
    np.testing.assert_allclose(narrow.x, wide.x, atol=2e-5)
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


# --- regularisers ---------------------------------------------------------------------------

SHRINKAGE: list[pdmm.Regulariser] = [pdmm.L1(1.5), pdmm.SquaredL2(2.0), pdmm.Box(-0.1, 0.2)]


@pytest.mark.parametrize("name", REGULARISED)
@pytest.mark.parametrize("h", SHRINKAGE, ids=lambda h: type(h).__name__)
@pytest.mark.parametrize("kind", ["list", "softmax", "functions"])
def test_objective_includes_the_regulariser(name: str, h: pdmm.Regulariser, kind: str) -> None:
    problem = PROBLEMS[kind]()
    seen: list[Array] = []
    result = pdmm.solve(
        problem, METHODS[name], rounds=4, regulariser=h, callback=lambda r, x: seen.append(x)
    )
    for x, objective in zip(seen, result.history["objective"][1:], strict=True):
        smooth = float(sum(problem.at(slice(i, i + 1)).value(x)[0] for i in range(problem.clients)))
        assert np.isfinite(objective)
        assert objective == pytest.approx(smooth + h.value(x), rel=1e-12)
    known = kind == "list" and isinstance(h, pdmm.SquaredL2)
    assert ("gap" in result.history) == known


def test_gap_with_a_regulariser_and_a_given_minimiser() -> None:
    problem = pdmm.LeastSquares(*rows_of([12] * 6))
    method = pdmm.AGPDMM(0.02, 5, rho=30.0)
    for h in (pdmm.L1(8.0), pdmm.Box(-0.05, 0.05), pdmm.SquaredL2(3.0)):
        x_star = pdmm.solve(problem, method, 600, regulariser=h, record_every=600).x
        result = pdmm.solve(problem, method, rounds=150, regulariser=h, optimum=x_star)
        gap = result.history["gap"]
        assert result.optimum is not None
        np.testing.assert_allclose(
            gap[1:4], result.history["objective"][1:4] - result.optimum, rtol=1e-8, atol=1e-12
        )
        assert abs(gap[-1]) < 1e-17, h
        if not isinstance(h, pdmm.SquaredL2):
            # Some entries stand where the regulariser has a kink or an edge.
            assert np.isin(x_star, [0.0, -0.05, 0.05]).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_box_in_any_precision_keeps_its_objective_finite(dtype: Any) -> None:
    box = pdmm.Box(-0.1, np.array([0.1, 0.2, 0.3, 1e-3]))
    for name in REGULARISED:
        result = pdmm.solve(tall(dtype), METHODS[name], rounds=5, regulariser=box)
        assert np.isfinite(result.history["objective"]).all()
        assert (result.x <= np.array([0.1, 0.2, 0.3, 1e-3]) * (1 + 1e-6)).all()


numbers = st.floats(-5, 5, allow_subnormal=False)
positive = st.floats(0.01, 10)


def brute(h: Callable[[float], float], v: float, t: float, lo: float, hi: float) -> float:
    """argmin over a scalar of h(x) + (x - v)²/(2 t), found without its formula."""
    found = minimize_scalar(
        lambda x: h(x) + (x - v) ** 2 / (2 * t),
        bounds=(lo, hi),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(found.x)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    v=st.lists(numbers, min_size=1, max_size=4),
    t=positive,
    c=st.floats(0, 3),
    a=numbers,
    b=numbers,
)
def test_prox_is_the_minimum_that_brute_force_finds(
    v: list[float], t: float, c: float, a: float, b: float
) -> None:
    lo, hi = min(a, b), max(a, b) + 0.01
    point = np.array(v)
    cases: list[tuple[pdmm.Regulariser, Callable[[float], float], float, float]] = [
        (pdmm.L1(c), lambda x: c * abs(x), -6, 6),
        (pdmm.SquaredL2(c), lambda x: c / 2 * x * x, -6, 6),
        (pdmm.Box(lo, hi), lambda x: 0.0, lo, hi),
    ]
    for h, scalar, left, right in cases:
        expected = [brute(scalar, entry, t, left, right) for entry in v]
        np.testing.assert_allclose(h.prox(point, t), expected, atol=2e-5)
        np.testing.assert_array_equal(point, v)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    x=st.lists(numbers, min_size=3, max_size=3),
    y=st.lists(numbers, min_size=3, max_size=3),
    slope=st.lists(numbers, min_size=3, max_size=3),
    c=st.floats(0, 3),
)
def test_value_and_divergence_of_regularisers(
    x: list[float], y: list[float], slope: list[float], c: float
) -> None:
    a, b, s = np.array(x), np.array(y), np.array(slope)
    assert pdmm.L1(c).value(a) == pytest.approx(c * sum(abs(e) for e in x))
    assert pdmm.SquaredL2(c).value(a) == pytest.approx(c / 2 * sum(e * e for e in x))
    assert pdmm.Box(-6, 6).value(a) == 0
    outside = pdmm.Box([-6, -6, 1.01 * abs(x[2]) + 1], np.inf)
    assert outside.value(a) == np.inf
    for h in (pdmm.L1(c), pdmm.SquaredL2(c), pdmm.Box(-6, 6)):
        plain = h.value(a) - h.value(b) - float(s @ (a - b))
        assert h.divergence(a, b, s) == pytest.approx(plain, abs=1e-12)


def test_divergence_of_regularisers_without_cancellation() -> None:
    y = np.array([1.0, -2.0, 0.0])
    x = y + 1e-12 * np.array([1.0, -1.0, 0.5])
    d = x - y
    ridge = pdmm.SquaredL2(3.0)
    assert ridge.divergence(x, y, 3.0 * y) == pytest.approx(1.5 * float(d @ d), rel=1e-12)
    # With the slope of a minimiser only the entry at the kink counts: c |x| - slope x.
    slope = np.array([2.0, -2.0, 1.5])
    assert pdmm.L1(2.0).divergence(x, y, slope) == pytest.approx(0.5 * d[2], rel=1e-12)


# --- weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["least squares", "wide", "softmax", "batches"])
def test_integer_weights_are_repeated_clients(name: str, kind: str) -> None:
    counts = [1, 3, 2]

    def of(clients: list[int]) -> pdmm.Problem:
        if kind in ("least squares", "wide"):
            A, b = rows_of([9, 5, 12], 4 if kind == "least squares" else 40)
            return pdmm.LeastSquares([A[i] for i in clients], [b[i] for i in clients])
        base = softmax([9, 5, 12])
        return pdmm.SoftmaxRegression(
            [base.X[i] for i in clients],
            [base.y[i] for i in clients],
            classes=3,
            l2=0.1,
            batch_size=2 if kind == "batches" else None,
        )

    repeated = [i for i, count in enumerate(counts) for _ in range(count)]
    h = pdmm.L1(0.3) if name in REGULARISED else None
    weighted = pdmm.solve(of([0, 1, 2]), METHODS[name], 8, weights=counts, regulariser=h)
    several = pdmm.solve(of(repeated), METHODS[name], 8, regulariser=h)
    # The exact steps of softmax are solved to 1e-10 only.
    solved = METHODS[name].exact and kind in ("softmax", "batches")
    np.testing.assert_allclose(weighted.x, several.x, rtol=0, atol=1e-8 if solved else 1e-12)
    np.testing.assert_allclose(
        weighted.history["objective"], several.history["objective"], rtol=1e-8 if solved else 1e-11
    )


def test_equal_weights_scale_the_objective_alone() -> None:
    for name, method in METHODS.items():
        plain = pdmm.solve(tall(), method, 8)
        double = pdmm.solve(tall(), method, 8, weights=np.full(6, 2.0))
        np.testing.assert_allclose(double.x, plain.x, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(
            double.history["gap"], 2 * plain.history["gap"], rtol=1e-6, atol=1e-20
        )


def test_weights_move_the_optimum() -> None:
    A, b = rows_of([12, 9, 5])
    w = np.array([0.2, 5.0, 1.0])
    roots = np.sqrt(w)
    rows = np.concatenate([r * a for r, a in zip(roots, A, strict=True)])
    right = np.concatenate([r * v for r, v in zip(roots, b, strict=True)])
    x_star = np.linalg.lstsq(rows, right)[0]
    for name in ("PDMM", "AGPDMM", "GPDMM, mean", "Scaffold"):
        result = pdmm.solve(pdmm.LeastSquares(A, b), METHODS[name], 400, weights=w)
        np.testing.assert_allclose(result.x, x_star, atol=1e-8, err_msg=name)


def test_a_float32_point_on_the_edge_of_a_box_is_inside_it() -> None:
    A = np.random.default_rng(0).standard_normal((3, 10, 4)).astype(np.float32)
    problem = pdmm.LeastSquares(A, (A @ np.ones(4, np.float32)))
    result = pdmm.solve(
        problem, pdmm.PDMM(10.0), 20, regulariser=pdmm.Box(-0.1, 0.1), optimum=np.full(4, 0.1)
    )
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.history["gap"][-1], 0, atol=1e-6)


def test_an_optimum_outside_the_box_is_refused() -> None:
    with pytest.raises(ValueError, match="optimum has the objective inf"):
        pdmm.solve(
            tall(),
            pdmm.PDMM(1.0),
            2,
            regulariser=pdmm.Box(-1, 1),
            optimum=np.full(tall().dimension, 9),
        )


def blas_threads() -> set[int]:
    return {
        lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"
    }


def test_blas_has_one_thread_inside_and_its_own_number_after() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        inside: list[set[int]] = []

        def nested(r: int, x: object) -> None:
            inside.append(blas_threads())
            if r == 1:  # another run that begins and ends within this one changes nothing
                pdmm.solve(tall(), pdmm.PDMM(1.0), 1)

        pdmm.solve(tall(), pdmm.PDMM(1.0), 3, callback=nested)
        assert inside == [{1}] * 3
        assert blas_threads() == {2}


def test_runs_that_overlap_in_threads_restore_blas() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        first, second = Threads(1), Threads(1)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
