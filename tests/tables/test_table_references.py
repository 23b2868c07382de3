"""Every number of a fit beside statsmodels' and scikit-learn's on the pooled table."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, PoissonRegressor, Ridge
from statsmodels.duration.hazard_regression import PHReg

import pdmm

DATA = Path(statsmodels.__file__).parent / "datasets"


def rand() -> pd.DataFrame:
    table = pd.read_csv(DATA / "randhie" / "src" / "randhie.csv")[::7].reset_index(drop=True)
    return table.assign(any=(table.mdvis > 0).astype(int))


def fair() -> pd.DataFrame:
    table = sm.datasets.fair.load_pandas().data[::4].reset_index(drop=True)
    return table.assign(any=(table.affairs > 0).astype(int))


def star() -> pd.DataFrame:
    table = sm.datasets.star98.load_pandas().data
    total = table.NABOVE + table.NBELOW
    county = np.digitize(table.LOWINC, [25, 45, 65])
    return table.assign(total=total, part=table.NABOVE / total, county=county)


def cancer() -> pd.DataFrame:
    found = load_breast_cancer(as_frame=True).frame
    found.columns = [name.replace(" ", "_") for name in found]
    return found.assign(site=np.arange(len(found)) * 5 // len(found))


def diabetes() -> pd.DataFrame:
    return load_diabetes(as_frame=True, scaled=False).frame.assign(site=lambda f: f.sex.astype(int))


def wine() -> pd.DataFrame:
    found = load_wine(as_frame=True).frame
    return found.assign(site=np.arange(len(found)) % 4)


def longley() -> pd.DataFrame:
    return sm.datasets.longley.load_pandas().data.assign(era=lambda f: (f.YEAR > 1955).astype(int))


def strikes() -> pd.DataFrame:
    return sm.datasets.strikes.load_pandas().data.assign(half=lambda f: np.arange(len(f)) % 3)


BINOMIAL = sm.families.Binomial()
GAMMA = sm.families.Gamma(sm.families.links.Log())

# table, formula, the column of clients, our family, theirs
CASES: dict[str, tuple[Callable[[], pd.DataFrame], str, str, str, Any]] = {
    "RAND, any visit": (
        *(rand, "any ~ coins + xage + C(female) + physlm + disea + linc"),
        *("site", "binomial", BINOMIAL),
    ),
    "RAND, visits": (
        *(rand, "mdvis ~ coins + xage + C(female) * disea + linc"),
        *("site", "poisson", sm.families.Poisson()),
    ),
    "fair": (
        *(fair, "any ~ age + yrs_married + C(religious) + np.log(educ)"),
        *("occupation", "binomial", BINOMIAL),
    ),
    "cancer": (
        *(cancer, "target ~ mean_radius + mean_texture + mean_symmetry"),
        *("site", "binomial", BINOMIAL),
    ),
    "diabetes": (
        *(diabetes, "target ~ age + bmi + bp + s5"),
        *("site", "gaussian", sm.families.Gaussian()),
    ),
    "wine, colour": (
        *(wine, "color_intensity ~ alcohol + hue + C(target)"),
        *("site", "gamma", GAMMA),
    ),
    "longley": (
        *(longley, "TOTEMP ~ GNP + UNEMP + ARMED"),
        *("era", "gaussian", sm.families.Gaussian()),
    ),
    "strikes": (
        *(strikes, "duration ~ iprod"),
        *("half", "gamma", GAMMA),
    ),
}

COVARIANCES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "model": lambda groups: {},
    "robust": lambda groups: {"cov_type": "HC0"},
    "client": lambda groups: {"cov_type": "cluster", "cov_kwds": {"groups": groups}},
}


def close(ours: Any, theirs: Any, rtol: float = 1e-8) -> None:
    theirs = theirs.rename(index={"const": "Intercept"})
    np.testing.assert_allclose(ours[theirs.index], theirs, rtol=rtol)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("name", CASES)
def test_estimates_errors_and_likelihood_are_those_of_statsmodels(
    name: str, covariance: Any
) -> None:
    make, formula, client, family, theirs = CASES[name]
    table = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few clusters, whole numbers in a gamma model
        ours = pdmm.fit(formula, table, client=client, family=family, covariance=covariance)
        model = smf.glm(formula, table, family=theirs)
        reference = model.fit(
            tol=1e-13, tol_criterion="params", maxiter=200, **COVARIANCES[covariance](table[client])
        )
    assert (
        np.abs(ours.params[reference.params.index] - reference.params) < 5e-8 * reference.bse
    ).all()
    close(ours.bse, reference.bse, 1e-7)
    close(ours.tvalues, reference.tvalues, 1e-6)
    np.testing.assert_allclose(
        ours.pvalues[reference.pvalues.index], reference.pvalues, rtol=1e-6, atol=1e-12
    )
    interval = reference.conf_int()
    np.testing.assert_allclose(ours.conf_int().loc[interval.index], interval, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        ours.cov_params().loc[reference.params.index, reference.params.index],
        reference.cov_params(),
        rtol=1e-6,
        atol=1e-12 * float(np.abs(reference.cov_params().to_numpy()).max()),
    )
    numbers = (ours.llf, ours.aic, ours.bic, ours.deviance, ours.nobs, ours.scale, ours.df_resid)
    expected = (
        *(reference.llf, reference.aic, reference.bic_llf, reference.deviance, reference.nobs),
        *(reference.scale, reference.df_resid),
    )
    np.testing.assert_allclose(numbers, expected, rtol=1e-8)
    np.testing.assert_allclose(ours.predict(table), reference.predict(table), rtol=1e-7)
    assert ours.certificate.standard_errors is not None
    assert ours.certificate.standard_errors < 1e-7


def test_weights_and_offsets() -> None:
    table = star()
    ours = pdmm.fit("part ~ LOWINC + PERASIAN + AVYRSEXP", table, "county", weights="total")
    theirs = smf.glm(
        "part ~ LOWINC + PERASIAN + AVYRSEXP",
        table,
        family=BINOMIAL,
        freq_weights=table.total.to_numpy(),
    ).fit(tol=1e-14)
    close(ours.params, theirs.params)
    close(ours.bse, theirs.bse)
    assert ours.nobs == table.total.sum()
    counts = rand()
    formula = "mdvis ~ coins + disea"
    ours = pdmm.fit(formula, counts, "site", "poisson", offset="np.log(time)", scale="pearson")
    theirs = smf.glm(formula, counts, family=sm.families.Poisson(), offset=np.log(counts.time)).fit(
        tol=1e-14, scale="X2"
    )
    close(ours.params, theirs.params)
    close(ours.bse, theirs.bse)
    np.testing.assert_allclose(ours.llf, theirs.llf, rtol=1e-10)
    np.testing.assert_allclose(ours.predict(counts), theirs.fittedvalues, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["model", "robust"])
def test_a_multinomial_model_is_that_of_mnlogit(covariance: Any) -> None:
    table = sm.datasets.anes96.load_pandas().data
    formula = "PID ~ logpopul + selfLR + age + educ"
    ours = pdmm.fit(formula, table, client="vote", family="multinomial", covariance=covariance)
    kind = {} if covariance == "model" else {"cov_type": "HC0"}
    model = sm.MNLogit.from_formula(formula, table)
    theirs = model.fit(disp=0, method="newton", maxiter=100, tol=1e-14, **kind)
    names = list(theirs.params.index)
    np.testing.assert_allclose(ours.params.unstack(0).loc[names], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours.bse.unstack(0).loc[names], theirs.bse, rtol=1e-8)
    np.testing.assert_allclose((ours.llf, ours.aic), (theirs.llf, theirs.aic), rtol=1e-10)
    np.testing.assert_allclose(ours.predict(table), theirs.predict(), rtol=1e-7)
    flat = theirs.cov_params().to_numpy()
    np.testing.assert_allclose(ours.cov_params(), flat, rtol=1e-5, atol=1e-9)


def survival() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 300
    table = pd.DataFrame({"age": rng.normal(60, 9, n), "dose": rng.integers(0, 3, n)})
    hazard = np.exp(0.04 * (table.age - 60) - 0.4 * table.dose)
    time = np.ceil(20 * rng.exponential(size=n) / hazard)
    last = rng.integers(5, 60, n)
    return table.assign(
        days=np.minimum(time, last), status=1 + (time <= last), clinic=rng.integers(0, 4, n)
    )


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("covariance", ["model", "robust", "client"])
def test_a_cox_model_is_that_of_phreg(ties: Any, covariance: Any) -> None:
    table = survival()
    formula = "Surv(days, status == 2) ~ age + C(dose)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = pdmm.fit(formula, table, "clinic", "cox", ties=ties, covariance=covariance)
        model = PHReg.from_formula(
            "days ~ age + C(dose)",
            table,
            status=(table.status == 2).to_numpy(),
            strata=table.clinic.to_numpy(),
            ties=ties,
        )
        groups = {"model": None, "robust": np.arange(len(table)), "client": table.clinic}[
            covariance
        ]
        theirs = model.fit(method="newton", maxiter=100, tol=1e-14, groups=groups)
    names = list(model.exog_names)
    np.testing.assert_allclose(ours.params[names], theirs.params, rtol=1e-8)
    errors = theirs.bse
    if covariance == "client" and ties == "efron":
        # PHReg takes Breslow's scores all the same, whose sums are not the clients' gradients.
        scores = np.stack([_score(model, own, theirs.params) for own in range(4)])
        bread = np.linalg.inv(-model.hessian(theirs.params))
        errors = np.sqrt(np.diag(bread @ scores.T @ scores @ bread))
    np.testing.assert_allclose(ours.bse[names], errors, rtol=1e-8)
    np.testing.assert_allclose(ours.llf, theirs.llf, rtol=1e-11)
    assert ours.sites["events"].sum() == (table.status == 2).sum()
    risk = np.exp(ours.params["age"] * table.age)
    risk *= np.exp(table.dose.map({0: 0, 1: ours.params.iloc[1], 2: ours.params.iloc[2]}))
    np.testing.assert_allclose(ours.predict(table), risk, rtol=1e-10)


def _score(model: Any, clinic: int, params: Any) -> Any:
    rows = model.strata == clinic
    alone = PHReg(model.endog[rows], model.exog[rows], status=model.status[rows], ties=model.ties)
    return alone.score(params)


def test_penalised_fits_are_those_of_scikit_learn() -> None:
    table = cancer()
    columns = [name for name in table if name not in ("target", "site")][:8]
    right = " + ".join(columns)
    X, y = table[columns].to_numpy(), table.target.to_numpy()
    n = len(y)
    logistic = LogisticRegression(C=0.5, solver="newton-cholesky", tol=1e-12, max_iter=500)
    cases: list[tuple[str, Any, dict[str, Any], Any, Any]] = [
        ("target", "binomial", {"l2": 2.0}, logistic, y),
        ("mean_radius", "gaussian", {"l2": 3.0}, Ridge(3.0, tol=1e-12), X[:, 0]),
        (
            "mean_radius",
            "gaussian",
            {"l1": n * 0.1},
            Lasso(0.1, tol=1e-14, max_iter=10**6),
            X[:, 0],
        ),
        (
            *("mean_radius", "gaussian", {"l1": n * 0.03, "l2": n * 0.07}),
            *(ElasticNet(0.1, l1_ratio=0.3, tol=1e-14, max_iter=10**6), X[:, 0]),
        ),
        (
            *("target", "poisson", {"l2": n * 0.2}),
            *(PoissonRegressor(alpha=0.2, tol=1e-12, max_iter=1000, solver="newton-cholesky"), y),
        ),
    ]
    for outcome, family, penalty, theirs, target in cases:
        names = [name for name in columns if name != outcome]
        formula = f"{outcome} ~ {' + '.join(names)}" if outcome in columns else f"target ~ {right}"
        ours = pdmm.fit(formula, table, client="site", family=family, **penalty)
        theirs.fit(table[names].to_numpy(), target)
        expected = np.append(theirs.intercept_, np.ravel(theirs.coef_))
        np.testing.assert_allclose(ours.params, expected, rtol=2e-6, atol=1e-8)
        with pytest.raises(ValueError, match="penalised fit has no standard errors"):
            _ = ours.pvalues
        assert "has no standard errors" in " ".join(ours.summary().split()).lower()


def test_standardised_penalties_are_those_of_scaled_columns() -> None:
    table = cancer()
    columns = ["mean_radius", "mean_area", "mean_smoothness"]
    X = table[columns].to_numpy()
    width = X.std(axis=0)
    ours = pdmm.fit(
        "target ~ " + " + ".join(columns), table, "site", l1=1.0, l2=2.0, standardise=True
    )
    theirs = LogisticRegression(
        C=1 / 3, l1_ratio=1 / 3, solver="saga", tol=1e-10, max_iter=10**6
    ).fit((X - X.mean(axis=0)) / width, table.target)
    np.testing.assert_allclose(ours.params.iloc[1:] * width, theirs.coef_[0], rtol=1e-5)
    plain = pdmm.fit("target ~ " + " + ".join(columns), table, "site")
    same = pdmm.fit("target ~ " + " + ".join(columns), table, "site", standardise=True)
    np.testing.assert_allclose(plain.params, same.params, rtol=1e-12)


def test_huber_has_robust_errors_alone() -> None:
    table = diabetes()
    formula = "target ~ bmi + bp"
    with pytest.raises(ValueError, match="a Huber loss is no likelihood"):
        pdmm.fit(formula, table, "site", pdmm.Huber(60.0))
    ours = pdmm.fit(formula, table, "site", pdmm.Huber(60.0), covariance="robust")
    X = np.column_stack([np.ones(len(table)), table.bmi, table.bp])
    r = X @ ours.params.to_numpy() - table.target.to_numpy()
    inside = np.abs(r) <= 60
    bread = np.linalg.inv((X * inside[:, None]).T @ X)
    scores = X * np.clip(r, -60, 60)[:, None]
    np.testing.assert_allclose(scores.sum(axis=0), 0, atol=1e-6 * np.abs(X).sum())
    np.testing.assert_allclose(ours.cov_params(), bread @ scores.T @ scores @ bread, rtol=1e-8)
    assert np.isnan(ours.llf)
