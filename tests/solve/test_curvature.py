"""``pdmm.solve`` with curvature: Newton's method, metrics, permissions and certificates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import pdmm

RNG = np.random.default_rng(15)
SCALES = 10.0 ** RNG.uniform(-3, 3, 4)


def table(family: str, scales: Any = 1.0) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((240, 4)) + 0.5
    eta = X @ np.array([0.5, -0.4, 0.3, 0.2]) - 0.3
    y: Any = {
        "binomial": lambda: (rng.random(240) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
        "gaussian": lambda: eta + rng.standard_normal(240),
    }[family]()
    order = np.argsort(X[:, 0])
    parts = np.array_split(order, 6)
    return [X[rows] * scales for rows in parts], [y[rows] for rows in parts]


def glm(family: str, scales: Any = 1.0) -> pdmm.GLM:
    return pdmm.GLM(*table(family, scales), family=family)


FAMILIES = ("binomial", "poisson", "gamma", "gaussian")


@pytest.mark.parametrize("family", FAMILIES)
def test_auto_takes_newton_and_is_certified(family: str) -> None:
    result = pdmm.solve(glm(family))
    assert isinstance(result.method, pdmm.Newton)
    assert result.rounds <= 12
    assert result.certificate.gap is not None
    assert result.certificate.standard_errors is not None
    assert result.certificate.standard_errors <= 1.1e-8
    assert "standard errors" in result.reason
    assert "numbers from each client" in result.choices[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_metrics_reach_the_same_optimum(family: str, metric: Any) -> None:
    problem = glm(family, SCALES)
    best = pdmm.solve(problem)
    method = pdmm.PDMM(rho="auto", relaxation=0.9, acceleration="anderson", metric=metric)
    result = pdmm.solve(problem, method, rounds=80, optimum=best.x)
    first, last = result.history["gap"][[0, -1]]
    assert last <= 1e-10 * first
    assert result.history["round"][1] == (1 if metric == "diagonal" else 2)  # every exchange
    assert result.history["bytes_up"][1] > 0


def test_scales_change_neither_rounds_nor_predictions() -> None:
    for family in FAMILIES:
        plain, scaled = glm(family), glm(family, SCALES)
        a, b = pdmm.solve(plain), pdmm.solve(scaled)
        assert abs(a.rounds - b.rounds) <= 2
        X = np.concatenate(table(family)[0])
        np.testing.assert_allclose(
            plain.predict_mean(a.x, X), scaled.predict_mean(b.x, X * SCALES), rtol=1e-9
        )


@pytest.mark.parametrize("penalty", [pdmm.L1(3.0), pdmm.ElasticNet(2.0, 1.0), pdmm.Box(-0.2, 0.2)])
@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_a_metric_with_kinks_agrees_with_newton(penalty: Any, metric: Any) -> None:
    problem = glm("poisson", SCALES**0.2)
    best = pdmm.solve(problem, regulariser=penalty)
    assert best.certificate.gap is not None
    assert best.certificate.gap <= 1e-14 * best.history["objective"][0]
    method = pdmm.PDMM(rho="auto", relaxation=0.9, acceleration="anderson", metric=metric)
    result = pdmm.solve(problem, method, rounds=100, regulariser=penalty)
    np.testing.assert_allclose(result.x, best.x, atol=1e-6)
    assert (result.x == 0).tolist() == (best.x == 0).tolist()


def test_a_number_spares_the_intercept() -> None:
    result = pdmm.solve(glm("binomial"), regulariser=pdmm.L1(1e4))
    assert (result.x[:-1] == 0).all()
    assert result.x[-1] != 0
    everything = pdmm.solve(glm("binomial"), regulariser=pdmm.L1(np.full(5, 1e4)))
    assert (everything.x == 0).all()


@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_a_metric_goes_on_after_losses_and_from_a_checkpoint(tmp_path: Path, metric: Any) -> None:
    problem = glm("binomial", SCALES)
    method = pdmm.PDMM(rho=1.0, relaxation=0.9, metric=metric)
    settings: Any = {"rounds": 60, "participation": 0.5, "loss": 0.2, "seed": 3}
    whole = pdmm.solve(problem, method, **settings)
    path = tmp_path / "run.safetensors"
    pdmm.solve(problem, method, **settings, checkpoint=path, callback=lambda r, x: r == 25)
    resumed = pdmm.resume(path, problem)
    assert (resumed.x == whole.x).all()
    objective = whole.history["objective"]
    assert objective[-1] < objective[0]


def test_newton_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    problem = glm("poisson")
    whole = pdmm.solve(problem, pdmm.Newton())
    path = tmp_path / "run.safetensors"
    pdmm.solve(problem, pdmm.Newton(), checkpoint=path, callback=lambda r, x: r == 3)
    resumed = pdmm.resume(path, problem)
    assert (resumed.x == whole.x).all()
    assert resumed.rounds == whole.rounds


# --- permissions ----------------------------------------------------------------------------


def test_curvature_is_a_permission() -> None:
    problem = glm("binomial")
    with pytest.raises(ValueError, match="needs curvature='full', but curvature='diagonal'"):
        pdmm.solve(problem, pdmm.Newton(), curvature="diagonal")
    with pytest.raises(ValueError, match="curvature must be"):
        pdmm.solve(problem, curvature="some")  # type: ignore[arg-type]
    none = pdmm.solve(problem, curvature="none", rounds=5)
    assert isinstance(none.method, pdmm.PDMM)
    assert none.method.metric is None
    diagonal = pdmm.solve(problem, curvature="diagonal", rounds=5)
    assert getattr(diagonal.method, "metric", None) == "diagonal"


def test_what_cannot_be_sent_or_is_not_known_is_refused() -> None:
    rng = np.random.default_rng(0)
    wide = pdmm.GLM([rng.standard_normal((2, 5000)) for _ in range(2)], [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"12,512,502 numbers"):
        pdmm.solve(wide, curvature="full")
    functions = pdmm.Functions([lambda x: float(x @ x)], [lambda x: 2 * x], dimension=2)
    with pytest.raises(ValueError, match="does not know"):
        pdmm.solve(functions, pdmm.Newton())


def test_newton_refuses_absences() -> None:
    with pytest.raises(ValueError, match="every client in every round"):
        pdmm.solve(glm("binomial"), pdmm.Newton(), participation=0.5)


def test_without_everyone_a_metric_is_chosen() -> None:
    result = pdmm.solve(glm("binomial"), participation=0.5, rounds=20)
    assert getattr(result.method, "metric", None) == "own"


def test_separation_is_said_and_not_certified() -> None:
    X = [np.array([[-2.0], [-1.0]]), np.array([[1.0], [2.0]])]
    result = pdmm.solve(pdmm.GLM(X, [[0, 0], [1, 1]]))
    assert "separated" in result.reason
    assert result.certificate.gap is None


def test_what_was_not_reached_is_said_in_standard_errors() -> None:
    result = pdmm.solve(glm("binomial"), pdmm.Newton(), rounds=2)
    assert result.reason.startswith("all 2 rounds done, 1e-08 of a standard error not reached")


@pytest.mark.parametrize("c", [5.0, 0.01])
def test_the_lasso_with_more_columns_than_rows_takes_few_rounds(c: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(40)
    problem = pdmm.GLM(np.split(X, 4), np.split(y, 4), "gaussian")
    result = pdmm.solve(problem, regulariser=pdmm.L1(c))
    assert result.rounds <= 12
    assert "not determined by the data" in result.reason
    assert result.certificate.gap is None
    theirs = Lasso(c / 40, tol=1e-14, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(result.x[:-1], theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_an_elastic_net_with_more_columns_than_rows_is_certified_in_few_rounds(family: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y = rng.poisson(np.exp(X[:, :3].sum(axis=1) / 4)).astype(float)
    if family == "binomial":
        y = np.minimum(y, 1.0)
    problem = pdmm.GLM(np.split(X, 4), np.split(y, 4), family)
    result = pdmm.solve(problem, regulariser=pdmm.ElasticNet(5.0, 1.0))
    assert result.rounds <= 10
    assert result.certificate.gap is not None


def test_f_never_rises_where_l1_alone_chooses_among_many_x() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 60))
    y = X[:, :3].sum(axis=1) / 3 + rng.standard_t(2, size=40)
    problem = pdmm.GLM(np.split(X, 4), np.split(y, 4), pdmm.Huber(1.0))
    result = pdmm.solve(problem, regulariser=pdmm.L1(2.0), rounds=15)
    assert np.diff(result.history["objective"]).max() <= 1e-9
