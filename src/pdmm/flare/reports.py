"""What an onlooker is told of a job at the server: after every round, and while it waits."""

import json
import threading
import time
from collections import deque
from typing import Any, Protocol

import nvflare

import pdmm

KEPT = 500  # rounds of which each can still be told, to an onlooker who looks now and then
# What the sites are asked for before the first round, by the verb of the question.
PHASES = {
    "hello": "asking the sites for their problems",
    "start": "asking for the start of the sites' model",
    "table": "asking the sites to open their tables",
    "check": "asking the sites whether they can take part",
    "join": "having the sites make sure of each other",
    "open": "agreeing on the terms of the run",
    "constants": "asking the sites how steep their functions are",
    "curvature": "asking the sites how their functions bend",
    "diagonal": "asking the sites how their functions bend",
    "prepare": "telling the sites the method",
    "fingerprint": "making sure that the sites are those of the run",
    "round": "in the first round",
}


class Watched(Protocol):
    """What knows how a question to the sites stands."""

    verb: str
    """What was asked last; empty before the first question."""

    def waiting(self) -> dict[str, float]:
        """The sites that owe an answer, and for how many seconds."""


class Reports:
    """Keeps what a job reports, and says at any moment how it stands.

    A report is a dictionary. Jobs that have rounds report "round" and more; any job may report a
    "phase" in words.
    """

    def __init__(self) -> None:
        self.began = time.time()
        self.connection: Watched | None = None
        self._last: dict[str, Any] = {}
        self._rounds: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def add(self, told: dict[str, Any]) -> None:
        """A round is done, or something else is new."""
        with self._lock:
            # replaced, never changed: another thread may be reading the old one
            self._last = dict(told)
            if told.get("round"):
                self._rounds.append(self._last)

    @property
    def done(self) -> int | None:
        """How many rounds are done; None before the first."""
        return self._last.get("round")

    def now(self) -> dict[str, Any]:
        """How the job stands at this moment."""
        with self._lock:
            told = dict(self._last)
        if self.connection is not None:
            told["waiting"] = self.connection.waiting()
            phase = PHASES.get(self.connection.verb, "")
            if phase and "round" not in told:
                told.setdefault("phase", phase)
        return {**told, "age": time.time() - self.began, "versions": versions()}

    def since(self, r: int) -> list[dict[str, Any]]:
        """The reports of all rounds after round r that are kept."""
        with self._lock:
            return [told for told in self._rounds if told["round"] > r]

    def answer(self, asked: Any) -> dict[str, Any]:
        """The reply to an admin who asks how far the job is, and says which round they know.

        Text, for FLARE's own way of sending dictionaries knows no numbers of NumPy's.
        """
        known = asked.get("since") if isinstance(asked, dict) else None
        rounds = [] if known is None else self.since(int(known))
        return {"progress": _json(self.now()), "rounds": _json(rounds)}

    def kept(self) -> dict[str, Any]:
        """What the result of a job says of how it went."""
        told = {"began": self.began, "ended": time.time(), "reports": self.since(0)}
        found: dict[str, Any] = json.loads(_json(told))
        return found


def versions() -> dict[str, str]:
    """What runs here."""
    return {"pdmm": pdmm.__version__, "NVIDIA FLARE": nvflare.__version__}


def _json(told: Any) -> str:
    return json.dumps(told, default=float)
