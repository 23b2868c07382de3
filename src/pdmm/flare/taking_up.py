"""How a run goes on whose job has ended early: from its checkpoint, or from its first round."""

from typing import Any


def has_checkpoint(said: bool | None, asked: dict[str, Any]) -> bool | None:
    """Whether a run can go on from where it was; None where that is not known.

    Args:
        said: what the run itself has said, if it has said anything.
        asked: what the job was told.
    """
    if said is not None:
        return said
    if asked.get("kind"):  # a study is short, and is done again
        return False
    if asked.get("verify") == "sites" or asked.get("secure") is True:
        return False
    return True if asked.get("secure") is False else None


def taken_up(kept: bool | None, asked: dict[str, Any]) -> str:
    """What is done with a run whose job has ended early, in words."""
    if asked.get("kind"):
        return "the study begins again"
    if kept is None:
        return "submitting the run again"
    if kept:
        return "taking the run up from its checkpoint"
    return (
        "the run begins again from its first round, for it has no checkpoint: its sites alone "
        "know what they remember"
    )


def how_to_resume(asked: dict[str, Any], kept: bool | None) -> str:
    """What the researcher can do about it, in words."""
    command = f"pdmm federate resume {asked['run']} --kit ... --out ..."
    if asked.get("kind"):
        return f"to do the study again: {command.removesuffix(' --out ...')}"
    if kept:
        return f"to go on from its checkpoint: {command}"
    if kept is None:
        return f"to go on from its checkpoint, or to begin it again if it has none: {command}"
    return f"to begin it again from its first round, for it has no checkpoint: {command}"
