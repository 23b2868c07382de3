"""PDMM with a metric for each client: its twin, its optimum, and every way a round can go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

import pdmm
from builders.ranks import close, on_ranks
from builders.sites import FakeSites
from pdmm.methods.own_metric import OwnMetric
from twins.own_metric import own_metric

Vector = npt.NDArray[np.float64]
SIZES = (30, 8, 25, 1, 40, 16)
SCALES = np.array([1.0, 1e-3, 1e4])
OWN = pdmm.PDMM(metric="own")


def outcome(family: str, eta: Vector, rng: np.random.Generator) -> Vector:
    if family == "binomial":
        return np.asarray(rng.random(len(eta)) < 1 / (1 + np.exp(-eta)), dtype=np.float64)
    if family == "poisson":
        return np.asarray(rng.poisson(np.exp(eta)), dtype=np.float64)
    if family == "gamma":
        return rng.gamma(2.0, np.exp(eta) / 2)
    return eta + rng.standard_normal(len(eta))


def table(family: str) -> tuple[list[Vector], list[Vector]]:
    rng = np.random.default_rng(11)
    X = []
    y = []
    for i, n in enumerate(SIZES):
        rows = rng.standard_normal((n, 3)) + 0.4 * i
        X.append(rows * SCALES)
        y.append(outcome(family, rows @ [0.4, -0.3, 0.2] - 0.2, rng))
    return X, y


def glm(family: str, some: Any = None) -> pdmm.GLM:
    X, y = table(family)
    chosen = range(len(X)) if some is None else some
    return pdmm.GLM([X[i] for i in chosen], [y[i] for i in chosen], family=family)


def last_gap(result: pdmm.Result) -> float:
    gap = result.history["gap"]
    return float(gap[-1] / gap[0])


# --- the mathematics ------------------------------------------------------------------------


def test_iterates_are_those_of_the_naive_twin() -> None:
    X, y = table("poisson")
    rows = [np.column_stack([x / SCALES, np.ones(len(x))]) for x in X]
    problem = pdmm.GLM(rows, y, family="poisson", intercept=False)
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    method = OwnMetric(pdmm.PDMM(0.8, 0.7, metric="own"))
    f = problem.at(slice(0, problem.clients))
    server = method.server_start(np.zeros(4), lambda v, t: v)
    memory = method.client_start(np.zeros((len(rows), 4)))
    found = []
    for _ in range(10):
        message = method.broadcast(server)
        upload, draft = method.client(message, memory, f, 0)
        memory = method.accept(memory, draft, upload)
        mean = type(upload)(*(np.tensordot(weights, part, 1) / weights.sum() for part in upload))
        server = method.server(server, mean, 1.0, lambda v, t: v)
        found.append(server.x)

    def exactly(i: int, a: Vector, P: Vector) -> Vector:
        def value(x: Vector) -> Any:
            eta = rows[i] @ x
            total = (np.exp(eta) - y[i] * eta).sum() + (x - a) @ P @ (x - a) / 2
            return total, rows[i].T @ (np.exp(eta) - y[i]) + P @ (x - a)

        def hessian(x: Vector) -> Vector:
            return np.asarray((rows[i].T * np.exp(rows[i] @ x)) @ rows[i] + P)

        start = np.zeros(4)
        options = {"gtol": 1e-12}
        answer = minimize(
            value, start, jac=True, hess=hessian, method="trust-exact", options=options
        )
        return np.asarray(answer.x)

    def hessian_of(A: Vector) -> Callable[[Vector], Vector]:
        return lambda x: (A.T * np.exp(A @ x)) @ A

    def gradient_of(A: Vector, counts: Vector) -> Callable[[Vector], Vector]:
        return lambda x: A.T @ (np.exp(A @ x) - counts)

    gradients = [gradient_of(*pair) for pair in zip(rows, y, strict=True)]
    hessians = [hessian_of(A) for A in rows]
    expected = own_metric(
        gradients, hessians, exactly, weights, np.zeros(4), rho=0.8, relaxation=0.7, rounds=10
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma", "gaussian"])
def test_it_arrives_in_few_rounds_whatever_the_scales(family: str) -> None:
    problem = glm(family)
    best = pdmm.solve(problem)
    result = pdmm.solve(problem, OWN, rounds=25, optimum=best.x)
    assert last_gap(result) <= 1e-10
    assert result.method == pdmm.PDMM(1.0, 0.7, metric="own")
    assert any("Hessians" in choice for choice in result.choices)
    assert any("relaxation 0.7" in choice for choice in result.choices)


@pytest.mark.parametrize("penalty", [pdmm.L1(2.0), pdmm.SquaredL2(1.0), pdmm.Box(-0.1, 0.1)])
def test_with_a_regulariser_it_agrees_with_newton(penalty: Any) -> None:
    problem = glm("poisson")
    best = pdmm.solve(problem, regulariser=penalty)
    result = pdmm.solve(problem, OWN, rounds=60, regulariser=penalty)
    np.testing.assert_allclose(result.x * [*SCALES, 1], best.x * [*SCALES, 1], atol=1e-6)
    assert (result.x == 0).tolist() == (best.x == 0).tolist()


# --- links, checkpoints, ranks and sites ----------------------------------------------------

LINKS: dict[str, dict[str, Any]] = {
    "participation": {"participation": 0.5},
    "loss": {"loss": 0.3},
    "both": {"participation": 0.5, "loss": 0.2, "state": "server"},
    "bits": {"bits": 10},
}


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
def test_it_is_exact_whatever_is_missing(links: dict[str, Any]) -> None:
    problem = glm("poisson")
    best = pdmm.solve(problem)
    result = pdmm.solve(problem, OWN, rounds=120, optimum=best.x, seed=5, **links)
    assert last_gap(result) <= 1e-12


def test_a_renewal_is_counted_and_no_other_round_has_one() -> None:
    problem = glm("poisson")
    result = pdmm.solve(problem, OWN, rounds=12)
    each = np.diff(result.history["bytes_up"][1:]) / (8 * problem.clients)
    vector, triangle = 4, 10
    renewed = vector + 1 + triangle
    plain = vector + 1
    expected = [renewed, renewed, plain, renewed, plain, plain, plain, renewed, plain, plain]
    assert each.tolist() == expected


@pytest.mark.parametrize("links", [{}, LINKS["both"], LINKS["bits"]], ids=["all", "both", "bits"])
def test_a_checkpoint_goes_on_to_the_same_bits(links: dict[str, Any], tmp_path: Path) -> None:
    problem = glm("binomial")
    whole = pdmm.solve(problem, OWN, rounds=20, **links)
    path = tmp_path / "run.safetensors"
    pdmm.solve(problem, OWN, rounds=20, **links, checkpoint=path, callback=lambda r, x: r == 7)
    resumed = pdmm.resume(path, problem)
    assert (resumed.x == whole.x).all()
    assert (resumed.history["bytes_up"] == whole.history["bytes_up"]).all()


def test_ranks_and_sites_find_the_same() -> None:
    one = pdmm.solve(glm("poisson"), OWN, rounds=15)

    def work(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return pdmm.solve(glm("poisson", mpi.range(len(SIZES))), OWN, rounds=15, engine=mpi)

    for result in on_ranks(3, work):
        assert close(one.x, result.x)
    shares = {"ana": range(0, 2), "ben": range(2, 3), "cyd": range(3, 6)}
    sites = pdmm.engines.Sites(FakeSites(lambda some: glm("poisson", some), shares))
    assert close(one.x, pdmm.solve(sites, OWN, rounds=15).x)


# --- what is refused ------------------------------------------------------------------------


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no acceleration"):
        pdmm.PDMM(metric="own", acceleration="anderson")
    with pytest.raises(ValueError, match="for exact steps"):
        pdmm.AGPDMM(metric="own")
    with pytest.raises(ValueError, match="needs curvature='full'"):
        pdmm.solve(glm("poisson"), OWN, curvature="diagonal")


@pytest.mark.parametrize("metric", ["own", "full"])
@pytest.mark.parametrize(
    "h", [None, pdmm.SquaredL2(1.0), pdmm.SquaredL2(np.ones(12)), pdmm.L1(1.0)]
)
def test_directions_that_the_data_do_not_determine_do_no_harm(
    metric: Any, h: pdmm.Regulariser | None
) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4, 50, 3))
    y = rng.integers(0, 3, size=(4, 50))
    problem = pdmm.GLM(X, y, "multinomial", reference=False)  # one in each column is undetermined
    best = pdmm.solve(problem, regulariser=h, rounds=20).history["objective"][-1]
    method = pdmm.PDMM(metric=metric)
    result = pdmm.solve(problem, method, 40, regulariser=h)
    assert result.history["objective"][-1] - best < 1e-2


@pytest.mark.parametrize("metric", ["full", "diagonal"])
def test_in_a_common_metric_auto_relaxes_what_a_flat_client_does_not_damp(metric: Any) -> None:
    X, y = table("poisson")
    problem = pdmm.GLM(X, y, "poisson")
    result = pdmm.solve(problem, pdmm.PDMM(rho="auto", metric=metric), 60, tolerance=1e-10)
    assert "certified" in result.reason
    assert any(sentence.startswith("relaxation 0.9") for sentence in result.choices)
    given = pdmm.solve(problem, pdmm.PDMM(rho="auto", metric=metric, relaxation=0.5), 3)
    assert "relaxation=0.5" in repr(given.method)


@pytest.mark.parametrize("metric", ["own", "diagonal"])
@pytest.mark.parametrize("seed", range(4))
def test_huber_has_a_metric_where_its_second_derivative_is_0(metric: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 3))
    y = X.sum(axis=1) + rng.standard_t(1.5, size=30)
    parts = np.array_split(np.arange(30), 4)
    problem = pdmm.GLM([X[rows] for rows in parts], [y[rows] for rows in parts], pdmm.Huber(0.5))
    best = problem.objective(pdmm.solve(problem).x)
    result = pdmm.solve(problem, pdmm.PDMM(metric=metric), 60)
    assert problem.objective(result.x) - best < 1e-4
