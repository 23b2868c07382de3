"""What a run returns: the model, its history, its traffic, and why it stopped."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.site_shares import SiteShare
from pdmm.methods.base import Method
from pdmm.problems.constants import Constants


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
class Certificate:
    """What is proven of a point x, and the residuals of the optimality conditions there.

    If F is mu-strongly convex, then with g a subgradient of F at x,
    F(x) - F* <= ‖g‖²/(2 mu) and ‖x - x*‖ <= ‖g‖/mu. If the clients' Hessians are known too, the
    bounds come from Newton's decrement and need no mu: see docs/curvature.md. ‖g‖ includes a
    bound of the rounding errors in g, and mu is a lower bound that holds in spite of rounding. Of
    a user's own functions the rounding errors cannot be bounded: they are measured, and the bounds
    are as good as that.
    """

    gap: float | None
    """F(x) - F* is at most this; None where it is not known."""
    distance: float | None
    """‖x - x*‖ is at most this; None where it is not known."""
    stationarity: float
    """‖grad f(x) + v‖, f = sum_i w_i f_i, v the nearest subgradient of the regulariser.

    NaN where there is none: x outside a Box, or a client without gradients.
    """
    consensus: float | None
    """Root mean square over clients of ‖x_i - x_s‖ in the last round."""
    dual_sum: float | None
    """‖sum_i w_i lam_{i|s} + v‖ in the last round; None for methods without duals."""
    strong_convexity: float
    """The mu of F that was used; 0 where none is known. From curvature, that of the regulariser."""
    kind: str
    """Where that mu comes from, in words."""
    round: int
    """The round after which x was the server's."""
    bytes_up: int
    """What asking the clients cost: a vector for each, or more where Hessians were asked for."""
    rounding: float = 0.0
    """The part of ``size`` that may be rounding, which no further round can lower."""
    calls: float = 0.0
    """How many gradients the clients computed for it, all together."""
    decrement: float | None = None
    """Where the clients' Hessians are known: Newton's decrement lam, at most.

    lam² = g'H^-1 g with g a subgradient and H the Hessian of F at x.
    """
    standard_errors: float | None = None
    """‖x - x*‖ in the norm of H is at most this: of a likelihood, no coefficient and no linear
    combination of them is further from its optimum than so many of its standard errors."""
    vectors_up: int = 1
    """Vectors that each client sent for it."""
    proviso: str = ""
    """What the proof assumes: "if all sites are honest", where other organisations say what their
    data are. Nobody can prove anything about data that are not what they are said to be."""

    def __repr__(self) -> str:
        bound = "no bound, " if self.gap is None else f"gap <= {self.gap:.3g}, "
        if self.standard_errors is not None:
            bound += f"error <= {self.standard_errors:.3g} standard errors, "
        source = f"mu {self.kind}" if self.standard_errors is None else "from curvature"
        assumed = f", {self.proviso}" if self.proviso else ""
        return f"Certificate({bound}stationarity {self.stationarity:.3g}, {source}{assumed})"

    @property
    def size(self) -> float:
        """What a tolerance is compared with: the gap where it is bounded, else ‖grad F‖.

        Far from the optimum, where Hessians are known but the gap is not bounded yet, lam²/2
        stands for it: unlike ‖grad F‖ it has the gap's unit, whatever the units of the columns.
        """
        if self.gap is not None:
            return self.gap
        if self.decrement is not None:
            return self.decrement * (self.decrement / 2)
        return self.stationarity

    @property
    def at_rounding(self) -> bool:
        """Whether no further round can lower its size; what is not finite proves nothing."""
        return bool(np.isfinite(self.size)) and self.size <= self.rounding


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
    """Whether it diverged: x is then the last finite one, or its F is far above the start's."""
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
    sites: tuple[SiteShare, ...] | None = None
    """What part of the uploads and of L each site of a federation made, and whether it stands out
    from the others; None in one process, and where sites do not want to be told apart."""

    def __repr__(self) -> str:
        final = f"{self.rounds} rounds"
        if "objective" in self.history:
            final = f"objective {self.history['objective'][-1]:.6g}"
        if "gap" in self.history:
            final += f", gap {self.history['gap'][-1]:.3g}"
        return f"Result({type(self.method).__name__}, {self.reason}; {final})"
