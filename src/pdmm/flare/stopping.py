"""A researcher stops a run of theirs: its job is ended, and what becomes of the run is said."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdmm.flare.admin import Admin, AdminError
from pdmm.flare.runs import RunError, checked_name

LOOK = 0.2  # seconds between two looks at a job that ends
WAIT = 60.0  # seconds for a job to end


def stop_run(kit: Path, name: str, say: Callable[[str], object], patience: float = 10.0) -> None:
    """Stop a run that goes on or waits, and say what becomes of it.

    Args:
        kit: the start-up kit of the admin who owns the run.
        name: of the run.
        say: takes sentences.
        patience: seconds to try to reach the server.
    """
    checked_name(name)
    with Admin(kit, patience) as admin:
        numbers = _own_jobs(admin, name)
        states = {number: admin.status(number) for number in numbers}
        going_on = [number for number, status in states.items() if not status.over]
        if not going_on:
            state = states[numbers[0]].state
            say(f"The run {name} had ended already ({state}): nothing was stopped.")
            return
        for number in going_on:
            told = admin.progress(number) or {}
            where = f" after round {told['round']}" if told.get("round") else ""
            say(f"Stopping the run {name}{where}; FLARE takes some seconds to end its job.")
            for line in _what_became(name, _ended(admin, number, told)):
                say(line)


def _own_jobs(admin: Admin, name: str) -> list[str]:
    """The jobs of the run, the newest first; an error if there are none, or only others'."""
    jobs = sorted(admin.jobs(), key=lambda job: str(job.get("submit_time")), reverse=True)
    numbers = [str(job["job_id"]) for job in jobs if job.get("job_name") == name]
    if not numbers:
        raise RunError(
            f"there is no run {name} at this server: pdmm federate status shows those that are"
        )
    owners = {number: admin.submitter_of(number) for number in numbers}
    own = [number for number in numbers if owners[number] == admin.user]
    if not own:
        owner = owners[numbers[-1]]
        raise RunError(not_yours_to_stop(name, owner))
    return own


def not_yours_to_stop(name: str, owner: str) -> str:
    """Why a user may not stop a run."""
    return f"the run {name} belongs to {owner}, who alone can stop it"


def _ended(admin: Admin, job: str, told: dict[str, Any]) -> dict[str, Any]:
    """End a job, and wait until it is over; what it reported last, if it had begun."""
    try:
        admin.abort(job)
    except AdminError:
        if not admin.status(job).over:  # else it has ended by itself meanwhile
            raise
    end = time.monotonic() + WAIT
    while not admin.status(job).over:
        if time.monotonic() > end:
            raise RunError(
                f"the server was told to end the run, and had not done so after {WAIT:.0f} s: "
                "see pdmm federate status"
            )
        time.sleep(LOOK)
    reports = admin.outcome(job).get("reports") or [told]
    return {**told, **reports[-1]}


def _what_became(name: str, told: dict[str, Any]) -> list[str]:
    done = told.get("round")
    if done is None:
        return [f"The run {name} was stopped before its first round.", _again(name)]
    first = f"The run {name} was stopped: {done} of {told.get('rounds', '?')} rounds were done."
    if told.get("every") is not None:
        return [
            first,
            f"It has a checkpoint, written after every {told['every']} rounds, from which it goes "
            f"on by {_resume(name)}",
        ]
    why = told.get("no_checkpoint") or "it has no checkpoint"
    return [first, f"Nothing of it is kept, for {why}. {_again(name)}"]


def _again(name: str) -> str:
    return f"To begin it again: {_resume(name)}"


def _resume(name: str) -> str:
    return f"pdmm federate resume {name} --kit ... --out ..."
