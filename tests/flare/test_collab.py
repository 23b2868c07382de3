"""What a site answers when its function does what it must not, and what is said of lost sites."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.collab.api.exceptions import RunAborted
from nvflare.fuel.hci.client import api

from pdmm.engines.sites.roster import Roster, SiteError
from pdmm.flare import collab, kits, wire
from pdmm.flare.admin import Admin
from pdmm.flare.connection import FlareConnection, UnansweredError
from pdmm.flare.lost_sites import LostSites, in_words


class Proxy:
    """Stands for FLARE's way to one site."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name, self.answer = name, answer

    def __call__(self, *, timeout: float) -> Any:
        return SimpleNamespace(answer=self.answer)


@pytest.mark.parametrize("ending", [SystemExit("Smith"), KeyboardInterrupt(), GeneratorExit()])
def test_a_function_that_ends_the_process_is_an_error_of_its_site(
    ending: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is final, as a ValueError is, and quotes nothing that the site said."""

    def made() -> Any:
        raise ending

    monkeypatch.setattr(collab.Site, "_made", staticmethod(made))
    proxies = {"ben": Proxy("ben", collab.Site().answer)}
    connection = FlareConnection(proxies, SimpleNamespace(triggered=False))
    with pytest.raises(
        SiteError, match=r"site ben raised .*ended the process by sys.exit"
    ) as caught:
        Roster(connection, timeout=60.0, patience=60.0).ask("hello", {"ben": {}})
    assert isinstance(caught.value, ValueError)
    assert "Smith" not in str(caught.value)


def test_an_aborted_job_says_who_had_not_answered() -> None:
    abort = SimpleNamespace(triggered=False)

    def answers(**_: Any) -> Any:
        return {"reply": wire.encode({})}

    def dies(**_: Any) -> Any:
        abort.triggered = True
        raise RunAborted("gone")

    proxies = {"ana": Proxy("ana", answers), "ben": Proxy("ben", dies)}
    with pytest.raises(UnansweredError) as caught:
        FlareConnection(proxies, abort).ask("round", {"ana": {}, "ben": {}}, 60.0)
    assert caught.value.unanswered == ["ben"]


def test_what_is_said_of_it() -> None:
    assert in_words([], 7).endswith("or an admin aborted it")
    assert "before the first round, only ben had" in in_words(["ben"], None)
    lost = LostSites()
    assert lost.told("why", ["ben"], 7) == "why"
    assert lost.told("why", ["ben"], 8) == "why"
    assert lost.told("why", ["ana"], 7) == "why"
    assert "at site ben, look at log.txt" in lost.told("why", ["ana2", "ben"], 7)


def test_a_session_is_silent_and_silences_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another thread prints while FLARE connects."""
    kit = kits.provision(tmp_path / "kits", ["ana"]).admin

    def meanwhile(*_: Any, **__: Any) -> Any:
        thread = threading.Thread(target=print, args=("of another thread",))
        thread.start()
        thread.join()
        raise ConnectionError("nobody is connected to in this test")

    monkeypatch.setattr(api, "Cell", meanwhile)
    capsys.readouterr()
    with pytest.raises(ConnectionError):
        Admin(kit)._connected(1.0)
    assert capsys.readouterr().out == "of another thread\n"
