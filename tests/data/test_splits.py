"""Rows dealt out to clients: each once, none left out, and as unlike as was asked for."""

from typing import Any

import numpy as np
import pytest

import pdmm
from pdmm.data import splits

WAYS = ["dirichlet", "iid", "shards", "quantity"]
y = np.random.default_rng(0).integers(0, 10, 5000)


def unlike(parts: list[Any], labels: Any = y) -> float:
    """How far clients' shares of labels are from those of all, at most 1, on average."""
    every = np.bincount(labels, minlength=10) / len(labels)
    each = [np.bincount(labels[rows], minlength=10) / len(rows) for rows in parts]
    return float(np.abs(np.array(each) - every).sum(axis=1).mean() / 2)


@pytest.mark.parametrize("clients", [1, 7, 100, 5000])
@pytest.mark.parametrize("by", WAYS)
def test_each_row_is_dealt_out_once(by: Any, clients: int) -> None:
    parts = pdmm.data.split(y, clients, by, seed=3)
    assert len(parts) == clients
    assert min(len(rows) for rows in parts) >= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    assert all((np.diff(rows) > 0).all() for rows in parts)


@pytest.mark.parametrize("by", WAYS)
def test_the_seed_decides(by: Any) -> None:
    first, again, other = (pdmm.data.split(y, 8, by, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_how_unlike_clients_are() -> None:
    assert unlike(pdmm.data.split(y, 10, "iid")) < 0.1
    assert unlike(pdmm.data.split(y, 10, "dirichlet", alpha=0.1)) > 0.5
    assert unlike(pdmm.data.split(y, 10, "dirichlet", alpha=1e3)) < 0.1
    assert unlike(pdmm.data.split(y, 10, "quantity", alpha=1e3)) < 0.1
    shards = pdmm.data.split(y, 10, "shards")
    assert all(len(np.unique(y[rows])) <= 4 for rows in shards)
    assert max(map(len, shards)) - min(map(len, shards)) <= 2


def test_quantities_differ_and_iid_ones_do_not() -> None:
    sizes = [len(rows) for rows in pdmm.data.split(y, 10, "quantity", alpha=0.1)]
    assert max(sizes) > 5 * np.median(sizes)
    assert {len(rows) for rows in pdmm.data.split(y, 10, "iid")} == {500}


def test_a_client_for_each_value() -> None:
    names = np.array(["north", "south", "north", "east"])
    parts = pdmm.data.split(names, by="column")
    assert [rows.tolist() for rows in parts] == [[3], [0, 2], [1]]
    assert len(pdmm.data.split(names, 3, "column")) == 3
    with pytest.raises(ValueError, match="clients=10, but y has 3 values"):
        pdmm.data.split(names, 10, "column")


def test_an_alpha_so_small_that_every_draw_is_0() -> None:
    parts = pdmm.data.split(y, 10, "dirichlet", alpha=1e-300)
    assert sum(map(len, parts)) == len(y)
    assert len(pdmm.data.split(y, alpha=1e-300)) == splits.CLIENTS


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([],), "y must be one label for each row"),
        (([[1, 2]],), "y must be one label for each row"),
        (([0.0, np.nan],), "y must have no missing labels"),
        ((y, 0), "clients must be at least 1"),
        ((y, 5001), "clients must be at most 5000"),
        ((y, 2.5), "clients must be a whole number"),
        ((y, 3, "labels"), "by must be"),
        ((y, 3, "iid", 0.0), "alpha must be"),
        ((y, 3, "iid", 0.1, -1), "seed must be at least 0"),
    ],
)
def test_odd_arguments(arguments: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        pdmm.data.split(*arguments)
