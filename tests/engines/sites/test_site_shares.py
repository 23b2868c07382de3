"""Which part of a run each site made, and that a site with data in other units is noticed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.sites import SHARES, FakeSites
from pdmm.engines.sites.shares import OUTLIER, Shares
from pdmm.engines.sites.sites import Sites
from pdmm.methods.family import Upload

PLACES = {"ana": slice(0, 2), "ben": slice(2, 3), "cyd": slice(3, 4)}
WEIGHTS = np.array([1.0, 2.0, 3.0, 4.0])


def uploads(ana: float, ben: float, cyd: float) -> dict[str, Upload]:
    """Of norms 5 times these numbers."""
    unit = np.array([[3.0, 4.0]])
    rows = {"ana": np.repeat(ana * unit, 2, axis=0), "ben": ben * unit, "cyd": cyd * unit}
    return {name: Upload(dz) for name, dz in rows.items()}


def test_shares_by_hand() -> None:
    """By weight 3:3:4; the uploads 3 * 5 + 3 * 10 + 4 * 5, and L 1*1 + 2*2 : 3*3 : 4*1."""
    shares = Shares(PLACES)
    shares.note(uploads(1, 2, 1), WEIGHTS)
    rows = shares.rows(WEIGHTS, np.array([1.0, 2.0, 3.0, 1.0]))
    assert [row.site for row in rows] == ["ana", "ben", "cyd"]
    assert [row.clients for row in rows] == [2, 1, 1]
    assert [row.weight for row in rows] == pytest.approx([0.3, 0.3, 0.4])
    assert [row.uploads for row in rows] == pytest.approx([15 / 65, 30 / 65, 20 / 65])
    assert [row.smoothness for row in rows] == pytest.approx([5 / 18, 9 / 18, 4 / 18])
    assert not any(row.flagged for row in rows)
    assert rows[1].words == (
        "site ben has 30% of the weight, sent 46.2% of the uploads, by their norms, and has 50% of "
        "L"
    )


def test_what_is_not_known_has_no_share() -> None:
    shares = Shares(PLACES)
    for L in (None, np.array([1.0, np.inf, 1.0, 1.0])):
        assert {row.smoothness for row in shares.rows(WEIGHTS, L)} == {None}
    assert {row.uploads for row in shares.rows(WEIGHTS, None)} == {0.0}


@pytest.mark.parametrize("excess", [0.9, 1.1])
def test_an_outlier_has_far_more_than_is_usual(excess: float) -> None:
    much = excess * OUTLIER
    by_upload, by_gradient = Shares(PLACES), Shares(PLACES)
    by_upload.note(uploads(1, much, 1), WEIGHTS)
    by_gradient.note_gradients(
        {"ana": np.full(2, 3.0), "ben": np.full(2, 3 * much), "cyd": np.full(2, 4.0)}
    )
    by_L = Shares(PLACES).rows(WEIGHTS, np.array([1.0, 1.0, much, 1.0]))
    for rows in (by_upload.rows(WEIGHTS, None), by_gradient.rows(WEIGHTS, None), by_L):
        assert [row.flagged for row in rows] == [False, excess > 1, False]


def test_only_the_first_uploads_show_who_moved_the_model() -> None:
    """Later, all others answer to what the outlier has made of x."""
    shares = Shares(PLACES)
    shares.note(uploads(1, 1000, 1), WEIGHTS)
    for _ in range(100):
        shares.note(uploads(900, 1000, 900), WEIGHTS)
    rows = shares.rows(WEIGHTS, None)
    assert [row.flagged for row in rows] == [False, True, False]
    assert "its first upload is 1e+03 times what is usual at the other sites" in rows[1].words


def test_a_round_without_a_site_is_no_first_round() -> None:
    shares = Shares(PLACES)
    some = uploads(1, 1000, 1)
    del some["cyd"]
    shares.note(some, WEIGHTS)
    assert not any(shares.first.values())
    shares.note(uploads(1, 1, 1), WEIGHTS)
    assert shares.first == pytest.approx({"ana": 15.0, "ben": 15.0, "cyd": 20.0})
    again = Shares(PLACES)
    again.load(shares.state())
    assert again.rows(WEIGHTS, None) == shares.rows(WEIGHTS, None)


# --- runs ---------------------------------------------------------------------------------------


def federated(make: Any, **given: Any) -> Sites:
    return Sites(FakeSites(make, SHARES), timeout=1.0, patience=20.0, absent="wait", **given)


def scaled(A: float, b: float) -> Any:
    """Least squares whose data are in other units at site ben."""

    def make(clients: Sequence[int]) -> pdmm.Problem:
        if 5 not in clients:
            return cases.least_squares(clients)
        rng = np.random.default_rng(5)
        matrix = rng.standard_normal((25, 6))
        return pdmm.LeastSquares([A * matrix], [b * (matrix @ np.ones(6) + 5)])

    return make


HONEST = ["pdmm", "agpdmm", "scaffold", "lbfgs", "auto", "auto softmax", "auto functions"]


@pytest.mark.parametrize("name", [*HONEST, "quadratic", "lasso", "auto absolute", "diverges"])
def test_an_honest_run_has_no_outlier(name: str) -> None:
    make, method, arguments = cases.CASES[name]
    result = pdmm.solve(federated(make), method, **arguments)
    assert result.sites is not None
    assert not any(row.flagged for row in result.sites)
    assert not any("stands out" in text or "what is usual" in text for text in result.choices)
    for share in ("weight", "uploads"):
        assert sum(getattr(row, share) for row in result.sites) == pytest.approx(1.0)


METHODS: list[Any] = [
    None,
    pdmm.PDMM(rho=40.0),
    pdmm.AGPDMM(),
    pdmm.GPDMM(),
    pdmm.Scaffold(1e-6, 3),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("factors", [(1e3, 1e3), (1e3, 1.0), (1.0, 1e3)])
def test_data_in_other_units_are_noticed(method: Any, factors: tuple[float, float]) -> None:
    result = pdmm.solve(federated(scaled(*factors)), method, 30)
    assert result.sites is not None
    assert [row.site for row in result.sites if row.flagged] == ["ben"]
    (said,) = [text for text in result.choices if "what is usual at the other sites" in text]
    assert said.startswith("site ben has 8.33% of the weight")


def test_it_costs_no_message() -> None:
    asked = []
    for per_site in (True, False):
        fakes = FakeSites(cases.least_squares, SHARES)
        sites = Sites(fakes, absent="wait")
        sites.per_site = per_site
        result = pdmm.solve(sites, pdmm.PDMM(rho=40.0), 9, tolerance=1e-30)
        asked.append([(name, verb) for name, verb, _ in fakes.asked])
        assert (result.sites is None) is not per_site
    assert asked[0] == asked[1]


def test_where_sites_do_not_want_to_be_told_apart_nothing_is_computed() -> None:
    sites = federated(scaled(1.0, 1e3))
    sites.per_site = False
    result = pdmm.solve(sites, pdmm.PDMM(rho=40.0), 9)
    assert result.sites is None
    assert not any("site ben" in text for text in result.choices)
    assert set(sites.state()["shares"]["sent"].values()) == {0.0}


def test_shares_are_those_of_the_whole_run(tmp_path: Path) -> None:
    path, method = tmp_path / "run", pdmm.GPDMM(2e-3, 4)
    whole = pdmm.solve(federated(cases.least_squares), method, 20)
    stop: Any = lambda r, x: r == 8  # noqa: E731
    pdmm.solve(federated(cases.least_squares), method, 20, checkpoint=path, every=4, callback=stop)
    assert pdmm.resume(path, federated(cases.least_squares)).sites == whole.sites
    assert pdmm.solve(cases.least_squares(range(3)), method, 5).sites is None
