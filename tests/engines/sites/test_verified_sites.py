"""Sites that compute x themselves: the same run, and a server that can choose nothing."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.certificates import Root
from builders.sites import SHARES, SILENT, FakeSites, Fault, Payload
from pdmm.common.packing import pack
from pdmm.engines import Refused, Sites
from pdmm.engines.clients import Terms
from pdmm.engines.sites.roster import SiteError

AUTO: Literal["auto"] = "auto"
METHODS: dict[str, Any] = {
    "agpdmm": pdmm.AGPDMM(rho=AUTO),
    "gpdmm": pdmm.GPDMM(rho=AUTO),
    "pdmm": pdmm.PDMM(rho=AUTO),
    "fedsplit": pdmm.FedSplit(AUTO),
    "scaffold": pdmm.Scaffold(AUTO, 3),
    "fedavg": pdmm.FedAvg(AUTO, 3),
    "gradient descent": pdmm.GradientDescent(AUTO),
}


def sites(fault: Fault | None = None, policy: Any = None) -> FakeSites:
    given = {} if policy is None else {"policy": policy}
    return FakeSites(cases.softmax, SHARES, fault, **given)


def verified(fake: FakeSites, **more: Any) -> Sites:
    return Sites(fake, verify="sites", timeout=1.0, **more)


@pytest.mark.parametrize("name", METHODS)
def test_the_run_is_the_one_of_a_server_that_computes_x(name: str) -> None:
    """To the bit, with weights and certificates."""
    how: dict[str, Any] = {
        "rounds": 12,
        "tolerance": 1e-30,
        "weights": np.linspace(1, 2, cases.M),
    }
    plain = pdmm.solve(Sites(sites()), METHODS[name], **how)
    found = pdmm.solve(verified(sites()), METHODS[name], **how)
    assert (found.x == plain.x).all()
    for column in ("objective", "round"):
        np.testing.assert_array_equal(found.history[column], plain.history[column])
    assert found.certificate.gap == plain.certificate.gap


def test_with_a_regulariser_and_rho_that_adapts() -> None:
    how: dict[str, Any] = {"rounds": 15, "regulariser": pdmm.L1(0.01)}
    method = pdmm.PDMM(rho=AUTO, acceleration="anderson")
    plain = pdmm.solve(Sites(sites(), absent="wait"), method, **how)
    found = pdmm.solve(verified(sites(), absent="wait"), method, **how)
    assert (found.x == plain.x).all()


def test_no_point_travels_to_a_site() -> None:
    fake = sites()
    pdmm.solve(verified(fake), METHODS["agpdmm"], 5, tolerance=1e-30)
    asked = [payload for _, verb, payload in fake.asked if verb in ("round", "gradient", "value")]
    assert len(asked) > 15
    assert not any("x" in payload or "message" in payload for payload in asked)


def test_a_site_that_was_away_catches_up() -> None:
    def fault(site: str, verb: str, payload: Payload) -> Any:
        away = site == "cyd" and verb == "round" and 4 <= payload["round"] < 7
        return SILENT if away else None

    found = pdmm.solve(verified(sites(fault)), METHODS["pdmm"], 150)
    assert any("site cyd did not answer in round" in text for text in found.choices)
    best = pdmm.solve(cases.softmax(range(cases.M)), tolerance=1e-25)
    assert np.abs(found.x - best.x).max() < 1e-6


def test_a_set_that_keeps_changing_is_refused() -> None:
    """Who takes part is the last thing that a server can choose."""

    def fault(site: str, verb: str, payload: Payload) -> None:
        for news in payload.get("news", []):  # the same for all: they are told one thing
            if news["round"] % 2:
                news["sites"].pop("cyd", None)

    policy = {**OPEN_KEYS, "max_set_changes": 3}
    fake = sites(fault, policy)
    with pytest.raises(Refused):
        pdmm.solve(verified(fake), METHODS["agpdmm"], 60)
    reasons = [e.reason for site in fake.sites.values() for e in site.audit.kept]
    assert "the sites that take part changed more than 3 times" in reasons


OPEN_KEYS: dict[str, Any] = {
    "min_rows": 0,
    "max_parameters_per_row": 1e9,
    "min_rows_per_level": 0,
    "min_rows_per_cell": 0,
    "max_eta": float("inf"),
    "min_effective_rows": 0,
    "max_numbers_out_share": float("inf"),
}

Change = Callable[[Payload], Any]


def _others(payload: Payload) -> dict[str, Any]:
    """What a site is told of the last round: a copy of its own, for the others are told too."""
    payload["news"] = copy.deepcopy(payload["news"])
    found: dict[str, Any] = payload["news"][-1]["sites"]
    return found


def _moved(payload: Payload) -> None:
    _others(payload)["ben"]["upload"][0] = _others(payload)["ben"]["upload"][0] + 1e-9


def _swapped(payload: Payload) -> None:
    told = _others(payload)
    told["ana"], told["cyd"] = told["cyd"], told["ana"]


def _another(payload: Payload) -> None:
    told = _others(payload)
    told["dan"] = told["ben"]


def _unsigned(payload: Payload) -> None:
    _others(payload)["ben"]["signature"] = ""


def _earlier(payload: Payload) -> None:
    payload["news"][-1]["sites"] = copy.deepcopy(KEPT[0])


KEPT: list[Any] = []
LIES: dict[str, Change] = {
    "another upload": _moved,
    "of each other": _swapped,
    "a site of its own": _another,
    "no signature": _unsigned,
    "of an earlier round": _earlier,
    "a round is left out": lambda payload: payload["news"].pop(0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_changes_what_sites_sent_gets_no_answer(lie: str) -> None:
    KEPT.clear()
    fake = sites()
    lied = False

    def fault(site: str, verb: str, payload: Payload) -> None:
        nonlocal lied
        if verb != "round" or site != "ana":
            return
        if payload["round"] == 2:
            KEPT.append(copy.deepcopy(_others(payload)))
        if payload["round"] == 5:
            LIES[lie](payload)
            if lie == "a round is left out":
                payload["news"] = [{**_empty(payload), "round": 5}]
            lied = True

    fake.fault = fault
    with pytest.raises(SiteError, match="site ana"):
        pdmm.solve(verified(fake), METHODS["agpdmm"], 10)
    assert lied


def _empty(payload: Payload) -> Payload:
    return {"sites": {}}


def test_sites_that_were_told_of_different_sets_do_not_go_on_together() -> None:
    """One is told that all answered, the other that one was missing: their signatures differ."""

    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "round" and site == "ana" and payload["round"] == 4:
            del _others(payload)["cyd"]

    fake = sites(fault)
    with pytest.raises(Refused):
        pdmm.solve(verified(fake), METHODS["agpdmm"], 10)
    reasons = [e.reason for site in fake.sites.values() for e in site.audit.kept]
    assert any("has not signed what it is said to have sent" in text for text in reasons)


def test_a_message_or_a_point_of_the_servers_is_not_looked_at() -> None:
    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb in ("round", "gradient", "value"):
            payload["x"] = np.full(cases.softmax([0]).dimension, 7.0)
            payload["message"] = [payload["x"]]
            if verb == "round" and payload["evaluate"] is not False:
                payload["evaluate"] = payload["x"]

    plain = pdmm.solve(verified(sites()), METHODS["agpdmm"], 8, tolerance=1e-30)
    found = pdmm.solve(verified(sites(fault)), METHODS["agpdmm"], 8, tolerance=1e-30)
    assert (found.x == plain.x).all()
    np.testing.assert_array_equal(found.history["objective"], plain.history["objective"])


def test_a_method_that_changes_on_the_way_is_not_looked_at() -> None:
    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "round" and payload["round"] == 3:
            payload["method"] = pack(pdmm.GradientDescent(0.5), {}, "method")

    found = pdmm.solve(verified(sites(fault)), METHODS["agpdmm"], 8)
    assert (found.x == pdmm.solve(verified(sites()), METHODS["agpdmm"], 8).x).all()


def test_a_site_takes_no_memory_from_the_server() -> None:
    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "round" and payload["round"] == 3 and site == "ben":
            fake.restart(site)

    fake = sites(fault)
    with pytest.raises(SiteError, match="begin the run again"):
        pdmm.solve(verified(fake), METHODS["agpdmm"], 8)


def test_sites_with_certificates_make_sure_of_each_other() -> None:
    root = Root()
    fake = sites()
    identities = {name: root.site(name) for name in SHARES}
    for name, site in fake.sites.items():
        site.consent.identity = identities[name]
    plain = pdmm.solve(Sites(sites()), METHODS["agpdmm"], 6)
    both: tuple[Literal["server"], Literal["sites"]] = ("server", "sites")
    for verify in both:
        found = pdmm.solve(Sites(fake, verify=verify, secure=False), METHODS["agpdmm"], 6)
        assert (found.x == plain.x).all()
    fake.sites["ben"].consent.identity = Root().site("ben")
    with pytest.raises(Refused):
        pdmm.solve(Sites(fake), METHODS["agpdmm"], 6)


def test_organisations_are_those_of_the_certificates() -> None:
    """Three sites of one organisation are one organisation, whatever the server says."""
    root = Root()
    fake = sites(policy={**OPEN_KEYS, "min_organisations": 2})
    for name, site in fake.sites.items():
        site.consent.identity = root.site(name, organisation="hospital")
    with pytest.raises(Refused):
        pdmm.solve(Sites(fake), METHODS["agpdmm"], 3)
    reasons = [e.reason for site in fake.sites.values() for e in site.audit.kept]
    assert "1 organisations take part, and min_organisations is 2" in reasons


def test_only_partners_take_part_where_they_are_named() -> None:
    root = Root()
    identities = {name: root.site(name) for name in SHARES}
    pinned = [identity.holder.fingerprint for identity in identities.values()]
    for partners, allowed in ((pinned, True), (pinned[:2], False)):
        fake = sites(policy={**OPEN_KEYS, "min_organisations": 1, "partners": partners})
        for name, site in fake.sites.items():
            site.consent.identity = identities[name]
        if allowed:
            assert pdmm.solve(Sites(fake), METHODS["agpdmm"], 3).rounds == 3
        else:
            with pytest.raises(Refused):
                pdmm.solve(Sites(fake), METHODS["agpdmm"], 3)


# --- a server that does not keep to the order ------------------------------------------------


def opened() -> tuple[FakeSites, Sites]:
    fake = sites()
    clients = verified(fake)
    d = clients.dimension
    clients.open(Terms(np.zeros(d), np.ones(cases.M), 5, None))
    return fake, clients


@pytest.mark.parametrize("verb", ["gradient", "value"])
def test_no_point_of_the_servers_is_answered_before_the_sites_can_compute_any(verb: str) -> None:
    fake, clients = opened()
    with pytest.raises(Refused):
        fake.sites["ana"].answer(verb, {"x": np.ones(clients.dimension)})
    reasons = [entry.reason for entry in fake.sites["ana"].audit.kept]
    assert "a point is asked about before the sites can compute it" in reasons


def test_a_round_before_the_run_is_prepared_is_refused() -> None:
    fake, clients = opened()
    method = pdmm.GradientDescent(0.1)
    question = {
        "round": 1,
        "rounds": 5,
        "method": pack(method, {}, "method"),
        "message": [np.ones(clients.dimension)],
        "have": "a",
        "memory": [],
        "next": "b",
        "evaluate": False,
        "variables": None,
    }
    with pytest.raises(Refused):
        fake.sites["ana"].answer("round", question)


def test_rounds_follow_the_news_and_each_other() -> None:
    """No round is answered before the site knows of the one before it."""

    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "round" and payload["round"] > 3:
            payload["news"] = []

    fake = sites(fault)
    with pytest.raises(Refused):
        pdmm.solve(verified(fake), METHODS["agpdmm"], 8)
    reasons = [e.reason for site in fake.sites.values() for e in site.audit.kept]
    assert "round 4 is asked for, and round 3 follows" in reasons


def test_what_counts_is_what_all_were_told_whatever_the_server_says_of_memories() -> None:
    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "round":
            payload["have"] = "a name that no memory has"

    found = pdmm.solve(verified(sites(fault)), METHODS["pdmm"], 8)
    assert (found.x == pdmm.solve(verified(sites()), METHODS["pdmm"], 8).x).all()


def test_no_checkpoint_is_written_that_no_site_would_go_on_from(place: Path) -> None:
    fake = sites()
    clients = verified(fake)
    fake.asked.clear()
    with pytest.raises(ValueError, match="has no checkpoint"):
        pdmm.solve(clients, METHODS["agpdmm"], 8, checkpoint=place)
    pdmm.solve(Sites(sites()), METHODS["agpdmm"], 8, checkpoint=place)
    with pytest.raises(ValueError, match="has no checkpoint"):
        pdmm.resume(place, clients, rounds=9)
    assert not fake.asked


def test_no_round_is_of_one_site_alone() -> None:
    """A server that tells a site of nobody else would have the site's own fit."""

    def fault(site: str, verb: str, payload: Payload) -> None:
        for news in payload.get("news", []):
            news["sites"] = {"ana": news["sites"]["ana"]}

    fake = sites(fault, {**OPEN_KEYS, "max_weight_share": 0.9})
    with pytest.raises(Refused):
        pdmm.solve(verified(fake), METHODS["agpdmm"], 8)
    (reason,) = [e.reason for e in fake.sites["ana"].audit.kept if e.outcome == "refused"][:1]
    assert "the site has 1 of the weight of those that answered" in reason
    assert fake.sites["ana"].audit.refused_today() == 0


@pytest.mark.parametrize("penalty", [pdmm.L1(0.1), pdmm.SquaredL2(0.1), pdmm.ElasticNet(0.1, 0.1)])
def test_ordinary_penalties_that_spare_the_intercept(penalty: pdmm.Regulariser) -> None:
    rng = np.random.default_rng(5)
    tables = {name: (rng.standard_normal((60, 3)), rng.integers(0, 2, 60)) for name in SHARES}

    def make(name: str) -> pdmm.Problem:
        X, y = tables[name]
        return pdmm.GLM([X], [y])

    fake = FakeSites(make, {name: name for name in SHARES})
    method = pdmm.PDMM(rho=1.0)
    found = pdmm.solve(verified(fake), method, 10, regulariser=penalty)
    plain = pdmm.solve(Sites(fake), method, 10, regulariser=penalty)
    assert (found.x == plain.x).all()


def test_a_run_is_prepared_once() -> None:
    _, clients = opened()
    clients.prepare(pdmm.GradientDescent(0.1), np.zeros(clients.dimension), np.ones(cases.M), 5)
    with pytest.raises(Refused):
        clients.prepare(pdmm.GradientDescent(0.2), np.zeros(clients.dimension), np.ones(cases.M), 5)


@pytest.mark.parametrize("verb", ["constants", "diagonal", "fingerprint", "check", "prepare"])
def test_nothing_is_answered_before_all_have_signed(verb: str) -> None:
    """A server that shows a site what others once said of themselves has no answer of it."""
    fake = sites()
    clients = verified(fake)
    site = fake.sites["ana"]
    statements = [
        made.answer("join", {"run": "run/1", "name": name})["statement"]
        for name, made in fake.sites.items()
    ]
    everyone = {name: np.ones(place.stop - place.start) for name, place in clients.places.items()}
    site.answer(
        "open",
        {
            "run": "run/1",
            "rounds": 5,
            "x0": np.zeros(clients.dimension),
            "verified": True,
            "parties": statements,
            "everyone": everyone,
            "weights": everyone["ana"],
        },
    )
    with pytest.raises(Refused):
        site.answer(verb, {"which": "L", "x": np.zeros(clients.dimension), "exact": False})
    with pytest.raises(Refused):
        site.answer("confirm", {"agreed": {}})
