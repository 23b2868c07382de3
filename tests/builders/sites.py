"""Sites in this process, whose connections a test can break."""

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pdmm
from builders import cases
from pdmm.engines.sites.site import Site

Payload = dict[str, Any]
OPEN = pdmm.engines.Policy.open()
Fault = Callable[[str, str, Payload], Any]


class FakeSites:
    """Sites with their own clients; ``faults`` says what happens to a question.

    Args:
        make: of some clients' problem.
        shares: clients of every site, by name.
        fault: called as fault(site, verb, payload) before a site is asked: None to ask it, a text
            to fail with that, or a function of the site's answer that gives another.
        policy: of each site.
    """

    def __init__(
        self,
        make: Callable[..., pdmm.Problem],
        shares: Mapping[str, Any],
        fault: Fault | None = None,
        policy: Any = OPEN,
    ) -> None:
        self.names = sorted(shares, reverse=True)  # in no useful order
        self.make, self.shares, self.fault = make, shares, fault
        self.policy = policy
        self.sites: dict[str, Site] = {name: self.new(name) for name in shares}
        self.asked: list[tuple[str, str, Payload]] = []
        self.lock = threading.Lock()

    def new(self, name: str) -> Site:
        return Site(lambda: self.make(self.shares[name]), self.policy)

    def restart(self, name: str) -> None:
        """The site forgets all that it had in memory."""
        self.sites[name] = self.new(name)

    def ask(
        self, verb: str, payloads: Mapping[str, Payload], timeout: float
    ) -> tuple[dict[str, Payload], dict[str, str]]:
        answers, failures = {}, {}
        with self.lock:
            for name, payload in payloads.items():
                self.asked.append((name, verb, payload))
                outcome = None if self.fault is None else self.fault(name, verb, payload)
                if isinstance(outcome, str):
                    failures[name] = outcome
                    continue
                try:
                    # A copy, as over a network: nobody changes what another has.
                    answer = copy.deepcopy(
                        self.sites[name].answer(verb, copy.deepcopy(dict(payload)))
                    )
                except Exception as error:
                    failures[name] = f"raised {type(error).__name__}: {error}"
                    continue
                answers[name] = answer if outcome is None else outcome(answer)
        return answers, failures


SHARES = {"ana": range(0, 5), "ben": range(5, 6), "cyd": range(6, cases.M)}

SILENT = "no answer within 1 seconds"


class Absence:
    """A site that does not answer in some rounds, and is back in the next, whatever a clock says.

    The library asks an absent site in a thread of its own whether it is back. The last of the
    rounds ends only when that thread has heard that it is, however busy the machine may be.

    Args:
        site: its name.
        rounds: in which it does not answer, to any question.
    """

    def __init__(self, site: str, rounds: range) -> None:
        self.site, self.rounds = site, rounds
        self.now, self.over = 0, False
        self.asked, self.asking = threading.Event(), threading.current_thread()

    def fault(self, site: str, verb: str, payload: Payload) -> str | None:
        """What is wrong with a question, for :class:`FakeSites`."""
        self.now = payload.get("round", self.now)
        if site != self.site or self.over or self.now < self.rounds.start:
            return None
        if verb == "hello":
            self.asking = threading.current_thread()
            self.asked.set()
        return SILENT

    def callback(self, r: int, x: Any = None) -> None:
        """To be called after every round."""
        if r == self.rounds[-1]:
            assert self.asked.wait(60)
            self.over = True
            self.asking.join(60)
