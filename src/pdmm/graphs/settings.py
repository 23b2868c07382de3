"""What a user asks of a run on a network, checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pdmm.common.checks import is_auto, moderate, number, one_of, positive, whole
from pdmm.graphs.vectors import NodeVectors

Schedule = Literal["synchronous", "asynchronous"]
Callback = Callable[[int, NodeVectors], bool | None]


@dataclass(frozen=True)
class Settings:
    """Settings that need no more than a look at them; see :func:`pdmm.solve_network`."""

    iterations: int
    record_every: int
    seed: int
    schedule: Schedule
    relaxation: float
    loss: float
    local_steps: int | None
    step_size: float | None
    """None for 1/L_i at every node."""
    callback: Callback | None

    @property
    def exact(self) -> bool:
        """Whether updates are exact."""
        return self.local_steps is None


def checked(
    *,
    iterations: Any,
    record_every: Any,
    seed: Any,
    schedule: Any,
    relaxation: Any,
    loss: Any,
    order: Any,
    local_steps: Any,
    step_size: Any,
    callback: Any,
) -> Settings:
    """The settings, if all of them can be used."""
    iterations = whole("iterations", iterations, at_least=1)
    record_every = whole("record_every", record_every, at_least=1)
    seed = whole("seed", seed, at_least=0)
    one_of("schedule", schedule, ("synchronous", "asynchronous"))
    relaxation = positive("relaxation", relaxation)
    if relaxation > 1:
        raise ValueError(f"relaxation must be at most 1, got {relaxation}")
    loss = number("loss", loss)
    if not 0 <= loss < 1:
        raise ValueError(f"loss must be at least 0 and below 1, got {loss}")
    if order is not None and schedule == "synchronous":
        raise ValueError("order is for schedule='asynchronous': synchronous nodes move together")
    if local_steps is not None:
        local_steps = whole("local_steps", local_steps, at_least=1)
    step_size = None if is_auto(step_size) else moderate("step_size", step_size)
    if step_size is not None and local_steps is None:
        raise ValueError("step_size is for gradient steps: give local_steps too")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable as callback(iteration, x), got {callback!r}")
    return Settings(
        iterations=iterations,
        record_every=record_every,
        seed=seed,
        schedule=schedule,
        relaxation=relaxation,
        loss=loss,
        local_steps=local_steps,
        step_size=step_size,
        callback=callback,
    )
