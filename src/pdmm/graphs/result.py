"""What a run on a network returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdmm.graphs.vectors import EdgeVectors, NodeVectors
from pdmm.result import History


class NetworkHistory(History):
    """Columns of equal length, one row per recorded iteration; row 0 is the start."""

    def __missing__(self, name: str) -> Any:
        if name == "error":
            raise KeyError(
                "the history has no 'error', because the optimum is not known: give "
                "solve_network(optimum=...) the minimiser"
            )
        raise KeyError(f"the history has no {name!r}, only {', '.join(self)}")

    def iterations_to(self, error: float) -> int | None:
        """The first recorded iteration from which on the error is at most this, None if none."""
        above = np.flatnonzero(~(self["error"] <= error))
        first = int(above[-1]) + 1 if len(above) else 0
        if first == len(self["error"]):
            return None
        return int(self["iteration"][first])


@dataclass(frozen=True)
class NetworkResult:
    """The outcome of :func:`pdmm.solve_network`."""

    x: NodeVectors
    """Every node's final x_i: ``result.x[node]``; ``numpy.asarray`` of it has them as rows."""
    dual: EdgeVectors
    """``result.dual[i, j]`` is lam_{i|j}, node i's dual variable of the edge to j."""
    history: NetworkHistory
    """Columns recorded along the run; see :func:`pdmm.solve_network`."""
    reason: str
    """Why the run stopped, in words."""
    diverged: bool
    """Whether it stopped because it diverged; x is then the last finite one that was recorded."""
    iterations: int
    """Iterations that were done."""
    rho: float
    """The rho that was used."""
    optimum: NodeVectors | None
    """The optimum that ``error`` refers to, if it is known."""
    setup_seconds: float
    """Time spent before the first iteration: factorisations and the direct solve."""
    seed: int
    """The seed that was given."""
    choices: tuple[str, ...] = ()
    """What was chosen for the user, and why, one sentence for each choice."""

    def __repr__(self) -> str:
        last = {name: column[-1] for name, column in self.history.items()}
        final = f"rho {self.rho:.3g}, objective {last['objective']:.6g}"
        final += f", consensus {last['consensus']:.3g}"
        if "error" in last:
            final += f", error {last['error']:.3g}"
        return f"NetworkResult({self.reason}; {final})"
