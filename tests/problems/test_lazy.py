"""Very many clients, made when they first take part: the same as ordinary ones, and cheap."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.lazy_clients import AG, METHODS, M, counted, everyone, one, one32, schedule

LINKS: dict[str, dict[str, Any]] = {
    "all": {},
    "some": {"participation": 0.4},
    "losses": {"participation": 0.5, "loss": 0.3},
    "at the server": {"participation": 5, "state": "server", "loss": pdmm.Bursts(0.2, 0.4)},
    "weights": {"weights": np.linspace(1, 3, M), "availability": pdmm.OnOff(0.3, 0.5)},
}


def assert_like(lazy: pdmm.Result, plain: pdmm.Result, close: float = 1e-9) -> None:
    np.testing.assert_allclose(lazy.x, plain.x, rtol=close, atol=close)
    assert lazy.x.dtype == plain.x.dtype
    for name, column in plain.history.items():
        if name not in ("objective", "gap", "seconds", "value_calls", "exact_error"):
            np.testing.assert_array_equal(lazy.history[name], column, err_msg=name)


@pytest.mark.parametrize("given", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_same_iterates_as_ordinary_clients(method: pdmm.Method, given: dict[str, Any]) -> None:
    lazy = pdmm.solve(pdmm.Lazy(M, one, keep=3), method, rounds=12, seed=3, **given)
    plain = pdmm.solve(everyone(), method, rounds=12, seed=3, **given)
    assert_like(lazy, plain)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("name", ["PDMM", "AGPDMM", "GPDMM", "Scaffold"])
def test_rounded_messages_too(name: str, bits: int) -> None:
    # What is rounded may fall to the other side by a last bit: so few rounds, and then many.
    method = METHODS[name]
    given: dict[str, Any] = {"participation": 0.5, "loss": 0.1, "bits": bits, "seed": 1}
    assert_like(
        pdmm.solve(pdmm.Lazy(M, one), method, rounds=2, **given),
        pdmm.solve(everyone(), method, rounds=2, **given),
        close=1e-9,
    )
    if name in ("AGPDMM", "PDMM"):
        lazy = pdmm.solve(pdmm.Lazy(M, one), method, rounds=100, **given)
        best = pdmm.solve(everyone(), rounds=60).x
        np.testing.assert_allclose(lazy.x, best, atol=1e-6)


def test_float32_and_stragglers() -> None:
    given: dict[str, Any] = {"participation": 0.5, "local_steps": [1 + i % 3 for i in range(M)]}
    lazy = pdmm.solve(pdmm.Lazy(M, one32), AG, rounds=10, **given)
    assert lazy.x.dtype == np.float32
    assert_like(lazy, pdmm.solve(everyone(np.float32), AG, rounds=10, **given), close=1e-4)


def test_mini_batches_go_on_where_a_client_was() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 10, 2)), rng.integers(0, 3, (5, 10))

    def make(i: int) -> pdmm.Problem:
        return pdmm.SoftmaxRegression(X[i : i + 1], y[i : i + 1], classes=3, batch_size=4)

    method = pdmm.AGPDMM(step_size=0.3, local_steps=3)
    given: dict[str, Any] = {"rounds": 12, "participation": 0.6}
    lazy = pdmm.solve(pdmm.Lazy(5, make, keep=1), method, **given)
    plain = pdmm.solve(pdmm.SoftmaxRegression(X, y, classes=3, batch_size=4), method, **given)
    np.testing.assert_allclose(lazy.x, plain.x, rtol=1e-9, atol=1e-12)
    whole = pdmm.solve(pdmm.SoftmaxRegression(X, y, classes=3), method, **given)
    assert not np.allclose(whole.x, plain.x)


def test_own_functions_as_clients() -> None:
    def make(i: int) -> pdmm.Problem:
        return pdmm.Functions([lambda x: 0.5 * float((x - i) @ (x - i))], [lambda x: x - i], 2)

    problem = pdmm.Lazy(6, make)
    for method in (pdmm.AGPDMM(0.5, 3), pdmm.PDMM(rho=1.0, relaxation=0.7)):
        result = pdmm.solve(problem, method, rounds=60)
        np.testing.assert_allclose(result.x, 2.5, atol=1e-6)


def test_exact_steps_are_counted_once() -> None:
    result = pdmm.solve(pdmm.Lazy(M, one), pdmm.PDMM(rho=8.0), rounds=10, participation=6)
    assert result.history["exact_calls"][-1] == 10 * 6 / M
    assert result.history["gradient_calls"][-1] == 0
    result = pdmm.solve(pdmm.Lazy(M, one), AG, rounds=10, participation=6)
    assert result.history["gradient_calls"][-1] == 10 * 6 * 4 / M


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads_or_on_what_is_kept(threads: int) -> None:
    # More clients than a block has.
    first = pdmm.solve(pdmm.Lazy(200, one), AG, rounds=2, participation=100, threads=1)
    other = pdmm.solve(pdmm.Lazy(200, one, keep=1), AG, 2, participation=100, threads=threads)
    assert first.x.tobytes() == other.x.tobytes()


# --- made when they first take part -----------------------------------------------------------


def test_clients_are_made_when_they_first_take_part() -> None:
    make, calls = counted()
    problem = pdmm.Lazy(1000, make)
    assert calls == {0: 1}  # which tells the dimension
    seen: list[set[int]] = []
    chosen = schedule(8, 5, clients=1000)
    pdmm.solve(
        problem, AG, rounds=8, participation=chosen, callback=lambda r, x: seen.append(set(calls))
    )
    for r in range(8):
        assert seen[r] == {0}.union(*chosen[: r + 1])
    assert set(calls.values()) == {1}
    pdmm.solve(problem, AG, rounds=8, participation=chosen)  # they are still there
    assert set(calls.values()) == {1}


def test_those_that_hear_nothing_are_not_made() -> None:
    make, calls = counted()
    result = pdmm.solve(pdmm.Lazy(1000, make), AG, rounds=10, participation=20, loss=0.8)
    heard = result.history["vectors_up"][-1]
    assert len(calls) - 1 <= heard < 100


def test_keep_bounds_how_many_are_held() -> None:
    make, calls = counted()
    problem = pdmm.Lazy(100, make, keep=3)
    held: list[int] = []

    def look(r: int, x: Any) -> None:
        held.append(len(problem._made))

    pdmm.solve(problem, AG, rounds=4, participation=[[1, 2, 3, 4, 5]], callback=look)
    assert max(held) == 3
    assert all(calls[i] == 4 for i in (1, 2))  # made again each time
    make, calls = counted()
    problem = pdmm.Lazy(100, make, keep=3)
    pdmm.solve(problem, AG, rounds=5, participation=[[1, 2], [3, 2], [4, 2]])
    assert calls[2] == 1  # the one that always takes part stays
    assert list(problem._made) == [4, 3, 2] or len(problem._made) == 3


def test_nobody_asks_for_all_clients() -> None:
    for given in ({}, {"optimum": False}, {"optimum": 0.0}, {"weights": np.ones(400)}):
        make, calls = counted()
        problem = pdmm.Lazy(400, make)
        pdmm.solve(problem, AG, rounds=3, participation=4, **given)
        assert len(calls) <= 13, given


@pytest.mark.slow
def test_a_million_clients() -> None:
    d, x_star = 50, np.linspace(-1, 1, 50)

    def phone(i: int) -> pdmm.Problem:
        h = np.random.default_rng(i).random(d)
        return pdmm.Functions(
            [lambda x: 0.5 * float(h @ (x - x_star) ** 2)], [lambda x: h * (x - x_star)], d
        )

    make, calls = counted(phone)
    method = pdmm.AGPDMM(step_size=1.0, local_steps=2, rho=0.5)
    tracemalloc.start()
    try:
        problem = pdmm.Lazy(1_000_000, make, evaluate=lambda x: float(np.sum((x - x_star) ** 2)))
        result = pdmm.solve(problem, method, rounds=20, participation=200)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300e6
    assert len(calls) <= 4001
    assert result.history["vectors_up"][-1] == 4000
    assert result.history["objective"][-1] < result.history["objective"][0]
    assert len(problem._made) <= 1000


# --- what is known of F -----------------------------------------------------------------------


def test_without_evaluate_there_is_no_objective() -> None:
    result = pdmm.solve(pdmm.Lazy(M, one), AG, rounds=3)
    assert "objective" not in result.history
    assert "gap" not in result.history
    with pytest.raises(KeyError, match=r"no 'objective'.*evaluate="):
        result.history["objective"]
    with pytest.raises(KeyError, match="no 'gap', because the optimum is not known"):
        result.history["gap"]
    assert result.history["round"].tolist() == [0, 1, 2, 3]
    assert "3 rounds" in repr(result)
    assert result.certificate.gap is None
    assert np.isnan(result.certificate.stationarity)
    assert result.optimum is None


def test_with_evaluate_there_is_one() -> None:
    plain, points = everyone(), []

    def evaluate(x: Any) -> float:
        points.append(x.copy())
        value = plain.objective(x)
        x[:] = np.nan  # its own copy
        return value

    problem = pdmm.Lazy(M, one, evaluate=evaluate)
    whole = pdmm.solve(plain, AG, rounds=10, participation=0.5, record_every=3)
    found = pdmm.solve(problem, AG, rounds=10, participation=0.5, record_every=3)
    assert found.history["round"].tolist() == [0, 3, 6, 9, 10]
    np.testing.assert_allclose(found.history["objective"], whole.history["objective"], rtol=1e-9)
    assert "gap" not in found.history
    assert len(points) == 5
    best = float(whole.optimum or 0)
    known = pdmm.solve(problem, AG, rounds=10, participation=0.5, optimum=best)
    np.testing.assert_allclose(known.history["gap"], known.history["objective"] - best)


def test_what_evaluate_may_be() -> None:
    with pytest.raises(ValueError, match="evaluate must be callable"):
        pdmm.Lazy(3, one, evaluate=3.0)  # type: ignore[arg-type]
    for wrong in (None, "low", np.zeros(2), 1j):
        told: Any = lambda x, wrong=wrong: wrong  # noqa: E731
        with pytest.raises(ValueError, match="evaluate must return a number, got"):
            pdmm.solve(pdmm.Lazy(3, one, evaluate=told), AG, rounds=1, participation=2)


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "many"])
def test_a_count_that_is_none(count: Any) -> None:
    with pytest.raises(ValueError, match="count must be"):
        pdmm.Lazy(count, one)


@pytest.mark.parametrize("keep", [0, 1.5, None])
def test_a_keep_that_is_none(keep: Any) -> None:
    with pytest.raises(ValueError, match="keep must be"):
        pdmm.Lazy(3, one, keep=keep)


def at_seven(answer: Callable[[], Any]) -> Callable[[int], Any]:
    return lambda i: answer() if i == 7 else one(i)


def fails() -> Any:
    raise OSError("disk 3 is gone")


def other_size() -> pdmm.Problem:
    return pdmm.LeastSquares([np.eye(3)], [np.ones(3)])


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (fails, r"make_client\(7\) raised OSError: disk 3 is gone"),
    "None": (lambda: None, r"make_client\(7\) must return a problem with one client.*got None"),
    "two clients": (lambda: everyone(), r"make_client\(7\) must return a problem with one"),
    "an array": (lambda: np.eye(3), r"make_client\(7\) must return a problem with one"),
    "other size": (other_size, r"make_client\(7\) has dimension 3 and float64, but client 0 has 4"),
    "other dtype": (lambda: one32(7), r"make_client\(7\) has dimension 4 and float32, but client"),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_client_that_cannot_be_made(case: tuple[Callable[[], Any], str]) -> None:
    answer, words = case
    problem = pdmm.Lazy(M, at_seven(answer))
    chosen = [[1], [2], [3, 7], [4]]
    assert pdmm.solve(problem, AG, rounds=2, participation=chosen).rounds == 2
    with pytest.raises(pdmm.ClientError, match=words) as caught:
        pdmm.solve(problem, AG, rounds=4, participation=chosen)
    assert caught.value.history["round"].tolist() == [0, 1, 2]
    assert any("in round 3" in note for note in caught.value.__notes__)


def test_a_first_client_that_cannot_be_made() -> None:
    with pytest.raises(pdmm.ClientError, match=r"make_client\(0\) raised OSError"):
        pdmm.Lazy(3, lambda i: fails())
    with pytest.raises(pdmm.ClientError, match=r"make_client\(0\) must return a problem"):
        pdmm.Lazy(3, lambda i: everyone())
    with pytest.raises(ValueError, match="make_client must be callable"):
        pdmm.Lazy(3, one(0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "method",
    [None, pdmm.PDMM(), pdmm.AGPDMM(step_size=0.1), pdmm.GPDMM(), pdmm.Scaffold(), pdmm.FedAvg()],
)
@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_nothing_chooses_parameters(method: pdmm.Method | None, participation: float) -> None:
    make, calls = counted()
    with pytest.raises(ValueError, match="is not known: give the method its numbers"):
        pdmm.solve(pdmm.Lazy(M, make), method, rounds=3, participation=participation)
    assert calls == {0: 1}


def test_its_constants_are_refused() -> None:
    problem = pdmm.Lazy(M, one)
    with pytest.raises(ValueError, match="smoothness L of a Lazy problem is not known"):
        problem.smoothness()
    with pytest.raises(ValueError, match="strong convexity mu of a Lazy problem is not known"):
        problem.strong_convexity()
    assert repr(problem) == "Lazy(12 clients, dimension 4, float64)"


def test_a_tolerance_costs_nothing_that_nobody_sends() -> None:
    # There are no certificates: a tolerance is refused, or asks nobody for a gradient.
    try:
        result = pdmm.solve(pdmm.Lazy(M, one), AG, rounds=6, participation=2, tolerance=1e-3)
    except ValueError as error:
        words = str(error)
        result = None
    if result is None:
        assert "tolerance" in words
    else:
        plain = pdmm.solve(pdmm.Lazy(M, one), AG, rounds=6, participation=2)
        for name in ("bytes_up", "vectors_up", "gradient_calls"):
            np.testing.assert_array_equal(result.history[name], plain.history[name])


def test_a_diverging_run_says_so_without_asking_for_l() -> None:
    result = pdmm.solve(pdmm.Lazy(M, one), pdmm.FedAvg(50.0, 5), rounds=300, participation=0.5)
    assert result.diverged
    assert "may be too large" in result.reason


def test_exact_steps_may_leave_what_a_method_allows() -> None:
    """The slack of an accelerated method reaches the clients: their solvers stop as early."""
    softmax = [
        pdmm.SoftmaxRegression(
            [np.random.default_rng(i).standard_normal((20, 3))], [labels], 2, 0.1
        )
        for i, labels in enumerate(np.random.default_rng(9).integers(0, 2, (3, 20)))
    ]
    lazy = pdmm.Lazy(3, softmax.__getitem__)
    anchor = np.random.default_rng(1).standard_normal((3, lazy.dimension))
    slack = np.array([1e-1, 1e-3, 1e-8])
    allowed = lazy.at(slice(0, 3))
    found = allowed.prox(anchor, 0.5, anchor, slack)
    alone = [problem.at(slice(0, 1)) for problem in softmax]
    expected = [
        part.prox(anchor[k : k + 1], 0.5, anchor[k : k + 1], slack[k : k + 1])
        for k, part in enumerate(alone)
    ]
    np.testing.assert_array_equal(found, np.concatenate(expected))
    assert allowed.tally.gradients == sum(part.tally.gradients for part in alone)
    strict = lazy.at(slice(0, 3))
    strict.prox(anchor, 0.5, anchor)
    assert allowed.tally.gradients < strict.tally.gradients
