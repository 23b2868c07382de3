"""An honest server and a curious researcher; and honest fits, under the default policy."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import pdmm
from builders.sites import FakeSites
from pdmm.engines import Refused
from pdmm.engines.sites.sites import Sites
from privacy.server import PARTIES
from privacy.tables import Table, logistic, standardised, whole

# --- honest servers -------------------------------------------------------------------------------


def federation(table: Table, parts: int = 3) -> FakeSites:
    names = PARTIES[:parts]
    shares = {name: k for k, name in enumerate(names)}
    return FakeSites(lambda k: table.part(k, parts).problem(), shares, policy=None)


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
    assert any("not at the start" in e.reason for e in sites.sites["ana"].audit.kept)


def test_a_box_chooses_the_second_point_even_where_the_sites_compute_x() -> None:
    # What remains: who chooses the regulariser leads a run into a corner of it. The limits on
    # points hold there too.
    table = whole()
    rows = np.column_stack([table.X, np.ones(len(table.X))])
    downhill = -np.sign(rows.T @ (0.5 - table.y))
    for size, outcome in ((0.3, "answered"), (300.0, "refused")):
        corner = downhill * np.linspace(size / 2, size, 9)
        box = pdmm.Box(np.minimum(0, corner), np.maximum(0, corner))
        sites = federation(table)
        clients = Sites(sites, verify="sites", absent="wait")
        points: list[Any] = []

        def note(r: int, x: Any, points: list[Any] = points) -> None:
            points.append(x.copy())

        with suppress(Refused):
            method = pdmm.AGPDMM(1e3, 1)
            pdmm.solve(clients, method, regulariser=box, rounds=2, callback=note)
        np.testing.assert_allclose(points[0], corner)
        rounds = [e for e in sites.sites["ana"].audit.kept if (e.verb, e.round) == ("round", 2)]
        assert [entry.outcome for entry in rounds] == [outcome]


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
