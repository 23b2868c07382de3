"""What a run returns: the model, its history, its traffic, and why it stopped."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.methods.base import Method
from pdmm.problems.constants import Constants
from pdmm.run.certificate import Certificate


class Traffic(NamedTuple):
    """Vectors per client and round, and the bytes of a vector.

    ``down`` and ``up`` are what this library sends, ``paper_down`` and ``paper_up`` what
    the method as published does.
    """

    down: int
    up: int
    paper_down: int
    paper_up: int
    bytes_per_vector: int


class History(dict[str, npt.NDArray[Any]]):
    """Columns of equal length, one row per recorded round; row 0 is the start."""

    def __missing__(self, name: str) -> npt.NDArray[Any]:
        if name == "gap":
            raise KeyError(
                "the history has no 'gap', because the optimum is not known: "
                "give solve(optimum=...) the minimal value of F, or a minimiser x*"
            )
        if name == "objective":
            raise KeyError("the history has no 'objective': give pdmm.Lazy an evaluate=")
        raise KeyError(f"the history has no {name!r}, only {', '.join(self)}")

    def rounds_to(self, gap: float) -> int | None:
        """The first recorded round at which the gap is at most this, None if there is none."""
        reached = np.flatnonzero(self["gap"] <= gap)
        return int(self["round"][reached[0]]) if len(reached) else None


@dataclass(frozen=True)
class Result:
    """The outcome of :func:`pdmm.solve`."""

    x: npt.NDArray[Any]
    """The server's final x_s, a vector of length d in the run's dtype."""
    history: History
    """Columns recorded along the run; see :func:`pdmm.solve`."""
    reason: str
    """Why the run stopped, in words."""
    diverged: bool
    """Whether it stopped because it diverged; x is then the last finite one."""
    rounds: int
    """Rounds that were done."""
    method: Method
    """The method that ran, with numbers in place of "auto": those that it ended with."""
    traffic: Traffic
    """Vectors per client and round."""
    optimum: float | None
    """The minimal value F* that ``gap`` refers to, if it is known."""
    setup_seconds: float
    """Time spent before the first round: factorisations and the direct solve."""
    seed: int
    """The seed that was given."""
    certificate: Certificate
    """How far x can be from the optimum, and the residuals there."""
    scalars: tuple[int, int] = (0, 0)
    """Scalars per client and round that went down and up beside the vectors, 8 bytes each."""
    choices: tuple[str, ...] = ()
    """What was chosen for the user, and why, a sentence each."""
    smoothness: Constants | None = None
    """L of the clients and of F, where a choice needed it."""
    strong_convexity: Constants | None = None
    """mu of the clients and of F, where a choice needed it."""

    def __repr__(self) -> str:
        final = f"{self.rounds} rounds"
        if "objective" in self.history:
            final = f"objective {self.history['objective'][-1]:.6g}"
        if "gap" in self.history:
            final += f", gap {self.history['gap'][-1]:.3g}"
        return f"Result({type(self.method).__name__}, {self.reason}; {final})"
