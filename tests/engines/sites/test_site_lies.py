"""Sites that lie or are broken: their name in an error, or a result that assumes their honesty."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.sites import SHARES, FakeSites
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.sites import Sites


def federated(sites: FakeSites, absent: Any = "wait") -> Sites:
    return Sites(sites, timeout=1.0, patience=20.0, absent=absent)


def poisson(clients: Any) -> pdmm.Problem:
    rng = [np.random.default_rng([8, i]) for i in clients]
    X = [r.standard_normal((12, 2)) for r in rng]
    y = [r.poisson(np.exp(x[:, 0] / 2)) for r, x in zip(rng, X, strict=True)]
    return pdmm.GLM(X, y, family="poisson")


@pytest.mark.parametrize("absent", ["wait", "skip"])
@pytest.mark.parametrize("answer", [0, 1])
def test_curvature_that_is_not_finite_is_of_no_use_or_its_sites_error(
    answer: int, absent: Any
) -> None:
    """A run cannot begin without the curvature of the start; that of another point it can miss."""
    asked = 0

    def fault(site: str, verb: str, payload: Any) -> Any:
        nonlocal asked
        if site != "ben" or verb != "curvature":
            return None
        asked += 1
        wrong = asked > answer
        return lambda found: {"sums": found["sums"] * np.nan} if wrong else found

    sites = federated(FakeSites(poisson, SHARES, fault), absent=absent)
    with pytest.raises(SiteError, match=r"site ben gave an answer to 'curvature' .* not finite"):
        pdmm.solve(sites, pdmm.PDMM(metric="full"), 9)


def test_an_upload_that_is_too_large_to_be_squared_names_its_site() -> None:
    def huge(answer: Any) -> Any:
        return {**answer, "upload": [part * 1e200 for part in answer["upload"]]}

    sites = FakeSites(
        poisson,
        SHARES,
        lambda site, verb, payload: huge if (site, verb) == ("ben", "round") else None,
    )
    with pytest.raises(SiteError, match=r"site ben returned, in round 1, .* at most 1e\+200 is"):
        pdmm.solve(federated(sites))


LIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a proof by mu": ("constants", lambda answer: {**answer, "values": 1e300 + answer["values"]}),
    "mu below 0": ("constants", lambda answer: {**answer, "values": -1.0 - answer["values"]}),
    "a gradient": ("gradient", lambda answer: {**answer, "gradient": np.full(6, 1e300)}),
    "its terms too": (
        "gradient",
        lambda answer: {**answer, "gradient": np.full(6, 1e300), "terms": 1e301},
    ),
}


@pytest.mark.parametrize("how", LIES)
def test_an_absurd_answer_proves_nothing(how: str) -> None:
    verb, change = LIES[how]
    sites = FakeSites(
        cases.least_squares,
        SHARES,
        lambda site, asked, payload: change if (site, asked) == ("ben", verb) else None,
    )
    with pytest.raises(SiteError, match="site ben "):
        pdmm.solve(federated(sites))


def test_what_is_certified_is_certified_if_all_sites_are_honest() -> None:
    result = pdmm.solve(federated(FakeSites(cases.least_squares, SHARES)))
    assert "if all sites are honest, F(x) - F* is proven to be at most" in result.reason
    assert repr(result.certificate).endswith("if all sites are honest)")
    again = pdmm.solve(federated(FakeSites(cases.least_squares, SHARES)), x0=result.x)
    assert "if all sites are honest" in again.reason
    one = pdmm.solve(cases.least_squares(range(3)))
    assert "honest" not in f"{one.reason} {one.certificate!r}"


@pytest.mark.parametrize("reply", [None, [], "text", 3])
@pytest.mark.parametrize("verb", ["hello", "check", "constants", "prepare", "round", "gradient"])
def test_a_reply_that_is_no_dictionary_names_its_site(verb: str, reply: Any) -> None:
    sites = FakeSites(
        cases.least_squares,
        SHARES,
        lambda site, asked, payload: (
            (lambda answer: reply) if (site, asked) == ("ben", verb) else None
        ),
    )
    with pytest.raises(SiteError, match=f"site ben gave an answer to '{verb}' that cannot be read"):
        pdmm.solve(federated(sites))
