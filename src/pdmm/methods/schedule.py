"""Step sizes that change from round to round: a callable of the round, from 1 on."""

from collections.abc import Callable
from typing import Any, TypeAlias

from pdmm.common.checks import moderate

Schedule: TypeAlias = Callable[[int], float]


def schedule_of(method: Any) -> Schedule | None:
    """The step sizes of a method, if they are a callable of the round."""
    step = getattr(method, "step_size", None)
    return step if callable(step) else None


def step_in(schedule: Schedule, r: int) -> float:
    """The step size of a round."""
    return moderate(f"step_size({r})", schedule(r))


def check_scheduled(method: Any) -> None:
    """Refuse what does not go together with step sizes that change."""
    if method.unsettled:
        names = " and ".join(f"{name}='auto'" for name in method.unsettled)
        raise ValueError(
            f"step_size is a callable of the round, and {names} is chosen by one step size: give "
            "a number"
        )
    if getattr(method, "acceleration", None) is not None:
        raise ValueError(
            "step_size is a callable of the round, and acceleration combines rounds that are "
            "alike: leave acceleration out"
        )
