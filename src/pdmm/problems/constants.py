"""The constants L and mu of a problem's functions: what is known of them, and how well."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import ClientError, Floats, client_weights
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.estimate import Ends, Estimate, estimate
from pdmm.problems.secants import Shown

Vector = npt.NDArray[np.float64]
Kind: TypeAlias = Literal["exact", "bound", "estimate", "given", "unbounded"]
Which: TypeAlias = Literal["L", "mu", "valley L", "valley mu"]
KINDS: tuple[Kind, ...] = ("unbounded", "estimate", "given", "bound", "exact")  # the weakest first


@dataclass(frozen=True, eq=False, repr=False)
class Constants:
    """A constant (L or mu) of every f_i, and of F = sum_i w_i f_i.

    Kinds: "exact" is exact to rounding; a "bound" is proven, an upper one of L or a lower
    one of mu; an "estimate" comes from differences of gradients and proves nothing; "given"
    is what the user said; "unbounded" says that there is no such number: some gradients change
    as fast as exp does. ``float()`` of it is ``overall``.

    Example:
        >>> import numpy as np, pdmm
        >>> problem = pdmm.LeastSquares([np.diag([1.0, 2.0]), np.diag([3.0, 1.0])], np.ones((2, 2)))
        >>> problem.smoothness().clients.round(9).tolist()
        [4.0, 9.0]
        >>> round(float(problem.smoothness()), 9)   # of F: less than their sum
        10.0
        >>> round(float(problem.strong_convexity(weights=[1.0, 3.0])), 9)
        7.0
    """

    clients: Vector
    """That of every f_i, shape (m,)."""
    overall: float
    """That of F = sum_i w_i f_i (not the largest of the clients)."""
    kind: Kind
    """What ``clients`` are."""
    overall_kind: Kind
    """What ``overall`` is."""
    seconds: float
    """What it took to compute."""

    def __float__(self) -> float:
        return self.overall

    def __repr__(self) -> str:
        low, high = np.fmin.reduce(self.clients), np.fmax.reduce(self.clients)
        return (
            f"Constants(F {self.overall:.3g} {self.overall_kind}, "
            f"clients {low:.3g} .. {high:.3g} {self.kind}, {self.seconds:.2g} s)"
        )


class WithConstants:
    """The part of a problem that knows its L and mu: computed once, and kept."""

    clients: int
    dimension: int
    dtype: np.dtype[Any]
    parallel: bool
    start: Vector | None = None
    """Where the last run began; None stands for 0."""

    def check_data(self) -> None:
        """Refuse data that were changed since they were read first."""

    def _gradient_of(self, i: int) -> Callable[[Floats], Floats]:
        """Client i's gradient, a function of x."""
        raise NotImplementedError

    def smoothness(self, weights: Any = None) -> Constants:
        """The L of every f_i and of F = sum_i w_i f_i: how fast their gradients can change.

        ``1 / problem.smoothness().clients.max()`` is a step size that is safe at every
        client. What was computed is kept.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        self.check_data()
        return self._constants("L", weights)

    def strong_convexity(self, weights: Any = None) -> Constants:
        """The mu of every f_i and of F = sum_i w_i f_i: how fast their gradients must change.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        self.check_data()
        return self._constants("mu", weights)

    def valley(self, weights: Any = None) -> tuple[Constants, Constants]:
        """Estimates of L and mu where each client's own function is lowest.

        Where all functions bend alike everywhere, these are the estimates of smoothness and
        strong convexity again. NaN for a client whose function has no lowest point that was found.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        return self._constants("valley L", weights), self._constants("valley mu", weights)

    @property
    def shown(self) -> Shown | None:
        """What the gradients of the last run have shown, if these were watched."""
        return None

    def secants(self, weights: Any = None) -> tuple[Constants, Constants] | None:
        """Estimates of L and mu from the gradients of the last run, None if there were none.

        They come from each client's successive gradients: L_i is at least the largest
        ‖dg‖/‖dx‖, and mu_i at most the least dg·dx/‖dx‖². NaN for a client that was not
        asked for two gradients.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        shown = self.shown
        return None if shown is None else _estimates(shown, weights)

    def negative_curvature(self) -> tuple[int, float] | None:
        """A client that the last run showed not to be convex, and how far it bends down.

        Returns:
            The client and the most negative dg·dx/‖dx‖² between successive gradients of it,
            or None if no client had one that is more than rounding, be it in float32.
        """
        shown = self.shown
        return None if shown is None else shown.not_convex()

    def least_curvature(self) -> Vector | None:
        """The least dg·dx/‖dx‖² between gradients of each client in the last run, beyond doubt.

        NaN for a client of which nothing has been shown; None if no run has watched.
        """
        shown = self.shown
        return None if shown is None else shown.bent

    def _constants(self, which: Which, weights: Any) -> Constants:
        w = client_weights(weights, self.clients)
        last, known = self._known.get(f"{which} of F", (None, None))
        if isinstance(known, Constants) and last == w.tobytes():
            return known
        with Threads(None if self.parallel else 1) as threads:
            values, kind, seconds = self.constants_of_clients(which, threads)
            begun = perf_counter()
            overall, overall_kind = self._overall_constant(which, w, threads)
        seconds += perf_counter() - begun
        found = Constants(values, overall, kind, overall_kind, seconds)
        self._known[f"{which} of F"] = w.tobytes(), found
        return found

    @property
    def _known(self) -> dict[str, Any]:
        """What was found so far; of F, for the weights last asked for."""
        known: dict[str, Any] = self.__dict__.setdefault("_known_constants", {})
        return known

    def constants_of_clients(self, which: Which, threads: Threads) -> tuple[Vector, Kind, float]:
        """The clients' constants, their kind, and the seconds it took to find them."""
        if which not in self._known:
            begun = perf_counter()
            found = self._client_constants(which, threads)
            seconds = perf_counter() - begun
            for name, (values, kind) in found.items():
                values.setflags(write=False)  # it is handed out to everyone who asks
                self._known[name] = values, kind, seconds
        values, kind, seconds = self._known[which]
        return values, kind, seconds

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        """L or mu of every client, as asked for; both, if they are found together."""
        found = list(threads.map(self._estimated, range(self.clients)))
        nowhere = Ends(np.nan, np.nan)
        mu, L = np.array([one.way for one in found]).T.copy()
        valley_mu, valley_L = np.array([one.valley or nowhere for one in found]).T.copy()
        return {
            "L": (L, "estimate"),
            "mu": (mu, "estimate"),
            "valley L": (valley_L, "estimate"),
            "valley mu": (valley_mu, "estimate"),
        }

    def _estimated(self, i: int) -> Estimate:
        """What gradients of client i say of its L and mu."""
        call = self._gradient_of(i)
        error: ClientError | None = None

        def gradient(x: Vector) -> Vector | None:
            nonlocal error
            try:
                g = call(x.astype(self.dtype)).astype(np.float64)
            except ClientError as raised:  # as good as NaN: outside of its domain
                error = raised
                return None
            return g if np.isfinite(g).all() else None

        start = np.zeros(self.dimension) if self.start is None else self.start
        with np.errstate(all="ignore"):
            found = estimate(gradient, start, float(np.finfo(self.dtype).eps))
        if found is None:
            raise ClientError(
                f"client {i} has no finite gradient at any point tried about the start, so that L "
                "and mu cannot be estimated: pdmm.Functions takes them as smoothness= and "
                "strong_convexity="
            ) from error
        return found

    def begin_at(self, x0: Floats) -> None:
        """A run begins at x0: there L and mu are estimated, where they are not known."""
        if self.start is None and not x0.any():
            return
        if self.start is not None and np.array_equal(self.start, x0):
            return
        self.start = np.array(x0, dtype=np.float64)
        estimates = [name for name, kept in self._known.items() if _is_estimate(kept)]
        for name in estimates:
            del self._known[name]

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        """L or mu of F = sum_i w_i f_i, and what kind of number that is: here the weighted sum.

        Args:
            which: of the two.
            weights: of these clients.
            threads: for blocks of them.
            team: other processes, which have the rest of the clients and make the same call.
        """
        values, kind, _ = self.constants_of_clients(which, threads)
        overall = float(team.total(lambda: weights @ values))
        return overall, "estimate" if kind == "estimate" else "bound"


def _is_estimate(kept: tuple[Any, ...]) -> bool:
    """Whether an entry of what is known of L and mu is an estimate."""
    found = kept[1]
    kind = found.kind if isinstance(found, Constants) else found
    return bool(kind == "estimate")


def _estimates(shown: Shown, weights: Any) -> tuple[Constants, Constants] | None:
    """L and mu as far as a run has shown them."""
    w = client_weights(weights, len(shown.steepest))
    ends = shown.ends()
    if ends is None:
        return None
    L, mu = (Constants(end, float(w @ end), "estimate", "estimate", 0.0) for end in ends)
    return L, mu
