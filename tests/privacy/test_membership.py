"""Sites make sure of each other: with real certificates, and with every lie of a server between."""

from collections.abc import Callable
from typing import Any

import pytest

from builders.certificates import Root
from pdmm.privacy.identity import Identity, checked_certificate
from pdmm.privacy.membership import Membership
from pdmm.privacy.refusals import Reason

NAMES = ("ana", "ben", "cyd")
TERMS = {"rounds": 10, "weights": [1.0, 2.0]}


@pytest.fixture(scope="module")
def root() -> Root:
    return Root()


@pytest.fixture(scope="module")
def identities(root: Root) -> dict[str, Identity]:
    return {name: root.site(name) for name in NAMES}


def joined(identities: dict[str, Any]) -> tuple[dict[str, Membership], list[dict[str, Any]]]:
    members = {name: Membership(identity) for name, identity in identities.items()}
    return members, [member.join("run/1", name) for name, member in members.items()]


def test_sites_that_were_told_the_same_agree(identities: dict[str, Identity]) -> None:
    members, statements = joined(identities)
    agreed = {name: member.agree(statements, TERMS) for name, member in members.items()}
    for member in members.values():
        member.confirm(agreed)
        assert {party.organisation for party in member.parties.values()} == set(NAMES)
    signature = members["ana"].sign(b"what ana sends")
    members["ben"].check("ana", b"what ana sends", signature)
    with pytest.raises(Reason, match="ana has not signed"):
        members["ben"].check("ana", b"what ana never sent", signature)
    with pytest.raises(Reason, match="cyd has not signed"):
        members["ben"].check("cyd", b"what ana sends", signature)


def test_the_order_in_which_the_server_tells_of_them_does_not_matter(
    identities: dict[str, Identity],
) -> None:
    members, statements = joined(identities)
    agreed = {
        name: member.agree(statements[k:] + statements[:k], TERMS)
        for k, (name, member) in enumerate(members.items())
    }
    members["cyd"].confirm(agreed)


def test_sites_that_were_told_different_terms_do_not_confirm(
    identities: dict[str, Identity],
) -> None:
    members, statements = joined(identities)
    agreed = {
        name: member.agree(statements, {**TERMS, "rounds": 10 + (name == "ben")})
        for name, member in members.items()
    }
    with pytest.raises(Reason, match="site ben has not signed"):
        members["ana"].confirm(agreed)


def test_a_server_cannot_leave_a_site_out_for_some(identities: dict[str, Identity]) -> None:
    members, statements = joined(identities)
    agreed = {
        "ana": members["ana"].agree(statements, TERMS),
        "ben": members["ben"].agree(statements[:2], TERMS),
    }
    with pytest.raises(Reason, match="ben has not signed"):
        members["ana"].confirm({**agreed, "cyd": members["cyd"].agree(statements, TERMS)})


Change = Callable[[list[dict[str, Any]], Root], Any]
LIES: dict[str, tuple[Change, str]] = {
    "another key": (lambda s, _: s[1].update(key=s[2]["key"]), "has not"),
    "another nonce": (lambda s, _: s[1].update(nonce="00"), "has not"),
    "another name": (lambda s, _: s[1].update(name="dan"), "has not"),
    "another's certificate": (
        lambda s, _: s[1].update(certificate=s[2]["certificate"]),
        "has not",
    ),
    "a site twice": (lambda s, _: s.append(dict(s[1])), "takes part twice"),
    "no signature": (lambda s, _: s[1].pop("signature"), "does not hold"),
    "no bytes": (lambda s, _: s[1].update(signature="zz"), "does not hold"),
    "no certificate": (lambda s, _: s[1].update(certificate=""), "does not hold"),
    "a number": (lambda s, _: s[1].update(key=3), "does not hold"),
    "not this site": (lambda s, _: s.pop(0), "not about what this site said"),
    "another run": (lambda s, _: s[1].update(run="run/2"), "speaks of another run"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_of_the_server_is_refused(
    identities: dict[str, Identity], root: Root, lie: str
) -> None:
    members, statements = joined(identities)
    change, said = LIES[lie]
    told = [dict(statement) for statement in statements]
    change(told, root)
    with pytest.raises(Reason, match=said):
        members["ana"].agree(told, TERMS)


@pytest.mark.parametrize("told", [None, "ana", {}, [None], [3], [[]]])
def test_what_is_no_list_of_sites_is_refused(identities: dict[str, Identity], told: Any) -> None:
    members, _ = joined(identities)
    with pytest.raises(Reason):
        members["ana"].agree(told, TERMS)


def test_statements_of_an_earlier_run_do_not_count(identities: dict[str, Identity]) -> None:
    """A server cannot have two sites that are away agree, by what they once said."""
    _, before = joined(identities)
    members, now = joined(identities)
    with pytest.raises(Reason, match="not about what this site said"):
        members["ana"].agree(before, TERMS)
    agreed = members["ana"].agree([now[0], *before[1:]], TERMS)
    with pytest.raises(Reason, match="ben has not signed"):
        members["ana"].confirm(dict.fromkeys(NAMES, agreed))


def test_a_certificate_of_another_root_or_of_another_time_is_none(root: Root) -> None:
    stranger = Root().site("ben")
    with pytest.raises(ValueError, match="not one of this federation's root"):
        checked_certificate(stranger.certificate, root.certificate)
    late = root.site("ben", days=-1)
    with pytest.raises(ValueError, match="not valid today"):
        checked_certificate(late.certificate, root.certificate)


def test_a_site_joins_by_the_name_of_its_certificate(identities: dict[str, Identity]) -> None:
    with pytest.raises(Reason, match="not the name of its certificate"):
        Membership(identities["ana"]).join("run/1", "ben")


def test_a_server_or_an_admin_is_no_site(root: Root) -> None:
    """The root vouches for their certificates too, and a server holds its own."""
    servers = frozenset({"fl.university.org"})
    server = root.site("fl.university.org")
    with pytest.raises(ValueError, match=r"fl.university.org is not that of a site"):
        checked_certificate(server.certificate, root.certificate, servers)
    admin = root.site("researcher@university.org", role="project_admin")
    with pytest.raises(ValueError, match="not that of a site"):
        checked_certificate(admin.certificate, root.certificate, servers)
    assert checked_certificate(root.site("ana").certificate, root.certificate, servers)
