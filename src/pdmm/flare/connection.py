"""The server's view of the sites: ask them at the same time, and learn who failed and why."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from pdmm.engines.sites.roster import UNREADABLE
from pdmm.flare import wire

GRACE = 1.0  # seconds beyond a timeout that FLARE is given to report it itself
LOOK = 0.5  # seconds between two looks at whether the job is being aborted
GREETING = "hello"  # the question that every site can answer at any time
LONGEST_ERROR = 1000  # characters of what a site says went wrong


class Proxy(Protocol):
    """What FLARE gives for calling one site."""

    name: str

    def __call__(self, *, timeout: float) -> Any: ...


class Signal(Protocol):
    """FLARE's mark that a job is being aborted."""

    triggered: bool


class UnansweredError(RunAborted):  # type: ignore[misc]  # FLARE has no types
    """The job was aborted while sites were asked.

    Args:
        unanswered: the sites that had not answered by then.
    """

    def __init__(self, unanswered: Sequence[str]) -> None:
        super().__init__("the job was aborted while sites were asked")
        self.unanswered = list(unanswered)


class FlareConnection:
    """The sites of a job.

    `names` lists those that belong to the job. Calls are numbered, so that a site that was frozen
    and then finds several of them waiting can leave out those that nobody waits for any more.

    Attributes:
        verb: what the sites were asked last.
    """

    def __init__(self, proxies: Mapping[str, Proxy], abort: Signal) -> None:
        self.names = sorted(proxies)
        self._proxies = dict(proxies)
        self._abort = abort
        self._numbers = itertools.count(1)
        self.verb = ""
        self._owing: dict[str, float] = {}  # since when a site has owed an answer

    def waiting(self) -> dict[str, float]:
        """The sites that owe an answer, and for how many seconds."""
        now = time.monotonic()
        return {name: now - since for name, since in sorted(self._owing.copy().items())}

    def _heard(self, name: str) -> None:
        """A site has answered, whatever it said."""
        self._owing.pop(name, None)

    def ask(
        self, verb: str, payloads: Mapping[str, dict[str, Any]], timeout: float
    ) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Call each named site with its own payload, all at the same time.

        Returns the replies and the failures, in words, both by site; every site that was asked is
        in one of them. It takes at most the timeout and about a second. Raises FLARE's RunAborted
        if the job is aborted meanwhile: let it pass.
        """
        unknown = sorted(set(payloads) - set(self.names))
        if unknown:
            raise ValueError(f"payloads: {unknown} are not sites of this job, {self.names} are")
        # packed here, not in the threads: what cannot be sent is an error of the caller
        packed = {name: wire.encode(payload) for name, payload in payloads.items()}
        calls = [
            _Call(self._proxies[name], next(self._numbers), verb, payload, timeout, self._heard)
            for name, payload in packed.items()
        ]
        if verb != GREETING or not self.verb:  # which an absent site is asked again and again
            self.verb = verb
        for call in calls:
            self._owing.setdefault(call.site, time.monotonic())
            call.start()
        end = time.monotonic() + timeout + GRACE
        replies: dict[str, dict[str, Any]] = {}
        failures: dict[str, str] = {}
        for call in calls:
            while not call.done.wait(min(LOOK, max(0.0, end - time.monotonic()))):
                if self._abort.triggered:
                    raise UnansweredError(_unanswered(calls))
                if time.monotonic() >= end:
                    break
            # one look at the outcome: a thread that ends later changes nothing any more
            outcome = call.outcome
            if outcome is None:
                failures[call.site] = _silent(timeout)
            elif isinstance(outcome, str):
                failures[call.site] = outcome
            elif isinstance(outcome, RunAborted):
                raise UnansweredError(_unanswered(calls)) from outcome
            else:
                replies[call.site] = outcome
        # an abort closes the connections, which looks as if all sites had fallen silent
        if self._abort.triggered:
            raise UnansweredError(_unanswered(calls))
        return replies, failures


class _Call(threading.Thread):
    """One call of one site. A daemon: a call that hangs must not keep the job from ending."""

    def __init__(
        self,
        proxy: Proxy,
        number: int,
        verb: str,
        payload: bytes,
        timeout: float,
        heard: Callable[[str], None],
    ) -> None:
        super().__init__(name=f"pdmm_ask_{proxy.name}", daemon=True)
        self.site = proxy.name
        self.done = threading.Event()
        self.outcome: dict[str, Any] | str | RunAborted | None = None
        self._proxy, self._timeout, self._heard = proxy, timeout, heard
        self._arguments = {"number": number, "verb": verb, "payload": payload}

    def run(self) -> None:
        try:
            self.outcome = self._called()
        except RunAborted as abort:
            self.outcome = abort
        except CollabCallError as error:
            self.outcome = self._in_words(error)
        except Exception as error:
            self.outcome = f"{type(error).__name__}: {error}"
        finally:
            self.done.set()

    def _called(self) -> dict[str, Any] | str:
        reply = self._proxy(timeout=self._timeout).answer(**self._arguments)
        self._heard(self.site)
        if not isinstance(reply, dict):
            return f"{UNREADABLE}: a {type(reply).__name__}, not a dictionary"
        if "error" in reply:
            return f"raised {_in_a_line(reply['error'])}"
        try:
            return wire.decode(reply.get("reply"))
        except ValueError as error:
            return f"{UNREADABLE}: {error}"

    def _in_words(self, error: CollabCallError) -> str:
        cause = str(error.cause)
        if isinstance(error.cause, TimeoutError) or "timeout" in cause.lower():
            return _silent(self._timeout)
        if "unreachable" in cause.lower() or "comm_error" in cause.lower():
            return f"gone: it cannot be reached ({cause})"
        return cause


def _in_a_line(text: Any) -> str:
    """What a site says went wrong, without what a terminal could take for a command."""
    line = "".join(c if c.isprintable() else " " for c in str(text)[:LONGEST_ERROR])
    return line if len(str(text)) <= LONGEST_ERROR else f"{line} ..."


def _unanswered(calls: Sequence[_Call]) -> list[str]:
    """The sites that have not answered: the answer of the others came long before an abort."""
    return sorted(call.site for call in calls if not isinstance(call.outcome, dict))


def _silent(timeout: float) -> str:
    return f"no answer within {timeout:g} seconds"
