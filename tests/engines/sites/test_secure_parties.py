"""Who takes part in secure sums, and what those who read the messages see."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import pdmm
from builders.certificates import Root
from builders.hostile import FEW_ROWS, METHOD, THREE, D, bowls, tables
from builders.sites import FakeSites, Payload
from pdmm.engines import Refused, Sites
from pdmm.privacy.membership import Membership, _signed
from pdmm.privacy.refusals import Reason

VERIFY = ("server", "sites")
ROUNDS = 4

# --- who takes part -----------------------------------------------------------------------------


def named(identities: dict[str, Any], **keys: Any) -> FakeSites:
    """Sites with certificates."""
    policy = {**FEW_ROWS, "min_organisations": 3, **keys} if keys else pdmm.engines.Policy.open()
    fake = FakeSites(tables, THREE, policy=policy)
    for name, site in fake.sites.items():
        site.consent.identity = identities[name]
    return fake


@pytest.fixture(scope="module")
def root() -> Root:
    return Root()


@pytest.fixture(scope="module")
def identities(root: Root) -> dict[str, Any]:
    return {name: root.site(name) for name in THREE}


def reasons(fake: FakeSites) -> set[str]:
    return {entry.reason for site in fake.sites.values() for entry in site.audit.kept}


def test_sums_are_with_nobody_who_is_not_who_it_says(root: Root, identities: Any) -> None:
    liars = {
        "the site is called ben, which is not the name of its certificate": root.site("eve"),
        "not one of this federation's root": Root().site("ben"),
    }
    for said, liar in liars.items():
        fake = named(identities | {"ben": liar})
        with pytest.raises(Refused):
            pdmm.solve(Sites(fake, secure=True), METHOD, 3)
        assert any(said in reason for reason in reasons(fake))


def test_a_site_cannot_speak_for_another(root: Root, identities: Any) -> None:
    """A server and a site that work together put its certificate in the place of another's."""
    ana = Membership(identities["ana"])
    eve = Membership(None)
    own = ana.join("run", "ana")
    statement = eve.join("run", "ben")
    stranger = root.site("eve")
    statement["certificate"] = stranger.certificate.decode()
    statement["signature"] = stranger.sign(_signed(statement)).hex()
    with pytest.raises(Reason, match="the certificate of ben is that of eve"):
        ana.agree([own, statement], {})


def test_two_organisations_that_call_themselves_three_are_two(root: Root, identities: Any) -> None:
    """The sites say that they are three; their certificates say otherwise."""
    fake = named(identities)
    clients = Sites(fake, secure=True)
    for name in ("ben", "cyd"):
        fake.sites[name].consent.identity = root.site(name, organisation="one")
    with pytest.raises(Refused):
        pdmm.solve(clients, METHOD, 3)
    assert "2 organisations take part, and secure sums need 3" in reasons(fake)
    assert not any(entry.numbers for entry in fake.sites["ana"].audit.kept if entry.verb == "round")


def test_only_pinned_certificates_take_part(identities: Any) -> None:
    pins = [identities[name].holder.fingerprint for name in THREE]
    pdmm.solve(Sites(named(identities, partners=pins), secure=True), METHOD, 3)
    fake = named(identities, partners=pins[:2])
    with pytest.raises(Refused):
        pdmm.solve(Sites(fake, secure=True), METHOD, 3)
    assert any("partners does not allow" in reason for reason in reasons(fake))


# --- what leaves looks like nothing -------------------------------------------------------------


def test_words_are_as_random_at_0_as_at_a_million() -> None:
    """Of the bytes of one site's words, each value is as frequent as any other."""
    seen: dict[float, list[Any]] = {0.0: [], 1e6: []}

    def keep(site: str, verb: str, payload: Payload) -> Any:
        def kept(answer: Payload) -> Payload:
            seen[at].append(answer["words"])
            return answer

        return kept if verb == "gradient" and site == "ana" else None

    fake = FakeSites(wide, THREE, keep)
    clients = Sites(fake, secure=True, absent="wait")
    at = 0.0
    pdmm.solve(clients, pdmm.GradientDescent(0.1), 1, optimum=False)
    seen[0.0].clear()
    for at in seen:
        clients.certain_gradient(np.full(clients.dimension, at))
    for at, words in seen.items():
        counts = np.bincount(np.concatenate(words).view(np.uint8), minlength=256)
        expected = counts.sum() / 256
        statistic = float(((counts - expected) ** 2 / expected).sum())
        assert counts.sum() > 30_000, at
        assert chi2.ppf(1e-6, 255) < statistic < chi2.ppf(1 - 1e-6, 255), at
    assert not set(np.concatenate(seen[0.0])) & set(np.concatenate(seen[1e6]))


def wide(clients: Any) -> pdmm.Problem:
    """Of so many numbers that their bytes can be counted."""
    return pdmm.Quadratic(np.ones((len(clients), 3000)), np.ones((len(clients), 3000)))


def arrays_of(what: Any, seen: set[int]) -> list[Any]:
    """All arrays that can be reached from an object of the library."""
    if id(what) in seen or isinstance(what, str | bytes | int | float | type(None)):
        return []
    seen.add(id(what))
    if isinstance(what, np.ndarray):
        return [what]
    inside: Any = ()
    if isinstance(what, dict):
        inside = what.values()
    elif isinstance(what, list | tuple | set | frozenset):
        inside = what
    elif type(what).__module__.startswith("pdmm"):
        inside = vars(what).values()
    return [array for part in inside for array in arrays_of(part, seen)]


@pytest.mark.parametrize("verify", VERIFY)
def test_the_server_holds_no_part_of_a_site(verify: Any) -> None:
    """In no answer and in no object: each part is looked for as it is, and as whole numbers."""
    fake = FakeSites(bowls, THREE)
    clients = Sites(fake, secure=True, absent="wait", verify=verify)
    answers: list[Any] = []

    def keep(site: str, verb: str, payload: Payload) -> Any:
        def keeping(answer: Payload) -> Payload:
            answers.append(answer)
            return answer

        return keeping

    fake.fault = keep
    x = pdmm.solve(clients, METHOD, ROUNDS, tolerance=1e-30).x
    clients.roster.connection = FakeSites(bowls, THREE)  # the sites are no part of the server
    held = arrays_of(clients, set()) + arrays_of(answers, set())
    floats = np.concatenate([a.ravel() for a in held if a.dtype.kind == "f" and a.size])
    whole = np.concatenate([a.view(np.int64).ravel() for a in held if a.dtype == np.uint64])
    assert len(whole) > 100
    parts = [float(size) for size in (100.0, 3.0, 2.0)]
    for size in parts:
        gradient = x - size * np.linspace(1.0, 1.2, D)
        for part in gradient:
            assert not np.isclose(floats, part, rtol=1e-6, atol=0).any()
            for power in range(30, 60):
                assert not (np.abs(whole - part * 2.0**power) < 2.0 ** (power - 30)).any()
