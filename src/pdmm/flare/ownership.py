"""Whose a run is: the user who submitted it, and the one submission that began it.

Two researchers may give the same name to different runs, at the same moment. Each submission has
a token that no other has; the server keeps that of the submission that began the run, and states
it in the model.
"""

import uuid
from typing import Any

TOKEN = "token"  # in what a job is told, in a run's settings, in a model: of the submission
OWNER = "owner"  # likewise: the user name of the admin, as FLARE has verified it


def new_token() -> str:
    """A token for a submission, which it keeps as long as it takes the run up again."""
    return uuid.uuid4().hex


def same_submission(asked: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether a job comes from the submission that the server has kept."""
    token = asked.get(TOKEN)
    return token is not None and token == kept.get(TOKEN)


def check_owner(asked: dict[str, Any], kept: dict[str, Any], begun: bool) -> None:
    """Refuse a job whose run is somebody else's, or that of another submission.

    Args:
        asked: what the job is told, with its user as owner.
        kept: what the server knows of the run by that name.
        begun: whether the run has begun: before, its owner may ask for something else.
    """
    run = asked["run"]
    owner = kept.get(OWNER)
    if owner is not None and owner != asked.get(OWNER):
        raise ValueError(not_yours(run, owner))
    if begun and not asked.get("resume") and not same_submission(asked, kept):
        raise ValueError(
            f"there is a run {run} at this server already, of another submission: go on with it by "
            "pdmm federate resume, or choose another name"
        )


def not_yours(run: str, owner: str) -> str:
    """Why a user may not touch a run."""
    return (
        f"there is a run {run} at this server already, and it belongs to {owner}, who alone can "
        "resume it: choose another name"
    )


def check_own(said: dict[str, Any], asked: dict[str, Any], user: str) -> None:
    """Refuse a model that is not the one that was asked for.

    Args:
        said: what the server says of the model.
        asked: what the job was told.
        user: who asks.
    """
    if asked.get("resume"):
        own = said.get("run") == asked["run"] and said.get(OWNER) == user
    else:
        own = same_submission(asked, said)
    if not own:
        raise ValueError(
            f"the server has sent the model of another submission (run {said.get('run')!r} of "
            f"{said.get(OWNER)!r}), which is not taken: choose another name for the run"
        )
