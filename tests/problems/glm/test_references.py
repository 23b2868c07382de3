"""Every family on the pooled table, against statsmodels, scikit-learn and CVXPY."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import statsmodels.api as sm
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import pdmm
from builders.glm import HUBER, Table, optimum, problem, table

cvxpy: Any = pytest.importorskip("cvxpy")

Array = npt.NDArray[Any]

SM = {
    "gaussian": sm.families.Gaussian(),
    "binomial": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}


def pooled(given: Table) -> tuple[Array, Array, Array, Array]:
    X = np.concatenate(given.X)
    return (
        np.column_stack([X, np.ones(len(X))]),
        np.concatenate(given.y),
        np.concatenate(given.w),
        np.concatenate(given.offset),
    )


def statsmodels(family: str, given: Table, weighted: bool = True) -> Any:
    X, y, w, offset = pooled(given)
    more = {"freq_weights": w, "offset": offset} if weighted else {}
    model = sm.GLM(y, X, family=SM[family], **more)
    return model.fit(tol=1e-15, tol_criterion="params", maxiter=100)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("family", list(SM))
def test_statsmodels(family: str, weighted: bool) -> None:
    given = table(family)
    fitted = statsmodels(family, given, weighted)
    more = {} if weighted else {"sample_weight": None, "offset": None}
    glm = problem(family, given, **more)
    x = optimum(glm)
    assert np.abs((x - fitted.params) / fitted.bse).max() < 1e-8
    assert glm.log_likelihood(x) == pytest.approx(fitted.llf, rel=1e-10)


def test_fractions_as_outcomes() -> None:
    given = table("binomial")
    rng = np.random.default_rng(1)
    given = given._replace(y=[rng.uniform(0, 1, len(y)) for y in given.y])
    fitted = statsmodels("binomial", given)
    glm = problem("binomial", given)
    x = optimum(glm)
    assert np.abs((x - fitted.params) / fitted.bse).max() < 1e-8
    assert glm.log_likelihood(x) == pytest.approx(fitted.llf, rel=1e-10)


def test_gamma_outcomes_of_any_unit_take_few_rounds() -> None:
    given = table("gamma")
    plain = optimum(problem("gamma", given))
    large = given._replace(y=[1e8 * y for y in given.y])
    f = problem("gamma", large).at(slice(0, 4))
    begin = f.working()
    x = -np.linalg.solve(begin.hessian.sum(0), begin.gradient.sum(0))
    moved = plain + np.array([0, 0, 0, np.log(1e8)])
    assert np.abs(x - moved).max() < 1  # the start alone is near
    np.testing.assert_allclose(optimum(problem("gamma", large)), moved, atol=1e-9)


@pytest.mark.parametrize("family", ["binomial", "poisson", "gaussian"])
def test_sparse_rows_give_the_same(family: str) -> None:
    given = table(family)
    mixed = [sparse.csr_matrix(X) if i % 2 else sparse.coo_array(X) for i, X in enumerate(given.X)]
    thin = given._replace(X=mixed)
    np.testing.assert_allclose(
        optimum(problem(family, thin)), optimum(problem(family, given)), rtol=1e-11
    )


def test_without_an_intercept() -> None:
    given = table("poisson")
    X, y, w, offset = pooled(given)
    model = sm.GLM(y, X[:, :-1], family=SM["poisson"], freq_weights=w, offset=offset)
    fitted = model.fit(tol=1e-15, tol_criterion="params", maxiter=100)
    glm = problem("poisson", given, intercept=False)
    assert glm.intercepts is None
    assert np.abs((optimum(glm) - fitted.params) / fitted.bse).max() < 1e-8


def test_huber_against_cvxpy() -> None:
    given = table(HUBER)
    X, y, w, offset = pooled(given)
    beta = cvxpy.Variable(X.shape[1])
    terms = cvxpy.huber(X @ beta + offset - y, HUBER.delta)
    model = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(w, terms)) / 2))
    model.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    glm = problem(HUBER, given)
    x = optimum(glm)
    np.testing.assert_allclose(x, np.asarray(beta.value), atol=1e-7)
    assert glm.objective(x) == pytest.approx(model.value, rel=1e-10)
    assert glm.objective(x) <= model.value * (1 + 1e-13)


def test_multinomial_against_statsmodels() -> None:
    given = table("multinomial")
    X, y, _, _ = pooled(given)
    fitted = sm.MNLogit(y, X).fit(method="newton", tol=1e-14, ridge_factor=0, maxiter=100, disp=0)
    glm = problem("multinomial", given, sample_weight=None)
    x = optimum(glm)
    found = x.reshape(4, 2)
    assert np.abs((found - fitted.params) / fitted.bse).max() < 1e-8
    assert glm.log_likelihood(x) == pytest.approx(fitted.llf, rel=1e-10)
    np.testing.assert_allclose(glm.predict_mean(x, X[:, :-1]), fitted.predict(), atol=1e-12)


def test_the_reference_changes_no_prediction() -> None:
    given = table("multinomial")
    first = problem("multinomial", given)
    last = problem("multinomial", given, reference=2)
    assert last.names[:2] == ("x0:0", "x0:1")
    new = given.X[0]
    ours = first.predict_mean(optimum(first), new)
    np.testing.assert_allclose(last.predict_mean(optimum(last), new), ours, atol=1e-11)


def test_all_classes_with_l2_against_scikit_learn() -> None:
    given = table("multinomial")
    X = np.concatenate(given.X)
    y = np.concatenate(given.y)
    w = np.concatenate(given.w)
    model = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-12, solver="newton-cg")
    model.fit(X, y, sample_weight=w)
    glm = problem("multinomial", given, reference=False, intercept=False)
    np.testing.assert_allclose(optimum(glm, l2=2.0).reshape(3, 3), model.coef_.T, atol=1e-7)


def test_two_classes_are_the_binomial_family() -> None:
    given = table("binomial")
    two = problem("multinomial", given)
    one = problem("binomial", given, offset=None)
    x = np.array([0.3, -0.2, 0.5, 0.1])
    assert two.objective(x) == pytest.approx(one.objective(x), rel=1e-14)
    f, g = (glm.at(slice(0, 4)) for glm in (two, one))
    T = np.triu(np.ones((4, 4)))
    for name in ("value", "gradient", "hessian", "reach", "unsettled"):
        for ours, theirs in ((f.curvature(x, T), g.curvature(x, T)), (f.working(T), g.working(T))):
            one_is, other_is = getattr(ours, name), getattr(theirs, name)
            np.testing.assert_allclose(one_is, other_is, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_cox_against_statsmodels(ties: str) -> None:
    given = table("cox", (30, 5, 45, 12))
    X = np.concatenate(given.X)
    time, event = np.concatenate(given.y).T
    strata = np.repeat(np.arange(4), [len(y) for y in given.y])
    offset = np.concatenate(given.offset)
    model = sm.PHReg(time, X, status=event, strata=strata, offset=offset, ties=ties)
    fitted = model.fit(method="newton", tol=1e-14, maxiter=100, disp=0)
    glm = problem("cox", given, sample_weight=None, ties=ties)
    assert glm.dimension == 3
    x = optimum(glm)
    assert np.abs((x - fitted.params) / fitted.bse).max() < 1e-8
    assert glm.log_likelihood(x) == pytest.approx(fitted.llf, rel=1e-10)
    risk = glm.predict(x, X, offset)
    np.testing.assert_allclose(risk, np.exp(X @ x + offset), rtol=1e-12)


@pytest.mark.parametrize("method", [pdmm.PDMM(), pdmm.AGPDMM()], ids=["PDMM", "AGPDMM"])
@pytest.mark.parametrize("family", ["poisson", "gamma", "binomial"])
def test_auto_runs_also_where_there_is_no_L(family: str, method: Any) -> None:
    glm = problem(family)
    best = glm.objective(optimum(glm))
    first = glm.objective(np.zeros(glm.dimension)) - best
    result = pdmm.solve(glm, method, rounds=60)
    assert glm.objective(result.x) - best < 0.02 * first
    if method.exact:
        assert result.history["gradient_calls"][-1] <= 4 * result.history["exact_calls"][-1]
