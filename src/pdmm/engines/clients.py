"""Where the clients of a run are: one protocol for this process, for ranks and for sites."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.site_shares import SiteShare
from pdmm.common.team import ALONE, Team
from pdmm.common.variables import Variables
from pdmm.engines.client_tables import Table, Tables
from pdmm.engines.exchange import Outcome, Question
from pdmm.engines.traffic import Sent
from pdmm.methods.base import Method
from pdmm.problems.block import Floats
from pdmm.problems.constants import Constants
from pdmm.problems.sums import CertainGradient, CurvatureSum, Total

Vector = npt.NDArray[np.float64]


def steepest(found: tuple[Constants, Constants] | None) -> float:
    """The largest L that secants have met; 0 where no gradients were watched."""
    return 0.0 if found is None else float(np.fmax.reduce(found[0].clients))


class Terms(NamedTuple):
    """What clients are told of a run before it begins, so that they may refuse it."""

    x0: Vector
    weights: Vector
    rounds: int
    regulariser: Any
    """None, or what the server's proximal step is of."""
    seed: int = 0
    """Of the clients' own random choices."""


class Clients(ABC):
    """All clients of a run, wherever they are.

    A run asks for what it needs to know of them, prepares them, and then asks them round after
    round. It never sees their functions, their memories or the links to them.
    """

    clients: int
    dimension: int
    dtype: np.dtype[Any]
    parallel: bool = True
    """Whether they may be worked on in several threads at once."""
    proven: bool = False
    """Whether the constants that they state are more than estimates."""
    accurate: bool = True
    """Whether they know their divergence, for gaps without cancellation."""
    steady: bool = True
    """Whether every client takes part in every round, does the same work and is heard exactly."""
    eigenbasis_size: int = 0
    """How many vectors an eigenbasis that exact steps need would have, per client."""
    team: Team = ALONE
    """The processes that share the run."""
    computes_x: bool = False
    """Whether each client's site makes the server's step itself."""
    may_be_silent: bool = False
    """Whether a client may be away while the run goes on."""
    curved: bool = False
    """Whether they know their Hessians."""
    guarded: bool = False
    """Whether they keep whole Hessians to themselves, and tell their diagonals alone."""
    likelihood: bool = False
    """Whether F is a likelihood, for which errors are measured in standard errors."""
    intercepts: npt.NDArray[np.int64] | None = None
    """Which entry of x is the intercept of each."""
    convex: bool = True
    """Whether their functions are meant to be convex."""
    x0: Vector | None = None
    """Where a run starts that is given no start; None stands for 0."""
    at_hand: bool = False
    """Whether asking them for F costs no message: then it need not wait for the next round."""
    no_checkpoint: str = ""
    """Why a run of theirs has no checkpoint, where it can have none."""
    reaches_all: bool = True
    """Whether all clients can be asked for a value or a gradient."""
    proviso: str = ""
    """What every proof about them assumes, as "if ..."; empty where nothing is assumed."""

    @property
    def count(self) -> int:
        """How many clients there are."""
        return self.clients

    @property
    def remarks(self) -> tuple[str, ...]:
        """What happened that the user should know, one sentence each."""
        return ()

    def shares(self) -> tuple[SiteShare, ...] | None:
        """What part of the run each site made; None where there are no sites."""
        return None

    @property
    def own(self) -> slice:
        """Which of all clients this process keeps in checkpoints."""
        return slice(0, self.clients)

    @contextmanager
    def working(self, threads: int | None) -> Iterator[None]:
        """Hold what a run needs while it runs."""
        yield

    def open(self, terms: Terms) -> None:
        """Tell them what the run is about, before anything else is asked."""

    # --- what is known of their functions ---------------------------------------------------

    @abstractmethod
    def check(self, x0: Floats, exact: bool) -> None:
        """Try out what can only be checked by calling it."""

    @abstractmethod
    def smoothness(self, weights: Any = None) -> Constants:
        """The L of every f_i and of F."""

    @abstractmethod
    def strong_convexity(self, weights: Any = None) -> Constants:
        """The mu of every f_i and of F."""

    @abstractmethod
    def valley(self, weights: Any = None) -> tuple[Constants, Constants]:
        """Estimates of L and mu where each client's own function is lowest."""

    @abstractmethod
    def secants(self, weights: Any = None) -> tuple[Constants, Constants] | None:
        """What the gradients of the last run have shown of L and mu, if they were watched."""

    @abstractmethod
    def negative_curvature(self) -> tuple[int, float] | None:
        """A client that the last run showed not to be convex, and how far it bends down."""

    @abstractmethod
    def least_curvature(self) -> Vector | None:
        """The least curvature that the last run has shown of each client, beyond doubt."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What they must have in common with those that a run began with."""

    @abstractmethod
    def recognise(self, x0: Vector, then: Table | None) -> None:
        """Refuse functions that are not those of a checkpoint, or not in their order.

        Args:
            x0: the start.
            then: the checkpoint's table "fingerprint"; None for a run that begins. What the
                clients are now will be in :meth:`tables` under that name.
        """

    # --- a run ------------------------------------------------------------------------------

    @abstractmethod
    def weigh(self, weights: Vector) -> None:
        """Get ready to be asked for F, before a run or without one."""

    def change_variables(self, variables: Variables) -> None:
        """Let the rounds of the next run be about y, where x = centre + T y; all else is about x.

        The constants that a method's parameters are chosen by are then those of the functions
        of y, too: see ``moved_smoothness``.
        """
        raise NotImplementedError

    def moved_smoothness(self, weights: Any = None) -> tuple[Constants, Constants]:
        """L and mu of the functions that rounds are about."""
        return self.smoothness(weights), self.strong_convexity(weights)

    @abstractmethod
    def prepare(self, method: Method, x0: Vector, weights: Vector, rounds: int) -> None:
        """Get all clients ready for a run: their memories are those of the start."""

    def total(self, minimum: bool) -> Total | None:
        """F in a form of its own, known without asking any client; None if there is none.

        Args:
            minimum: whether its minimum is wanted too, which may be a good deal of work.
        """
        return None

    @abstractmethod
    def round(self, question: Question) -> Outcome:
        """Let the clients take part in a round."""

    def after(self, r: int, outcome: Outcome, norm: float) -> None:
        """The server's step of round r is done, and x_s has this norm."""

    def telemetry(self) -> dict[str, float]:
        """Numbers that belong in the history."""
        return {}

    def measures(self, x: Floats) -> dict[str, float]:
        """What else the history has of x."""
        return {}

    # --- F, outside of rounds ---------------------------------------------------------------

    @abstractmethod
    def value(self, x: Floats) -> float:
        """F(x) = sum_i w_i f_i(x)."""

    @abstractmethod
    def gradient(self, x: Floats) -> Vector:
        """The gradient of F at x."""

    @abstractmethod
    def certain_gradient(self, x: Floats) -> CertainGradient:
        """The gradient of F for a certificate, with what rounding may have made of it."""

    def curvature(self, x: Floats | None, T: Vector | None) -> CurvatureSum:
        """F to second order at x, in T's coordinates; of ``curved`` clients alone.

        Args:
            x: where; None for the quadratics that stand for the f_i before anything is known.
            T: (d, k); None for x's own coordinates.
        """
        raise NotImplementedError

    def diagonal(self, x: Floats) -> Vector:
        """The diagonal of F's Hessian, the entries with the intercepts, the gradient: (3, d)."""
        raise NotImplementedError

    def divergence(self, x: Floats, y: Floats) -> float:
        """F(x) - F(y) - grad F(y)·(x - y), without cancellation, where it is ``accurate``."""
        raise NotImplementedError

    def beside(self) -> Sent | None:
        """What was sent outside of rounds since this was asked for last.

        None where it is what it says: a vector from each client for a gradient, and so on, which
        the run counts itself.
        """
        return None

    # --- checkpoints ------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that changes in a run, but for what belongs to single clients."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""

    @abstractmethod
    def tables(self) -> Tables:
        """What belongs to single clients, of those that this process keeps."""

    @abstractmethod
    def load_tables(self, tables: Tables) -> None:
        """Take that over."""
