"""How a job stands, in one word, and what its result says of how it went."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pdmm.flare.names import OUTCOME

State = Literal["submitted", "running", "finished", "failed", "aborted", "unknown"]
STATES: dict[str, State] = {
    "SUBMITTED": "submitted",
    "APPROVED": "submitted",
    "DISPATCHED": "submitted",
    "RUNNING": "running",
    "FINISHED:COMPLETED": "finished",
    "FINISHED:ABORTED": "aborted",
}
CANNOT_RUN = ("FINISHED:FAILED_TO_RUN", "FINISHED:CAN_NOT")  # refused, or never begun


@dataclass(frozen=True)
class Status:
    """How a job stands: one word, and what FLARE and the run say of it."""

    state: State
    detail: str = ""
    final: bool = False
    """Whether it failed for a reason that trying again does not remove."""
    unanswered: tuple[str, ...] = ()
    """Sites that had been asked, and had not answered, when FLARE ended the job."""
    round: int | None = None
    """How many rounds were done then."""
    checkpoint: bool | None = None
    """Whether the run has a checkpoint to go on from; None where nobody has said so."""

    @property
    def over(self) -> bool:
        """Whether the job has ended, well or not."""
        return self.state in ("finished", "failed", "aborted")


def state_of(word: str) -> State:
    """What FLARE's word for the status of a job means."""
    return STATES.get(word, "failed" if word.startswith("FINISHED") else "unknown")


def judged(word: str, outcome: dict[str, Any], meta: dict[str, Any]) -> Status:
    """A job that FLARE counts as failed: what the run itself says of it, else FLARE.

    Args:
        word: FLARE's, for its status.
        outcome: what the run left in its result.
        meta: FLARE's description of the job.
    """
    if outcome.get("finished"):
        # FLARE's view when a site was lost on the way, though the run came to its end
        return Status("finished", f"the run came to its end; some site did not ({word})")
    final = bool(outcome.get("final")) or word.startswith(CANNOT_RUN)
    if outcome.get("failure"):
        unanswered = tuple(outcome.get("unanswered") or ())
        told = outcome.get("round"), outcome.get("checkpoint")
        return Status("failed", outcome["failure"], final, unanswered, *told)
    notes = [*(meta.get("job_deploy_detail") or []), *(meta.get("schedule_history") or [])]
    bad = [note for note in notes if not note.endswith((": OK", ": scheduled"))]
    why = "; ".join(bad) or "see the logs of the server and sites"
    return Status("failed", f"{word}: {why}", final)


def read_outcome(folder: Path) -> dict[str, Any]:
    """What the server says of how a job went; nothing, where it says nothing."""
    path = folder / OUTCOME
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def last_error(folder: Path) -> str:
    """The last line of the server's error log of a job that did not get as far as to run."""
    lines = [
        line.strip()
        for path in sorted(folder.rglob("error_log.txt"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    return next((line for line in reversed(lines) if line), "")
