"""The server's view of the sites: what it makes of whatever a site's process sends back."""

from typing import Any

import pytest

from pdmm.engines.sites.roster import Roster, SiteError
from pdmm.flare import wire
from pdmm.flare.connection import FlareConnection


class FakeProxy:
    """What FLARE would give for calling one site, which always gives the same reply."""

    def __init__(self, name: str, reply: Any) -> None:
        self.name = name
        self.reply = reply

    def __call__(self, *, timeout: float) -> Any:
        return self

    def answer(self, number: int, verb: str, payload: bytes) -> Any:
        return self.reply


class Signal:
    """A job that nobody aborts."""

    triggered = False


GOOD = {"reply": wire.encode({"value": 1.5})}


def roster(reply: Any) -> Roster:
    proxies = {"ana": FakeProxy("ana", GOOD), "ben": FakeProxy("ben", reply)}
    return Roster(FlareConnection(proxies, Signal()), timeout=5.0, patience=5.0)


def test_replies_arrive() -> None:
    found = roster(GOOD).ask("value", {"ana": {}, "ben": {}})
    assert found == {"ana": {"value": 1.5}, "ben": {"value": 1.5}}


BAD: list[Any] = [
    *(None, [], "text", {}, {"reply": None}, {"reply": "text"}, {"reply": b""}, {"reply": 3}),
    *({"reply": b"\xff" * 40}, {"reply": wire.encode({"x": 1})[:-1]}, {"reply": {"value": 1.5}}),
]


@pytest.mark.parametrize("reply", BAD, ids=repr)
def test_a_reply_that_cannot_be_read_is_no_silence(reply: Any) -> None:
    asked = roster(reply)
    with pytest.raises(SiteError, match=r"^site ben sent a reply that cannot be read: "):
        asked.ask("value", {"ana": {}, "ben": {}})
    assert not asked.absent


def test_what_a_site_says_went_wrong_is_told_in_a_line() -> None:
    said = {"error": "ValueError: \x1b[2J\n" + "no " * 10**5}
    with pytest.raises(SiteError, match=r"^site ben raised ValueError:  ") as refusal:
        roster(said).ask("value", {"ana": {}, "ben": {}})
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 1100
