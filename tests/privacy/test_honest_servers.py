"""An honest server and a curious researcher; and honest fits, under the default policy."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import pdmm
from builders.sites import FakeSites
from pdmm.engines import Refused
from pdmm.engines.sites.sites import Sites
from pdmm.tables import load_rand_health
from privacy.server import PARTIES
from privacy.tables import Table, logistic, standardised, whole

# --- honest servers -------------------------------------------------------------------------------


def federation(table: Table, parts: int = 3, policy: Any = None) -> FakeSites:
    names = PARTIES[:parts]
    shares = {name: k for k, name in enumerate(names)}
    return FakeSites(lambda k: table.part(k, parts).problem(), shares, policy=policy)


def test_one_organisation_alone_is_no_study() -> None:
    with pytest.raises(Refused):
        pdmm.solve(Sites(federation(logistic(), 1)), pdmm.LBFGS(), rounds=5)


@pytest.mark.parametrize("verify", ["server", "sites"])
def test_a_box_does_not_choose_the_start(verify: Any) -> None:
    x = 0.3 * np.ones(9)
    sites = federation(whole())
    clients = Sites(sites, verify=verify)
    with pytest.raises(Refused):
        pdmm.solve(clients, pdmm.AGPDMM(0.01, 2), regulariser=pdmm.Box(x, x), rounds=5)
    assert any("the regulariser is Box" in e.reason for e in sites.sites["ana"].audit.kept)


CHOOSING: dict[str, tuple[Any, Any, str]] = {
    "a box": (
        pdmm.AGPDMM(0.01, 1),
        pdmm.Box(-np.ones(9), np.ones(9)),
        "a weight for each entry of x can choose x",
    ),
    "weights": (
        pdmm.AGPDMM(0.01, 1),
        pdmm.SquaredL2(np.linspace(1, 1e6, 9)),
        "a weight for each entry of x can choose x",
    ),
    "a long step": (pdmm.AGPDMM(1e3, 1), None, "a step of 1e+03 is more than 100/L"),
}


@pytest.mark.parametrize("what", CHOOSING)
def test_what_would_choose_x_though_the_sites_compute_it(what: str) -> None:
    method, regulariser, reason = CHOOSING[what]
    sites = federation(whole(), policy={"regularisers": "all"})
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites, verify="sites"), method, 2, regulariser=regulariser)
    assert any(reason in e.reason for site in sites.sites.values() for e in site.audit.kept)


# --- honest fits, under the default policy --------------------------------------------------------


def standard(name: str) -> Table:
    return {"logistic": whole, "cancer": cancer, "lines": lines, "softmax": classes}[name]()


def cancer() -> Table:
    X, y = load_breast_cancer(return_X_y=True)
    return Table(standardised(X), y.astype(float), "binomial")


def lines() -> Table:
    X, y = load_diabetes(return_X_y=True)
    return Table(standardised(X), standardised(y), "gaussian")


def classes() -> Table:
    table = whole()
    return table._replace(family="softmax", options={"classes": 2})


METHODS = {
    "AGPDMM": (pdmm.AGPDMM(), pdmm.SquaredL2(1.0)),
    "PDMM": (pdmm.PDMM(), pdmm.SquaredL2(1.0)),
    "LBFGS": (pdmm.LBFGS(), pdmm.SquaredL2(1.0)),
    "SCAFFOLD": (pdmm.Scaffold(), None),
}


@pytest.mark.parametrize("name", ["logistic", "cancer", "lines", "softmax"])
@pytest.mark.parametrize("method", METHODS)
def test_honest_fits_are_not_refused(name: str, method: str) -> None:
    sites = federation(standard(name))
    chosen, regulariser = METHODS[method]
    clients = Sites(sites, absent="wait")
    result = pdmm.solve(clients, chosen, regulariser=regulariser, rounds=30)
    assert result.rounds >= 10
    entries = [entry for site in sites.sites.values() for entry in site.audit.kept]
    assert {entry.outcome for entry in entries} <= {"answered", "spent"}
    assert max(entry.loss_ratio or 0.0 for entry in entries) < 2


# --- the table of the README -----------------------------------------------------------------


def rand(columns: list[str]) -> dict[str, tuple[Any, Any]]:
    """The RAND experiment, each site with a model matrix of these columns."""
    table = load_rand_health()
    X = pd.get_dummies(table[columns], drop_first=True).astype(float)
    y = (table["visited"] == "yes").astype(float)
    groups = table.groupby("site").groups
    return {f"site {k}": (X.loc[rows].to_numpy(), y[rows].to_numpy()) for k, rows in groups.items()}


def rand_sites(columns: list[str]) -> FakeSites:
    parts = rand(columns)
    names = {name: name for name in parts}
    return FakeSites(lambda name: pdmm.GLM([parts[name][0]], [parts[name][1]]), names, policy=None)


def test_the_fit_of_the_readme_runs_between_six_sites() -> None:
    """In 10 rounds, with 4% of the numbers that a table has, and to 1e-8 of the pooled fit."""
    columns = ["coinsurance", "age", "sex"]
    sites = rand_sites(columns)
    found = pdmm.solve(Sites(sites, absent="wait"))
    parts = rand(columns).values()
    pooled = pdmm.solve(pdmm.GLM([X for X, _ in parts], [y for _, y in parts]))
    assert np.abs(found.x - pooled.x).max() < 1e-8 * np.abs(pooled.x).max()
    assert found.rounds <= 12
    for site in sites.sites.values():
        assert site.doors.contents is not None
        assert site.audit.numbers < 0.06 * site.doors.contents.size


def test_columns_with_which_a_patient_is_alone_are_refused() -> None:
    sites = rand_sites(["coinsurance", "sex", "health", "limited"])
    with pytest.raises(Refused):
        pdmm.solve(Sites(sites))
    reasons = [entry.reason for site in sites.sites.values() for entry in site.audit.kept]
    assert any("a combination of the values of the discrete columns" in r for r in reasons)
