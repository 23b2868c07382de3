"""L-BFGS over the federation: against its twin, SciPy and closed forms; what it refuses."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

import pdmm
from builders.runs import functions, rows_of, softmax
from pdmm.methods.lbfgs import LBFGS, Pairs, Server, Upload
from twins.lbfgs import lbfgs

Vector = npt.NDArray[np.float64]
IDENTITY: Any = SimpleNamespace(h=None, weight=1.0)


def data(d: int, kappa: float) -> tuple[Vector, Vector]:
    """Rows of 5 clients whose sum has this condition number, or nearly."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 4 * d, d)) * np.geomspace(1, kappa, d) ** 0.5
    return A, A @ rng.standard_normal(d) + rng.standard_normal((5, 4 * d))


def squares(d: int = 6, kappa: float = 30.0) -> pdmm.LeastSquares:
    return pdmm.LeastSquares(*data(d, kappa))


PROBLEMS: dict[str, pdmm.Problem] = {
    "squares": squares(),
    "steep squares": squares(kappa=1e4),
    "ragged": pdmm.LeastSquares(*rows_of([3, 12, 7, 7, 30, 5, 9])),
    "softmax": softmax([8, 8, 5, 9]),
    "functions": functions(),
}


def mean_of(problem: pdmm.Problem, weights: Vector | None = None) -> Any:
    """F over the sum of the weights, as a function of x with its gradient."""
    w = np.ones(problem.clients) if weights is None else weights
    block = problem.at(slice(0, problem.clients))

    def f(x: Vector) -> tuple[float, Vector]:
        value, gradient = block.value_and_gradient(x)
        return float(w @ value / w.sum()), np.asarray(w @ gradient / w.sum())

    return f


def stepped(method: LBFGS, f: Any, x0: Vector, rounds: int, prox: Any = IDENTITY) -> list[Server]:
    """The server's states before each of so many rounds."""
    states = [method.server_start(x0, prox)]
    for _ in range(rounds):
        value, gradient = f(method.broadcast(states[-1]).x)
        mean = Upload(np.asarray(value), gradient)
        states.append(method.server(states[-1], mean, 1.0, prox))
    return states


@pytest.mark.parametrize("memory", [1, 3, 10])
@pytest.mark.parametrize("name", PROBLEMS)
def test_tries_the_same_points_as_its_twin(name: str, memory: int) -> None:
    problem = PROBLEMS[name]
    x0 = np.random.default_rng(7).standard_normal(problem.dimension)
    f = mean_of(problem)
    rounds = 14  # differences by rounding double in every step
    method = LBFGS(memory)
    states = stepped(method, f, x0, rounds)
    asked = lbfgs(f, x0, memory, rounds)
    assert len(asked) == rounds
    for state, twin in zip(states, asked, strict=False):
        np.testing.assert_allclose(method.broadcast(state).x, twin.trial, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(method.solution(state), twin.best, rtol=1e-6, atol=1e-7)


def test_the_recursion_is_the_bfgs_matrix() -> None:
    from twins.lbfgs import _inverse_hessian

    rng = np.random.default_rng(2)
    root = rng.standard_normal((5, 5))
    steps = rng.standard_normal((4, 5))
    pairs = Pairs.none(3, 5)
    for s in steps:
        pairs = pairs.joined(s, root @ (root.T @ s))
    assert pairs.used == 3
    g = rng.standard_normal(5)
    H = _inverse_hessian([(s, root @ (root.T @ s)) for s in steps[1:]], 5)
    np.testing.assert_allclose(pairs.direction(g), -H @ g, rtol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 4, 8, 16])
def test_a_mild_quadratic_takes_about_as_many_rounds_as_it_has_unknowns(d: int) -> None:
    A, b = data(d, 5.0)
    problem = pdmm.LeastSquares(A, b)
    x = np.linalg.lstsq(A.reshape(-1, d), b.ravel(), rcond=None)[0]
    first = problem.objective(np.zeros(d)) - problem.objective(x)
    states = stepped(LBFGS(), mean_of(problem), np.zeros(d), d + 8)
    best = LBFGS().solution(states[-1])
    assert problem.objective(best) - problem.objective(x) <= 1e-10 * first


@pytest.mark.parametrize("name", PROBLEMS)
def test_needs_about_the_evaluations_of_scipy(name: str) -> None:
    problem = PROBLEMS[name]
    f = mean_of(problem)
    x0 = np.zeros(problem.dimension)
    tight = {"maxiter": 5000, "maxfun": 9000, "ftol": 0.0, "gtol": 1e-12}
    lowest = minimize(f, x0, jac=True, method="L-BFGS-B", options=tight).fun
    target = lowest + 1e-8 * (f(x0)[0] - lowest)
    asked: list[float] = []

    def counted(x: Vector) -> tuple[float, Vector]:
        value, gradient = f(x)
        asked.append(value)
        return value, gradient

    minimize(counted, x0, jac=True, method="L-BFGS-B", options=tight)
    theirs = next(k for k, value in enumerate(asked) if value <= target)
    states = stepped(LBFGS(), f, x0, 2 * theirs + 10)
    ours = next(k for k, s in enumerate(states) if s.known and s.best.value <= target)
    assert ours <= 1.2 * theirs + 4


def test_weights_and_runs_of_the_library() -> None:
    problem = PROBLEMS["softmax"]
    w = np.array([1.0, 5.0, 0.5, 2.0])
    result = pdmm.solve(problem, pdmm.LBFGS(), rounds=60, weights=w, optimum=False)
    value, gradient = mean_of(problem, w)(result.x)
    assert np.linalg.norm(gradient) <= 1e-7
    h = result.history
    assert h["objective"][-1] == pytest.approx(w.sum() * value)
    d = problem.dimension
    assert h["bytes_up"][-1] == 4 * 60 * 8 * (d + 1)
    assert h["bytes_down"][-1] == 4 * 60 * 8 * d


def test_stays_where_nothing_can_be_gained() -> None:
    f = mean_of(squares())
    states = stepped(LBFGS(), f, np.zeros(6), 200)
    left = [np.linalg.norm(f(LBFGS().solution(state))[1]) for state in states[50:]]
    assert max(left) <= 1e-9


def test_a_start_without_slope_is_the_result() -> None:
    problem = pdmm.LeastSquares([np.eye(2)] * 2, [np.zeros(2)] * 2)
    assert pdmm.solve(problem, pdmm.LBFGS(), rounds=3).x.tolist() == [0.0, 0.0]


def test_a_trial_that_overflows_at_one_client_ends_nothing() -> None:
    scale = 1000.0  # the first step, of length 1, goes to exp(1000)

    def value(c: float) -> Any:
        return lambda x: float(np.exp(scale * x[0]) - c * x[0])

    def gradient(c: float) -> Any:
        return lambda x: np.array([scale * np.exp(scale * x[0]) - c])

    problem = pdmm.Functions(
        [value(2000.0), value(9000.0)], [gradient(2000.0), gradient(9000.0)], dimension=1
    )
    result = pdmm.solve(problem, pdmm.LBFGS(), rounds=60, optimum=False)
    assert not result.diverged
    assert result.x[0] == pytest.approx(np.log(5.5) / scale, rel=1e-8)


def test_a_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    problem = squares(kappa=1e4)
    path = tmp_path / "run"
    whole = pdmm.solve(problem, pdmm.LBFGS(4), rounds=30)
    pdmm.solve(problem, pdmm.LBFGS(4), 30, checkpoint=path, callback=lambda r, x: r == 7)
    resumed = pdmm.resume(path, problem)
    assert resumed.method == pdmm.LBFGS(4)
    assert resumed.x.tobytes() == whole.x.tobytes()


# --- what it refuses ------------------------------------------------------------------------


@pytest.mark.parametrize("links", [{"participation": 0.5}, {"loss": 0.1}, {"bits": 8}])
def test_refuses_missing_clients_and_rounded_messages(links: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"LBFGS needs every client in every round.*AGPDMM"):
        pdmm.solve(squares(), pdmm.LBFGS(), rounds=3, **links)


@pytest.mark.parametrize("memory", [0, -1, 2.5, "ten"])
def test_memory_is_a_whole_number(memory: Any) -> None:
    with pytest.raises(ValueError, match="memory"):
        pdmm.LBFGS(memory)


def test_refuses_a_regulariser_with_kinks() -> None:
    h = SimpleNamespace(kinked=True)
    with pytest.raises(ValueError, match=r"LBFGS takes no SimpleNamespace.*smooth F"):
        LBFGS().server_start(np.zeros(2), SimpleNamespace(h=h, weight=1.0))  # type: ignore[arg-type]


def test_a_quadratic_regulariser_is_part_of_f() -> None:
    A, b = data(6, 30.0)
    q = np.arange(6.0)
    h = SimpleNamespace(kinked=False, quadratic=lambda d: q)
    prox = SimpleNamespace(h=h, weight=5.0)
    states = stepped(LBFGS(), mean_of(pdmm.LeastSquares(A, b)), np.zeros(6), 60, prox)
    rows = A.reshape(-1, 6)
    expected = np.linalg.solve(rows.T @ rows + np.diag(q), rows.T @ b.ravel())
    np.testing.assert_allclose(LBFGS().solution(states[-1]), expected, rtol=1e-8)


# --- in scaled and centred columns --------------------------------------------------------------


def logistic(factors: Vector) -> pdmm.GLM:
    rng = np.random.default_rng(4)
    means = np.array([0.0, 3.0, -2.0, 9.0])
    X = [rng.standard_normal((40, 4)) + means for _ in range(3)]
    y = [(rows @ [1, -1, 0.5, 0] + rng.standard_normal(40) > -4).astype(float) for rows in X]
    return pdmm.GLM([rows * factors for rows in X], y)


def test_in_a_diagonal_metric_the_units_of_columns_do_not_matter() -> None:
    factors = np.array([1e-5, 1e4, 1.0, 1e6])
    method = pdmm.LBFGS(20, metric="diagonal")
    exact = pdmm.solve(logistic(np.ones(4))).x
    plain = pdmm.solve(logistic(np.ones(4)), method, rounds=60)
    scaled = pdmm.solve(logistic(factors), method, rounds=60)
    np.testing.assert_allclose(plain.x, exact, rtol=1e-6)
    np.testing.assert_allclose(scaled.x[:4] * factors, exact[:4], rtol=1e-6)
    assert plain.history["round"][:3].tolist() == [0, 1, 2]  # the diagonals take a round


def test_in_a_diagonal_metric_a_penalty_is_that_of_x() -> None:
    problem = logistic(np.array([1.0, 10.0, 0.1, 3.0]))
    for c in (2.0, np.array([1.0, 2.0, 3.0, 4.0, 5.0])):  # the second has the intercept's too
        h = pdmm.SquaredL2(c)
        exact = pdmm.solve(problem, regulariser=h).x
        found = pdmm.solve(problem, pdmm.LBFGS(20, metric="diagonal"), rounds=80, regulariser=h).x
        np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_a_diagonal_permits_l_bfgs_where_everybody_takes_part() -> None:
    problem = logistic(np.array([1.0, 10.0, 0.1, 3.0]))
    chosen = pdmm.solve(problem, curvature="diagonal")
    assert chosen.method == pdmm.LBFGS(100, metric="diagonal")
    assert "scaled and centred" in chosen.choices[0]
    kinked = pdmm.solve(problem, curvature="diagonal", regulariser=pdmm.L1(1.0), rounds=3)
    assert isinstance(kinked.method, pdmm.PDMM)
    missing = pdmm.solve(problem, curvature="diagonal", participation=0.5, rounds=3)
    assert isinstance(missing.method, pdmm.PDMM)


def test_a_metric_of_l_bfgs_is_permitted_or_refused() -> None:
    with pytest.raises(ValueError, match="needs curvature='diagonal'"):
        pdmm.solve(logistic(np.ones(4)), pdmm.LBFGS(metric="diagonal"), curvature="none")
    with pytest.raises(ValueError, match="metric"):
        pdmm.LBFGS(metric="full")  # type: ignore[arg-type]
