"""Secure sums over sites: the model of a run without masks, whatever the method."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.certificates import Root
from builders.sites import SHARES, SILENT, Absence, FakeSites, Fault, Payload
from pdmm.engines import Refused, Sites
from pdmm.engines.sites.roster import SiteError

FIRST_ORDER: dict[str, Any] = {
    "agpdmm": pdmm.AGPDMM(rho=3.0, step_size=0.05, local_steps=3),
    "gpdmm": pdmm.GPDMM(rho=3.0, step_size=0.05, local_steps=3),
    "pdmm": pdmm.PDMM(rho=3.0),
    "anderson": pdmm.PDMM(rho=3.0, acceleration="anderson"),
    "fedsplit": pdmm.FedSplit(3.0),
    "inexact fedsplit": pdmm.InexactFedSplit(0.3, 0.05, 3),
    "scaffold": pdmm.Scaffold(0.05, 3),
    "fedavg": pdmm.FedAvg(0.05, 3),
    "gradient descent": pdmm.GradientDescent(0.05),
    "lbfgs": pdmm.LBFGS(),
}
CURVED: dict[str, Any] = {
    "auto": None,
    "newton": pdmm.Newton(),
    "pdmm, own metric": pdmm.PDMM(rho="auto", metric="own"),
    "pdmm, full metric": pdmm.PDMM(rho="auto", metric="full"),
    "agpdmm, full metric": pdmm.AGPDMM(rho="auto", metric="full"),
    "agpdmm, diagonal metric": pdmm.AGPDMM(rho="auto", metric="diagonal"),
    "lbfgs, diagonal metric": pdmm.LBFGS(metric="diagonal"),
}
STEEP: dict[str, Any] = {
    "agpdmm": pdmm.AGPDMM(rho=1e8, step_size=1e-16, local_steps=2),
    "gpdmm": pdmm.GPDMM(rho=1e8, step_size=1e-16, local_steps=2),
    "pdmm": pdmm.PDMM(rho=1e8),
    "anderson": pdmm.PDMM(rho=1e8, acceleration="anderson"),
    "fedsplit": pdmm.FedSplit(1e-8),
    "inexact fedsplit": pdmm.InexactFedSplit(1e-8, 1e-16, 2),
    "scaffold": pdmm.Scaffold(1e-16, 2),
    "fedavg": pdmm.FedAvg(1e-16, 2),
    "gradient descent": pdmm.GradientDescent(1e-16),
    "lbfgs": pdmm.LBFGS(),
}
GROUPS = {"ana": range(2), "ben": range(2, 3), "cyd": range(3, 5), "dan": range(5, 6)}
WIDTHS = {"equal": np.ones(4), "of 12 decades": np.array([1e-6, 1e-2, 1.0, 1e6])}


def glm(clients: Any, widths: Any = WIDTHS["equal"], dtype: Any = np.float64) -> pdmm.Problem:
    X = []
    y = []
    for i in clients:
        rng = np.random.default_rng([9, i])
        rows = rng.standard_normal((60 + 7 * i, 4))
        eta = rows @ [1.0, -0.5, 0.2, 0.1] + 0.3
        X.append((rows * widths).astype(dtype))
        y.append((rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float))
    return pdmm.GLM(X, y)


def softmax(secure: Any, fault: Fault | None = None, **more: Any) -> Sites:
    return Sites(FakeSites(cases.softmax, SHARES, fault), timeout=1.0, secure=secure, **more)


def waiting(make: Any, secure: bool) -> Sites:
    return Sites(FakeSites(make, GROUPS), secure=secure, absent="wait")


def apart(found: Any, plain: Any, widths: Any = 1.0) -> float:
    """How far two models are apart, in units in which all columns are alike."""
    scale = np.append(np.broadcast_to(widths, len(plain.x) - 1), 1.0)
    return float(np.abs((found.x - plain.x) * scale).max() / np.abs(plain.x * scale).max())


@pytest.mark.slow
@pytest.mark.parametrize("verify", ["server", "sites"])
@pytest.mark.parametrize("name", FIRST_ORDER)
def test_the_run_is_the_one_without_masks(name: str, verify: Any) -> None:
    how: dict[str, Any] = {
        "rounds": 8,
        "tolerance": 1e-30,
        "weights": np.linspace(1, 2, cases.M),
    }
    plain = pdmm.solve(softmax(False, absent="wait"), FIRST_ORDER[name], **how)
    found = pdmm.solve(softmax(True, absent="wait", verify=verify), FIRST_ORDER[name], **how)
    assert np.abs(found.x - plain.x).max() < 1e-10
    objectives = found.history["objective"]
    np.testing.assert_allclose(objectives, plain.history["objective"], rtol=1e-10)
    assert found.certificate.gap == pytest.approx(plain.certificate.gap, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("name", CURVED)
def test_curvature_too(name: str, columns: str) -> None:
    def make(clients: Any) -> pdmm.Problem:
        return glm(clients, WIDTHS[columns])

    plain = pdmm.solve(waiting(make, False), CURVED[name], 60)
    found = pdmm.solve(waiting(make, True), CURVED[name], 60)
    assert apart(found, plain, WIDTHS[columns]) < 1e-10


@pytest.mark.parametrize("verify", ["server", "sites"])
@pytest.mark.parametrize("name", STEEP)
def test_columns_of_12_decades_without_curvature(name: str, verify: Any) -> None:
    """None of them converges there; what they do is the same all the same.

    After an even number of rounds, PDMM is back at the start but for differences of large numbers.
    """

    def make(clients: Any) -> pdmm.Problem:
        return glm(clients, WIDTHS["of 12 decades"])

    hidden = Sites(FakeSites(make, GROUPS), secure=True, absent="wait", verify=verify)
    plain = pdmm.solve(waiting(make, False), STEEP[name], 9)
    found = pdmm.solve(hidden, STEEP[name], 9)
    for entry in range(len(plain.x)):  # each of them, however small
        assert found.x[entry] == pytest.approx(plain.x[entry], rel=1e-10, abs=0), entry


@pytest.mark.parametrize("h", [pdmm.L1(0.5), pdmm.SquaredL2(1.0)])
def test_with_a_regulariser(h: Any) -> None:
    plain = pdmm.solve(softmax(False), FIRST_ORDER["agpdmm"], 20, regulariser=h)
    found = pdmm.solve(softmax(True), FIRST_ORDER["agpdmm"], 20, regulariser=h)
    assert np.abs(found.x - plain.x).max() < 1e-12


def test_in_single_precision() -> None:
    def make(clients: Any) -> pdmm.Problem:
        return cases.least_squares(clients, dtype=np.float32)

    method = pdmm.AGPDMM(rho=300.0, step_size=1e-3, local_steps=3)
    plain = pdmm.solve(Sites(FakeSites(make, SHARES), secure=False), method, 60)
    found = pdmm.solve(Sites(FakeSites(make, SHARES), secure=True), method, 60)
    assert found.x.dtype == np.float32
    assert np.abs(found.x - plain.x).max() < 1e-4 * np.abs(plain.x).max()


@pytest.mark.slow
def test_a_method_that_is_patient() -> None:
    best = pdmm.solve(cases.softmax(range(cases.M)), tolerance=1e-25)
    found = pdmm.solve(softmax(True), rounds=200)
    assert np.abs(found.x - best.x).max() < 1e-5


# --- sites that come and go ---------------------------------------------------------------------


def test_a_site_that_was_away() -> None:
    """Three of four go on without it, and it goes on from what it remembers."""
    away = Absence("cyd", range(4, 7))
    fake = FakeSites(glm, GROUPS, away.fault)
    sites = Sites(fake, secure=True, timeout=1.0)
    found = pdmm.solve(sites, pdmm.PDMM(rho=8.0), 150, callback=away.callback)
    best = pdmm.solve(glm(range(6)), tolerance=1e-12)
    assert any("site cyd did not answer in round" in text for text in found.choices)
    assert np.isnan(found.history["objective"]).any()
    assert np.abs(found.x - best.x).max() < 1e-8
    noted = [e.reason for e in fake.sites["ana"].audit.kept if e.verb == "set"]
    assert noted == [
        "sums are over ana, ben, dan from here on",
        "sums are over ana, ben, cyd, dan from here on",
    ]


def test_a_site_that_answers_late_is_in_or_out() -> None:
    """Its answer is lost after the site has given it: the sum without it is another question."""
    late = {("dan", 3), ("ana", 5)}

    def fault(site: str, verb: str, payload: Payload) -> Any:
        if verb == "round" and (site, payload["round"]) in late:
            late.discard((site, payload["round"]))
            fake.sites[site].answer(verb, payload)
            return SILENT
        return None

    fake = FakeSites(glm, GROUPS, fault)
    found = pdmm.solve(Sites(fake, secure=True, timeout=1.0), pdmm.PDMM(rho=8.0), 150)
    best = pdmm.solve(glm(range(6)), tolerance=1e-12)
    assert not late
    assert np.abs(found.x - best.x).max() < 1e-8


def test_a_round_waits_where_too_few_would_be_left() -> None:
    """The sum of two sites tells each of them what the other has sent."""
    asked = 0

    def fault(site: str, verb: str, payload: Payload) -> Any:
        nonlocal asked
        if site == "cyd" and verb in ("round", "hello") and asked < 3:
            asked += verb == "round" or asked > 0
            return SILENT if asked else None
        return None

    how: dict[str, Any] = {"rounds": 8}
    plain = pdmm.solve(softmax(False), FIRST_ORDER["agpdmm"], **how)
    found = pdmm.solve(softmax(True, fault), FIRST_ORDER["agpdmm"], **how)
    assert asked == 3
    assert np.abs(found.x - plain.x).max() < 1e-12


def test_a_site_that_forgot_the_run_ends_it() -> None:
    def fault(site: str, verb: str, payload: Payload) -> None:
        if verb == "round" and payload["round"] == 3 and site == "ben":
            fake.restart(site)

    fake = FakeSites(cases.softmax, SHARES, fault)
    with pytest.raises(SiteError, match=r"site ben has lost .*: begin the run again"):
        pdmm.solve(Sites(fake, secure=True), FIRST_ORDER["agpdmm"], 8)


def test_it_has_no_checkpoint(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="a run with secure sums has no checkpoint"):
        pdmm.solve(softmax(True), FIRST_ORDER["agpdmm"], 8, checkpoint=tmp_path / "run")
    assert not list(tmp_path.iterdir())


# --- where they are on --------------------------------------------------------------------------


def identified(*organisations: str, policy: Any = None) -> FakeSites:
    """The four sites with certificates of these organisations."""
    root = Root()
    names = dict(zip(GROUPS, organisations, strict=True))
    policy = OPEN if policy is None else policy
    fake = FakeSites(glm, GROUPS, policy=policy)
    for name, site in fake.sites.items():
        site.consent.identity = root.site(name, organisation=names[name])
    return fake


OPEN = pdmm.engines.Policy.open()
METHOD = pdmm.PDMM(rho=8.0)


def test_auto_is_on_for_three_organisations_with_certificates() -> None:
    found = pdmm.solve(Sites(identified("a", "b", "c", "c")), METHOD, 3)
    assert any(
        "sums are secure" in text and "over 3 organisations" in text for text in found.choices
    )
    found = pdmm.solve(Sites(identified("a", "b", "b", "a")), METHOD, 3)
    assert any("sums are not secure" in text for text in found.choices)
    found = pdmm.solve(Sites(FakeSites(glm, GROUPS)), METHOD, 3)
    assert not any("secure" in text for text in found.choices)


def test_two_organisations_are_too_few() -> None:
    with pytest.raises(ValueError, match="secure=True: secure sums need at least 3 organisations"):
        Sites(identified("a", "b", "b", "a"), secure=True)
    with pytest.raises(ValueError, match="secure must be True, False or 'auto', got 'yes'"):
        Sites(identified("a", "b", "c", "d"), secure="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("asks", ["auto", "always"])
def test_a_site_refuses_a_run_without_them(asks: str) -> None:
    keys: dict[str, Any] = {"min_organisations": 0, "max_numbers_out_share": float("inf")}
    fake = identified("a", "b", "c", "d", policy=keys | {"secure_sums": asks})
    with pytest.raises(Refused):
        pdmm.solve(Sites(fake, secure=False), METHOD, 3)
    reasons = {entry.reason for site in fake.sites.values() for entry in site.audit.kept}
    assert f'the run has no secure sums, and secure_sums is "{asks}"' in reasons
    two = identified("a", "b", "b", "a", policy=keys | {"secure_sums": asks})
    if asks == "always":
        with pytest.raises(Refused):
            pdmm.solve(Sites(two), METHOD, 3)
    else:
        pdmm.solve(Sites(two), METHOD, 3)


def test_hessians_leave_inside_secure_sums() -> None:
    """The default policy lets them go nowhere else."""
    keys: dict[str, Any] = {"min_organisations": 0, "max_numbers_out_share": float("inf")}
    found = pdmm.solve(Sites(identified("a", "b", "c", "d", policy=keys), absent="wait"))
    assert type(found.method).__name__ == "Newton"
    never = identified("a", "b", "c", "d", policy=keys | {"hessians": "never"})
    assert type(pdmm.solve(Sites(never, absent="wait"), rounds=3).method).__name__ != "Newton"


SUMS = ("round", "value", "gradient", "curvature", "diagonal", "fingerprint")
CLEAR = {"counter", "base", "words", "signature", "next", "error", "missed"}


@pytest.mark.parametrize("name", ["auto", "newton", "anderson", "lbfgs", "scaffold"])
def test_of_all_that_is_added_up_the_server_sees_sums_alone(name: str) -> None:
    """Uploads, values, gradients, Hessians and the scalars of adaptive methods."""
    seen: dict[str, set[str]] = {}

    def fault(site: str, verb: str, payload: Payload) -> Any:
        def noting(answer: Payload) -> Payload:
            seen.setdefault(verb, set()).update(answer)
            return answer

        return noting if verb in SUMS else None

    keys = {"min_organisations": 0, "max_numbers_out_share": 1e9, "hessians": "allowed"}
    fake = FakeSites(glm, GROUPS, fault, policy=keys)
    pdmm.solve(Sites(fake, secure=True, absent="wait"), (CURVED | FIRST_ORDER)[name], 6)
    assert {"round", "value"} <= set(seen)
    assert all(fields <= CLEAR for fields in seen.values())


def test_a_result_says_nothing_of_a_site_alone() -> None:
    closed = pdmm.engines.Policy.of_keys({"min_organisations": 0, "max_numbers_out_share": 1e9})
    found = pdmm.solve(Sites(identified("a", "b", "c", "d", policy=closed)), METHOD, 3)
    assert found.sites is None
    found = pdmm.solve(Sites(identified("a", "b", "c", "d")), METHOD, 3)
    assert found.sites is not None
    assert sum(row.uploads for row in found.sites) == pytest.approx(1)
    one = identified("a", "b", "c", "d")
    one.sites["ben"].policy = one.sites["ben"].doors.policy = closed
    assert pdmm.solve(Sites(one), METHOD, 3).sites is None
