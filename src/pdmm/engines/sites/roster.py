"""The sites of a federation, and how long to wait for them."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pdmm.common.checks import ClientError
from pdmm.privacy.refusals import Refused, Spent

Payload = dict[str, Any]
SUPERSEDED = "Superseded"  # what a site says to a question that waited behind a newer one
UNREADABLE = "sent a reply that cannot be read"  # what a connection says of bytes that are no reply
PAUSE = 0.2  # seconds between two questions to a site that cannot be reached

log = logging.getLogger(__name__)


class SiteError(ValueError):
    """A site failed, or answered what it must not: its name, and what was wrong."""


class TableError(SiteError):
    """A site's table does not suit what is asked; the text is for others to read.

    Args:
        text: what is wrong, without a word of any row.
        counts: whether it depends on single rows, so that it counts as a refusal does.
    """

    def __init__(self, text: str, counts: bool = False) -> None:
        super().__init__(text)
        self.counts = counts


class SiteTableError(TableError):
    """The same, as the server hears of it."""

    def __init__(self, site: str, text: str) -> None:
        super().__init__(f"site {site}: {text}")
        self.site = site


class SiteClientError(SiteError, ClientError):
    """A site's own function failed: a run treats it as a function of a client of its own."""


class SiteForgotError(SiteError):
    """A site has lost what nobody else has: the run can only begin again."""


class SiteRefusedError(SiteError, Refused):
    """A site's policy does not allow what was asked."""

    def __init__(self, site: str, text: str) -> None:
        super().__init__(text)
        self.site = site


class SiteSpentError(SiteRefusedError, Spent):
    """A site's policy allows no more answers."""


class SiteLostError(RuntimeError):
    """A site was silent for too long; the run can go on from its checkpoint."""


class Connection(Protocol):
    """What carries questions to the sites, and their answers back."""

    names: list[str]

    def ask(
        self, verb: str, payloads: Mapping[str, Payload], timeout: float
    ) -> tuple[dict[str, Payload], dict[str, str]]:
        """Ask some sites at the same time: answers, and what went wrong, each by site.

        An answer is one to this question. What a site itself raised begins with "raised", and
        ``UNREADABLE`` is the beginning where it answered what is no message: both end the run,
        and anything else is a site that cannot be reached.
        """


class Roster:
    """Who is there, who is not, and since when.

    Args:
        connection: to the sites.
        timeout: seconds to wait for an answer before a site counts as absent.
        patience: seconds that a site may be absent before the run stops.
    """

    def __init__(self, connection: Connection, timeout: float, patience: float) -> None:
        self.connection = connection
        self.timeout = timeout
        self.patience = patience
        self.names = sorted(connection.names)
        self.absent: dict[str, float] = {}  # since when
        self.why: dict[str, str] = {}
        self.opening: Callable[[str], Payload] = _no_opening
        """Gives what a site is told again that has forgotten what the run is about."""
        self._back: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, verb: str, payloads: Mapping[str, Payload]) -> dict[str, Payload]:
        """Ask some sites; those that do not answer in time are absent from then on."""
        answers, failures = self.connection.ask(verb, payloads, self.timeout)
        forgetful = [name for name, answer in answers.items() if _lacks_study(answer)]
        if forgetful:
            again = {name: {**payloads[name], "opening": self.opening(name)} for name in forgetful}
            found, failed = self.connection.ask(verb, again, self.timeout)
            answers = {n: answer for n, answer in answers.items() if n not in again} | found
            failures = failures | failed
        for name, why in failures.items():
            if why.startswith(UNREADABLE):
                raise SiteError(f"site {name} {why}")
            if why.startswith("raised") and SUPERSEDED not in why:
                raise _error(name, why)
            self._gone(name, why)
        for name in answers:
            self.absent.pop(name, None)
        self.check()
        return answers

    def everyone(self, verb: str, payloads: Mapping[str, Payload]) -> dict[str, Payload]:
        """Ask some sites until each has answered, or has been silent for too long."""
        answers: dict[str, Payload] = {}
        while missing := {name: p for name, p in payloads.items() if name not in answers}:
            found = self.ask(verb, missing)
            answers |= found
            if not found:
                time.sleep(PAUSE)
        return answers

    @contextmanager
    def reading(self, name: str, verb: str) -> Iterator[None]:
        """What cannot be read of a site's answer is that site's error."""
        try:
            yield
        except SiteError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise SiteError(
                f"site {name} gave an answer to {verb!r} that cannot be read "
                f"({type(error).__name__}: {error})"
            ) from error

    def check(self, since_when: Mapping[str, float] | None = None) -> None:
        """Stop the run for sites that have been silent for too long.

        Args:
            since_when: they have been, or have answered too late every time; of those that are
                absent, if not given.
        """
        now = time.monotonic()
        for name, since in (self.absent if since_when is None else since_when).items():
            if now - since > self.patience:
                why = self.why.get(name, "too late")
                raise SiteLostError(
                    f"site {name} has not answered for {now - since:.0f} seconds ({why}): when it "
                    "is back, resume the run. If it only needs longer, give it a longer timeout"
                )

    @property
    def present(self) -> list[str]:
        """The sites to ask, with those that came back."""
        with self._lock:
            back, self._back = self._back, set()
        for name in back:
            self.absent.pop(name, None)
            log.info("site %s is back", name)
        return [name for name in self.names if name not in self.absent]

    def wait(self) -> list[str]:
        """Nobody was there: the first sites to come back."""
        while not (present := self.present):
            self.check()
            time.sleep(PAUSE)
        return present

    def _gone(self, name: str, why: str) -> None:
        self.why[name] = why
        if name in self.absent:
            return
        self.absent[name] = time.monotonic()
        log.info("site %s does not answer: %s", name, why)
        threading.Thread(target=self._call_back, args=(name,), daemon=True).start()

    def _call_back(self, name: str) -> None:
        """Ask an absent site whether it is there, while the run goes on without it."""
        begun = time.monotonic()
        while name in self.absent and time.monotonic() - begun < self.patience + self.timeout:
            try:
                answers, failures = self.connection.ask("hello", {name: {}}, self.timeout)
            except Exception:  # the run is being ended: nobody waits for the answer
                return
            # a site that has lost its table's problem is there, and says that it has none
            if answers or failures.get(name, "").startswith("raised"):
                with self._lock:
                    self._back.add(name)
                return
            time.sleep(PAUSE)


def _error(name: str, why: str) -> SiteError:
    """What a site has raised."""
    if why.startswith(f"raised {Spent.__name__}"):
        return SiteSpentError(
            name,
            f"the policy of site {name} allows no more answers about its table: its max_rounds "
            "or its max_numbers_out_share is reached",
        )
    if why.startswith(f"raised {Refused.__name__}"):
        return SiteRefusedError(
            name,
            f"site {name} refused by policy: what its policy does not allow is in its own audit, "
            "which pdmm federate audit shows there",
        )
    table = f"raised {TableError.__name__}: "
    if why.startswith(table):
        return SiteTableError(name, why.removeprefix(table))
    if why.startswith(f"raised {ClientError.__name__}"):
        return SiteClientError(f"site {name} {why}")
    return SiteError(f"site {name} {why}")


def _lacks_study(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("lacks") == "study"


def _no_opening(name: str) -> Payload:
    raise SiteError(f"site {name} knows of no run")
