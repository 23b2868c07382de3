"""What is seen of the points at which a site answers, against closed forms and by the blocks."""

from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.privacy.refusals import Reason
from pdmm.privacy.watch import Watch, WatchedSource, effective_rows, largest_leverage

RNG = np.random.default_rng(1)
X = [RNG.standard_normal((n, 3)) for n in (30, 20)]
COUNTS = [RNG.integers(0, 4, len(rows)) for rows in X]
YES = [counts > 1 for counts in COUNTS]
TIMES = [np.column_stack([1 + counts, counts > 0]) for counts in COUNTS]


def test_effective_rows_of_equal_curvatures_is_their_number() -> None:
    assert effective_rows(np.ones((17, 1))) == pytest.approx(17)
    assert effective_rows(np.array([[1.0], [1.0], [1e-9], [0.0]])) == pytest.approx(2)


def test_effective_rows_is_that_of_the_worst_predictor() -> None:
    bends = np.array([[1.0, 1e-30], [1.0, 0.0], [1.0, 0.0]])
    assert effective_rows(bends) == pytest.approx(1)
    assert effective_rows(np.zeros((5, 1))) == 0.0
    assert effective_rows(np.full((5, 1), np.nan)) == 0.0


def test_leverages_are_those_of_the_hat_matrix() -> None:
    w = RNG.uniform(0.1, 1, 30)
    rows = X[0] * np.sqrt(w)[:, None]
    hat = rows @ np.linalg.solve(rows.T @ rows, rows.T)
    assert largest_leverage(X[0], w) == pytest.approx(np.diag(hat).max(), rel=1e-9)


PROBLEMS: dict[str, pdmm.Problem] = {
    "binomial": pdmm.GLM(X, YES, "binomial"),
    "poisson": pdmm.GLM(X, COUNTS, "poisson"),
    "gamma": pdmm.GLM(X, [1.0 + counts for counts in COUNTS], "gamma"),
    "multinomial": pdmm.GLM(X, [counts % 3 for counts in COUNTS], "multinomial"),
    "cox": pdmm.GLM(X, TIMES, "cox"),
    "softmax": pdmm.SoftmaxRegression(X, [counts % 3 for counts in COUNTS], 3),
}
ASKS: dict[str, Any] = {
    "gradient": lambda f, x: f.gradient(x),
    "value": lambda f, x: f.value(x),
    "value_and_gradient": lambda f, x: f.value_and_gradient(x),
    "certain_gradient": lambda f, x: f.certain_gradient(x),
    "steps": lambda f, x: f.steps(x, step=1e-9, count=3),
    "prox": lambda f, x: f.prox(np.repeat(x[None], f.size, axis=0), 1e9, x),
}
OF_CURVATURE: dict[str, Any] = {
    "hessian": lambda f, x: f.hessian(x),
    "majorant": lambda f, x: f.majorant(x),
    "curvature": lambda f, x: f.curvature(x),
    "diagonal": lambda f, x: f.diagonal(x),
    "along": lambda f, x: f.along(x, 0.1 * x, np.array([0.0, 1.0])),
}


def cases() -> list[tuple[str, str]]:
    every = [(name, ask) for name in PROBLEMS for ask in ASKS]
    return every + [(name, ask) for name in PROBLEMS if name != "softmax" for ask in OF_CURVATURE]


@pytest.mark.parametrize(("name", "ask"), cases())
def test_nothing_is_computed_at_a_point_that_is_not_seen(name: str, ask: str) -> None:
    """Every client is seen, with the largest linear predictor that a product gives by hand."""
    problem = PROBLEMS[name]
    x = RNG.standard_normal(problem.dimension)
    seen: dict[int, float] = {}

    class Look(Watch):
        def __call__(self, client: int, eta: Any, bends: Any, loss: float) -> None:
            seen[client] = max(seen.get(client, 0.0), float(np.abs(eta).max()))
            assert bends.shape == eta.shape or name in ("multinomial", "softmax")
            assert (bends >= 0).all()

    source = WatchedSource(problem, Look(np.inf, 0), 2)
    for block in problem.blocks():
        {**ASKS, **OF_CURVATURE}[ask](source.at(block), x)
    for i, rows in enumerate(X):
        assert seen[i] == pytest.approx(_largest(problem, name, rows, x), rel=0.15)


def _largest(problem: Any, name: str, rows: Any, x: Any) -> float:
    if name == "cox":
        centred = problem.tables()
        return float(max(np.abs(A @ x).max() for A in centred if len(A) == len(rows)))
    W = x.reshape(4, -1)
    eta = rows @ W[:3] + W[3]
    if name == "softmax":
        eta = eta - eta.mean(1, keepdims=True)
    return float(np.abs(eta).max())


@pytest.mark.parametrize("name", PROBLEMS)
def test_far_out_and_about_few_rows_is_refused(name: str) -> None:
    problem = PROBLEMS[name]
    x = np.zeros(problem.dimension)
    x[:2] = [1e4, -3e3]
    far = WatchedSource(problem, Watch(150.0, 0.0), 2).at(slice(0, 1))
    with pytest.raises(Reason, match=r"a linear predictor is .* max_eta is 150"):
        far.gradient(x)
    few = WatchedSource(problem, Watch(np.inf, 10.0), 2).at(slice(0, 1))
    with pytest.raises(Reason, match="min_effective_rows is 10"):
        few.gradient(x)


def test_the_way_of_an_exact_step_is_its_own() -> None:
    """Where it begins and where it ends is what leaves."""
    f = WatchedSource(PROBLEMS["binomial"], Watch(5.0, 0.0), 2).at(slice(0, 2))
    near, far = np.zeros((2, 4)), np.full((2, 4), 40.0)
    assert np.abs(f.prox(near, 1.0, near)).max() < 5
    for anchor, start in ((near, far), (far, near)):
        with pytest.raises(Reason, match="max_eta"):
            f.prox(anchor, 1e9, start)


def test_mini_batches_are_seen_as_what_they_are() -> None:
    softmax = pdmm.SoftmaxRegression(X, [c % 3 for c in COUNTS], 3, batch_size=5)
    watch = Watch(np.inf, 6.0)
    f = WatchedSource(softmax, watch, 2).at(slice(0, 2), np.zeros(2, dtype=np.int64))
    with pytest.raises(Reason, match="about 5 rows"):
        f.gradient(np.zeros(softmax.dimension))


def test_huber_bends_within_delta_alone() -> None:
    y = [np.zeros(len(rows)) for rows in X]
    y[0][:] = 1e9
    y[0][:3] = 0
    f = WatchedSource(pdmm.GLM(X, y, pdmm.Huber(1.0)), Watch(1.0, 4.0), 2).at(slice(0, 2))
    with pytest.raises(Reason, match="about 3 rows"):
        f.gradient(np.zeros(4))


def test_least_squares_bend_everywhere_alike() -> None:
    y = [rows[:, 0] for rows in X]
    f = WatchedSource(pdmm.GLM(X, y, "gaussian"), Watch(1.0, 20.0), 2).at(slice(0, 2))
    assert np.isfinite(f.gradient(np.full(4, 1e6))).all()


def test_a_line_that_leaves_what_is_allowed_has_no_values_there() -> None:
    problem = PROBLEMS["binomial"]
    x, way = np.zeros(4), np.array([1.0, 0.0, 0.0, 0.0])
    f = WatchedSource(problem, Watch(150.0, 0.0), 2).at(slice(0, 2))
    found = f.along(x, way, np.array([0.5, 1e3]))
    plain = problem.at(slice(0, 2)).along(x, way, np.array([0.5, 1e3]))
    np.testing.assert_array_equal(found[:, 0], plain[:, 0])
    assert np.isinf(found[:, 1]).any()
    with pytest.raises(Reason, match="max_eta"):
        f.along(np.full(4, 1e4), way, np.array([0.0]))
