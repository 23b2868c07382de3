"""All members of a team must ask for the same run."""

from dataclasses import fields
from typing import Any

from pdmm.common.checks import whole
from pdmm.common.packing import Arrays, pack
from pdmm.common.team import Team
from pdmm.run.checkpoint_file import checkpoint_path
from pdmm.run.settings import Settings


def check_alike(
    team: Team, settings: Settings, callback: Any, path: Any, every: Any, threads: Any
) -> None:
    """Check what is not in the settings; refuse a run whose members were asked for another."""

    def told() -> dict[str, str]:
        _check_callback(callback)
        if path is not None:
            checkpoint_path("checkpoint", path)
        whole("every", every, at_least=1)
        if threads is not None:
            whole("threads", threads, at_least=1)
        asked = {f.name: getattr(settings, f.name) for f in fields(settings)}
        asked |= {"callback": callback is not None, "checkpoint": str(path), "every": every}
        return {name: _text(name, value) for name, value in asked.items() if team.size > 1}

    others = team.each(told)
    for name in others[0]:
        for k, other in enumerate(others):
            if other[name] != others[0][name]:
                raise ValueError(f"{name} is not the same on rank {k} as on rank 0")


def _text(name: str, value: Any) -> str:
    """An argument as text that is the same where it is; of code, what it is called."""
    arrays: Arrays = {}
    try:
        text = repr(pack(value, arrays, name))
    except ValueError:
        return type(value).__name__
    return text + repr({key: array.tobytes() for key, array in arrays.items()})


def _check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable as callback(round, x), got {callback!r}")
