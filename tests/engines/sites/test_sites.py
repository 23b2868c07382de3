"""Clients at sites: the same as in one process, and exact however the connection fails."""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders import cases
from builders.ranks import close
from builders.sites import SHARES, SILENT, Absence, FakeSites
from pdmm.engines.sites.roster import SiteError, SiteLostError
from pdmm.engines.sites.sites import Sites

SAME = [
    *("pdmm", "fedsplit", "inexact", "gpdmm", "agpdmm", "scaffold", "fedavg", "descent"),
    *("anderson", "softmax", "batches", "lasso", "float32", "quadratic", "stopped", "diverges"),
]
METHOD = pdmm.AGPDMM(step_size=2e-3, local_steps=4)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long between two questions."""
    monkeypatch.setattr("pdmm.engines.sites.roster.PAUSE", 0.005)
    monkeypatch.setattr("pdmm.engines.sites.asking.PAUSE", 0.005)


def federated(sites: FakeSites, patience: float = 20.0, absent: Any = "wait") -> Sites:
    return Sites(sites, timeout=1.0, patience=patience, absent=absent)


def test_sites_see_each_other_in_no_order() -> None:
    problem = federated(FakeSites(cases.least_squares, SHARES))
    assert list(problem.places) == ["ana", "ben", "cyd"]
    assert problem.clients == cases.M


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME)
def test_the_same_as_in_one_process(name: str) -> None:
    make, method, arguments = cases.CASES[name]
    one = cases.solve(name)
    sites = FakeSites(make, SHARES)
    result = pdmm.solve(federated(sites), method, **arguments)
    assert close(one.x, result.x, 1e-6 if name == "float32" else 1e-10)
    assert one.reason.split(":")[0] == result.reason.split(":")[0]
    np.testing.assert_allclose(result.history["objective"], one.history["objective"], rtol=1e-6)
    shipped = [payload for _, verb, payload in sites.asked if verb == "round" and payload["memory"]]
    assert len(shipped) <= 3  # a memory travels once, to each site
    assert not any("A" in payload or "b" in payload for _, _, payload in sites.asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "auto softmax", "auto functions", "auto steps"])
def test_automatic_parameters(name: str) -> None:
    make, method, arguments = cases.CASES[name]
    sites = FakeSites(make, SHARES)
    result = pdmm.solve(federated(sites), method, **arguments)
    assert result.reason.startswith("certified")
    assert close(cases.solve(name).x, result.x, 1e-7)
    asked = [payload for _, verb, payload in sites.asked if verb == "constants"]
    # L and mu of three sites; where these are estimates, those at the clients' own optima too.
    estimated = name in ("auto functions", "auto steps")
    assert len(asked) <= (12 if estimated else 6)
    for part in sites.sites.values():  # scalars only: one for every client
        answer = part.answer("constants", {"which": "L"})
        assert answer["values"].shape == (part.problem.clients,)


def test_a_round_costs_one_vector_each_way() -> None:
    sites = FakeSites(lambda clients: cases.softmax(clients), {"ana": [0], "ben": [1]})
    problem = federated(sites)
    result = pdmm.solve(problem, pdmm.AGPDMM(step_size=0.5, local_steps=5), rounds=40)
    vector = 8 * problem.dimension
    up, down = np.diff(result.history["bytes_up"])[1:], np.diff(result.history["bytes_down"])[1:]
    assert (up >= 2 * vector).all()
    assert (up < 2 * (vector + 100)).all()  # and a few scalars
    assert (down < 2 * (vector + 100)).all()
    assert (np.diff(result.history["vectors_up"])[1:] <= 4).all()


# --- faults ---------------------------------------------------------------------------------


@cache
def exact() -> Any:
    """The minimiser of the least squares."""
    return pdmm.solve(cases.least_squares(range(cases.M)), pdmm.PDMM(rho=40.0), rounds=400).x


@pytest.mark.slow
@pytest.mark.parametrize("method", [METHOD, pdmm.GPDMM(2e-3, 4), pdmm.PDMM(rho=40.0)])
def test_an_absent_site_is_left_out_and_taken_back(method: pdmm.Method) -> None:
    absence = Absence("ben", range(5, 15))
    sites = FakeSites(cases.least_squares, SHARES, absence.fault)
    problem = federated(sites, absent="skip", patience=120.0)
    arguments: dict[str, Any] = {"record_every": 100, "callback": absence.callback}
    result = pdmm.solve(problem, method, rounds=400, **arguments)
    assert close(exact(), result.x)
    (said,) = [text for text in result.choices if "ben" in text]
    assert said == "site ben did not answer in rounds 5 to 14: the run went on without it"


def test_those_who_may_be_left_out_cannot_be_accelerated() -> None:
    sites = FakeSites(cases.least_squares, SHARES)
    with pytest.raises(ValueError, match="acceleration needs every client in every round"):
        pdmm.solve(federated(sites, absent="skip"), pdmm.PDMM(acceleration="anderson"))
    result = pdmm.solve(federated(sites, absent="skip"))
    assert result.reason.startswith("certified")
    assert any("and adapts" in why for why in result.choices)
    with pytest.raises(ValueError, match="absent must be"):
        federated(sites, absent="dance")


def test_a_run_that_needs_all_waits_for_all() -> None:
    method = pdmm.AGPDMM(rho="auto", acceleration="anderson")
    failed = 0

    def fault(site: str, verb: str, payload: Any) -> str | None:
        nonlocal failed
        if verb == "round" and payload["round"] == 4 and site == "cyd" and failed < 3:
            failed += 1
            return "gone: it cannot be reached"
        return None

    undisturbed = pdmm.solve(federated(FakeSites(cases.least_squares, SHARES)), method, 12)
    sites = FakeSites(cases.least_squares, SHARES, fault)
    result = pdmm.solve(federated(sites), method, 12)
    assert failed == 3
    assert (result.x == undisturbed.x).all()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["round", "gradient", "prepare", "constants", "check"])
def test_a_site_that_lost_its_memory_is_sent_it(verb: str) -> None:
    """In any round, any site: the numbers are those of the undisturbed run, to the bit."""
    method = pdmm.GPDMM(rho="auto")
    arguments: dict[str, Any] = {"rounds": 20, "tolerance": 1e-30}
    undisturbed = pdmm.solve(federated(FakeSites(cases.softmax, SHARES)), method, **arguments)
    count = 0

    def fault(site: str, asked: str, payload: Any) -> None:
        nonlocal count
        if asked == verb:
            count += 1
            if count % 2 == 0:
                sites.restart(site)

    sites = FakeSites(cases.softmax, SHARES, fault)
    result = pdmm.solve(federated(sites), method, **arguments)
    assert count > 2
    assert (result.x == undisturbed.x).all()


def test_late_and_repeated_answers_count_once() -> None:
    """Every third round an answer is held up, and comes in place of the next one's."""
    method = pdmm.PDMM(rho="auto")
    undisturbed = pdmm.solve(federated(FakeSites(cases.least_squares, SHARES)), method, 15)
    attempts: dict[int, int] = {}
    late: list[Any] = []

    def fault(site: str, verb: str, payload: Any) -> Any:
        if verb != "round" or site != "ana" or payload["round"] % 3:
            return None
        attempt = attempts[payload["round"]] = attempts.get(payload["round"], 0) + 1
        if attempt == 1:  # the site works, and the server hears nothing
            late.append(sites.sites[site].answer(verb, dict(payload)))
            return SILENT
        return (lambda answer: late.pop()) if attempt == 2 else None

    sites = FakeSites(cases.least_squares, SHARES, fault)
    result = pdmm.solve(federated(sites), method, 15)
    assert attempts == dict.fromkeys((3, 6, 9, 12, 15), 3)
    assert (result.x == undisturbed.x).all()


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_any_faults_and_still_the_exact_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calm = False

    def fault(site: str, verb: str, payload: Any) -> Any:
        if verb == "round" and not calm:
            chance = rng.random()
            if chance < 0.1:
                sites.restart(site)
            if chance > 0.8:
                if rng.random() < 0.5:  # it works, and the answer is lost
                    sites.sites[site].answer(verb, dict(payload))
                return SILENT
        return None

    def settle(r: int, x: Any) -> None:
        nonlocal calm
        calm = r > 60

    sites = FakeSites(cases.least_squares, SHARES, fault)
    result = pdmm.solve(
        federated(sites, absent="skip"),
        pdmm.PDMM(rho=40.0),
        300,
        callback=settle,
        record_every=300,
    )
    assert close(exact(), result.x)


def test_a_run_stops_when_a_site_is_silent_for_too_long(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    absence = Absence("ben", range(8, 10**9))
    sites = FakeSites(cases.least_squares, SHARES, absence.fault)
    slow: Callable[[int, Any], None] = lambda r, x: time.sleep(0.01)  # noqa: E731
    with pytest.raises(SiteLostError, match=r"site ben has not answered for \d+ seconds"):
        pdmm.solve(
            federated(sites, patience=0.5, absent="skip"),
            METHOD,
            10**6,
            checkpoint=path,
            every=3,
            callback=slow,
        )
    sites.fault = None
    for name in sites.names:
        sites.restart(name)
    resumed = pdmm.resume(path, federated(sites), rounds=400)
    assert close(exact(), resumed.x)


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    sites = FakeSites(cases.softmax, SHARES)
    method = pdmm.GPDMM(step_size=0.5, local_steps=5)
    whole = pdmm.solve(federated(FakeSites(cases.softmax, SHARES)), method, 30)
    pdmm.solve(
        federated(sites), method, 30, checkpoint=path, every=4, callback=lambda r, x: r == 10
    )
    resumed = pdmm.resume(path, federated(sites))  # the sites have newer memories: not taken
    assert (resumed.x == whole.x).all()
    with pytest.raises(ValueError, match="not the one of the checkpoint"):
        pdmm.resume(path, federated(FakeSites(cases.softmax, {"ana": range(0, 4)})))


# --- sites that answer what they must not ----------------------------------------------------


def poison(field: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def changed(answer: Any) -> Any:
        return {**answer, field: [change(answer[field][0]), *answer[field][1:]]}

    return changed


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nan": (poison("upload", lambda v: np.where(v > v.max() - 1, np.nan, v)), "dz that is not fin"),
    "shape": (poison("upload", lambda v: v[:, :-1]), r"dz of shape \(1, 5\), not \(1, 6\)"),
    "rows": (
        poison("upload", lambda v: np.concatenate([v, v])),
        r"dz of shape \(2, 6\), not \(1, 6\)",
    ),
    "dtype": (poison("upload", lambda v: v.astype(np.float32)), "dz in float32, not float64"),
    "list": (poison("upload", lambda v: v.tolist()), "dz that is a list of 1, not an array"),
    "draft": (poison("draft", lambda v: v * np.inf), "x that is not finite"),
    "thin draft": (poison("draft", lambda v: v[:, :1]), r"x of shape \(1, 1\), not \(1, 6\)"),
    "draft dtype": (poison("draft", lambda v: v.astype(np.float32)), "x in float32, not float64"),
    "draft number": (poison("draft", lambda v: np.nan), r"x that is nan, not an array of shape"),
    "fields": (
        lambda answer: {**answer, "upload": []},
        "a list of 0, which is not an upload: it must have the field dz",
    ),
}
UNREADABLE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no upload": ("round", lambda answer: {k: answer[k] for k in answer if k != "upload"}),
    "no tally": ("round", lambda answer: {**answer, "tally": {"dances": 3}}),
    "a text for a value": ("round", lambda answer: {**answer, "value": "much"}),
    "short gradient": ("gradient", lambda answer: {**answer, "gradient": answer["gradient"][:-1]}),
    "no value": ("value", lambda answer: {}),
    "no fingerprint": ("fingerprint", lambda answer: {}),
    "constants of others": ("constants", lambda answer: {**answer, "values": np.ones(3)}),
    "a kind of its own": ("constants", lambda answer: {**answer, "kind": "lucky"}),
}


@pytest.mark.parametrize("how", list(BAD))
def test_a_bad_answer_names_its_site_and_changes_nothing(how: str, tmp_path: Path) -> None:
    change, says = BAD[how]
    path, method = tmp_path / "run.safetensors", pdmm.GPDMM(step_size=2e-3, local_steps=4)
    sites = FakeSites(
        cases.least_squares,
        SHARES,
        lambda site, verb, payload: (
            change if site == "ben" and verb == "round" and payload["round"] == 7 else None
        ),
    )
    with pytest.raises(SiteError, match=f"site ben returned, in round 7, {says}"):
        pdmm.solve(federated(sites), method, 20, checkpoint=path, every=1)
    sites.fault = None
    whole = pdmm.solve(cases.least_squares(range(cases.M)), method, 20)
    assert close(whole.x, pdmm.resume(path, federated(sites)).x)


@pytest.mark.parametrize("how", list(UNREADABLE))
def test_an_answer_that_cannot_be_read_names_its_site(how: str, tmp_path: Path) -> None:
    verb, change = UNREADABLE[how]
    sites = FakeSites(
        cases.least_squares,
        SHARES,
        lambda site, asked, payload: change if site == "ben" and asked == verb else None,
    )
    with pytest.raises(SiteError, match=r"site ben gave an answer to '\w+' that cannot be read"):
        pdmm.solve(federated(sites), pdmm.PDMM(), 9, tolerance=1e-30, checkpoint=tmp_path / "run")


def test_a_site_that_never_has_its_memory_is_named() -> None:
    lost: Callable[[Any], Any] = lambda answer: {"lacks": "memory"}  # noqa: E731
    sites = FakeSites(
        cases.softmax, SHARES, lambda site, verb, payload: lost if verb == "round" else None
    )
    with pytest.raises(SiteError, match="was sent its memory, and says that it lacks it"):
        pdmm.solve(federated(sites), METHOD, 5)


@pytest.mark.parametrize("when", ["first", "last"])
def test_a_site_away_at_a_certificate_costs_only_that_certificate(when: str) -> None:
    """At the first one, the tolerance refers to the next; at the last, there is none."""
    count, rounds = 0, 0

    def fault(site: str, verb: str, payload: Any) -> str | None:
        nonlocal count, rounds
        rounds = payload.get("round", rounds)
        count += site == "ben" and verb == "gradient"
        early = when == "first" and verb == "gradient" and count == 1
        late = when == "last" and rounds >= 10
        return SILENT if site == "ben" and (early or late) else None

    sites = FakeSites(cases.least_squares, SHARES, fault)
    tolerance = 1e-6 if when == "first" else None
    begun = time.monotonic()
    result = pdmm.solve(
        federated(sites, absent="skip", patience=120.0),
        pdmm.PDMM(rho=40.0),
        12 if tolerance is None else 100,
        tolerance=tolerance,
    )
    assert time.monotonic() - begun < 60  # half of the patience
    if when == "first":
        assert result.reason.startswith("certified after round")
    else:
        assert result.reason == "all 12 rounds done"
        assert np.isnan(result.certificate.stationarity)


def test_a_silent_site_does_not_make_a_checkpoint_useless(tmp_path: Path) -> None:
    """What its clients are recognised by was not known, then or now; of the others it was."""

    def silent(site: str, verb: str, payload: Any) -> str | None:
        return SILENT if site == "ben" and verb == "fingerprint" else None

    def exchanged(clients: range) -> pdmm.Problem:
        return cases.softmax(list(clients)[::-1])

    for then, now in ((silent, None), (None, silent), (silent, silent)):
        path = tmp_path / f"run {then is silent} {now is silent}"
        problem = federated(FakeSites(cases.softmax, SHARES, then), absent="skip")
        pdmm.solve(problem, METHOD, 9, checkpoint=path, callback=lambda r, x: r == 4)
        other = federated(FakeSites(exchanged, SHARES, now), absent="skip")
        with pytest.raises(ValueError, match=r"not the one of the checkpoint.*site ana"):
            pdmm.resume(path, other)
        problem = federated(FakeSites(cases.softmax, SHARES, now), absent="skip")
        assert pdmm.resume(path, problem).rounds == 9


def test_what_was_not_known_of_a_silent_site_is_kept_once_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run"
    sites = FakeSites(
        cases.softmax,
        SHARES,
        lambda site, verb, payload: SILENT if (site, verb) == ("ana", "fingerprint") else None,
    )
    problem = federated(sites, absent="skip")
    pdmm.solve(problem, METHOD, 9, checkpoint=path, every=1, callback=lambda r, x: r == 4)
    problem = federated(FakeSites(cases.softmax, SHARES), absent="skip")
    pdmm.resume(path, problem, callback=lambda r, x: r == 6)
    other = FakeSites(lambda clients: cases.softmax(list(clients)[::-1]), SHARES)
    with pytest.raises(ValueError, match=r"not the one of the checkpoint.*site ana"):
        pdmm.resume(path, federated(other, absent="skip"))


def test_what_gradients_have_shown_outlives_a_site(tmp_path: Path) -> None:
    """A function that is not convex is found out, though its site forgets what it saw."""

    def make(clients: Any) -> pdmm.Problem:
        value: Any = lambda x: float((x**2).sum() / 2 - 2 * np.cos(x).sum())  # noqa: E731
        gradient: Any = lambda x: x + 2 * np.sin(x) * (1 if 5 in clients else 0)  # noqa: E731
        k = len(clients)
        return pdmm.Functions([value] * k, [gradient] * k, 2, strong_convexity=1.0, smoothness=3.0)

    def forget(site: str, verb: str, payload: Any) -> None:
        if verb == "round" and payload["round"] == 25:
            sites.restart(site)

    sites = FakeSites(make, SHARES, forget)
    path, method = tmp_path / "run", pdmm.GradientDescent(0.3)
    with pytest.warns(RuntimeWarning, match=r"f_5 \(client 5\) is not convex"):
        result = pdmm.solve(federated(sites), method, 40, x0=np.full(2, 9.0), checkpoint=path)
    assert result.certificate.gap is None
    for name in SHARES:
        sites.restart(name)
    sites.fault = None
    with pytest.warns(RuntimeWarning, match="is not convex"):
        assert pdmm.resume(path, federated(sites), rounds=45).certificate.gap is None


def test_functions_without_gradients_need_none() -> None:
    """They have a prox: certificates and constants do without, as in one process."""

    def prox_only(clients: Any) -> pdmm.Problem:
        return cases.absolute(clients)

    one = pdmm.solve(cases.absolute(range(cases.M)), rounds=60)
    result = pdmm.solve(federated(FakeSites(prox_only, SHARES)), rounds=60)
    assert result.choices[-1] == one.choices[-1]
    assert close(one.x, result.x, 1e-6)


def test_what_is_for_one_process_is_refused() -> None:
    problem = federated(FakeSites(cases.softmax, SHARES))
    for more in ({"bits": 4}, {"loss": 0.1}, {"participation": 0.5}, {"state": "server"}):
        with pytest.raises(ValueError, match="are for clients in this process"):
            pdmm.solve(problem, METHOD, **more)


def test_no_patience_is_for_those_who_do_not_answer() -> None:
    problem = federated(FakeSites(cases.softmax, SHARES), patience=0.0, absent="skip")
    assert pdmm.solve(problem, METHOD, 20).rounds == 20


def test_what_a_site_raises_is_told_with_its_name() -> None:
    def make(clients: Any) -> Any:
        if 5 in clients:
            raise OSError("no such disk")
        return cases.least_squares(clients)

    with pytest.raises(SiteError, match="site ben raised OSError: no such disk"):
        federated(FakeSites(make, SHARES))
    with pytest.raises(SiteError, match="must return a pdmm problem, such as LeastSquares"):
        federated(FakeSites(lambda clients: None, SHARES))  # type: ignore[arg-type, return-value]
    with pytest.raises(SiteError, match="must know all of its clients"):
        federated(FakeSites(lambda c: pdmm.Lazy(3, lambda i: cases.quadratic([i])), SHARES))
    with pytest.raises(SiteError, match="site ben has the dimension 3, but site ana has 6"):
        federated(
            FakeSites(lambda c: (cases.quadratic if 5 in c else cases.least_squares)(c), SHARES)
        )
    with pytest.raises(SiteError, match=r"got a dict$"):  # and nothing of what is in it
        federated(FakeSites(lambda c: {"name": "Smith"}, SHARES))  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="knows no 'dance'"):
        FakeSites(cases.softmax, SHARES).sites["ana"].answer("dance", {})
