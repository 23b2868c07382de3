"""What a problem is: the clients' functions f_i, which know nothing of machines."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.changes import Watched
from pdmm.common.checks import client_weights, vector
from pdmm.common.matrices import Matrix
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.common.variables import Variables
from pdmm.problems.block import Block, ClientRows, Floats, OneClient, Source
from pdmm.problems.constants import WithConstants
from pdmm.problems.sums import SumOfBlocks, Total


class Problem(WithConstants, ABC):
    """A sum of functions, one a client, whose data stay where they are."""

    clients: int
    """How many clients there are."""
    dimension: int
    """Length of x."""
    dtype: np.dtype[Any]
    """The run's dtype: that of the data."""
    accurate: bool = True
    """Whether its blocks know their divergence, for gaps without cancellation."""
    proven: bool = False
    """Whether the constants that it states are more than estimates."""
    parallel: bool = True
    """Whether clients may be worked on in several threads at once."""

    curved: bool = False
    """Whether its blocks know their Hessians."""
    likelihood: bool = False
    """Whether F is a likelihood, for which errors are measured in standard errors."""
    intercepts: npt.NDArray[np.int64] | None = None
    """For each entry of x, which entry is its intercept (its own number for the intercepts
    themselves); None where there is none."""

    convex: bool = True
    """Whether the f_i are meant to be convex, so that gradients can prove how good a point is."""
    x0: npt.NDArray[np.float64] | None = None
    """Where a run starts that is given no start; None stands for 0."""

    parameters: list[list[Any]] | None = None
    """Name and shape of each part of x, in order, where x is the parameters of a model."""

    watched: tuple[Watched, ...] = ()
    """The user's own arrays that it works on, of which it notices a change."""

    evaluates: bool = False
    """Whether there are ``measures`` of x for the history."""
    gradient_norm: bool = False
    """Whether the history has ‖grad F‖ too."""

    memory_folder: str | None = None
    """Where the clients' memories live as files, if there are too many for the main memory."""

    @property
    def alike(self) -> dict[str, Any]:
        """What all parts of one problem must have alike, where several processes have some.

        None stands for what a part does not know.
        """
        return {}

    def tables(self) -> list[Matrix] | None:
        """The rows of each client, for what a policy asks of them; None where they are unknown."""
        return None

    @property
    def eigenbasis_size(self) -> int:
        """How many vectors an eigenbasis that an exact step needs has; 0 if it needs none."""
        return 0

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> Source:
        """What a run of so many rounds and steps works on; a problem may factorise here."""
        return self

    @abstractmethod
    def blocks(self) -> list[slice]:
        """The clients in blocks that each stay in cache; they depend on the problem alone."""

    @abstractmethod
    def at(self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None) -> Block:
        """The functions of some clients, whose mini-batches continue at ``cursor``."""

    def client(self, i: int, cursor: int = 0) -> OneClient:
        """Client i's function alone, on vectors of shape (d,)."""
        return OneClient(self.at(slice(i, i + 1), np.array([cursor])))

    def objective(self, x: Any, weights: Any = None) -> float:
        """F(x) = sum_i w_i f_i(x), by a pass over the data (weights of 1 if not given)."""
        self.check_data()
        w = client_weights(weights, self.clients)
        point = vector("x", x, self.dimension)
        with Threads(None if self.parallel else 1) as threads:
            source = self._source_of_values(threads)
            return SumOfBlocks(self, source, w, threads).value(point.astype(self.dtype))

    def _source_of_values(self, threads: Threads) -> Source:
        """What values are taken from outside a run."""
        return self.evaluator(self.prepare(1, 1, False, threads))

    def evaluator(self, source: Source) -> Source:
        """What values are taken from; better than what a run works on, where there is better."""
        return source

    def as_given(self) -> Source:
        """The functions in the form that they were given in, by which they are recognised.

        A longer run may work on another form, whose values differ by more than a few last bits.
        """
        return self

    def in_variables(self, variables: Variables) -> "Problem":
        """The same functions of other variables y, where x = centre + T y."""
        raise NotImplementedError

    def quadratics(self, threads: Threads) -> Any:
        """The f_i as ``quadratic.Quadratics``, whose exact steps are factorised; None if not."""
        return None

    def total(
        self, weights: npt.NDArray[np.float64], threads: Threads, team: Team = ALONE
    ) -> Total | None:
        """F = sum_i w_i f_i in a form of its own, with its minimiser, if there is such a form.

        Args:
            weights: w_i, one for each of these clients.
            threads: for blocks of clients.
            team: the processes that hold the other clients; all of them make this call.
        """
        return None

    def check(self, x0: Floats, exact: bool) -> None:
        """Try out what can only be checked by calling it, or with the start."""

    def check_data(self) -> None:
        """Refuse data that were changed after the problem was made."""
        for arrays in self.watched:
            arrays.check()

    def begin(self, seed: int, first: int) -> None:
        """A run begins.

        Args:
            seed: of its random choices, for a problem that draws samples.
            first: the number of client 0 among all clients of the run.
        """

    def measures(self, x: Floats) -> dict[str, float]:
        """What else the history has of x, by the user's own evaluation."""
        return {}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user should know of how it was computed, one sentence each."""
        return ()

    def run_state(self) -> list[npt.NDArray[Any]]:
        """What the problem has learnt in a run, for checkpoints: arrays with a row a client."""
        return []

    def load_run_state(self, state: list[npt.NDArray[Any]]) -> None:
        """Take that over."""

    def _gradient_of(self, i: int) -> Callable[[Floats], Floats]:
        block = self.at(slice(i, i + 1))
        return lambda x: np.asarray(block.gradient(x)[0])
