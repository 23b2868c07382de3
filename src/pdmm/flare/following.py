"""Watching a job of a federation until it is over: each of its rounds, and what is waited for."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pdmm.flare.admin import Admin
from pdmm.flare.job_status import Status

LOOK = 0.3  # seconds between two looks at a run
ENDING = "FLARE ends the run"  # a phase, after which the last rounds may still come to be known

Show = Callable[[dict[str, Any]], object]


class NotBegunError(Exception):
    """A job did not begin in time; the message says who was missing."""


class Times(NamedTuple):
    """How long a job took, in seconds: FLARE's part and the run's own."""

    begin: float
    """From the submission until the run began."""
    run: float
    end: float
    """From the end of the run until its result was there."""
    round: float | None
    """One round, on average; None if there was none."""


class Follower:
    """Follows one job.

    Args:
        admin: a session.
        job: its number.
        sites: that it was made for.
        show: takes what is new, as a dictionary: "round" and more, or a "phase" in words with
            the seconds that it has taken; while a site owes an answer, "waiting".
    """

    def __init__(self, admin: Admin, job: str, sites: Sequence[str], show: Show) -> None:
        self.admin = admin
        self.job = job
        self.sites = list(sites)
        self.show = show
        self.begun = time.monotonic()
        self.known = 0  # the last round that was shown
        self._phase = ""
        self._since = self.begun
        self._ran = False
        self._checkpoint: bool | None = None  # whether the run has said that it keeps one

    def follow(self, wait: float) -> Status:
        """Watch the job until it is over.

        Args:
            wait: seconds for it to begin, at most.
        """
        while not (status := self.admin.status(self.job)).over:
            if status.state == "running":
                self._look()
            elif time.monotonic() - self.begun > wait:
                raise NotBegunError(self._who(status))
            else:
                missing = self._missing()
                names = ", ".join(missing)
                self._tell(f"waiting for {names} to begin" if missing else self._starting())
            time.sleep(LOOK)
        if status.checkpoint is None:
            status = replace(status, checkpoint=self._checkpoint)
        return status

    def _look(self) -> None:
        """Show each round that is new, and how the run stands now."""
        told, rounds = self.admin.news(self.job, self.known)
        if told is None:
            self._tell(ENDING if self._ran else self._starting())
            return
        self._ran = True
        self._checkpoint = told.get("checkpoint", self._checkpoint)
        self.finish(rounds)
        if "round" in told:
            self.show(told)
        else:
            self._tell(told.get("phase") or self._phase or self._starting(), told)

    def finish(self, rounds: Sequence[dict[str, Any]]) -> None:
        """Show those rounds that have not been shown."""
        for told in rounds:
            if told["round"] > self.known:
                self.known = told["round"]
                self.show(told)

    def _starting(self) -> str:
        count = len(self.sites)
        return f"FLARE starts the run at {count} {'site' if count == 1 else 'sites'}"

    def _tell(self, phase: str, told: dict[str, Any] | None = None) -> None:
        """Show what goes on outside of rounds, and for how long it has."""
        if phase != self._phase:
            self._phase = phase
            self._since = time.monotonic()
        self.show({**(told or {}), "phase": phase, "phase_seconds": time.monotonic() - self._since})

    def _missing(self) -> list[str]:
        return sorted(set(self.sites) - set(self.admin.sites()))

    def _who(self, status: Status) -> str:
        missing = self._missing()
        return f"{', '.join(missing)} not connected" if missing else status.detail

    def times(self, outcome: dict[str, Any]) -> Times | None:
        """How long the job has taken, which has just ended; None if that cannot be told.

        The server's clock and this computer's may differ: only differences on one are taken.
        """
        began, ended = outcome.get("began"), outcome.get("ended")
        if began is None or ended is None:
            return None
        submitted = self.admin.described(self.job).get("submit_time")
        if submitted is None:
            return None
        rounds = [told["round_seconds"] for told in outcome["reports"] if "round_seconds" in told]
        return Times(
            begin=began - submitted,
            run=ended - began,
            end=max(0.0, time.monotonic() - self.begun - (ended - submitted)),
            round=sum(rounds) / len(rounds) if rounds else None,
        )
