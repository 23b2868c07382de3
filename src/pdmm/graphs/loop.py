"""The iterations of a run on a network, until they are done, diverge or are stopped."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pdmm.graphs.record import Recorder
from pdmm.graphs.run import Run
from pdmm.graphs.schedule import Activations
from pdmm.graphs.settings import Settings
from pdmm.graphs.vectors import NodeVectors

TOO_LARGE = 1e30  # a norm that only a diverging run reaches, and that float32 still holds
LOOK_EVERY = 16  # iterations after which divergence is looked for, if none is recorded


class Ending(NamedTuple):
    """How a run ended."""

    iterations: int
    reason: str
    diverged: bool = False


class Loop:
    """Iterates, records, and asks the callback.

    Args:
        run: the state.
        activations: of an asynchronous run, None for a synchronous one.
        recorder: of the history.
        settings: what the user asked for.
    """

    def __init__(
        self, run: Run, activations: Activations | None, recorder: Recorder, settings: Settings
    ) -> None:
        self.run = run
        self.recorder = recorder
        self.settings = settings
        self.step = _step(run, activations)
        self.working = 0  # the iteration that is under way
        self.far = TOO_LARGE * max(1.0, float(np.linalg.norm(run.x.astype(np.float64))))

    @property
    def where(self) -> str:
        """The iteration under way, for messages."""
        return f"in iteration {self.working}" if self.working else "at the start"

    def go(self) -> Ending:
        """Do all iterations."""
        settings, run = self.settings, self.run
        self.recorder.record(0, run.x, 0, 0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for k in range(1, settings.iterations + 1):
                self.working = k
                self.step()
                stop = self._asked_to_stop(k)
                due = stop or k % settings.record_every == 0 or k == settings.iterations
                if (due or k % LOOK_EVERY == 1) and self._too_far(k):
                    return Ending(k, "diverged", diverged=True)
                if due:
                    self.recorder.record(k, run.x, run.messages, run.sent)
                if stop:
                    return Ending(k, f"stopped by the callback after iteration {k}")
        return Ending(settings.iterations, f"all {settings.iterations} iterations done")

    def _asked_to_stop(self, k: int) -> bool:
        callback = self.settings.callback
        if callback is None:
            return False
        answer: Any = callback(k, NodeVectors(self.run.network, self.run.x.copy()))
        return np.ndim(answer) == 0 and bool(answer)

    def _too_far(self, k: int) -> bool:
        """Whether x has become so large that it diverges; the first iteration may set the scale."""
        size = float(np.linalg.norm(self.run.x))
        if k == 1 and size < np.inf:
            self.far = max(self.far, TOO_LARGE * size)
        return not size < self.far


def _step(run: Run, activations: Activations | None) -> Callable[[], None]:
    """One iteration."""
    if activations is None:
        return run.synchronous
    plans = iter(activations)
    return lambda: run.asynchronous(next(plans))
